package enduser_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/frontend/enduser"
	"github.com/cardea-iam/cardea/apiserver/frontend/pages/texts"
	"github.com/cardea-iam/cardea/apiserver/frontend/provisioning"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/upstream"
	"github.com/cardea-iam/cardea/apiserver/users/password"
)

// backendHeader sends a request to the backend listener of a server that kills itself.
const backendHeader = "X-Listener-Backend"

// serveUntilKilled is the server of a process that kills itself. It serves end users and, composed at the first such
// request because that takes long, backends. Only requests run statements.
func serveUntilKilled(p servertest.KilledProcess) (http.Handler, error) {
	proxies, err := credential.ParseProxies([]string{"127.0.0.0/8"})
	if err != nil {
		return nil, err
	}
	follower := snapshot.NewFollower(p.Store, time.Second, p.Clock, logr.Discard())
	go func() { _ = follower.Run(context.Background()) }()
	<-follower.Loaded()
	registry := prometheus.NewRegistry()
	providers := upstream.New(upstream.Options{
		Store: p.Store, Snapshots: follower, Keyring: p.Keyring, Egress: egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil), Clock: p.Clock,
		Log: logr.Discard(), Registry: registry,
	})
	endUser, err := enduser.New(enduser.Options{
		Providers: providers, Snapshots: follower, Store: p.Store, Keyring: p.Keyring, Hasher: password.NewHasher(password.Cost{MemoryKiB: 64, Passes: 1}), Proxies: proxies,
		Clock: p.Clock, OnEnqueue: func() {}, Languages: texts.Languages(), Log: logr.Discard(), Metrics: enduser.NewMetrics(registry, nil),
	})
	if err != nil {
		return nil, err
	}
	directories := provisioning.New(provisioning.Options{
		Snapshots: follower, Store: p.Store, Keyring: p.Keyring, Proxies: proxies, OnEnqueue: func() {}, Clock: p.Clock, Log: logr.Discard(),
		Metrics: httpapi.NewMetrics(registry, "scim", nil), Requests: provisioning.NewMetrics(registry),
	})
	backend := sync.OnceValue(func() http.Handler { return backendUntilKilled(p) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(backendHeader) != "" {
			backend().ServeHTTP(w, r)
			return
		}
		if handler, found := directories.Handler(r); found {
			handler.ServeHTTP(w, r)
			return
		}
		endUser.ServeHTTP(w, r)
	}), nil
}

// backendUntilKilled returns the backend listener of a whole server, whose background work has ended.
func backendUntilKilled(p servertest.KilledProcess) http.Handler {
	server, err := apiserver.New(apiserver.Options{Feed: p.Store, People: p.Store, Keyring: p.Keyring, Clock: p.Clock, Log: logr.Discard(), Registry: prometheus.NewRegistry()})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Follow(ctx) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !server.Ready() {
		<-tick.C
	}
	cancel()
	<-ended
	return server.Backend()
}

// member is a user of the stories of killed servers.
type member struct {
	b         *browser
	email, id string
	app       *app
	codes     []any
	key       *device
}

// members signs users up, each in a network of its own. With factors, each has an app, recovery codes and a passkey.
func (w *world) members(name string, n, network int, factors bool) []*member {
	w.T.Helper()
	var out []*member
	for i := range n {
		m := &member{b: w.unknownClient(network + i), email: fmt.Sprintf("%s%d@example.com", name, i), key: w.device()}
		m.id = m.b.signUp(m.email)
		if factors {
			m.app, m.codes = m.b.addApp()
			m.b.addPasskey(m.key)
		}
		out = append(out, m)
	}
	return out
}

// killedRequest is a request to a server that kills itself.
type killedRequest struct {
	path, body string
	// method is "" for POST.
	method string
	// key is the API key of a request to the backend, and token the token of a directory.
	key, token string
	// want is the status of success, 0 for 200.
	want int
	// once reports that a part of the request works once: it is prepared again before it is tried again.
	once bool
}

