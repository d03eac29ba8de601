// Package ha tests failovers of real PostgreSQL servers: failovers that lose nothing, one that loses acknowledged
// writes, and a host that vanishes without closing its connections. `make ha` runs it.
package ha

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

const schemes = "/api-auth/rate-limit-schemes"

// world is an install over a PostgreSQL primary and its standby.
type world struct {
	*testkit.Tenant
	t       *testing.T
	primary *pgtest.Server
	standby *pgtest.Server
	url     string
}

// newWorld starts an install of two operators and two servers over a primary at a host (nil: loopback) and its standby.
func newWorld(t *testing.T, at *pgtest.Host) *world {
	t.Helper()
	if os.Getenv("CARDEA_HA") == "" {
		t.Skip("takes minutes: make ha")
	}
	w := &world{t: t}
	var err error
	w.primary, err = pgtest.StartAt(t.Context(), at)
	w.must(err)
	t.Cleanup(func() { w.end(w.primary.Stop()) })
	w.must(w.primary.Do(t.Context(), "postgres", "CREATE DATABASE cardea"))
	w.standby, err = w.primary.Standby(t.Context(), nil)
	w.must(err)
	t.Cleanup(func() { w.end(w.standby.Stop()) })
	w.url = fmt.Sprintf("postgres://postgres@%s,%s/cardea?sslmode=disable&target_session_attrs=read-write", w.primary.Address(), w.standby.Address())
	w.install(testkit.Launch{Store: w.url})
	return w
}

// install starts Cardea over a store and declares a tenant.
func (w *world) install(launch testkit.Launch) {
	w.t.Helper()
	in, err := testkit.NewInstall(w.t.Context())
	w.must(err)
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.logTails(in)
		}
		w.end(in.Close())
	})
	launch.Flags = append(launch.Flags, "--trusted-proxies=127.0.0.0/8", "--egress-allowed-cidrs=127.0.0.0/8")
	w.must(in.Start(w.t.Context(), launch, 2, 2))
	w.Tenant, err = in.Declare(w.t.Context(), testkit.TenantOptions{Host: "ha.localhost"})
	w.must(err)
}

// logTails logs the last lines of the logs of Cardea's processes.
func (w *world) logTails(in *testkit.Install) {
	for name, tail := range in.Processes.LogTails(15) {
		w.t.Logf("%s:\n%s", name, tail)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// end reports an error of a cleanup.
func (w *world) end(err error) {
	if err != nil {
		w.t.Error(err)
	}
}

// until waits until an attempt succeeds, and logs how long it took.
func (w *world) until(what string, attempt func() error) {
	w.t.Helper()
	begun := time.Now()
	w.must(testkit.Until(w.t.Context(), what, attempt))
	w.t.Logf("%s: %.1f s", what, time.Since(begun).Seconds())
}

// everywhere returns an attempt that succeeds if the given attempt succeeds at each server.
func (w *world) everywhere(attempt func(*testkit.Cardea) error) func() error {
	return func() (all error) {
		for _, server := range w.Servers {
			all = errors.Join(all, attempt(server))
		}
		return all
	}
}

var asked atomic.Int64

// answers returns an attempt that sends a GET to the backend API and succeeds with a status. Each request comes from
// another address.
func answers(key, path string, status int) func(*testkit.Cardea) error {
	return func(server *testkit.Cardea) error {
		n := asked.Add(1)
		answer, err := testkit.Do(http.MethodGet, server.Backend+path, key, "", [2]string{"X-Forwarded-For", fmt.Sprintf("20.%d.%d.1", n/250%250, n%250)})
		if err == nil && answer.Status != status {
			err = fmt.Errorf("%d, want %d", answer.Status, status)
		}
		return err
	}
}

// addKey declares another key of the tenant's backend, and returns it once every server accepts it.
func (w *world) addKey(name string) (key string) {
	w.t.Helper()
	declared := testkit.Key(w.Namespace, "backend", name, "*")
	w.must(w.Cluster.Client.Create(w.t.Context(), declared))
	w.must(testkit.Until(w.t.Context(), "the key is accepted", func() error {
		key = w.Cluster.APIKey(w.t.Context(), w.Namespace, name)
		return w.everywhere(answers(key, schemes, http.StatusOK))()
	}))
	return key
}

// deleteKey deletes a declared key.
func (w *world) deleteKey(name string) {
	w.t.Helper()
	w.must(w.Cluster.Client.Delete(w.t.Context(), testkit.Key(w.Namespace, "backend", name, "*")))
}

// addScheme creates a scheme over HTTP at a random server, and reports whether the server acknowledged it.
func (w *world) addScheme(slug string) bool {
	body := fmt.Sprintf(`{"slug": %q, "name": %q, "rules": [{"unit": "day", "duration": 1, "max_requests": 5}]}`, slug, slug)
	answer, err := testkit.Do(http.MethodPost, w.Server().Backend+schemes, w.Key, body)
	return err == nil && answer.Status == http.StatusOK
}

// writer creates schemes and accounts until it is ended, and records the acknowledged ones.
type writer struct {
	schemes []string
	people  []*testkit.Visitor
	end     func()
}

func (w *world) write() *writer {
	ctx, cancel := context.WithCancel(w.t.Context())
	done, found := make(chan struct{}), &writer{}
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			if slug := fmt.Sprintf("written-%d", n); w.addScheme(slug) {
				found.schemes = append(found.schemes, slug)
			}
			person := testkit.NewVisitor(w.Host, fmt.Sprintf("person-%d@example.com", n), fmt.Sprintf("30.%d.%d.1", n/250, n%250))
			if w.SignUp(person) == nil {
				found.people = append(found.people, person)
			}
		}
	}()
	found.end = func() { cancel(); <-done }
	return found
}

// expectAll expects every acknowledged scheme at every server, and every acknowledged account to sign in.
func (w *world) expectAll(found *writer) {
	w.t.Helper()
	for _, slug := range found.schemes {
		w.must(testkit.Until(w.t.Context(), slug, w.everywhere(answers(w.Key, schemes+"/"+slug, http.StatusOK))))
	}
	for _, person := range found.people {
		answer, err := person.SignIn(w.Server())
		if err := testkit.Fault(answer, err); err != nil {
			w.t.Errorf("an acknowledged account of %s is lost: %v", person.Email, err)
		}
	}
	w.t.Logf("%d schemes and %d accounts were acknowledged, none is lost", len(found.schemes), len(found.people))
}
