package bench

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// upstreamUsers are the users who sign in by the connection, and callbackRound how many sign-ins a round has.
	upstreamUsers, callbackRound = 200, 1000
	upstreamClient               = "cardea"
	// sessionRound is how many requests for the session a round has.
	sessionRound = 1000
)

// signingProvider is an identity provider that signs the ID tokens of a round before it, because a signature costs more
// than the whole callback. It then only answers POST /token.
type signingProvider struct {
	server *httptest.Server
	key    *rsa.PrivateKey
	signer jose.Signer
	mu     sync.Mutex
	tokens map[string][]byte
}

func newSigningProvider(t *testing.T) *signingProvider {
	t.Helper()
	p := &signingProvider{tokens: map[string][]byte{}}
	var err error
	p.key, err = rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: p.key, KeyID: "k"}}, nil)
	check(t, err)
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, body any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body) // an error means that the client disconnected
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": p.server.URL, "authorization_endpoint": p.server.URL + "/authorize", "token_endpoint": p.server.URL + "/token", "jwks_uri": p.server.URL + "/jwks",
		})
	})
	mux.HandleFunc("GET /jwks", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		code := r.PostFormValue("code")
		p.mu.Lock()
		body := p.tokens[code]
		delete(p.tokens, code)
		p.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	return p
}

// sign signs the ID token of a user for an authorization request, and returns the path of the callback.
func (p *signingProvider) sign(t *testing.T, address string, user int) string {
	t.Helper()
	u, err := url.Parse(address)
	check(t, err)
	query, now := u.Query(), time.Now()
	token, err := jwt.Signed(p.signer).Claims(map[string]any{
		"iss": p.server.URL, "aud": upstreamClient, "sub": fmt.Sprint(user), "email": fmt.Sprintf("u%d@globex.example", user), "nonce": query.Get("nonce"),
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}).Serialize()
	check(t, err)
	body, err := json.Marshal(map[string]any{"access_token": "access", "token_type": "Bearer", "id_token": token})
	check(t, err)
	code := rand.Text()
	p.mu.Lock()
	p.tokens[code] = body
	p.mu.Unlock()
	redirect, err := url.Parse(query.Get("redirect_uri"))
	check(t, err)
	return redirect.Path + "?" + url.Values{"code": {code}, "state": {query.Get("state")}, "iss": {p.server.URL}}.Encode()
}

// connectionWorld is a peopleWorld with a connection to a provider.
type connectionWorld struct {
	*peopleWorld
	provider   *signingProvider
	connection string
	network    atomic.Uint32
}

func newConnectionWorld(t *testing.T, engine string) *connectionWorld {
	t.Helper()
	w := &connectionWorld{peopleWorld: newPeopleWorld(t, engine), provider: newSigningProvider(t)}
	w.declare(t, w.content())
	return w
}

func (w *connectionWorld) id() int64 { return ids.Derive(v1alpha1.KindConnection, "bench", "globex") }

// content is the connection, which holds a domain.
func (w *connectionWorld) content() document.Connection {
	return document.Connection{
		Slug: "globex", Type: string(v1alpha1.ConnectionTypeOIDC), Name: "Globex", Active: true, Shown: true, Enforcement: string(v1alpha1.ConnectionEnforcementOptional),
		Domains: []string{"globex.example"}, Attributes: document.ConnectionAttributes{Email: "email"}, Scopes: []string{"openid", "email"},
		Client: document.ConnectionClient{
			ID: upstreamClient, Authentication: string(v1alpha1.UpstreamAuthenticationBasic),
			Sealed: w.keyring.Seal(document.SealedConnectionSecret, ids.Format(w.id()), []byte("secret")),
		},
		Provider: document.UpstreamProvider{Issuer: w.provider.server.URL, Userinfo: document.UserinfoNever, Algs: []string{"RS256"}},
	}
}

// redeclare changes the connection, and waits until the server has it.
func (w *connectionWorld) redeclare(t *testing.T, c document.Connection) {
	t.Helper()
	check(t, w.filler.replace(t.Context(), v1alpha1.KindConnection, "globex", "globex", w.id(), c))
	_, position, err := w.store.Load(t.Context())
	check(t, err)
	await(t, time.Minute, 10*time.Millisecond, func() bool { return w.position().Revision >= position.Revision })
}

