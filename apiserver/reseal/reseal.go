// Package reseal seals again the secrets of authenticators and of connections that an older root key sealed, so that
// the key can be removed. Every server runs it; concurrent servers do not disturb each other, because each write is
// conditional.
package reseal

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// walkEvery is the interval of walks over all secrets of a kind.
	walkEvery = time.Hour
	// batchSize is how many secrets one statement reads.
	batchSize = 500
	// writesOfPass bounds the secrets that one pass seals again, so that other upkeep is not delayed. A pass ends after
	// the batch that reaches the bound, and the next pass continues.
	writesOfPass = 10_000
)

// unknownKey is the label of texts that do not have the form of sealed texts.
const unknownKey = "unknown"

// Store is the part of the store that the worker needs.
type Store interface {
	SealedSecrets(ctx context.Context, after people.SealedSecret, limit int) ([]people.SealedSecret, error)
	SealedConnections(ctx context.Context, after people.SealedSecret, limit int) ([]people.SealedSecret, error)
	Change(ctx context.Context, deployment string, do func(people.Tx) error) error
}

// Options configures a Worker.
type Options struct {
	Store    Store
	Keyring  *seal.Keyring // of an empty ring, nothing is sealed again
	Clock    func() time.Time
	Log      logr.Logger
	Registry prometheus.Registerer
}

// kind is a kind of sealed secrets.
type kind struct {
	// sealed is the kind that the secrets are sealed for.
	sealed string
	list   func(ctx context.Context, after people.SealedSecret, limit int) ([]people.SealedSecret, error)
	reseal func(tx people.Tx, id int64, from, to string) (bool, error)
	// lost says which secrets no key opens, and what to do.
	lost string
}

// Worker walks over all sealed secrets of one kind. It is used by one goroutine.
type Worker struct {
	Options
	kind          kind
	counts        *prometheus.GaugeVec
	batch, writes int // batchSize and writesOfPass, except in tests
	// reported are the keys that have a series.
	reported map[string]bool
	walk     *walk     // in progress; nil between walks
	next     time.Time // the earliest start of the next walk
}

// walk is one walk over all secrets, in the order of the store.
type walk struct {
	last    people.SealedSecret // the last secret that was handled
	sealed  map[string]int64    // the number of secrets that each key seals
	refused map[string]int64    // the secrets of them that no key of the ring opens
	// contended reports whether a secret changed between its reading and its writing.
	contended bool
}

// All returns the workers for all kinds of secrets, and registers their metrics.
func All(opts Options) []*Worker { return []*Worker{New(opts), NewForConnections(opts)} }

// New returns a Worker for the secrets of authenticators, and registers its metric.
func New(opts Options) *Worker {
	return newWorker(opts, prometheus.GaugeOpts{
		Name: "cardea_sealed_factors", Help: "Secrets of authenticators by the public id of the root key that seals them, at the last complete walk of this server. A key that seals none can be removed.",
	}, kind{
		sealed: people.SealedAuthenticator,
		list: func(ctx context.Context, after people.SealedSecret, limit int) ([]people.SealedSecret, error) {
			return opts.Store.SealedSecrets(ctx, after, limit)
		},
		reseal: func(tx people.Tx, id int64, from, to string) (bool, error) {
			return tx.Factors().ResealAuthenticator(id, from, to)
		},
		lost: "Secrets of authenticators cannot be opened by any root key; restore the key that sealed them, or let their users enroll again",
	})
}

