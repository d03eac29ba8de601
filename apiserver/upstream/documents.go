package upstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// leaseFor is how long a server may fetch a document alone. It is longer than a fetch.
	leaseFor = requestWithin + 5*time.Second
	// pollEvery is the interval at which a server that needs a document reads whether another server has fetched it.
	pollEvery = 100 * time.Millisecond
	// storeWithin bounds the time of writing the result of a fetch.
	storeWithin = 5 * time.Second
	// readWithin bounds the wait until a fetched document may be read. With it, a fetch ends before its lease.
	readWithin = leaseFor - requestWithin
	// versionBytes is an estimate of the memory of a document besides its content.
	versionBytes = 1 << 10
	// keepUnused is how long an unused document is cached.
	keepUnused = 24 * time.Hour
)

// samlReads bounds the metadata of SAML that are read at a time: their XML occupies a processor.
var samlReads = egress.Bounds{AtOnce: 2, DeploymentAtOnce: 1}

// documentShares bounds the memory of cached documents.
var documentShares = shares.Bounds{Bytes: 8 << 20, DeploymentBytes: 1 << 20}

// ref names a document.
type ref struct {
	deployment string
	connection int64
	kind       string
}

// documents fetches and caches the documents of providers. The store has the last good one of each, so that a server
// that starts needs no provider, and the lease by which one server fetches at a time.
type documents struct {
	store   people.Store
	web     *exchanger
	slots   *egress.Slots
	reads   *egress.Slots
	clock   func() time.Time
	log     logr.Logger
	metrics *metrics
	cache   *shares.Cache[ref, version]
	// onNewCertificates is that of Options.
	onNewCertificates func(ctx context.Context, c Connection, added []*x509.Certificate, store func(people.Tx) (bool, error)) error
	// flights share fetches: by document and what is wanted of it, and by URL.
	flights, fetches singleflight.Group
	// throttled counts the fetches that were refused before they began.
	throttled atomic.Uint64
	// life ends with Run. Then fetches in progress end, without a result.
	life context.Context
}

// get returns a document that satisfies a wish. If there is none, it returns one without the wanted key, or an
// ErrUnavailable if there is no usable one at all. It waits for a fetch at most requestWithin, and only if it has
// nothing to use.
func (d *documents) get(ctx context.Context, c Connection, src source, w wish) (version, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	v, err := d.known(ctx, c, src)
	if err != nil {
		return version{}, err
	}
	now := d.clock()
	if w.satisfied(&v, src, now) {
		return d.refreshed(ctx, c, src, v, w), nil
	}
	if v.usable(src, now) && now.Before(w.fetchAt(&v, src, now)) {
		return v, keyless(&v, src, now, w)
	}
	fetched, err := d.wait(ctx, c, src, w)
	switch now := d.clock(); {
	case err == nil && fetched.usable(src, now):
		return fetched, keyless(&fetched, src, now, w)
	case err == nil:
		return version{}, unavailable(fetched.failure)
	}
	return version{}, err
}

// keyless returns an error if a document does not have the wanted key and its last fetch failed: the provider may have
// published the key meanwhile.
func keyless(v *version, src source, now time.Time, w wish) error {
	if v.failures == 0 || w.satisfied(v, src, now) {
		return nil
	}
	return unavailable(v.failure)
}

// refreshed returns a usable document, and lets it be fetched again if that is due. It waits only if that is long
// overdue, and once: from the first failure on, the last good document is used without waiting.
func (d *documents) refreshed(ctx context.Context, c Connection, src source, v version, w wish) version {
	now := d.clock()
	if now.Before(v.due(src, now)) {
		return v
	}
	result := d.refresh(ctx, c, src, wish{periodic: true})
	if v.failures > 0 || now.Before(v.validUntil.Add(overdueAfter)) {
		return v
	}
	select {
	case r := <-result:
		if fetched, ok := r.Val.(version); ok && r.Err == nil && w.satisfied(&fetched, src, d.clock()) {
			return fetched
		}
	case <-ctx.Done():
	}
	return v
}

// known returns a document from the cache, or else from the store.
func (d *documents) known(ctx context.Context, c Connection, src source) (version, error) {
	if v, found := d.cache.Get(ref{c.Deployment, c.ID, src.kind}, d.clock()); found {
		return v, nil
	}
	return d.load(ctx, c, src)
}

