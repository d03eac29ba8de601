package isolation

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/cardea-iam/cardea/test/testkit"
)

// sample is one request of a tenant's normal traffic.
type sample struct {
	kind  string
	begun time.Time
	took  time.Duration
	fault error
}

// traffic is the normal traffic of tenants. It records how each request ended.
type traffic struct {
	group   sync.WaitGroup
	mu      sync.Mutex
	samples []sample
}

// between returns the requests that began between two times.
func (tr *traffic) between(from, to time.Time) (found []sample) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, s := range tr.samples {
		if !s.begun.Before(from) && s.begun.Before(to) {
			found = append(found, s)
		}
	}
	return found
}

// repeat sends requests of a kind at a rate per second until the context ends. A request that has begun is finished.
func (tr *traffic) repeat(ctx context.Context, kind string, perSecond rate.Limit, send func(n int) error) {
	tr.group.Go(func() {
		pace := rate.NewLimiter(perSecond, 1)
		for n := 0; pace.Wait(ctx) == nil; n++ {
			s := sample{kind: kind, begun: time.Now()}
			s.fault = send(n)
			s.took = time.Since(s.begun)
			tr.mu.Lock()
			tr.samples = append(tr.samples, s)
			tr.mu.Unlock()
		}
	})
}

// start starts the requests of a tenant's users, applications and gateways.
func (tr *traffic) start(ctx context.Context, t *tenant) error {
	account, err := t.ServiceAccountToken(ctx)
	if err != nil {
		return err
	}
	made, err := testkit.Do(http.MethodPost, t.Server().Backend+"/api-auth/rate-limit-schemes", t.Key, scheme("changing", 1))
	if err := testkit.Fault(made, err); err != nil {
		return err
	}
	stays, comes := t.people[0], t.people[1:]
	signedOut := map[*testkit.Visitor]bool{}
	tr.repeat(ctx, "session", 10, func(int) error { return testkit.Fault(stays.Send(t.Server(), http.MethodGet, "/me", "")) })
	tr.repeat(ctx, "sign-in", 1, func(n int) error {
		person := comes[n%len(comes)]
		if !signedOut[person] {
			if err := testkit.Fault(person.Send(t.Server(), http.MethodPost, "/session/sign-out", `{}`)); err != nil {
				return fmt.Errorf("sign-out: %w", err)
			}
		}
		err := testkit.Fault(person.SignIn(t.Server()))
		signedOut[person] = err != nil
		return err
	})
	tr.repeat(ctx, "decision", 20, func(int) error { return t.Decide(t.Server()) })
	tr.repeat(ctx, "token", 5, func(int) error { return t.Token(t.Server()) })
	tr.repeat(ctx, "mail", 0.5, func(int) error { return t.SignUp(newcomer(t)) })
	tr.repeat(ctx, "management", 2, func(n int) error {
		return testkit.Fault(testkit.Do(http.MethodPatch, t.Server().Backend+"/api-auth/rate-limit-schemes/changing", t.Key, scheme("", n+2)))
	})
	tr.repeat(ctx, "key", 1, t.IssueKey)
	tr.repeat(ctx, "service account", 2, func(int) error {
		return testkit.Fault(testkit.Do(http.MethodGet, t.Server().Backend+"/users", account, ""))
	})
	return tr.startAgents(ctx, t)
}

var newcomers atomic.Int64

// newcomer returns a visitor of a tenant without an account, in a unique network.
func newcomer(t *tenant) *testkit.Visitor {
	n := int(newcomers.Add(1))
	return testkit.NewVisitor(t.Host, fmt.Sprintf("newcomer-%d@example.com", n), address(2, n))
}

// scheme returns the request body of a rate-limit scheme.
func scheme(slug string, limit int) string {
	named := ""
	if slug != "" {
		named = fmt.Sprintf(`"slug": %q, "name": %q, `, slug, slug)
	}
	return fmt.Sprintf(`{%s"rules": [{"unit": "day", "duration": 1, "max_requests": %d}]}`, named, limit)
}
