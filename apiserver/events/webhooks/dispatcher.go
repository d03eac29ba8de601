// Package webhooks sends the numbered events of deployments to their WebhookEndpoints: signed, in the order of each
// subject, and again until the receiver accepts them. Each endpoint is served by the server that has its lease. It
// writes the deliveries with their results, and moves the endpoint's position in the same transaction, so that no event
// is lost, whatever ends.
package webhooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/tokensigner"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// lookEvery is the pause between two looks for due endpoints.
	lookEvery = 250 * time.Millisecond
	// runnersMost bounds the endpoints that one server sends to at the same time, and runnersOfDeployment those of one
	// deployment. The last quarter is for deployments with less than runnersFew.
	runnersMost, runnersOfDeployment, runnersFew = 512, 128, 32
	// slotsMost bounds the open requests of one server, deploymentSlots those of one deployment. Endpoints that may not
	// respond share unprovenSlots of them, a deployment's unprovenOfDeployment.
	slotsMost, deploymentSlots          = 256, 64
	unprovenSlots, unprovenOfDeployment = 64, 16
	// listed is how many states one query lists.
	listed = 500
)

// Options configures a Dispatcher.
type Options struct {
	Store     people.Store
	Snapshots *snapshot.Follower
	// Keyring opens secrets and headers, and Signer the deployments' keys.
	Keyring *seal.Keyring
	Signer  *tokensigner.Signer
	Egress  *egress.Policy
	// Server names this server in leases.
	Server string
	// Version is Cardea's version, for the User-Agent.
	Version string
	Clock   func() time.Time
	Log     logr.Logger
	// OnEnqueue is called after mails were put into the outbox; nil: nothing is.
	OnEnqueue func()
	// Registry gets the metrics; nil: none does.
	Registry prometheus.Registerer
}

// Dispatcher sends to the endpoints of all deployments, together with the dispatchers of other servers.
type Dispatcher struct {
	Options
	client  *client
	metrics *metrics
	slots   *egress.Slots
	// unproven are the slots that endpoints need in addition that may not respond.
	unproven *egress.Slots
	// tests are those of tests.
	tests   *egress.Slots
	workers *workers

	wake chan struct{}
	mu   sync.Mutex
	// running are the endpoints that this server sends to.
	running map[key]*runner
	// count is how many of them each deployment has.
	count map[string]int
	// held counts the events that they hold.
	held *holdings
	// short has the deployments of which endpoints waited for a runner at the last look, and crowded reports that some
	// waited for one of any deployment.
	short   map[string]bool
	crowded bool
	ended   sync.WaitGroup
	// removals has endpoints whose rows are to be deleted. again triggers a comparison.
	removals *removals
	again    chan struct{}
}

// key is an endpoint of a deployment.
type key struct {
	deployment string
	endpoint   int64
}

// New returns a dispatcher. Run starts it.
func New(opts Options) *Dispatcher {
	return &Dispatcher{
		Options: opts, client: newClient(opts.Egress), metrics: newMetrics(opts.Registry, opts.Clock), wake: make(chan struct{}, 1), running: map[key]*runner{}, count: map[string]int{}, held: newHoldings(), removals: newRemovals(), again: make(chan struct{}, 1),
		slots:    egress.NewSlots(egress.Bounds{AtOnce: slotsMost, DeploymentAtOnce: deploymentSlots}, opts.Clock),
		unproven: egress.NewSlots(egress.Bounds{AtOnce: unprovenSlots, DeploymentAtOnce: unprovenOfDeployment}, opts.Clock),
		tests:    egress.NewSlots(testBounds, opts.Clock),
		workers:  newWorkers(),
	}
}

// Wake lets the dispatcher look for events now, and for those of a deployment the endpoints that this server sends to.
// "" is an unknown deployment.
func (d *Dispatcher) Wake(deployment string) {
	d.mu.Lock()
	for k, r := range d.running {
		if k.deployment == deployment {
			r.look()
		}
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends. It logs failures and tries again.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.client.close()
	defer d.workers.end()
	defer d.ended.Wait()
	d.ended.Go(func() { d.removeEnded(ctx) })
	select {
	case <-ctx.Done():
		return nil
	case <-d.Snapshots.Loaded():
	}
	d.ended.Go(func() { d.compareAll(ctx) })
	failing := false
	for {
		err := d.look(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			d.Log.Error(err, "Webhook endpoints were not read; trying again until it succeeds")
		}
		failing = err != nil
		timer := time.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-d.wake:
			timer.Stop()
		}
	}
}

// look starts runners for due endpoints.
func (d *Dispatcher) look(ctx context.Context) error {
	due, err := d.Store.DueWebhooks(ctx, d.Clock(), runnersOfDeployment, listed)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.short, d.crowded = map[string]bool{}, false
	for _, ref := range due {
		k := key{ref.Deployment, ref.Endpoint}
		switch own := d.count[k.deployment]; {
		case d.running[k] != nil:
			continue
		case own >= runnersOfDeployment:
			d.short[k.deployment] = true
			continue
		case len(d.running) >= shares.WithoutReserve(runnersMost, own, runnersFew):
			d.crowded = true
			continue
		}
		r := newRunner(d, k)
		d.running[k] = r
		d.count[k.deployment]++
		d.ended.Go(func() {
			r.run(ctx)
			d.mu.Lock()
			delete(d.running, k)
			if d.count[k.deployment]--; d.count[k.deployment] == 0 {
				delete(d.count, k.deployment)
			}
			d.mu.Unlock()
		})
	}
	return nil
}

// waited reports whether endpoints of a deployment, or of all, waited for a runner at the last look.
func (d *Dispatcher) waited(deployment string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.crowded || d.short[deployment]
}

// served returns a declared endpoint that events are sent to, nil if there is none.
func (d *Dispatcher) served(k key) (*snapshot.Entry, *document.WebhookEndpoint) {
	return servedIn(d.Snapshots.Current(), k)
}

// servedIn is served by a snapshot.
func servedIn(current *snapshot.Snapshot, k key) (*snapshot.Entry, *document.WebhookEndpoint) {
	e, found := current.ByID(v1alpha1.KindWebhookEndpoint, k.deployment, k.endpoint)
	if !found {
		return nil, nil
	}
	content := snapshot.ContentOf[document.WebhookEndpoint](e)
	if _, found := current.Deployment(k.deployment); !found || !content.Active || content.Incomplete {
		return nil, nil
	}
	return e, content
}

// targetOf is the digest of an endpoint's URL.
func targetOf(content *document.WebhookEndpoint) string {
	digest := sha256.Sum256([]byte(content.URL))
	return hex.EncodeToString(digest[:16])
}
