package enduser_test

import (
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

// Browsers read the origins that share the passkeys at the relying party's host alone, and only if an origin lies
// outside of it.
func TestRelatedOriginsAreAtTheRelyingParty(t *testing.T) {
	w := newWorld(t, "")
	w.open(func(d *document.Deployment) {
		d.FrontendHosts, d.AllowedOrigins = []string{"localhost"}, nil
	})
	const path = "/.well-known/webauthn"
	if a := w.browser().do("GET", path, ""); a.Status != 404 {
		t.Errorf("all origins lie within the relying party: %d %s", a.Status, a.Raw)
	}
	w.open(func(d *document.Deployment) {
		d.FrontendHosts, d.AllowedOrigins = []string{"localhost", "login.shop.example"}, []string{"https://www.shop.example"}
	})
	a := w.browser().do("GET", path, "")
	if want := `{"origins":["https://localhost","https://login.shop.example","https://www.shop.example"]}`; a.Raw != want || a.Header.Get("Cache-Control") != "public, max-age=300" {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Raw)
	}
	if a := w.browser().do("GET", path, "", "Host", "login.shop.example"); a.Status != 404 {
		t.Errorf("at another host: %d %s", a.Status, a.Raw)
	}
	w.open(func(d *document.Deployment) {
		d.Assurance.Passkey, d.AllowedOrigins = false, []string{"https://www.shop.example"}
	})
	if a := w.browser().do("GET", path, ""); a.Status != 404 {
		t.Errorf("without passkeys: %d %s", a.Status, a.Raw)
	}
}
