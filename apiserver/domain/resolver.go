package domain

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// lookupWithin bounds a lookup, with its retries.
const lookupWithin = 5 * time.Second

// lookups are the bounds of lookups. Those of the worker have no network: it leaves some slots of a deployment to the
// requests of members (worker.go).
var lookups = egress.Bounds{AtOnce: 64, DeploymentAtOnce: 4, SourceAtOnce: 2, DeploymentPerMinute: 600, SourcePerMinute: 60}

// ErrBusy means that a lookup did not begin, because its deployment or network has too many.
var ErrBusy = errors.New("too many domains are being looked up")

// throttled is the outcome in metrics of a lookup that was refused.
const throttled = "throttled"

// Resolver looks records up. It is safe for concurrent use.
type Resolver struct {
	dns    *net.Resolver
	slots  *egress.Slots
	clock  func() time.Time
	checks *prometheus.CounterVec
	within time.Duration
	// exhausted counts lookups that were refused.
	exhausted atomic.Uint64
}

// NewResolver returns a Resolver, and registers its metrics. server is the host:port of a recursive DNS server, "" for
// those of the system.
func NewResolver(server string, clock func() time.Time, registry prometheus.Registerer) *Resolver {
	r := &Resolver{dns: &net.Resolver{PreferGo: true}, slots: egress.NewSlots(lookups, clock), clock: clock, within: lookupWithin}
	if server != "" {
		r.dns.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server)
		}
	}
	r.checks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_domain_checks_total",
		Help: "Lookups of the records of organizations' domains by outcome (found, taken, other_value, no_record, timeout, server_failure), and those that were refused (throttled).",
	}, []string{"outcome"})
	registry.MustRegister(r.checks)
	for _, outcome := range outcomes { // a rate needs the sample before the first lookup
		r.checks.WithLabelValues(string(outcome))
	}
	r.checks.WithLabelValues(throttled)
	return r
}

// LookUp looks the record of a domain up. An answer that does not show whether there is a record is no error. Errors:
// ErrBusy, or that of ctx.
func (r *Resolver) LookUp(ctx context.Context, of egress.Asker, name string) (Answer, error) {
	done, err := r.turn(ctx, of)
	if err != nil {
		return Answer{}, err
	}
	defer done()
	looking, stop := context.WithTimeout(ctx, r.within)
	defer stop()
	// The dot at the end keeps the resolver from trying the search domains of the system.
	texts, err := r.dns.LookupTXT(looking, RecordName(name)+".")
	if err != nil && ctx.Err() != nil {
		return Answer{}, ctx.Err()
	}
	a := Answer{Texts: texts, Failure: failure(err), At: r.clock().UTC().Truncate(time.Microsecond)}
	if a.Failure != "" {
		a.Texts = nil
	}
	return a, nil
}

// turn waits for a slot as long as a lookup may take.
func (r *Resolver) turn(ctx context.Context, of egress.Asker) (done func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, r.within)
	defer cancel()
	if done, err = r.slots.Begin(waiting, of); err == nil {
		return done, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.exhausted.Add(1)
	r.checks.WithLabelValues(throttled).Inc()
	return nil, ErrBusy
}

// failure returns the failure of a lookup, "" if there is a record, no such name, or no TXT record of the name.
func failure(err error) Outcome {
	var of *net.DNSError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &of) && of.IsNotFound:
		return ""
	case errors.As(err, &of) && of.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		return OutcomeTimeout
	}
	return OutcomeServerFailure
}

// Exhausted returns how many lookups were refused because their deployment or network had too many.
func (r *Resolver) Exhausted() uint64 { return r.exhausted.Load() }

// Count counts the outcome of a lookup.
func (r *Resolver) Count(outcome Outcome) { r.checks.WithLabelValues(string(outcome)).Inc() }