// load reads a document from the store, and caches it.
func (d *documents) load(ctx context.Context, c Connection, src source) (version, error) {
	var row people.UpstreamDocument
	err := d.store.View(ctx, c.Deployment, func(tx people.Tx) (err error) {
		row, _, err = tx.Connections().UpstreamDocument(c.ID, src.kind)
		return err
	})
	if err != nil {
		return version{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	v := versionOf(row)
	url, text, _ := strings.Cut(row.Body, "\n")
	v.url = url
	cached, found := d.cache.Get(ref{c.Deployment, c.ID, src.kind}, d.clock())
	v.tried = cached.tried
	switch {
	case url != src.url:
	case found && cached.url == url && cached.sha256 == v.sha256 && cached.content != content{} && src.fits(cached.content):
		v.content = cached.content
	default:
		v.content, _ = src.parse(text) // what an older version accepted is fetched again
	}
	d.put(c, src, v)
	return v, nil
}

func (d *documents) put(c Connection, src source, v version) {
	size := versionBytes + int64(len(v.url)+len(v.tried)+len(v.failure)) + v.content.bytes()
	d.cache.Put(c.Deployment, ref{c.Deployment, c.ID, src.kind}, v, size, d.clock())
}

// wait is refresh, and returns its result or an ErrUnavailable when ctx ends.
func (d *documents) wait(ctx context.Context, c Connection, src source, w wish) (version, error) {
	select {
	case r := <-d.refresh(ctx, c, src, w):
		if r.Err != nil {
			return version{}, r.Err
		}
		return r.Val.(version), nil
	case <-ctx.Done():
		return version{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// refresh reads a document from the store and, if the wish requires it, fetches it. Callers with the same wish share
// one refresh, so it goes on when one of them leaves.
func (d *documents) refresh(ctx context.Context, c Connection, src source, w wish) <-chan singleflight.Result {
	ctx = context.WithoutCancel(ctx)
	of := strings.Join([]string{c.Deployment, ids.Format(c.ID), src.kind, src.url, fmt.Sprint(w.periodic), w.issuer, w.keyID}, "\n")
	return d.flights.DoChan(of, func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*requestWithin) // for the wait for a slot, and the fetch
		defer cancel()
		stop := context.AfterFunc(d.life, cancel)
		defer stop()
		return d.refreshNow(ctx, c, src, w)
	})
}

// refreshNow is refresh without sharing. If another server fetches, a periodic wish leaves it to that server, and any
// other one waits for its result.
func (d *documents) refreshNow(ctx context.Context, c Connection, src source, w wish) (version, error) {
	for waited := false; ; waited = true {
		v, err := d.load(ctx, c, src)
		if err != nil {
			return version{}, err
		}
		now := d.clock()
		leased := v.leasedUntil.After(now)
		switch {
		case !w.periodic && w.satisfied(&v, src, now), w.periodic && leased:
			return v, nil
		case !leased && (waited || now.Before(w.fetchAt(&v, src, now))):
			return v, nil
		case !leased:
			fetched, leased, err := d.fetch(ctx, c, src, v)
			if leased || err != nil {
				return fetched, err
			}
		}
		select {
		case <-ctx.Done():
			return version{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

// fetch fetches a document under a lease, and stores the result. It reports false if another server has the lease, or
// has fetched the document since before was read. A failed fetch is no error: the version says so.
func (d *documents) fetch(ctx context.Context, c Connection, src source, before version) (fetched version, leased bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, requestWithin)
	done, err := d.slots.Begin(waiting, c.asker())
	cancel()
	if err != nil {
		return version{}, false, d.refuse(src, err)
	}
	defer done()
	now, lease := d.clock(), rand.Text()
	if leased, err = d.lease(ctx, c, src.kind, lease, before.triedAt, now); err != nil {
		return version{}, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if !leased {
		return version{}, false, nil
	}
	taken, err := d.read(ctx, c, src, before, now)
	switch {
	case d.life.Err() != nil:
		return version{}, false, fmt.Errorf("%w: the server ends", ErrUnavailable)
	case errors.Is(err, errNoTurn):
		return version{}, false, d.refuse(src, err)
	}
	d.metrics.count(src.kind, err)
	after := before
	after.triedAt, after.leasedUntil, after.tried = now, time.Time{}, src.url
	if err != nil {
		after.failures, after.failure = before.failures+1, err.Error()
		d.log.V(1).Info("A document of an identity provider was not fetched", "deployment", c.Deployment, "connection", ids.Format(c.ID), "kind", src.kind, "error", after.failure)
	} else {
		after = version{content: taken.content, url: src.url, sha256: taken.sha256, fetchedAt: now, validUntil: now.Add(taken.freshFor), triedAt: now, tried: src.url}
	}
	d.put(c, src, after)
	d.write(ctx, c, src, lease, before, after, taken.text)
	return after, true, nil
}

// errGone means that a connection was deleted before its document was fetched.
var errGone = errors.New("the connection was deleted")

// lease takes the lease of a document. An organization's connection is not deleted meanwhile, and with it its documents
// are deleted: a document of a deleted one would remain, and count for nothing.
func (d *documents) lease(ctx context.Context, c Connection, kind, lease string, tried, now time.Time) (leased bool, err error) {
	change := d.store.Single
	if c.Runtime {
		change = d.store.Change
	}
	err = change(ctx, c.Deployment, func(tx people.Tx) (err error) {
		if c.Runtime {
			if _, found, err := tx.Connections().LockConnectionShared(c.ID); err != nil || !found {
				return cmp.Or(err, errGone)
			}
		}
		leased, err = tx.Connections().LeaseUpstreamDocument(c.ID, kind, lease, tried, now, now.Add(leaseFor))
		return err
	})
	return leased, err
}

// errNoTurn means that a fetched document was not read, because others were read all the time.
var errNoTurn = errors.New("other metadata are read")

// refuse counts a fetch that was refused, and returns its error.
func (d *documents) refuse(src source, err error) error {
	d.throttled.Add(1)
	d.metrics.count(src.kind, egress.ErrTooManyFetches)
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// read fetches a text and reads it. Metadata of SAML wait for their turn within samlReads; the error is an errNoTurn if
// there is none.
func (d *documents) read(ctx context.Context, c Connection, src source, before version, now time.Time) (accepted, error) {
	text, err := d.text(src)
	if err != nil {
		return accepted{}, err
	}
	if src.accept != nil {
		waiting, cancel := context.WithTimeout(ctx, readWithin)
		done, err := d.reads.Begin(waiting, c.asker())
		cancel()
		if err != nil {
			return accepted{}, fmt.Errorf("%w: %w", errNoTurn, err)
		}
		defer done()
	}
	last := content{}
	if before.url == src.url {
		last = before.content
	}
	return src.take(text, last, now)
}

// added returns the certificates of metadata of SAML that the former ones of the same source did not have.
func added(former, now version) []*x509.Certificate {
	if former.url != now.url || former.content.saml == nil || now.content.saml == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(now.content.saml.Certificates), func(one *x509.Certificate) bool {
		return slices.ContainsFunc(former.content.saml.Certificates, one.Equal)
	})
}

// write writes the result of a fetch to the store. If that fails, the lease ends by itself, and only this server has
// the document. The next fetch then finds the same certificates new, and notifies of them.
func (d *documents) write(ctx context.Context, c Connection, src source, lease string, before, v version, text string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	store := func(tx people.Tx) (bool, error) {
		if v.failures > 0 {
			return tx.Connections().FailUpstreamDocument(c.ID, src.kind, lease, v.failure)
		}
		return tx.Connections().StoreUpstreamDocument(people.UpstreamDocument{
			Connection: c.ID, Kind: src.kind, Body: src.url + "\n" + text, SHA256: v.sha256, FetchedAt: v.fetchedAt, ValidUntil: v.validUntil,
		}, lease)
	}
	var err error
	if more := added(before, v); v.failures == 0 && len(more) > 0 && d.onNewCertificates != nil {
		err = d.onNewCertificates(ctx, c, more, store)
	} else {
		err = d.store.Single(ctx, c.Deployment, func(tx people.Tx) error {
			_, err := store(tx)
			return err
		})
	}
	if err != nil {
		d.log.Error(err, "A fetched document of an identity provider was not stored", "deployment", c.Deployment, "connection", ids.Format(c.ID), "kind", src.kind)
	}
}

// text fetches a text. All deployments share one fetch of a URL, whose answer does not depend on the deployment.
func (d *documents) text(src source) (string, error) {
	if src.inline != "" {
		return src.inline, nil
	}
	text, err, _ := d.fetches.Do(src.url+" "+src.media, func() (any, error) { return d.web.document(d.life, src.url, src.media) })
	if err != nil {
		return "", err
	}
	return text.(string), nil
}
