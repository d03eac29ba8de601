package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

const (
	costCallers = 4
	costLength  = 3 * time.Second
)

// cost is what one request costs.
type cost struct {
	// server and database are processor time.
	server, database time.Duration
	// wal is bytes of PostgreSQL's write-ahead log.
	wal                 int64
	statements, commits int
}

// TestBenchCosts measures the processor time of requests by process: this one, with the handler and the driver, and
// PostgreSQL. docs/scale.md derives sizes from it. Requests have no sockets, except for calls of agents' tools.
func TestBenchCosts(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for a minute")
	}
	t.Run("users", func(t *testing.T) {
		w := newStrongWorld(t, "PostgreSQL")
		w.cost(t, "GET /session", func(i int) { w.getSession(t, w.persons[i]) })
		w.cost(t, "POST /session/token", func(i int) {
			if code := w.ask(w.persons[i], "POST", "/session/token", `{}`).Code; code != http.StatusOK {
				t.Errorf("a token: %d", code)
			}
		})
		w.cost(t, "record of a session's use, once a minute", func(i int) { w.touch(t, w.persons[i]) })
		w.cost(t, "switch-organization", func(i int) { w.switchOrganization(t, w.persons[i]) })
		bodies := w.assertions(t, 6000)
		var next atomic.Int64
		w.cost(t, "sign-in by passkey", func(int) {
			n := int(next.Add(1))
			if n > len(bodies) {
				t.Error("there were not enough assertions")
				return
			}
			w.signIn(t, bodies[n-1])
		})
		w.cost(t, "sign-in by password", func(i int) {
			w.do(t, &person{}, "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"user%d@example.com","password":%q}`, i%people8, benchPassword))
		})
	})
	t.Run("oauth", func(t *testing.T) {
		w := newOAuthWorld(t, "PostgreSQL")
		w.prepareCodes(t)
		w.cost(t, "token by code", func(i int) { w.redeem(t, w.persons[i]) })
		w.cost(t, "token by refresh", func(i int) { w.refreshToken(t, w.persons[i]) })
		w.cost(t, "introspection", func(i int) { w.post(t, "/introspect", url.Values{"token": {w.access[w.persons[i]]}}) })
		w.cost(t, "token by client_credentials", func(int) { w.post(t, "/token", url.Values{"grant_type": {"client_credentials"}}) })
	})
	t.Run("agents", func(t *testing.T) {
		w := newAgentsWorld(t, "PostgreSQL")
		// A direct request is the part of the client and of the API.
		direct := w.asking(t, w.upstream.URL, "/orders", `{"number":"1007"}`, costCallers)
		for _, of := range []struct {
			what string
			ask  func(ctx context.Context, caller int) error
		}{
			{"a request to the API", direct},
			{"call of a tool that reads, with such a request", w.calling(t, "find-order", `{"number":"1007"}`, costCallers)},
			{"call of a tool that writes, with such a request", w.calling(t, "change-order", `{"number":"1007"}`, costCallers)},
		} {
			w.cost(t, of.what, func(i int) { check(t, of.ask(t.Context(), i)) })
		}
	})
	row("load average then", "-", "%s", loadAverage())
}

// touch runs the transaction that records the use of a session.
func (w *strongWorld) touch(t *testing.T, p *person) {
	hash, _ := session.Hash(p.cookie)
	check(t, w.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error {
		s, _, err := tx.Sessions().LockSession(hash)
		if err != nil {
			return err
		}
		s.UsedAt = time.Now()
		return tx.Sessions().UpdateSession(s)
	}))
}

// cost repeats a request by costCallers concurrent callers and prints what one costs.
func (w *peopleWorld) cost(t *testing.T, what string, request func(caller int)) cost {
	t.Helper()
	for i := range 10 * costCallers { // connections, prepared statements, caches
		request(i % costCallers)
	}
	_, err := w.write.ExecContext(t.Context(), "ANALYZE")
	check(t, err)
	var c cost
	for _, s := range w.recording.of(func() { request(0) }) {
		switch s.query {
		case "COMMIT":
			c.commits++
		case "BEGIN":
		default:
			c.statements++
		}
	}
	own, database, wal := ownTime(t), databaseTime(t), w.wal(t)
	var done atomic.Int64
	var group sync.WaitGroup
	begin := time.Now()
	for i := range costCallers {
		group.Go(func() {
			for time.Since(begin) < costLength {
				request(i)
				done.Add(1)
			}
		})
	}
	group.Wait()
	n := done.Load()
	c.wal = (w.wal(t) - wal) / n
	c.server, c.database = (ownTime(t)-own)/time.Duration(n), (databaseTime(t)-database)/time.Duration(n)
	row(what+": processor time of the server, of PostgreSQL; statements; commits; bytes of WAL", "-", "%d µs, %d µs; %d; %d; %d (%d requests)",
		c.server.Microseconds(), c.database.Microseconds(), c.statements, c.commits, c.wal, n)
	return c
}

// wal returns the position of PostgreSQL's write-ahead log, in bytes.
func (w *peopleWorld) wal(t *testing.T) (position int64) {
	t.Helper()
	check(t, w.write.QueryRowContext(t.Context(), "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").Scan(&position))
	return position
}

// ownTime returns the processor time of this process.
func ownTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// databaseTime returns the processor time of PostgreSQL's processes that still run.
func databaseTime(t *testing.T) time.Duration {
	t.Helper()
	server, err := pgtest.Shared()
	check(t, err)
	sum := time.Duration(0)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", server.Pid()))
	check(t, err)
	for _, child := range append(strings.Fields(string(children)), strconv.Itoa(server.Pid())) {
		pid, err := strconv.Atoi(child)
		check(t, err)
		sum += cpuTime(t, pid)
	}
	return sum
}
