package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"golang.org/x/time/rate"

	"github.com/cardea-iam/cardea/test/testkit"
)

// fleet distributes requests to servers in turn, as a Service does. Before a server ends, it is removed from the fleet
// and finishes the requests under way, as the preStop hook of config/server provides.
type fleet struct {
	mu      sync.Mutex
	servers []*testkit.Cardea
	turn    int
	asked   map[*testkit.Cardea]int // requests under way
}

func newFleet(servers ...*testkit.Cardea) *fleet {
	return &fleet{servers: servers, asked: map[*testkit.Cardea]int{}}
}

// use calls ask with the next server of the fleet.
func (f *fleet) use(ask func(*testkit.Cardea)) {
	f.mu.Lock()
	f.turn++
	server := f.servers[f.turn%len(f.servers)]
	f.asked[server]++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.asked[server]--
		f.mu.Unlock()
	}()
	ask(server)
}

// replace replaces a server with another.
func (f *fleet) replace(old, by *testkit.Cardea) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, server := range f.servers {
		if server == old {
			f.servers[i] = by
		}
	}
}

// idle reports whether a server has no request under way.
func (f *fleet) idle(server *testkit.Cardea) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.asked[server] == 0
	}
}

// journal records the responses that a load received.
type journal struct {
	mu sync.Mutex
	// reads and writes count the expected responses; faults describes all other responses.
	reads, writes int
	faults        []string
	// schemes and people are the slugs of acknowledged schemes and the emails of acknowledged users.
	schemes, people []string
}

func (j *journal) read(what string, status int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil && status == http.StatusOK {
		j.reads++
		return
	}
	j.faults = append(j.faults, fmt.Sprintf("%s: %s: status %d, %v", time.Now().Format(time.StampMilli), what, status, err))
}

func (j *journal) wrote(what string, status int, err error, acknowledge func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil && status == http.StatusOK {
		j.writes++
		acknowledge()
		return
	}
	j.faults = append(j.faults, fmt.Sprintf("%s: %s: status %d, %v", time.Now().Format(time.StampMilli), what, status, err))
}

// progress returns how many reads and writes succeeded.
func (j *journal) progress() (reads, writes int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.reads, j.writes
}

// seen returns the faults so far.
func (j *journal) seen() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.faults)
}

// load sends requests to a fleet until its context ends: a backend reads and declares schemes, signed-in users read
// their sessions, and new users sign up.
type load struct {
	*fleet
	*journal
	key   string
	group sync.WaitGroup
}

// repeat calls do at a rate per second until the context ends. A call that has begun is finished.
func (l *load) repeat(ctx context.Context, perSecond rate.Limit, do func(n int)) {
	l.group.Go(func() {
		defer GinkgoRecover()
		pace := rate.NewLimiter(perSecond, 1)
		for n := 0; pace.Wait(ctx) == nil; n++ {
			do(n)
		}
	})
}

// backend reads the schemes with the key, and creates schemes.
func (l *load) backend(ctx context.Context) {
	l.repeat(ctx, 100, func(int) {
		l.use(func(server *testkit.Cardea) {
			answer, err := testkit.Do("GET", server.Backend+schemesPath, l.key, "")
			l.read("schemes", answer.Status, err)
		})
	})
	l.repeat(ctx, 5, func(n int) {
		slug := fmt.Sprintf("drill-%d", n)
		body := fmt.Sprintf(`{"slug": %q, "name": %q, "rules": [{"unit": "minute", "duration": 1, "max_requests": %d}]}`, slug, slug, n+1)
		l.use(func(server *testkit.Cardea) {
			answer, err := testkit.Do("POST", server.Backend+schemesPath, l.key, body)
			l.wrote("scheme "+slug, answer.Status, err, func() { l.schemes = append(l.schemes, slug) })
		})
	})
}

// session reads a person's session.
func (l *load) session(ctx context.Context, person *visitor) {
	l.repeat(ctx, 50, func(int) {
		l.use(func(server *testkit.Cardea) {
			answer, err := person.at(server).send("GET", "/session", "")
			l.read("session of "+person.email, answer.Status, err)
		})
	})
}

// signUps signs users up; each step may go to another server.
func (l *load) signUps(ctx context.Context, next func() *visitor) {
	l.repeat(ctx, 1, func(int) { // emails for unknown clients of one network are limited
		person := next()
		l.use(func(server *testkit.Cardea) {
			tab := person.at(server)
			begun, err := tab.send("POST", "/auth/signup", fmt.Sprintf(`{"email": %q, "password": %q}`, person.email, visitorPassword))
			if err == nil && begun.Status == http.StatusOK && len(begun.Session.SignUpAttempts) == 0 {
				err = errors.New("no attempt was begun")
			}
			l.wrote("sign-up of "+person.email, begun.Status, err, func() { person.attempt = begun.Session.SignUpAttempts[0].ID })
		})
		if person.attempt == "" {
			return
		}
		code, err := person.await()
		l.use(func(server *testkit.Cardea) {
			var done reply
			if err == nil {
				done, err = person.at(server).send("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id": %q, "code": %q}`, person.attempt, code))
			}
			l.wrote("verification of "+person.email, done.Status, err, func() { l.people = append(l.people, person.email) })
		})
	})
}
