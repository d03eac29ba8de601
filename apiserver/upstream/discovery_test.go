package upstream

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

func TestDiscoveryURLIsBelowTheIssuer(t *testing.T) {
	t.Parallel()
	for issuer, want := range map[string]string{
		"https://idp.example":             "https://idp.example/.well-known/openid-configuration",
		"https://tenant.idp.example/":     "https://tenant.idp.example/.well-known/openid-configuration",
		"https://idp.example/realms/acme": "https://idp.example/realms/acme/.well-known/openid-configuration",
	} {
		if got := discoveryURL(&document.UpstreamProvider{Issuer: issuer}); got != want {
			t.Errorf("%s: %s", issuer, got)
		}
	}
}

func TestDiscoveryDocumentsOfAnIssuer(t *testing.T) {
	t.Parallel()
	const issuer, plain = "https://idp.example", "http://127.0.0.1:8080"
	for name, tc := range map[string]struct {
		issuer  string
		changes map[string]any
		want    reason
	}{
		"complete":                                  {issuer, nil, ""},
		"without optional endpoints":                {issuer, map[string]any{"userinfo_endpoint": nil, "end_session_endpoint": nil}, ""},
		"another issuer":                            {issuer, map[string]any{"issuer": "https://evil.example"}, issuerMismatch},
		"the issuer in capitals":                    {issuer, map[string]any{"issuer": "https://IDP.example"}, issuerMismatch},
		"the issuer with a slash":                   {issuer, map[string]any{"issuer": issuer + "/"}, issuerMismatch},
		"no issuer":                                 {issuer, map[string]any{"issuer": nil}, issuerMismatch},
		"the placeholder of another provider":       {issuer, map[string]any{"issuer": "https://{tenantid}.example"}, issuerMismatch},
		"no authorization endpoint":                 {issuer, map[string]any{"authorization_endpoint": nil}, invalidMetadata},
		"no token endpoint":                         {issuer, map[string]any{"token_endpoint": nil}, invalidMetadata},
		"no key set":                                {issuer, map[string]any{"jwks_uri": nil}, invalidMetadata},
		"authorization over http":                   {issuer, map[string]any{"authorization_endpoint": "http://idp.example/a"}, invalidMetadata},
		"userinfo over http":                        {issuer, map[string]any{"userinfo_endpoint": "http://idp.example/u"}, invalidMetadata},
		"sign-out over http":                        {issuer, map[string]any{"end_session_endpoint": "http://idp.example/e"}, invalidMetadata},
		"keys on this machine over http":            {issuer, map[string]any{"jwks_uri": plain + "/jwks"}, invalidMetadata},
		"a relative URL":                            {issuer, map[string]any{"token_endpoint": "/token"}, invalidMetadata},
		"a script":                                  {issuer, map[string]any{"authorization_endpoint": "javascript:alert(1)"}, invalidMetadata},
		"a URL with a user":                         {issuer, map[string]any{"token_endpoint": "https://a:b@idp.example/token"}, invalidMetadata},
		"a URL with a fragment":                     {issuer, map[string]any{"authorization_endpoint": "https://idp.example/a#b"}, invalidMetadata},
		"a long URL":                                {issuer, map[string]any{"token_endpoint": issuer + "/" + strings.Repeat("x", maxURL)}, invalidMetadata},
		"a number":                                  {issuer, map[string]any{"token_endpoint": 7}, invalidMetadata},
		"an issuer on this machine":                 {plain, map[string]any{"issuer": plain}, ""},
		"an issuer on this machine, keys by https":  {plain, map[string]any{"issuer": plain, "jwks_uri": "https://idp.example/jwks"}, ""},
		"an issuer on this machine, keys elsewhere": {plain, map[string]any{"issuer": plain, "jwks_uri": "http://idp.example/jwks"}, invalidMetadata},
	} {
		base := tc.issuer
		all := map[string]any{
			"issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token", "jwks_uri": base + "/jwks",
			"userinfo_endpoint": base + "/userinfo", "end_session_endpoint": base + "/end", "registration_endpoint": "http://ignored.example",
		}
		for member, value := range tc.changes {
			if all[member] = value; value == nil {
				delete(all, member)
			}
		}
		raw, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parseDiscovery(&document.Connection{Type: "OIDC", Provider: document.UpstreamProvider{Issuer: tc.issuer}}, string(raw))
		var got *failure
		if errors.As(err, &got); (got == nil) != (tc.want == "") || got != nil && got.reason != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Microsoft's documents for several tenants have a placeholder, and that for consumers has their tenant.
func TestIssuersOfMicrosoftsDocuments(t *testing.T) {
	t.Parallel()
	const origin, acme, globex = "https://login.microsoftonline.com/", "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
	for _, tc := range []struct {
		tenant, stated string
		want           bool
	}{
		{"common", tenantPlaceholder, true}, {"organizations", tenantPlaceholder, true}, {"consumers", tenantPlaceholder, true},
		{"consumers", "9188040d-6c67-4c5b-b112-36a304b66dad", true}, {"common", "common", true},
		{"common", acme, false}, {"organizations", "9188040d-6c67-4c5b-b112-36a304b66dad", false}, {"consumers", acme, false},
		{acme, acme, true}, {acme, tenantPlaceholder, false}, {acme, globex, false},
	} {
		p := &document.UpstreamProvider{Tenant: tc.tenant, Issuer: origin + tc.tenant + "/v2.0"}
		if got := issuerFits(p, typeMicrosoft, origin+tc.stated+"/v2.0"); got != tc.want {
			t.Errorf("%s states %s: %t", tc.tenant, tc.stated, got)
		}
		if got := issuerFits(p, "OIDC", origin+tc.stated+"/v2.0"); got != (tc.tenant == tc.stated) {
			t.Errorf("%s as OIDC states %s: %t", tc.tenant, tc.stated, got)
		}
	}
}

func TestDeclaredEndpointsReplaceDiscovery(t *testing.T) {
	t.Parallel()
	own := document.UpstreamProvider{
		Issuer: "https://idp.example", AuthorizationURL: "https://idp.example/a", TokenURL: "https://idp.example/t", JWKSURL: "https://idp.example/k", UserinfoURL: "https://idp.example/u",
	}
	want := Metadata{Issuer: own.Issuer, AuthorizationURL: own.AuthorizationURL, TokenURL: own.TokenURL, JWKSURL: own.JWKSURL, UserinfoURL: own.UserinfoURL}
	if got, found := declared(&document.Connection{Type: "OIDC", Provider: own}); !found || got != want {
		t.Errorf("%+v, %t", got, found)
	}
	if got, found := declared(&document.Connection{Type: "OIDC", Provider: document.UpstreamProvider{Issuer: "https://idp.example"}}); found {
		t.Errorf("%+v", got)
	}
	// GitHub states https://github.com/login/oauth in the parameter iss.
	own = document.UpstreamProvider{BaseURL: "https://github.com", AuthorizationURL: "https://github.com/login/oauth/authorize", TokenURL: "https://github.com/login/oauth/access_token"}
	if got, found := declared(&document.Connection{Type: typeGitHub, Provider: own}); !found || got.Issuer != "https://github.com/login/oauth" || got.JWKSURL != "" {
		t.Errorf("%+v, %t", got, found)
	}
}
