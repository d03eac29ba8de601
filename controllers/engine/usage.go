package engine

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
)

// Limits bound the number and size of one deployment's documents, because every server holds all documents of all
// deployments. All deployments of a namespace together may have NamespaceDeployments times as much. A bound of zero
// means no bound.
type Limits struct {
	// Documents is their number, Bytes the sum of their payloads.
	Documents, Bytes int64
}

// NamespaceDeployments is how many full deployments a namespace has room for.
const NamespaceDeployments = 2

const (
	// usageAge is how long a sum from the store is used, with later writes added, before it is read again.
	usageAge = 10 * time.Second
	// refusedUsageAge is the usageAge of a sum by which a document would be refused.
	refusedUsageAge = time.Second
	// tooManyRetry is the time between two tries of a document that was refused. Deletions of other documents make
	// room.
	tooManyRetry = time.Minute
)

// usages remembers how much the documents of each namespace take. Concurrent reconciles may exceed a bound by the
// documents that they write at the same time.
type usages struct {
	mu         sync.Mutex
	namespaces map[string]namespaceUsage
}

type namespaceUsage struct {
	readAt       time.Time
	byDeployment map[string]store.Usage
}

// grow returns a TerminalError if the document to be written would exceed a bound of its deployment or its namespace. A
// document that becomes no larger always fits.
func (r *reconciler) grow(ctx context.Context, s *state) error {
	more := growth(s.stored, s.document)
	if more.Documents <= 0 && more.Bytes <= 0 {
		return nil
	}
	for _, age := range []time.Duration{usageAge, refusedUsageAge} {
		used, err := r.usages.of(ctx, r.documents, s.obj.GetNamespace(), r.clock(), age)
		if err != nil {
			return &storeError{err}
		}
		if err = r.limits.admit(used, s.document.Deployment, s.obj.GetNamespace(), more); err == nil {
			return nil
		} else if age == refusedUsageAge {
			s.retry = tooManyRetry
			return err
		}
	}
	return nil
}

// admit returns a TerminalError with the bound that is exceeded, nil if there is none.
func (l Limits) admit(used map[string]store.Usage, deployment, namespace string, more store.Usage) error {
	var all store.Usage
	for _, u := range used {
		all = all.Plus(u)
	}
	for _, bound := range []struct {
		whose  string
		used   store.Usage
		factor int64
	}{
		{"deployment " + deployment, used[deployment], 1},
		{"namespace " + namespace, all, NamespaceDeployments},
	} {
		after := bound.used.Plus(more)
		if most := l.Documents * bound.factor; most > 0 && more.Documents > 0 && after.Documents > most {
			return tooMany("the resources of %s are at their bound of %d", bound.whose, most)
		}
		if most := l.Bytes * bound.factor; most > 0 && more.Bytes > 0 && after.Bytes > most {
			return tooMany("the resources of %s would take %d bytes, and the maximum is %d", bound.whose, after.Bytes, most)
		}
	}
	return nil
}

func tooMany(format string, args ...any) error {
	return Terminal(v1alpha1.ReasonTooMany, "%s: delete some, or let a cluster admin raise the operator's --max-deployment-documents and --max-deployment-bytes; "+
		"active resources stay active", fmt.Sprintf(format, args...))
}

// growth is what a write adds to the usage of its document's deployment.
func growth(stored store.Stored, document store.Document) store.Usage {
	more := store.Usage{Documents: 1, Bytes: int64(len(document.Payload))}
	if stored.Found && stored.Document.Deployment == document.Deployment {
		more.Documents--
		more.Bytes -= int64(len(stored.Document.Payload))
	}
	return more
}

// of returns what a namespace's deployments use, read at most age ago.
func (u *usages) of(ctx context.Context, documents store.Documents, namespace string, now time.Time, age time.Duration) (map[string]store.Usage, error) {
	if used, found := u.held(namespace, now, age); found {
		return used, nil
	}
	used, err := documents.Usage(ctx, namespace)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.namespaces, func(_ string, held namespaceUsage) bool { return now.Sub(held.readAt) >= usageAge })
	if u.namespaces == nil {
		u.namespaces = map[string]namespaceUsage{}
	}
	u.namespaces[namespace] = namespaceUsage{readAt: now, byDeployment: maps.Clone(used)}
	return used, nil
}

func (u *usages) held(namespace string, now time.Time, age time.Duration) (map[string]store.Usage, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	held, found := u.namespaces[namespace]
	if !found || now.Sub(held.readAt) >= age {
		return nil, false
	}
	return maps.Clone(held.byDeployment), true
}

// add counts a document that was written.
func (u *usages) add(namespace, deployment string, more store.Usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if held, found := u.namespaces[namespace]; found {
		held.byDeployment[deployment] = held.byDeployment[deployment].Plus(more)
	}
}

// forget drops the sums of a namespace in which a document was deleted.
func (u *usages) forget(namespace string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.namespaces, namespace)
}