// organizationSlug makes an organization active in a person's session, and returns its slug.
func (w *connectionWorld) organizationSlug(t *testing.T, p *person) string {
	t.Helper()
	w.switchOrganization(t, p)
	var slug string
	id, err := ids.Parse(p.organizations[p.switched%2])
	check(t, err)
	check(t, w.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error {
		o, _, err := tx.Organizations().Organization(id)
		slug = o.Slug
		return err
	}))
	return slug
}

// declare declares the connection, and waits until sign-ins by it can begin.
func (w *connectionWorld) declare(t *testing.T, c document.Connection) {
	t.Helper()
	check(t, w.filler.put(t.Context(), v1alpha1.KindConnection, "globex", "globex", w.id(), c))
	w.connection = ids.Format(w.id())
	await(t, time.Minute, 10*time.Millisecond, func() bool { return w.ask(&person{}, "POST", "/auth/sso", w.beginBody()).Code == http.StatusOK })
}

func (w *connectionWorld) beginBody() string { return `{"connection_id":"` + w.connection + `"}` }

// waiting is a browser whose provider answers.
type waiting struct {
	person person
	path   string
}

// begin begins n sign-ins, each of another browser in another network.
func (w *connectionWorld) begin(t *testing.T, n int) []*waiting {
	t.Helper()
	all := make([]*waiting, n)
	for i := range all {
		b := &waiting{}
		network := w.network.Add(1)
		r := httptest.NewRequest("POST", "http://"+benchHost+"/auth/sso", strings.NewReader(w.beginBody()))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = fmt.Sprintf("%d.%d.%d.1:1", 20+network>>16, network>>8&255, network&255)
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, r)
		var answer struct {
			Data struct {
				URL string `json:"authorization_url"`
			}
		}
		if check(t, json.Unmarshal(recorder.Body.Bytes(), &answer)); recorder.Code != http.StatusOK {
			t.Fatalf("POST /auth/sso: %s", recorder.Body)
		}
		for _, c := range recorder.Result().Cookies() {
			b.person.cookie = c.Value
		}
		b.path = w.provider.sign(t, answer.Data.URL, i%upstreamUsers)
		all[i] = b
	}
	return all
}

func (w *connectionWorld) complete(t *testing.T, b *waiting) {
	if recorder := w.ask(&b.person, "GET", b.path, ""); recorder.Code != http.StatusOK {
		t.Errorf("the callback: %s", recorder.Body)
	}
}

// recordedCallbacks is how many callbacks are recorded, to run their statements bare.
const recordedCallbacks = 64

// guard matches the conditions by which statements happen once. Bare, each is repeated.
var guard = regexp.MustCompile(`\b(completed_at|completed|replaced|used_at|proved_at) = 0 AND `)

// bareCallback returns the statements of a callback in a form that can be repeated: the same rows change each time.
func bareCallback(script []statement) (out []statement) {
	for _, s := range script {
		if strings.HasPrefix(s.query, "UPDATE") {
			s.query = guard.ReplaceAllString(s.query, "")
		}
		if strings.HasPrefix(s.query, "UPDATE sso_attempts SET tries") {
			s.args[0] = 1 << 30
		}
		out = append(out, s)
	}
	return out
}

// concurrently does work for 0 to n-1 by as many callers as there are users, and returns how often a second.
func concurrently(n int, work func(i int)) float64 {
	begin := time.Now()
	var next atomic.Int64
	var group sync.WaitGroup
	for range people8 {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				work(i)
			}
		})
	}
	group.Wait()
	return float64(n) / time.Since(begin).Seconds()
}

// TestBenchConnections compares the response to a provider, by which a known user signs in, with its statements and one
// RS256 verification bare; and GET /session with a connection that enforces the domains of the active organization with
// the same request without one.
func TestBenchConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		t.Run(engine, func(t *testing.T) {
			w := newConnectionWorld(t, engine)
			w.compareCallbacks(t, engine)
			w.compareSessions(t, engine)
		})
	}
}

