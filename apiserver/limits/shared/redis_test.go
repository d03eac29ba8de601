package shared

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/rueidis"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// server is a Redis process of the test.
type server struct {
	t    testing.TB
	port int
	more []string
	cmd  *exec.Cmd
}

// newServer starts a Redis, with more arguments.
func newServer(t testing.TB, more ...string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, more: more, port: listener.Addr().(*net.TCPAddr).Port}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.t.TempDir(),
	}, s.more...)...)
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("redis-server (hack/install-deps.sh installs it): %v", err)
	}
	eventually(s.t, "Redis listens", func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

func (s *server) signal(what syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(what); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends the Redis and deletes all its data.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_, _ = s.cmd.Process.Wait()
}

// client returns a client of the Redis, which the caller closes.
func (s *server) client() rueidis.Client {
	s.t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{fmt.Sprintf("127.0.0.1:%d", s.port)}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

// do sends a command to the Redis.
func (s *server) do(command ...string) {
	s.t.Helper()
	client := s.client()
	defer client.Close()
	if err := client.Do(s.t.Context(), client.B().Arbitrary(command...).Build()).Error(); err != nil {
		s.t.Fatalf("%v: %v", command, err)
	}
}

func (s *server) url() string { return fmt.Sprintf("redis://127.0.0.1:%d", s.port) }

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}

// replica is one server's counters.
type replica struct {
	*Counters
	engine *engine.Engine
	scheme *engine.Scheme
}

// replicas starts count replicas on one Redis.
func replicas(t testing.TB, url string, count int, rules ...scheme.Rule) []*replica {
	t.Helper()
	var all []*replica
	for range count {
		local, clock := engine.NewEngine(engine.DefaultMaxBytes), engine.NewClock(time.Now)
		counters, err := New(Options{URL: url, Engine: local, Clock: clock.Now, Replicas: count, Log: logr.Discard(), Registry: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = counters.Run(ctx) })
		t.Cleanup(func() { cancel(); running.Wait() })
		all = append(all, &replica{counters, local, local.Scheme(7, rules)})
	}
	return all
}

func shared(t testing.TB, all []*replica) {
	t.Helper()
	eventually(t, "every replica shares", func() bool {
		for _, r := range all {
			if r.Degraded() || r.peers.Load().count != len(all) {
				return false
			}
		}
		return true
	})
}

func (r *replica) request(key uint64) *engine.Request {
	return &engine.Request{Method: "GET", Path: "/", Key: key, App: 1, Scheme: r.scheme}
}

// usedUp reports whether the replica has no token of the key's only counter and knows that Redis refuses more. The
// admitted requests may then be fewer than the limit: a grant whose answer came too late is charged but not spent.
func (r *replica) usedUp(key uint64) bool {
	now := r.opts.Clock()
	counters := engine.Applying(r.request(key), nil)
	if len(counters) != 1 {
		return false
	}
	of := keyOf(&counters[0])
	s := r.leases.shard(&of)
	s.Lock()
	defer s.Unlock()
	held := s.held[of]
	return held != nil && held.tokens(now.Steady) == 0 && held.deniedUntil > now.Steady
}

// admissions are the times of admitted requests: each was admitted between before and after.
type admissions struct {
	sync.Mutex
	spans []span
}

type span struct {
	before, after time.Time
	// replica is the index of the replica that admitted the request.
	replica int
}

// unevenly returns how many requests replicas may have admitted that lost Redis now: each its own share of a limit, or
// what it had already admitted, if that is more. With an even load of the replicas that is the limit.
func (a *admissions) unevenly(replicas, limit int) (most int) {
	a.Lock()
	defer a.Unlock()
	admitted := make([]int, replicas)
	for _, s := range a.spans {
		admitted[s.replica]++
	}
	for _, n := range admitted {
		most += max(n, limit/replicas)
	}
	return most
}

// most returns the largest number of requests that were certainly admitted within one window of a length: begun after
// its start and answered before its end.
func (a *admissions) most(length time.Duration) (most int) {
	a.Lock()
	defer a.Unlock()
	for i := range a.spans {
		n := 0
		for j := range a.spans {
			if !a.spans[j].before.Before(a.spans[i].before) && a.spans[j].after.Before(a.spans[i].before.Add(length)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// load lets the callers of every replica send requests with one key as fast as they can, until stopped. It collects the
// admissions and the slowest decision.
func load(all []*replica, callers int, key uint64) (*admissions, *atomic.Int64, func()) {
	var log admissions
	var slowest atomic.Int64
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i, r := range all {
		for range callers {
			running.Go(func() {
				var out engine.Result
				request := r.request(key)
				for {
					select {
					case <-stop:
						return
					default:
					}
					before := time.Now()
					r.Decide(context.Background(), request, &out)
					after := time.Now()
					raise(&slowest, int64(after.Sub(before)))
					if out.Allowed {
						log.Lock()
						log.spans = append(log.spans, span{before, after, i})
						log.Unlock()
						continue
					}
					time.Sleep(500 * time.Microsecond) // a client that is refused does not ask in a busy loop
				}
			})
		}
	}
	return &log, &slowest, func() { close(stop); running.Wait() }
}

// raise sets a value to a larger one, and keeps it otherwise.
func raise(v *atomic.Int64, to int64) {
	for old := v.Load(); old < to && !v.CompareAndSwap(old, to); old = v.Load() {
	}
}

func (a *admissions) count() int {
	a.Lock()
	defer a.Unlock()
	return len(a.spans)
}

// TestReplicasShareStrictly: three replicas under load with one key never admit more than the limit in any window, and
// not much less over time. This holds for leases, and for the single calls of short windows.
func TestReplicasShareStrictly(t *testing.T) {
	redis := newServer(t)
	for _, tc := range []struct {
		name   string
		rule   scheme.Rule
		length time.Duration
		lasts  time.Duration
		least  float64
	}{
		{"leased", scheme.Rule{Unit: "second", Duration: 3, MaxRequests: 1500}, 3 * time.Second, 9 * time.Second, 0.85},
		{"asked about each time", scheme.Rule{Unit: "second", Duration: 1, MaxRequests: 50}, time.Second, 5 * time.Second, 0.85},
		{"a small limit", scheme.Rule{Unit: "second", Duration: 3, MaxRequests: 5}, 3 * time.Second, 9 * time.Second, 0.85},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := replicas(t, redis.url(), 3, tc.rule)
			shared(t, all)
			calm := outages(all)
			log, _, stop := load(all, 4, uint64(len(tc.name)))
			began := time.Now()
			eventually(t, "the load has lasted", func() bool { return time.Since(began) > tc.lasts })
			stop()
			if most, bound := log.most(tc.length), strictly(t, all, calm, tc.rule.MaxRequests); most > bound {
				t.Errorf("%d within one window, the limit is %d, and at most %d was to be expected", most, tc.rule.MaxRequests, bound)
			}
			// Every window during the load could admit its limit, the first one immediately.
			full := float64(tc.rule.MaxRequests) * float64(tc.lasts) / float64(tc.length)
			if got := float64(log.count()) / full; got < tc.least {
				t.Errorf("admitted %d, that is %.2f of what the limit allows, want %.2f", log.count(), got, tc.least)
			}
		})
	}
}

// outages returns how often the replicas have lost Redis so far.
func outages(all []*replica) (n uint32) {
	for _, r := range all {
		n += uint32(r.outage.Load())
	}
	return n
}

// strictly returns the most that one window may admit. That is the limit, if every call was answered in time. On a very
// busy machine, a call may be too late: then its request is decided alone. Several such calls in a row are an outage,
// which has the bound of TestRedisUnavailable. It logs how many requests were decided alone for other reasons.
func strictly(t *testing.T, all []*replica, calm uint32, limit int64) int {
	t.Helper()
	if n := outages(all) - calm; n > 0 {
		t.Logf("Redis was too slow %d times: the bound of an outage applies", n)
		return int(limit) * outageMost / 10
	}
	failed := 0
	for _, r := range all {
		calls := func(outcome string) int { return int(testutil.ToFloat64(r.calls.WithLabelValues(outcome))) }
		failed += calls("failed")
		if busy, late := calls("busy"), calls("late"); busy+late > 0 {
			t.Logf("a replica decided alone: %d requests without a call, %d that waited too long for the call of another", busy, late)
		}
	}
	return int(limit) + failed
}

// outageMost is how many requests the replicas together may admit around an outage, in tenths of the limit.
const outageMost = 13

// TestDenialConsumesNothing: a request that one rule refuses consumes nothing of the other rule, on any replica.
func TestDenialConsumesNothing(t *testing.T) {
	redis := newServer(t)
	all := replicas(t, redis.url(), 2,
		scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 3, Endpoints: []string{"/a"}},
		scheme.Rule{Unit: "calendar_day", Duration: 1, MaxRequests: 10},
	)
	shared(t, all)
	var out engine.Result
	admitted := 0
	for i := range 40 {
		r := all[i%2].request(1)
		r.Path = "/a"
		if all[i%2].Decide(t.Context(), r, &out); out.Allowed {
			admitted++
		} else if out.Blocked != 0 || out.Rules[0].Rule.Text != "3/1h" || out.RetryAfter < 1e6 {
			t.Fatalf("request %d: %+v", i, out.Rules)
		}
	}
	if admitted != 3 {
		t.Fatalf("%d of /a, want 3", admitted)
	}
	rest := 0
	for i := range 40 {
		r := all[i%2].request(1)
		r.Path = "/b"
		if all[i%2].Decide(t.Context(), r, &out); out.Allowed {
			rest++
		}
	}
	if rest > 7 || rest < 5 { // near the end, each of two leases may still have one
		t.Errorf("%d of /b, want the 7 that are left", rest)
	}
}

// TestRedisUnavailable: in whatever way Redis fails and returns, no decision fails or waits longer than one call. The
// replicas together stay near the limit, as far as the load was even, and share again within seconds.
func TestRedisUnavailable(t *testing.T) {
	for name, tc := range map[string]struct {
		away, back func(*server)
		// loses reports whether the counters are lost.
		loses bool
	}{
		"killed and restarted": {(*server).kill, (*server).start, true},
		"paused":               {func(s *server) { s.signal(syscall.SIGSTOP) }, func(s *server) { s.signal(syscall.SIGCONT) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			redis := newServer(t)
			const limit = 3000
			all := replicas(t, redis.url(), 3, scheme.Rule{Unit: "second", Duration: 5, MaxRequests: limit})
			shared(t, all)
			log, slowest, stop := load(all, 2, 1)
			eventually(t, "half is used", func() bool { return log.count() > limit/2 })
			tc.away(redis)
			eventually(t, "every replica noticed", func() bool { return all[0].Degraded() && all[1].Degraded() && all[2].Degraded() })
			bound := max(limit, log.unevenly(len(all), limit)) * outageMost / 10
			began := time.Now()
			eventually(t, "they go on for a window", func() bool { return time.Since(began) > 5*time.Second })
			tc.back(redis)
			returned := time.Now()
			shared(t, all)
			took := time.Since(returned)
			began = time.Now()
			eventually(t, "they share for a window", func() bool { return time.Since(began) > 5*time.Second })
			stop()
			most := log.most(5 * time.Second)
			t.Logf("at most %d in a window of %d (bound %d); sharing again after %v; the slowest decision took %v", most, limit, bound, took, time.Duration(slowest.Load()))
			if most > bound {
				t.Errorf("%d within one window, the limit is %d, and the bound %d", most, limit, bound)
			}
			if time.Duration(slowest.Load()) > time.Second {
				t.Errorf("a decision took %v", time.Duration(slowest.Load()))
			}
		})
	}
}

// TestRedisFlushed: after a flush under load, every replica reports its counts again, so the limit holds immediately.
// The scripts, which the flush deleted too, are loaded again.
func TestRedisFlushed(t *testing.T) {
	redis := newServer(t)
	const limit = 200
	all := replicas(t, redis.url(), 3, scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: limit})
	shared(t, all)
	log, _, stop := load(all, 2, 1)
	eventually(t, "the limit is used up at every replica", func() bool {
		return !slices.ContainsFunc(all, func(r *replica) bool { return !r.usedUp(1) })
	})
	redis.do("FLUSHALL")
	redis.do("SCRIPT", "FLUSH")
	mark := all[0].outage.Load()
	eventually(t, "every replica noticed", func() bool { return all[0].outage.Load() > mark })
	shared(t, all)
	before := log.count()
	began := time.Now()
	eventually(t, "they go on for a while", func() bool { return time.Since(began) > time.Second })
	stop()
	t.Logf("%d of %d, %d of them before all replicas had reported", log.count(), limit, before)
	if after := log.count(); after > max(before, limit) {
		t.Errorf("%d were admitted after all replicas had reported %d of %d", after-before, before, limit)
	}
	if before > limit*3/2 { // the most that three replicas can lease in the quarter of a second before they notice
		t.Errorf("%d of %d before all replicas had reported", before, limit)
	}
}

// TestRedisCluster: one call uses one slot, whatever the schemes, because a cluster refuses all other calls.
func TestRedisCluster(t *testing.T) {
	redis := newServer(t, "--cluster-enabled", "yes")
	redis.do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	all := replicas(t, redis.url(), 2)
	for _, r := range all {
		r.scheme.Replace([]scheme.Rule{
			{Unit: "hour", Duration: 1, MaxRequests: 30}, {Unit: "calendar_month", Duration: 1, MaxRequests: 40, Mode: "per_app"},
			{Unit: "day", Duration: 1, MaxRequests: 50, Mode: "per_app_and_ip"},
		})
	}
	shared(t, all)
	var out engine.Result
	admitted := 0
	for i := range 200 {
		r := all[i%2]
		request := r.request(uint64(i % 3))
		request.AppScheme = r.engine.Scheme(8, []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 20, Mode: "per_app"}})
		if r.Decide(t.Context(), request, &out); out.Allowed {
			admitted++
		}
		if len(out.Rules) != 4 {
			t.Fatalf("request %d: %d rules", i, len(out.Rules))
		}
	}
	for _, r := range all {
		if failed := testutil.ToFloat64(r.calls.WithLabelValues("failed")); failed > 0 || r.Degraded() {
			t.Fatalf("%v calls failed", failed)
		}
	}
	if admitted < 17 || admitted > 20 { // the last tokens may be leased to the replica that needs none
		t.Errorf("%d were admitted, want the app's 20", admitted)
	}
}

