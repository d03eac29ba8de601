package oauth_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
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
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/sqlstore"
)

const (
	// killedURLEnv makes this test binary a server with the store of that URL. The other variables give the server's
	// time and root key.
	killedURLEnv, killedClockEnv, killedKeyEnv = "CARDEA_TEST_KILLED_URL", "CARDEA_TEST_KILLED_CLOCK", "CARDEA_TEST_KILLED_KEY"
	// killAtHeader names the statement before which that server kills itself.
	killAtHeader = "X-Kill-At"
)

// serveUntilKilled serves a store, and kills itself at the point that a request names: before a statement or, after all
// statements, before the response. It prints its address, and "answered" if it dies with a complete response.
func serveUntilKilled() error {
	micros, err := strconv.ParseInt(os.Getenv(killedClockEnv), 10, 64)
	if err != nil {
		return err
	}
	clock := func() time.Time { return time.UnixMicro(micros).UTC() }
	keyring, err := seal.Load([]string{os.Getenv(killedKeyEnv)})
	if err != nil {
		return err
	}
	var left atomic.Int64
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }
	ctx := context.Background()
	st, err := sqlstore.Open(ctx, os.Getenv(killedURLEnv), sqlstore.Options{Clock: clock, Logger: logr.Discard(), Trace: func(string, []any) {
		if left.Add(-1) == 0 {
			die()
		}
	}})
	if err != nil {
		return err
	}
	follower := snapshot.NewFollower(st, time.Second, clock, logr.Discard())
	go func() { _ = follower.Run(ctx) }()
	<-follower.Loaded()
	policy := egress.NewPolicy(nil, nil)
	served := oauth.New(oauth.Options{
		Snapshots: follower, Store: st, Keyring: keyring, Tokens: bearer.NewAccessTokens(keyring), Keys: jwks.New(clock, policy, jwks.Declared()), Egress: policy, Clock: clock, Log: logr.Discard(),
		Metrics: httpapi.NewMetrics(prometheus.NewRegistry(), "oauth", nil),
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	inner := frontend.New(http.NotFoundHandler(), served)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nth, err := strconv.ParseInt(r.Header.Get(killAtHeader), 10, 64)
		if err != nil {
			inner.ServeHTTP(w, r)
			return
		}
		left.Store(nth)
		inner.ServeHTTP(httptest.NewRecorder(), r)
		fmt.Println("answered")
		die()
	})
	fmt.Println(listener.Addr())
	return http.Serve(listener, handler) //nolint:gosec // a test's, on loopback
}

// killable is a server in its own process.
type killable struct {
	t       *testing.T
	env     []string
	running *exec.Cmd
	said    *bufio.Scanner
	url     string
}

func (k *killable) start() {
	k.t.Helper()
	k.running = exec.Command(os.Args[0])
	k.running.Env, k.running.Stderr = append(os.Environ(), k.env...), os.Stderr
	out, err := k.running.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := k.running.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = k.running.Process.Kill() })
	if k.said = bufio.NewScanner(out); !k.said.Scan() {
		k.t.Fatal("the server did not start")
	}
	k.url = "http://" + k.said.Text()
}

// killed waits for the process to end, and reports whether its response was complete.
func (k *killable) killed() (answered bool) {
	k.t.Helper()
	for k.said.Scan() {
		answered = answered || k.said.Text() == "answered"
	}
	_ = k.running.Wait() // the error is that the process was killed
	if status, ok := k.running.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		k.t.Fatalf("the server ended by itself: %v", k.running.ProcessState)
	}
	return answered
}

// ask sends a client's form to the process. killAt is the statement before which the process kills itself, 0 for none.
func (k *killable) ask(c *client, form url.Values, killAt int) (answer, error) {
	k.t.Helper()
	r := c.to(k.url, "/token", form)
	if killAt > 0 {
		r.Header.Set(killAtHeader, strconv.Itoa(killAt))
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
		// Only this process uses the store.
		w.Server.Close()
		w.Must(w.Store.Close())
		key := filepath.Join(t.TempDir(), "root.key")
		w.Must(os.WriteFile(key, servertest.RootKey, 0o600))
		k := &killable{t: t, env: []string{killedURLEnv + "=" + w.URL, killedClockEnv + "=" + strconv.FormatInt(w.Clock.Now().UnixMicro(), 10), killedKeyEnv + "=" + key}}
		k.start()
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
				if a, err := k.ask(c, story.form(presented), n); err == nil {
					t.Fatalf("%s, to be killed before statement %d: %d %s", story.what, n, a.status, a.raw)
				}
				answered := k.killed()
				used, tokens := w.left(story.query, presented)
				if used != (tokens == 1) || !used && tokens != 0 || used != answered {
					t.Errorf("%s, killed before statement %d: used %t, with %d tokens, answered %t", story.what, n, used, tokens, answered)
				}
				k.start()
				want := http.StatusOK
				if used {
					want = story.again
				} else {
					nothing++
				}
				if a, err := k.ask(c, story.form(presented), 0); err != nil || a.status != want {
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
		w.Must(k.running.Process.Kill())
		k.killed()
	})
}
