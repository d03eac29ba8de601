package enduser_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// peerSecret has characters that HTTP Basic encodes as forms do.
const peerSecret = "a:b%20c+/=&d"

// registration returns the client that oidc-provider has for the connection "peer".
func (w *world) registration(more map[string]any) map[string]any {
	client := map[string]any{
		"client_id": "cardea", "client_secret": peerSecret, "redirect_uris": []string{w.peerURL("/callback")},
		"token_endpoint_auth_method": "client_secret_basic", "id_token_signed_response_alg": "RS256",
		"backchannel_logout_uri": w.peerURL("/backchannel-logout"), "backchannel_logout_session_required": true,
		"post_logout_redirect_uris": []string{"http://" + w.host() + "/sign-in"},
	}
	maps.Copy(client, more)
	return client
}

// newClientKey returns a private key in PEM and its public key.
func newClientKey(w *world) (text string, public jose.JSONWebKey) {
	w.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.Must(err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	w.Must(err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), jose.JSONWebKey{Key: key.Public(), Algorithm: "ES256", Use: "sig"}
}

func TestPublishedProviderSignsUsersIn(t *testing.T) {
	for name, c := range map[string]struct {
		authentication v1alpha1.UpstreamAuthentication
		method, alg    string
		formPost       bool
	}{
		"by query with client_secret_basic and RS256": {v1alpha1.UpstreamAuthenticationBasic, "client_secret_basic", "RS256", false},
		"by form with private_key_jwt and ES256":      {v1alpha1.UpstreamAuthenticationPrivateKeyJWT, "private_key_jwt", "ES256", true},
		"by query with client_secret_post and EdDSA":  {v1alpha1.UpstreamAuthenticationPost, "client_secret_post", "EdDSA", false},
		"by form with client_secret_basic and PS256":  {v1alpha1.UpstreamAuthenticationBasic, "client_secret_basic", "PS256", true},
	} {
		t.Run(name, func(t *testing.T) {
			onOneEngine(t, func(t *testing.T, w *world) {
				secret, public := peerSecret, jose.JSONWebKey{}
				more := map[string]any{"token_endpoint_auth_method": c.method, "id_token_signed_response_alg": c.alg}
				if c.method == "private_key_jwt" {
					secret, public = newClientKey(w)
					more["jwks"] = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}}
				}
				p := w.startPeer(w.registration(more))
				conn := w.toPeer(p.issuer, "cardea", secret, func(d *document.Connection) {
					d.Client.Authentication, d.Provider.FormPost, d.Provider.Algs = string(c.authentication), c.formPost, []string{c.alg}
				})
				b := w.atHost()
				user := b.byPeer(w.upstream(), conn, "").user()
				if user == "" {
					t.Fatalf("%s %+v", b.last.Raw, w.failures(conn))
				}
				// The ID token of oidc-provider has no address: it came from the userinfo endpoint.
				if me := b.ok("GET", "/me", ""); me["email"] != "ann@globex.example" || me["first_name"] != "Ann" || me["last_name"] != "Lee" {
					t.Errorf("the account is %v", me)
				}
				if again := w.atHost().byPeer(w.upstream(), conn, ""); again.user() == "" || again.user() != user {
					t.Errorf("%s", again.Raw)
				}
			})
		})
	}
}

func TestPublishedProviderRefusesAndAuthenticatesAgain(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.startPeer(w.registration(nil))
		conn := w.toPeer(p.issuer, "cardea", peerSecret, nil)
		denied := w.atHost().byPeer(w.upstream(), conn, `,"login_hint":"denied"`)
		if denied.code() != "SSO_FAILED" || !strings.Contains(denied.Raw, `"reason":"access_denied"`) || strings.Contains(denied.Raw, "the user said no") {
			t.Errorf("%s", denied.Raw)
		}
		b, u := w.atHost(), w.upstream()
		if a := b.byPeer(u, conn, ""); a.user() == "" {
			t.Fatalf("%s %+v", a.Raw, w.failures(conn))
		}
		w.Clock.Advance(w.reauthenticateAfter() + time.Second)
		link := fmt.Sprintf(`{"connection_id":%q,"intent":"link"}`, conn)
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/auth/sso", link)
		// The provider's clock is that of the machine, so the world's goes back.
		w.Clock.Advance(time.Since(w.Clock.Now()))
		if a := b.byPeer(u, conn, `,"intent":"reauthenticate"`); a.Status != 200 || a.data()["completed"] != true {
			t.Fatalf("%s %+v", a.Raw, w.failures(conn))
		}
		b.ok("POST", "/auth/sso", link)
	})
}

func TestPublishedProviderRollsItsKeysOver(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.startPeer(w.registration(nil))
		conn := w.toPeer(p.issuer, "cardea", peerSecret, nil)
		first := w.atHost().byPeer(w.upstream(), conn, "")
		w.Clock.Advance(30 * time.Second) // the age at which keys are read again for an unknown key id
		p.rotate()
		if a := w.atHost().byPeer(w.upstream(), conn, ""); a.user() == "" || a.user() != first.user() {
			t.Errorf("%s %+v", a.Raw, w.failures(conn))
		}
	})
}

func TestPublishedProviderEndsSignInsAndAcceptsSignOut(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.startPeer(w.registration(nil))
		conn := w.toPeer(p.issuer, "cardea", peerSecret, func(c *document.Connection) { c.SignOutUpstream = true })
		one, at, two := w.atHost(), w.upstream(), w.atHost()
		if a := one.byPeer(at, conn, ""); a.user() == "" {
			t.Fatalf("%s %+v", a.Raw, w.failures(conn))
		}
		two.byPeer(w.upstream(), conn, "")
		second := w.atHost()
		second.byPeer(at, conn, "") // at the same session of the provider
		to, ok := second.ok("POST", "/session/sign-out", `{}`)["end_session_url"].(string)
		if !ok || !strings.HasPrefix(to, p.issuer+"/session/end?") {
			t.Fatalf("%s", second.last.Raw)
		}
		if !one.isSignedIn() {
			t.Fatal("the sign-out of one browser ended that of another")
		}
		back, _ := at.visit(to, url.Values{"logout": {"yes"}})
		if back != "http://"+w.host()+"/sign-in" {
			t.Errorf("the provider leads to %s", back)
		}
		if one.isSignedIn() || !two.isSignedIn() {
			t.Errorf("after the logout at the provider: its session signed in %t, another session %t", one.isSignedIn(), two.isSignedIn())
		}
	})
}
