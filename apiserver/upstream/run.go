package upstream

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

const (
	// runEvery is the interval at which changes of connections are followed, and due checks begin.
	runEvery = 500 * time.Millisecond
	// againAfter is when a check is repeated that could not read the store, or got no slot.
	againAfter = 10 * time.Second
	// leasedAfter is when a check looks for what another server fetches.
	leasedAfter = 2 * time.Second
	// sweepEvery is the interval at which unused documents leave the cache.
	sweepEvery = time.Hour
)

// Run fetches the documents of declared connections before a sign-in needs them, until ctx ends. Every server runs it:
// a lease of the store lets one of them fetch. When it returns, no document is fetched any more, for sign-ins neither.
func (p *Providers) Run(ctx context.Context) error {
	defer p.web.closeIdle()
	defer p.end()
	select {
	case <-ctx.Done():
		return nil
	case <-p.Snapshots.Loaded():
	}
	var checks sync.WaitGroup
	defer checks.Wait()
	type ended struct {
		*check
		since time.Time
		checked
	}
	results := make(chan ended, checksAtOnce)
	plan, followed, swept := newPlan(delay), (*snapshot.Snapshot)(nil), p.Clock()
	timer := time.NewTicker(runEvery)
	defer timer.Stop()
	for {
		now := p.Clock()
		if current := p.Snapshots.Current(); current != followed {
			for _, deleted := range plan.follow(current, now) {
				p.metrics.forget(deleted)
			}
			followed = current
		}
		for _, c := range plan.take(now) {
			of, since := c.Connection, c.since
			checks.Go(func() { results <- ended{c, since, p.check(ctx, of, since)} })
		}
		if now.Sub(swept) >= sweepEvery {
			p.documents.cache.DropUnused(now.Add(-keepUnused))
			swept = now
		}
		select {
		case <-ctx.Done():
			return nil
		case r := <-results:
			plan.end(r.check, r.since, r.next)
			if r.saml != nil && plan.has(r.check) {
				p.metrics.expires(r.Connection, r.saml)
			}
		case <-timer.C:
		}
	}
}

// delay returns a random duration below another one.
func delay(most time.Duration) time.Duration { return rand.N(max(most, 1)) }

// checked is the result of a check: when it is due again, and the metadata of a provider of SAML, nil if there are none
// to use.
type checked struct {
	next time.Time
	saml *saml.Metadata
}

// check fetches the documents of a connection that are due. since is when its provider changed, if that is known.
func (p *Providers) check(ctx context.Context, c Connection, since time.Time) checked {
	if c.Connection.SAML != nil {
		src := samlSource(c.Connection)
		v, at := p.checkDocument(ctx, c, src, since)
		if !v.usable(src, p.Clock()) {
			return checked{next: at}
		}
		return checked{next: at, saml: v.content.saml}
	}
	metadata, found := declared(c.Connection)
	next := time.Time{}
	if !found {
		src := discovery(c.Connection)
		v, at := p.checkDocument(ctx, c, src, since)
		if !v.usable(src, p.Clock()) {
			return checked{next: at}
		}
		metadata, next = *v.content.metadata, at
	}
	_, at := p.checkDocument(ctx, c, keys(metadata), since)
	if next.IsZero() {
		return checked{next: at}
	}
	return checked{next: earlier(next, at)}
}

// checkDocument fetches a document if that is due, and returns when it is due again, with a random delay: several
// servers would else ask the store, and retries the provider, in step.
func (p *Providers) checkDocument(ctx context.Context, c Connection, src source, since time.Time) (version, time.Time) {
	v, err := p.documents.wait(ctx, c, src, wish{periodic: true, since: since})
	now := p.Clock()
	if err != nil {
		return version{}, now.Add(againAfter + delay(againAfter))
	}
	due := v.due(src, now)
	if v.leasedUntil.After(now) || due.Before(now) {
		due = now.Add(leasedAfter)
	}
	return v, due.Add(delay(due.Sub(now) / 10))
}
