package enduser_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/controlplane"
)

// startDex starts Dex with its connector that signs everyone in as the same user, and returns its issuer.
func (w *world) startDex() string {
	w.T.Helper()
	if _, err := os.Stat(upstreamDex); err != nil {
		w.T.Skip(missingPeers)
	}
	port, err := controlplane.FreePort()
	w.Must(err)
	issuer := fmt.Sprintf("http://127.0.0.1:%d/dex", port)
	file := filepath.Join(w.T.TempDir(), "dex.yaml")
	w.Must(os.WriteFile(file, fmt.Appendf(nil, `
issuer: %s
storage: {type: memory}
web: {http: "127.0.0.1:%d"}
oauth2: {skipApprovalScreen: true}
logger: {level: error}
staticClients: [{id: cardea, name: Cardea, secret: %q, redirectURIs: [%q]}]
connectors: [{type: mockCallback, id: mock, name: Mock}]
`, issuer, port, peerSecret, w.peerURL("/callback")), 0o600))
	cmd := exec.CommandContext(w.T.Context(), upstreamDex, "serve", file)
	w.Must(cmd.Start())
	w.T.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	w.Eventually("Dex serves", func() bool {
		resp, err := http.Get(issuer + "/.well-known/openid-configuration")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return issuer
}

func TestDexSignsUsersIn(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		conn := w.toPeer(w.startDex(), "cardea", peerSecret, func(c *document.Connection) {
			c.Domains, c.Attributes.FirstName, c.SignOutUpstream = []string{"kilgore.trout"}, "name", true
		})
		b := w.atHost()
		if a := b.byPeer(w.upstream(), conn, ""); a.user() == "" {
			t.Fatalf("%s %+v", a.Raw, w.failures(conn))
		}
		if me := b.ok("GET", "/me", ""); me["email"] != "kilgore@kilgore.trout" || me["first_name"] != "Kilgore Trout" {
			t.Errorf("the account is %v", me)
		}
		if again := w.atHost().byPeer(w.upstream(), conn, ""); again.user() != b.last.data()["id"] {
			t.Errorf("%s", again.Raw)
		}
		if end := b.ok("POST", "/session/sign-out", `{}`)["end_session_url"]; end != nil { // Dex has no such endpoint
			t.Errorf("the sign-out leads to %v", end)
		}
	})
}

// issueTo makes the world an identity provider with one client, and returns the issuer and the client's credentials.
func (w *world) issueTo(redirectURI, logoutURI string) (issuer, id, secret string) {
	w.T.Helper()
	app := w.DeclareOAuthApp("http://" + w.host())
	minted, err := apikey.Mint(rand.Reader, "cs")
	w.Must(err)
	client := w.Put(v1alpha1.KindOAuthClient, "relying", deploymentName, "", document.OAuthClient{
		App: "portal", Name: "Relying", Active: true, Authentication: string(v1alpha1.ClientAuthenticationSecretBasic),
		GrantTypes: []string{string(v1alpha1.GrantTypeAuthorizationCode)}, RedirectURIs: []string{redirectURI}, BackchannelLogoutURI: logoutURI,
		Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Last4()}}, AccessTokenSeconds: 600,
	})
	return app.Issuer, ids.Format(client), minted.Plain()
}

// allow consents to an authorization request as the browser's user, and returns where that leads.
func (b *browser) allow(address string) *url.URL {
	b.w.T.Helper()
	plain := *b.client
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	was := b.client
	b.client = &plain
	defer func() { b.client = was }()
	resp, err := b.raw(http.MethodGet, strings.TrimPrefix(address, "http://"+b.host), "")
	b.w.Must(err)
	_ = resp.Body.Close()
	at, err := url.Parse(resp.Header.Get("Location"))
	b.w.Must(err)
	if id, asks := strings.CutPrefix(at.Path, "/authorize/"); asks {
		to := b.ok("POST", "/session/authorizations/"+id, `{"decision":"allow"}`)["redirect_to"]
		at, err = url.Parse(fmt.Sprint(to))
		b.w.Must(err)
	}
	return at
}

func TestCardeaSignsUsersInToAnotherDeployment(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		upstream := newWorld(t, "")
		issuer, id, secret := upstream.issueTo(w.peerURL("/callback"), w.peerURL("/backchannel-logout"))
		conn := w.toPeer(issuer, id, secret, func(c *document.Connection) { c.Provider.Algs = []string{string(jose.ES256)} })
		ann := upstream.atHost()
		ann.signUp("ann@globex.example")
		signIn := func() *browser {
			t.Helper()
			upstream.keepTime()
			w.keepTime()
			b := w.atHost()
			back := ann.allow(b.begin(conn, ""))
			if a := b.do(http.MethodGet, back.RequestURI(), "", "Sec-Fetch-Site", "cross-site"); a.user() == "" {
				t.Fatalf("%s %s %+v", back, a.Raw, w.failures(conn))
			}
			return b
		}
		first, second := signIn(), signIn()
		if me := first.ok("GET", "/me", ""); me["email"] != "ann@globex.example" {
			t.Errorf("the account is %v", me)
		}
		local := w.browser()
		local.signUp("local@example.com")
		ann.ok("POST", "/session/sign-out", `{}`)
		w.Eventually("the sign-ins end", func() bool {
			upstream.keepTime()
			w.keepTime()
			return !first.isSignedIn() && !second.isSignedIn()
		})
		if !local.isSignedIn() {
			t.Error("the logout ended another user's sign-in")
		}
	})
}