// compareCallbacks measures callbacks, their statements with a verification, and these with a request over HTTP to the
// token endpoint, in rounds that alternate.
func (w *connectionWorld) compareCallbacks(t *testing.T, engine string) {
	t.Helper()
	for _, b := range w.begin(t, 2*upstreamUsers) { // create the accounts, then reach the steady state
		w.complete(t, b)
	}
	var scripts [][]statement
	for _, b := range w.begin(t, recordedCallbacks) {
		scripts = append(scripts, bareCallback(w.recording.of(func() { w.complete(t, b) })))
	}
	digest := sha256.Sum256([]byte("message"))
	signature, err := rsa.SignPKCS1v15(rand.Reader, w.provider.key, crypto.SHA256, digest[:])
	check(t, err)
	bare := func(i int) {
		if err := errors.Join(rsa.VerifyPKCS1v15(&w.provider.key.PublicKey, crypto.SHA256, digest[:], signature), w.replay(scripts[i%len(scripts)])); err != nil {
			t.Error(err)
		}
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: people8}}
	defer client.CloseIdleConnections()
	var rates, bareRates, ratios, exchanged []float64
	for range peopleRounds {
		all := w.begin(t, callbackRound)
		rate := concurrently(callbackRound, func(i int) { w.complete(t, all[i]) })
		bareRate := concurrently(callbackRound, bare)
		withRequest := concurrently(callbackRound, func(i int) {
			if err := askToken(client, w.provider.server.URL); err != nil {
				t.Error(err)
			}
			bare(i)
		})
		rates, bareRates, ratios, exchanged = append(rates, rate), append(bareRates, bareRate), append(ratios, rate/bareRate), append(exchanged, rate/withRequest)
	}
	row(fmt.Sprintf("%s, OIDC callback: ratio to its %d statements and one RS256 verification bare", engine, len(scripts[0])), "0.5", "%.2f (%s)", median(ratios), spread(ratios))
	row(engine+", ... and one request to the token endpoint", "-", "%.2f (%s)", median(exchanged), spread(exchanged))
	row(engine+", OIDC callback: a second", "-", "%.0f (bare %.0f)", median(rates), median(bareRates))
}

// askToken sends a request to the token endpoint and reads its response.
func askToken(client *http.Client, issuer string) error {
	response, err := client.PostForm(issuer+"/token", url.Values{"code": {"x"}, "grant_type": {"authorization_code"}, "redirect_uri": {"http://localhost/callback"}})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// spread returns the values in order.
func spread(values []float64) string {
	var texts []string
	for _, v := range slices.Sorted(slices.Values(values)) {
		texts = append(texts, fmt.Sprintf("%.2f", v))
	}
	return strings.Join(texts, ", ")
}

// compareSessions measures GET /session of members of an organization, while a connection of it enforces its domains
// and while it does not, in rounds that alternate: of a member who signed in by the connection, and of one who signed
// in with a password and has no address of its domains, whose addresses are read.
func (w *connectionWorld) compareSessions(t *testing.T, engine string) {
	t.Helper()
	outside := w.persons[0]
	optional := w.content()
	optional.Organization, optional.Membership.JustInTime = w.organizationSlug(t, outside), true
	enforcing := optional
	enforcing.Enforcement = string(v1alpha1.ConnectionEnforcementDomains)
	w.redeclare(t, optional)
	entered := w.begin(t, 1)[0]
	w.complete(t, entered)
	inside := &entered.person
	for what, member := range map[string]*person{"who signed in by it": inside, "with a password and an address elsewhere": outside} {
		sessions := func(c document.Connection) float64 {
			w.redeclare(t, c)
			return concurrently(sessionRound, func(int) {
				recorder := w.ask(&person{cookie: member.cookie}, "GET", "/session", "")
				if recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), `"organization":{`) {
					t.Errorf("GET /session: %s", recorder.Body)
				}
			})
		}
		sessions(optional)
		var rates, ratios []float64
		for range 4 * peopleRounds {
			rate := sessions(enforcing)
			rates, ratios = append(rates, rate), append(ratios, rate/sessions(optional))
		}
		row(engine+", GET /session while a connection enforces Domains, to while it does not: a member "+what, "0.97", "%.3f (%s; %.0f a second)", median(ratios), spread(ratios), median(rates))
	}
}
