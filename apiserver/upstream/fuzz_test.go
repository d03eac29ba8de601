package upstream

import (
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

// Whatever a provider serves as its discovery document, the browser and the server go to https URLs only.
func FuzzDiscovery(f *testing.F) {
	f.Add(`{"issuer":"https://idp.example","authorization_endpoint":"https://idp.example/a","token_endpoint":"https://idp.example/t","jwks_uri":"https://idp.example/k","end_session_endpoint":"javascript:x"}`)
	f.Add(`{"issuer":"https://idp.example","authorization_endpoint":"https://a@idp.example/a#x","token_endpoint":"http://idp.example","jwks_uri":"//k"}`)
	c := &document.Connection{Type: "OIDC", Provider: document.UpstreamProvider{Issuer: "https://idp.example"}}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseDiscovery(c, text)
		if err != nil {
			return
		}
		for _, url := range []string{m.AuthorizationURL, m.TokenURL, m.JWKSURL, m.UserinfoURL, m.EndSessionURL} {
			if url != "" && (!strings.HasPrefix(strings.ToLower(url), "https://") || strings.ContainsAny(url, "#\n\r")) {
				t.Errorf("%q is taken from %q", url, text)
			}
		}
		if m.Issuer != c.Provider.Issuer || m.AuthorizationURL == "" || m.TokenURL == "" || m.JWKSURL == "" {
			t.Errorf("%+v is taken from %q", m, text)
		}
	})
}
