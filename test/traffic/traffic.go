// Package traffic is the normal traffic of tenants: sign-ins, sessions, decisions, tokens, mails, management and the
// calls of agents, each as its client sends it. Tests run it beside what they do to an install.
package traffic

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cardea-iam/cardea/test/testkit"
)

// Sample is one request of a tenant's normal traffic.
type Sample struct {
	Kind  string
	Begun time.Time
	Took  time.Duration
	Fault error
}

// Traffic is the normal traffic of tenants. It records how each request ended. The zero Traffic has no requests.
type Traffic struct {
	group   sync.WaitGroup
	mu      sync.Mutex
	samples []Sample
}

// Between returns the requests that began between two times.
func (tr *Traffic) Between(from, to time.Time) (found []Sample) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, s := range tr.samples {
		if !s.Begun.Before(from) && s.Begun.Before(to) {
			found = append(found, s)
		}
	}
	return found
}

// Take returns the requests that ended since the last Take, and forgets them.
func (tr *Traffic) Take() []Sample {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	taken := tr.samples
	tr.samples = nil
	return taken
}

// Wait waits until every request has ended. The context of Start must have ended.
func (tr *Traffic) Wait() { tr.group.Wait() }

// Fewest is the smallest number of requests of a kind of which Slowest returns a time.
const Fewest = 100

// Slowest returns the 99th percentile of the times of each kind of requests that succeeded, if there are enough.
func Slowest(samples []Sample) map[string]time.Duration {
	took := map[string][]time.Duration{}
	for _, s := range samples {
		if s.Fault == nil {
			took[s.Kind] = append(took[s.Kind], s.Took)
		}
	}
	found := map[string]time.Duration{}
	for kind, times := range took {
		if len(times) >= Fewest {
			slices.Sort(times)
			found[kind] = times[len(times)*99/100]
		}
	}
	return found
}

// repeat sends requests of a kind at a rate per second until the context ends. A request that has begun is finished.
func (tr *Traffic) repeat(ctx context.Context, kind string, perSecond rate.Limit, send func(n int) error) {
	tr.group.Go(func() {
		pace := rate.NewLimiter(perSecond, 1)
		for n := 0; pace.Wait(ctx) == nil; n++ {
			s := Sample{Kind: kind, Begun: time.Now()}
			s.Fault = send(n)
			s.Took = time.Since(s.Begun)
			tr.mu.Lock()
			tr.samples = append(tr.samples, s)
			tr.mu.Unlock()
		}
	})
}

// Start starts the requests of a tenant's users, applications, gateways and agents, about 60 a second, until ctx ends.
func (tr *Traffic) Start(ctx context.Context, t *Tenant) error {
	account, err := t.ServiceAccountToken(ctx)
	if err != nil {
		return err
	}
	made, err := testkit.Do(http.MethodPost, t.Server().Backend+"/api-auth/rate-limit-schemes", t.Key, Scheme("changing", 1))
	if err := testkit.Fault(made, err); err != nil {
		return err
	}
	stays, comes := t.People[0], t.People[1:]
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
	tr.repeat(ctx, "mail", 0.5, func(int) error { return t.SignUp(t.Newcomer()) })
	tr.repeat(ctx, "management", 2, func(n int) error {
		return testkit.Fault(testkit.Do(http.MethodPatch, t.Server().Backend+"/api-auth/rate-limit-schemes/changing", t.Key, Scheme("", n+2)))
	})
	tr.repeat(ctx, "key", 1, t.IssueKey)
	tr.repeat(ctx, "service account", 2, func(int) error {
		return testkit.Fault(testkit.Do(http.MethodGet, t.Server().Backend+"/users", account, ""))
	})
	return tr.startAgents(ctx, t)
}

// Scheme returns the request body of a rate-limit scheme. A change has no slug.
func Scheme(slug string, limit int) string {
	named := ""
	if slug != "" {
		named = fmt.Sprintf(`"slug": %q, "name": %q, `, slug, slug)
	}
	return fmt.Sprintf(`{%s"rules": [{"unit": "day", "duration": 1, "max_requests": %d}]}`, named, limit)
}
