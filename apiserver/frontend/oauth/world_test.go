package oauth_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) {
	if servertest.IsKillable() {
		fmt.Fprintln(os.Stderr, servertest.ServeUntilKilled(serveUntilKilled))
		os.Exit(1)
	}
	cleanup, err := trustElsewhere()
	if err != nil {
		panic(err)
	}
	code := pgtest.Main(m)
	cleanup()
	os.Exit(code)
}

// world is frontendtest.World with an authorization server on its first host.
type world struct {
	*frontendtest.World
	app document.OAuthApp
}

const issuer = "http://localhost:8081/oauth/portal"

// onEngines runs a test on each database engine.
func onEngines(t *testing.T, story func(t *testing.T, w *world)) {
	t.Helper()
	servertest.OnEngines(t, func(t *testing.T, url string) { story(t, newWorldOver(t, url)) })
}

// onOneEngine runs a story of rules that do not depend on the engine; see servertest.OnOneEngine.
func onOneEngine(t *testing.T, story func(t *testing.T, w *world)) {
	t.Helper()
	servertest.OnOneEngine(t, func(t *testing.T, url string) { story(t, newWorldOver(t, url)) })
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOver(t, "")
}

func newWorldOver(t *testing.T, storeURL string) *world {
	t.Helper()
	w := &world{World: frontendtest.NewOver(t, storeURL, nil, nil)}
	w.app = w.DeclareOAuthApp("http://localhost:8081")
	for scope, category := range map[string]string{"jobs:run": "", "jobs:read": "", "orders:read": "organization", "old": ""} {
		w.DeclareOAuthScope(strings.ReplaceAll(scope, ":", "-"), document.OAuthScope{Scope: scope, DisplayName: scope, Category: category, Archived: scope == "old"})
	}
	return w
}

// client is an OAuth client in a test.
type client struct {
	w          *world
	id, secret string
	declared   document.OAuthClient
}

// switchOff deactivates a client.
func (w *world) switchOff(name string, c *client) {
	w.T.Helper()
	c.declared.Active = false
	w.Put(v1alpha1.KindOAuthClient, name, frontendtest.Deployment, "", c.declared)
}

// declare declares a client, with a new secret unless it is public, and waits until servers know it.
func (w *world) declare(name string, change func(*document.OAuthClient)) *client {
	w.T.Helper()
	minted, err := apikey.Mint(rand.Reader, "cs")
	w.Must(err)
	content := document.OAuthClient{
		App: "portal", Name: name, Authentication: string(v1alpha1.ClientAuthenticationSecretBasic), GrantTypes: []string{string(v1alpha1.GrantTypeClientCredentials)},
		Verifiers:          []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Last4()}},
		AccessTokenSeconds: 600, MachinePermissions: []string{"users:read"}, Active: true,
	}
	if change != nil {
		change(&content)
	}
	id := w.Put(v1alpha1.KindOAuthClient, name, frontendtest.Deployment, "", content)
	c := &client{w: w, id: ids.Format(id), secret: minted.Plain(), declared: content}
	if len(content.Verifiers) == 0 {
		c.secret = ""
	}
	w.Eventually("the client is known", func() bool {
		return c.post("/token", url.Values{"grant_type": {"x"}}).text("error") == "unsupported_grant_type" || !content.Active || len(content.JWKS) > 0
	})
	return c
}

// answer is the response of an endpoint.
type answer struct {
	status int
	header http.Header
	body   map[string]any
	raw    string
}

func (a answer) text(member string) string {
	text, _ := a.body[member].(string)
	return text
}

// try sends a request to the app.
func try(r *http.Request) (answer, error) { return tryAt(r, "localhost") }

// tryAt sends a request to a host.
func tryAt(r *http.Request, host string) (answer, error) {
	r.Host = host
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close() //nolint:errcheck // read whole
	raw, err := io.ReadAll(response.Body)
	a := answer{status: response.StatusCode, header: response.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &a.body) // a body that is not JSON leaves a.body empty
	return a, err
}

// send sends a request that must get a response.
func (w *world) send(r *http.Request) answer {
	w.T.Helper()
	a, err := try(r)
	w.Must(err)
	return a
}

func (w *world) get(path string) answer {
	w.T.Helper()
	r, err := http.NewRequest(http.MethodGet, w.Server.URL+path, nil)
	w.Must(err)
	return w.send(r)
}

// post sends a form with the client's credentials; a public client sends its id.
func (c *client) post(path string, form url.Values, change ...func(*http.Request)) answer {
	c.w.T.Helper()
	r := c.to(c.w.Server.URL, path, form)
	for _, change := range change {
		change(r)
	}
	return c.w.send(r)
}

// to returns the request of post, for any server.
func (c *client) to(server, path string, form url.Values) *http.Request {
	c.w.T.Helper()
	if form = maps.Clone(form); c.secret == "" && !form.Has("client_id") {
		form.Set("client_id", c.id)
	}
	r, err := http.NewRequest(http.MethodPost, server+"/oauth/portal"+path, strings.NewReader(form.Encode()))
	c.w.Must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c.secret != "" {
		r.SetBasicAuth(url.QueryEscape(c.id), url.QueryEscape(c.secret))
	}
	return r
}
