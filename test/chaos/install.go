// Package chaos kills, freezes and stops the processes of an install at random, under load, and checks that no
// acknowledged write is lost.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/test/testkit"
)

// host is the frontend host where the tenant's users sign in.
const host = "chaos.localhost"

// install is a complete install: a control plane, PostgreSQL, Redis, two operators and two servers, with a tenant.
type install struct {
	*testkit.Install
	redisPort int
	targets   []*target
	namespace string
	// key is the API key that manages the tenant.
	key string

	mu      sync.Mutex // guards servers, steady and Processes
	servers [2]*testkit.Cardea
	steady  [2]time.Time // when each server became ready; zero: not ready
}

// newInstall starts everything and waits until the tenant is active.
func newInstall(ctx context.Context) (in *install, err error) {
	in = &install{}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close())
		}
	}()
	if in.Install, err = testkit.NewInstall(ctx); err != nil {
		return in, err
	}
	if err = in.StartPostgres(ctx); err != nil {
		return in, err
	}
	if in.redisPort, err = controlplane.FreePort(); err != nil {
		return in, err
	}
	in.targets = in.newTargets()
	for _, t := range in.targets {
		if err := t.start(ctx); err != nil {
			return in, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return in, in.declareTenant(ctx)
}

// close ends everything.
func (in *install) close() (err error) {
	if in.Install != nil {
		err = in.Close()
	}
	return err
}

// server returns one of the two servers at random, like a Service without health checks.
func (in *install) server() *testkit.Cardea {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.servers[rand.IntN(2)]
}

// steadySince returns a server and the time since which it is ready, or nil if it is not ready.
func (in *install) steadySince(i int) (*testkit.Cardea, time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.steady[i].IsZero() {
		return nil, time.Time{}
	}
	return in.servers[i], in.steady[i]
}

// settle records that a server became ready, or that it is no longer ready.
func (in *install) settle(i int, ready bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.steady[i] = time.Time{}
	if ready {
		in.steady[i] = time.Now()
	}
}
