package connection

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

const (
	testTenant = "72f988bf-86f1-41af-91ab-2d7cd011db47"
	testObject = "a0000000-0000-4000-8000-000000000001"
)

func TestIdentityIssuerIsThatOfASignIn(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	for name, tc := range map[string]struct {
		kind     string
		provider document.UpstreamProvider
		claims   map[string]any
	}{
		"OIDC":                    {"OIDC", document.UpstreamProvider{Issuer: testIssuer}, nil},
		"Google":                  {TypeGoogle, document.UpstreamProvider{Issuer: "https://accounts.google.com"}, map[string]any{"iss": "https://accounts.google.com"}},
		"a tenant of Microsoft":   {TypeMicrosoft, document.UpstreamProvider{Issuer: microsoftOrigin + testTenant + "/v2.0", Tenant: testTenant}, map[string]any{"iss": microsoftOrigin + testTenant + "/v2.0", "tid": testTenant, "oid": testObject}},
		"all tenants":             {TypeMicrosoft, document.UpstreamProvider{Issuer: microsoftOrigin + "common/v2.0", Tenant: "common"}, map[string]any{"iss": microsoftOrigin + testTenant + "/v2.0", "tid": testTenant, "oid": testObject}},
		"a subject of 255 bytes":  {"OIDC", document.UpstreamProvider{Issuer: testIssuer}, map[string]any{"sub": strings.Repeat("s", MaxSubject)}},
		"a subject with a slash":  {"OIDC", document.UpstreamProvider{Issuer: testIssuer}, map[string]any{"sub": "a/b"}},
		"a subject with a letter": {"OIDC", document.UpstreamProvider{Issuer: testIssuer}, map[string]any{"sub": "Ünal"}},
	} {
		c := &document.Connection{Type: tc.kind, Provider: tc.provider}
		c.Provider.Algs = []string{"RS256"}
		person, err := verify(c, s, s.token(tc.claims))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := IdentityIssuer(c, person.Subject); err != nil || got != person.Issuer {
			t.Errorf("%s: %q, %v, want %q", name, got, err, person.Issuer)
		}
	}
	gitHub := &document.Connection{Type: TypeGitHub, Provider: document.UpstreamProvider{BaseURL: "https://github.example"}}
	person := GitHubPerson(gitHub, map[string]any{"sub": "583231"})
	if got, err := IdentityIssuer(gitHub, person.Subject); err != nil || got != person.Issuer || got != "https://github.example" {
		t.Errorf("GitHub: %q, %v, want %q", got, err, person.Issuer)
	}
}

func TestSubjectsThatNoSignInHasAreRefused(t *testing.T) {
	t.Parallel()
	for kind, subjects := range map[string][]string{
		"OIDC":        {"", strings.Repeat("s", MaxSubject+1)},
		TypeGitHub:    {"octocat", "", "0", "-1", "+1", "01", "1.0", "99999999999999999999"},
		TypeMicrosoft: {"", testObject, testTenant + "/", "/" + testObject, strings.ToUpper(testTenant) + "/" + testObject, testTenant + "/" + testObject + "/x", testObject + "/" + testObject},
	} {
		c := &document.Connection{Type: kind, Provider: document.UpstreamProvider{Issuer: testIssuer, Tenant: testTenant, BaseURL: "https://github.com"}}
		for _, subject := range subjects {
			issuer, err := IdentityIssuer(c, subject)
			if err == nil || issuer != "" || subject != "" && len(subject) > 2 && strings.Contains(err.Error(), subject) {
				t.Errorf("%s: %q: %q, %v", kind, subject, issuer, err)
			}
		}
	}
}

// Whatever a subject is, its issuer is one that a sign-in by the connection can have.
func FuzzIdentityIssuer(f *testing.F) {
	f.Add(testTenant+"/"+testObject, testTenant, "")
	f.Add(microsoftConsumers+"/"+testObject, "organizations", testTenant)
	f.Add("583231", "common", "")
	f.Fuzz(func(t *testing.T, subject, tenant, allowed string) {
		p := document.UpstreamProvider{Issuer: testIssuer, Tenant: tenant, BaseURL: "https://github.com"}
		if allowed != "" {
			p.AllowedTenants = []string{allowed}
		}
		for _, kind := range []string{"OIDC", TypeGitHub, TypeMicrosoft} {
			issuer, err := IdentityIssuer(&document.Connection{Type: kind, Provider: p}, subject)
			of, _, _ := strings.Cut(subject, "/")
			want := map[string]string{"OIDC": testIssuer, TypeGitHub: p.BaseURL, TypeMicrosoft: fmt.Sprintf("%s%s/v2.0", microsoftOrigin, of)}[kind]
			if err == nil && (issuer != want || subject == "" || len(subject) > MaxSubject || kind == TypeMicrosoft && !admits(&p, of)) || err != nil && issuer != "" {
				t.Errorf("%s: %q: %q, %v", kind, subject, issuer, err)
			}
		}
	})
}