// NewForConnections returns a Worker for the secrets of connections that organizations and backends set up: client
// secrets, and private keys of type SAML. It registers its metric.
func NewForConnections(opts Options) *Worker {
	return newWorker(opts, prometheus.GaugeOpts{
		Name: "cardea_sealed_connections", Help: "Client secrets and private keys of connections that organizations and backends set up, by the public id of the root key that seals them, at the last complete walk of this server. A key that seals none can be removed.",
	}, kind{
		sealed: people.SealedConnection,
		list: func(ctx context.Context, after people.SealedSecret, limit int) ([]people.SealedSecret, error) {
			return opts.Store.SealedConnections(ctx, after, limit)
		},
		reseal: func(tx people.Tx, id int64, from, to string) (bool, error) {
			return tx.Connections().ResealConnection(id, from, to)
		},
		lost: "Client secrets or private keys of connections cannot be opened by any root key; restore the key that sealed them, or let their admins enter the client secrets again and set up those of type SAML again",
	})
}

func newWorker(opts Options, metric prometheus.GaugeOpts, of kind) *Worker {
	w := &Worker{Options: opts, kind: of, batch: batchSize, writes: writesOfPass, reported: map[string]bool{}, counts: prometheus.NewGaugeVec(metric, []string{"key"})}
	opts.Registry.MustRegister(w.counts)
	return w
}

// Pass continues a walk, or starts one if the last was walkEvery ago. It ends with the walk, or after
// writesOfPass. After an error, the next pass continues with the secret that failed.
func (w *Worker) Pass(ctx context.Context) error {
	if w.Keyring.Empty() {
		return nil
	}
	now := w.Clock()
	if w.walk == nil {
		if now.Before(w.next) {
			return nil
		}
		w.walk = &walk{sealed: map[string]int64{}, refused: map[string]int64{}}
	}
	for writes := 0; writes < w.writes; {
		secrets, err := w.kind.list(ctx, w.walk.last, w.batch)
		if err != nil {
			return err
		}
		for _, secret := range secrets {
			wrote, err := w.handle(ctx, secret)
			if err != nil {
				return err
			}
			w.walk.last = secret
			if wrote {
				writes++
			}
		}
		if len(secrets) < w.batch {
			w.complete(now)
			return nil
		}
	}
	return nil
}

// handle seals a secret again if the current key does not seal it, counts it under its key, and reports whether it
// tried to write. A secret that changed meanwhile counts under the key that sealed it when it was read.
func (w *Worker) handle(ctx context.Context, secret people.SealedSecret) (bool, error) {
	key, valid := seal.KeyOf(secret.Sealed)
	if !valid {
		key = unknownKey
	}
	if w.Keyring.Current(secret.Sealed) {
		w.walk.sealed[key]++
		return false, nil
	}
	id := people.SealedFor(secret.Deployment, secret.ID)
	text, err := w.Keyring.Open(w.kind.sealed, id, secret.Sealed)
	if err != nil {
		w.walk.sealed[key]++
		w.walk.refused[key]++
		return false, nil // the secret keeps its key
	}
	again := w.Keyring.Seal(w.kind.sealed, id, text)
	clear(text)
	did := false
	err = w.Store.Change(ctx, secret.Deployment, func(tx people.Tx) (err error) {
		did, err = w.kind.reseal(tx, secret.ID, secret.Sealed, again)
		return err
	})
	if err != nil {
		return true, err
	}
	if did {
		key = w.Keyring.IDs()[0]
	}
	w.walk.contended = w.walk.contended || !did
	w.walk.sealed[key]++
	return true, nil
}

// complete ends the walk and reports what it counted. After a contended walk, whose counts may be too high, the next
// pass walks again.
func (w *Worker) complete(now time.Time) {
	done := w.walk
	w.walk, w.next = nil, now.Add(walkEvery)
	if done.contended {
		w.next = now
	}
	for _, key := range w.Keyring.IDs() {
		done.sealed[key] += 0 // a key that seals nothing has a series too
	}
	for key, n := range done.sealed {
		w.counts.WithLabelValues(key).Set(float64(n))
		w.reported[key] = true
	}
	for key := range w.reported {
		if _, still := done.sealed[key]; !still {
			w.counts.DeleteLabelValues(key)
			delete(w.reported, key)
		}
	}
	if len(done.refused) > 0 {
		w.Log.Info(w.kind.lost, "secretsByKey", done.refused)
	}
}
