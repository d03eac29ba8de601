package oauth_test

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/credential/jwks"
	"github.com/cardea-iam/cardea/apiserver/frontend"
	"github.com/cardea-iam/cardea/apiserver/frontend/oauth"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/session"
)

// serveUntilKilled is the server of a process that kills itself.
func serveUntilKilled(p servertest.KilledProcess) (http.Handler, error) {
	follower := snapshot.NewFollower(p.Store, time.Second, p.Clock, logr.Discard())
	go func() { _ = follower.Run(context.Background()) }()
	<-follower.Loaded()
	policy := egress.NewPolicy(nil, nil)
	return frontend.New(http.NotFoundHandler(), oauth.New(oauth.Options{
		Snapshots: follower, Store: p.Store, Keyring: p.Keyring, Tokens: bearer.NewAccessTokens(p.Keyring), Keys: jwks.New(p.Clock, policy, jwks.Declared()), Egress: policy,
		Clock: p.Clock, Log: logr.Discard(), Metrics: httpapi.NewMetrics(prometheus.NewRegistry(), "oauth", nil),
	})), nil
}

// askKillable sends a client's form to the process. killAt is the statement before which the process kills itself, 0
// for none.
func (w *world) askKillable(k *servertest.Killable, c *client, form url.Values, killAt int) (answer, error) {
	w.T.Helper()
	r := c.to(k.URL, "/token", form)
	if killAt > 0 {
		r.Header.Set(servertest.KillAtHeader, strconv.Itoa(killAt))
	}
	return try(r)
}

// left returns the state that a killed process left: whether the code or refresh token is used, and how many tokens
// were issued.
func (w *world) left(query, presented string) (used bool, tokens int) {
	w.T.Helper()
	hash, formed := session.Hash(presented)
	if !formed {
		w.T.Fatal("the presented text is not a token")
	}
	db := w.Open()
	defer db.Close() //nolint:errcheck // only read
	var at int64
	w.Must(db.QueryRowContext(w.T.Context(), query, hash).Scan(&at, &tokens))
	return at != 0, tokens
}

// The server is killed before each statement of a redemption and of a refresh, and once before the response. It leaves
// either a valid code and no token, or a used code with its token; a client that refreshes again succeeds.
func TestTokenRequestIsAtomicWhenServerIsKilled(t *testing.T) {
	const most = 40 // statements, more than there are
	onEngines(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		var codes, tokens []string
		for range most {
			codes = append(codes, p.allow(c.request("jobs:read")).Get("code"))
			tokens = append(tokens, c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code"))).text("refresh_token"))
		}
		w.Server.Close()
		k := w.Killable()
		k.Start()
		for _, story := range []struct {
			what, query string
			presented   []string
			form        func(presented string) url.Values
			// again is the status of the next try after all statements ran.
			again int
		}{
			{
				"a redemption", "SELECT redeemed_at, (SELECT count(*) FROM oauth_refresh_tokens r WHERE r.family_id = c.family_id) FROM oauth_codes c WHERE hash = $1", codes, redeem,
				http.StatusBadRequest,
			},
			{
				"a refresh", "SELECT used_at, (SELECT count(*) FROM oauth_refresh_tokens r WHERE r.parent = t.hash) FROM oauth_refresh_tokens t WHERE hash = $1", tokens,
				func(token string) url.Values {
					return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
				}, http.StatusOK,
			},
		} {
			nothing := 0
			for n := 1; ; n++ {
				if n > most {
					t.Fatalf("%s has more than %d statements", story.what, most)
				}
				presented := story.presented[n-1]
				if a, err := w.askKillable(k, c, story.form(presented), n); err == nil {
					t.Fatalf("%s, to be killed before statement %d: %d %s", story.what, n, a.status, a.raw)
				}
				answered := k.Killed()
				used, tokens := w.left(story.query, presented)
				if used != (tokens == 1) || !used && tokens != 0 || used != answered {
					t.Errorf("%s, killed before statement %d: used %t, with %d tokens, answered %t", story.what, n, used, tokens, answered)
				}
				k.Start()
				want := http.StatusOK
				if used {
					want = story.again
				} else {
					nothing++
				}
				if a, err := w.askKillable(k, c, story.form(presented), 0); err != nil || a.status != want {
					t.Errorf("%s, killed before statement %d, tried again: %d %s %v, want %d", story.what, n, a.status, a.raw, err, want)
				}
				if answered {
					break
				}
			}
			if nothing < 5 {
				t.Errorf("%s was killed at %d statements only", story.what, nothing)
			}
			t.Logf("%s: killed at %d statements and with its answer ready", story.what, nothing)
		}
		k.Stop()
	})
}