// TestCounterOutlivesItsWindow: most calls do not set the life of a counter's key again, and the key still lives until
// its newest cell has left the window.
func TestCounterOutlivesItsWindow(t *testing.T) {
	redis := newServer(t)
	const cells = 66
	cell := 2*time.Second/63 + time.Microsecond // rounded up
	all := replicas(t, redis.url(), 1, scheme.Rule{Unit: "second", Duration: 2, MaxRequests: 1000})
	shared(t, all)
	client := redis.client()
	t.Cleanup(client.Close)
	granted := func() float64 { return testutil.ToFloat64(all[0].calls.WithLabelValues("granted")) }
	var out engine.Result
	checked := 0
	for tries := 0; checked < 300; tries++ {
		if tries == 3000 {
			t.Fatalf("only %d counters were checked: %v", checked, redis.keys())
		}
		before, calls := time.Now(), granted()
		all[0].Decide(t.Context(), all[0].request(5), &out)
		if granted() == calls { // Redis was too slow, so the request was decided without it
			continue
		}
		for _, key := range redis.keys() {
			if strings.Count(key, ":") != 2 || strings.Contains(key, "nodes") { // a mark, or no counter
				continue
			}
			lives, err := client.Do(t.Context(), client.B().Pttl().Key(key).Build()).AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			checked++
			if left := time.Duration(lives)*time.Millisecond + time.Since(before); left < cells*cell {
				t.Fatalf("the counter lives for %v after a request, its cell leaves the window after at most %v", left, cells*cell)
			}
		}
	}
}