// send sends a request. killAt is the statement before which the server kills itself, 0 for none.
func (b *browser) send(base string, k killedRequest, killAt int) (status int, err error) {
	b.w.T.Helper()
	r, err := http.NewRequest(cmp.Or(k.method, http.MethodPost), base+k.path, strings.NewReader(k.body))
	b.w.Must(err)
	r.Host = b.host
	r.Header.Set("X-Forwarded-For", b.address)
	if k.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if k.key != "" {
		r.Header.Set("Authorization", "Bearer "+k.key)
		r.Header.Set(backendHeader, "1")
	}
	if k.token != "" {
		r.Header.Set("Authorization", "Bearer "+k.token)
	}
	if killAt > 0 {
		r.Header.Set(servertest.KillAtHeader, strconv.Itoa(killAt))
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// state returns the values of a story's columns for a user.
func (w *world) state(columns []string, user string) []int {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	values, into := make([]int, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	query := strings.ReplaceAll("SELECT ("+strings.Join(columns, "), (")+")", "$user", user)
	w.Must(db.QueryRowContext(w.T.Context(), query).Scan(into...))
	return values
}

// killedStory is an operation whose server is killed.
type killedStory struct {
	what    string
	members []*member
	// signedIn reports that the operation is one of the signed-in user.
	signedIn bool
	// columns are the values that the operation changes.
	columns []string
	// request prepares the operation and returns its request.
	request func(m *member) killedRequest
}

// The columns of sign-ins and audits of a user.
const (
	signInsOf = "SELECT count(*) FROM signins WHERE user_id = $user"
	eventsOf  = "SELECT count(*) FROM events WHERE user_id = $user AND kind = 'signin'"
	mailsTo   = "SELECT count(*) FROM outbox o JOIN emails e ON e.address = o.recipient WHERE e.user_id = $user"
)

func auditsOf(action string) string {
	return "SELECT count(*) FROM audit WHERE action = '" + action + "' AND (actor = 'user:$user' OR object = 'user:$user')"
}

// loggedOf counts the events of a type about the user, or about a membership of the user, with and without a number.
func loggedOf(t events.Type) string {
	return "SELECT count(*) FROM (SELECT type, subject_id, data FROM event_log_new UNION ALL SELECT type, subject_id, data FROM event_log) e WHERE type = '" + string(t) +
		"' AND (subject_id = '$user' OR data LIKE '%\"user_id\":\"$user\"%')"
}

// killedAt returns the statement at which a story kills its server first, how many statements it goes on each time, and
// how many members it needs: four times 20 is more than there are statements.
func (w *world) killedAt() (first, step, most int) {
	switch {
	case os.Getenv("CARDEA_TEST_ENGINES") == "all":
		return 1, 1, 80
	case strings.HasPrefix(w.URL, "postgres"):
		return 3, 4, 20
	}
	return 1, 4, 20
}

// run kills the server before each step-th statement of the operation, beginning with the first, and once before the
// response. It leaves all of the operation's changes or none, and the operation succeeds when it is tried again.
func (s killedStory) run(w *world, k *servertest.Killable, first, step int) {
	w.T.Helper()
	k.Start()
	for i, m := range s.members {
		n := first + i*step
		if !s.signedIn {
			m.b = w.browserAt(m.b.address)
		}
		m.b.base = k.URL
		request, before := s.request(m), w.state(s.columns, m.id)
		if status, err := m.b.send(k.URL, request, n); err == nil {
			w.T.Fatalf("%s, to be killed before statement %d: %d", s.what, n, status)
		}
		answered := k.Killed()
		after, changed := w.state(s.columns, m.id), 0
		for i := range before {
			if before[i] != after[i] {
				changed++
			}
		}
		if changed != 0 && changed != len(before) || answered != (changed > 0) {
			w.T.Errorf("%s, killed before statement %d: before %v, after %v, answered %t", s.what, n, before, after, answered)
		}
		if answered {
			if w.T.Logf("%s: killed at %d statements and with its answer ready", s.what, i); i < 4 {
				w.T.Errorf("%s was killed at %d statements only", s.what, i)
			}
			return
		}
		k.Start()
		if m.b.base = k.URL; request.once {
			request = s.request(m)
		}
		if status, err := m.b.send(k.URL, request, 0); err != nil || status != cmp.Or(request.want, http.StatusOK) {
			w.T.Errorf("%s, killed before statement %d, tried again: %d %v", s.what, n, status, err)
		}
	}
	w.T.Fatalf("%s has more than %d statements", s.what, step*len(s.members))
}

// A server that is killed at any statement of an enrollment, a use or a reset of factors leaves all of it or nothing.
// To save time, each engine takes every fourth statement, and every one if CARDEA_TEST_ENGINES is all (make
// test-engines).
func TestFactorsAreAtomicWhenServerIsKilled(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		first, step, most := w.killedAt()
		plain, other, armed := w.members("plain", most, 0, false), w.members("other", most, most, false), w.members("armed", most, 2*most, true)
		help := w.helpDesk()
		w.Clock.Advance(31 * time.Second)
		w.Server.Close()
		k := w.Killable()
		secondStepOf := func(strategy string, code func(*member) string) func(*member) killedRequest {
			return func(m *member) killedRequest {
				return killedRequest{path: "/auth/attempt-second-factor", body: secondStep(m.b.firstStep(m.email), strategy, code(m))}
			}
		}
		const spent = "SELECT count(*) FROM recovery_codes WHERE user_id = $user AND used_at > 0"
		for _, story := range []killedStory{
			{"the registration of a passkey", other, true, []string{
				"SELECT count(*) FROM passkeys WHERE user_id = $user", "SELECT count(*) FROM signins WHERE user_id = $user AND proofs LIKE '%passkey_uv%'",
				auditsOf("passkey.added"), mailsTo,
			}, func(m *member) killedRequest {
				return killedRequest{path: "/me/passkeys", body: fmt.Sprintf(`{"credential":%s}`, m.key.created(m.b.ok("POST", "/me/passkeys/options", `{}`)))}
			}},
			{"the confirmation of an app", plain, true, []string{
				"SELECT count(*) FROM totp_authenticators WHERE user_id = $user AND confirmed_at > 0", "SELECT two_step FROM users WHERE id = $user",
				"SELECT count(*) FROM recovery_codes WHERE user_id = $user", "SELECT count(*) FROM signins WHERE user_id = $user AND proofs LIKE '%totp%'",
				auditsOf("totp.added"), auditsOf("two_step.on"), auditsOf("recovery_codes.created"), mailsTo,
			}, func(m *member) killedRequest {
				begun := m.b.ok("POST", "/me/second-factors/totp", `{}`)
				a := &app{w: w, secret: secretOf(w, begun)}
				return killedRequest{path: "/me/second-factors/totp/" + begun["id"].(string) + "/confirm", body: codeBody(a.code())}
			}},
			{"a sign-in with an app", armed, false, []string{"SELECT last_step FROM totp_authenticators WHERE user_id = $user", signInsOf, eventsOf, loggedOf(events.SessionCreated), auditsOf("session.signed_in")},
				secondStepOf("totp", func(m *member) string { return m.app.code() })},
			{"a sign-in with a recovery code", armed, false, []string{spent, signInsOf, eventsOf, loggedOf(events.SessionCreated), auditsOf("session.signed_in"), auditsOf("recovery_code.used"), mailsTo},
				secondStepOf("recovery_code", func(m *member) string { return m.codes[0].(string) })},
			{"a sign-in with a passkey", armed, false, []string{"SELECT used_at FROM passkeys WHERE user_id = $user", "SELECT count(*) FROM spent_challenges", signInsOf, eventsOf, loggedOf(events.SessionCreated)},
				func(m *member) killedRequest {
					return killedRequest{path: "/auth/signin", body: m.key.signInBody(m.b.ok("POST", "/auth/passkey-options", `{}`))}
				}},
			{"a reset", armed, false, []string{
				"SELECT count(*) FROM totp_authenticators WHERE user_id = $user", "SELECT count(*) FROM passkeys WHERE user_id = $user",
				"SELECT count(*) FROM recovery_codes WHERE user_id = $user", "SELECT two_step FROM users WHERE id = $user", signInsOf, auditsOf("user.factors_reset"), mailsTo,
			}, func(m *member) killedRequest {
				return killedRequest{path: "/users/" + m.id + "/second-factors/reset", body: `{}`, key: help.key}
			}},
		} {
			story.run(w, k, first, step)
		}
	})
}