// Whatever the value of one counter in Redis is, there is no outage, and the counter starts again.
func TestDamagedCounterIsNoOutage(t *testing.T) {
	redis := newServer(t)
	all := replicas(t, redis.url(), 1, scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: 5}, scheme.Rule{Unit: "calendar_day", Duration: 1, MaxRequests: 1000})
	shared(t, all)
	decide := func(key uint64) bool {
		var out engine.Result
		all[0].Decide(t.Context(), all[0].request(key), &out)
		return out.Allowed
	}
	damage := map[string]func(key string) []string{
		"garbage": func(key string) []string { return []string{"SET", key, "garbage"} },
		"a list":  func(key string) []string { return []string{"LPUSH", key, "x"} },
		"nan":     func(key string) []string { return []string{"SET", key, "nan"} },
		"bytes":   func(key string) []string { return []string{"SET", key, strings.Repeat("\xff", 280)} },
	}
	subject := uint64(100)
	for name, command := range damage {
		subject++
		if !decide(subject) {
			t.Fatalf("%s: the first request is refused", name)
		}
		for _, key := range redis.keys() {
			if strings.Contains(key, "nodes") {
				continue
			}
			redis.do("DEL", key)
			redis.do(command(key)...)
		}
		allowed := 0
		for range 40 {
			if decide(subject) {
				allowed++
			}
		}
		if all[0].Degraded() {
			t.Errorf("%s: a damaged counter began an outage", name)
		}
		if allowed > 5 {
			t.Errorf("%s: %d allowed of a limit of 5", name, allowed)
		}
	}
}

func TestOnlyUnservingRedisIsAnOutage(t *testing.T) {
	redis := newServer(t)
	client := redis.client()
	t.Cleanup(client.Close)
	script := func(text string) error {
		return client.Do(t.Context(), client.B().Arbitrary("EVAL", text, "0").Build()).Error()
	}
	for text, refused := range map[string]bool{
		"return redis.error_reply('LOADING x')": false, "return redis.error_reply('OOM x')": false, "return redis.error_reply('WRONGTYPE x')": true, "return 1 + nil": true,
	} {
		if err := script(text); err == nil || refusedCall(err) != refused {
			t.Errorf("%s: %v, a refused call: %t", text, err, !refused)
		}
	}
	if refusedCall(context.DeadlineExceeded) {
		t.Error("a call that was not answered is a refused one")
	}
}

// keys returns all keys of the Redis.
func (s *server) keys() []string {
	s.t.Helper()
	client := s.client()
	defer client.Close()
	keys, err := client.Do(s.t.Context(), client.B().Arbitrary("KEYS", "*").Build()).AsStrSlice()
	if err != nil {
		s.t.Fatal(err)
	}
	return keys
}
