package limits

import (
	"cmp"
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// deletedBytes bounds the memory of deleted schemes with unexpired counters.
const deletedBytes = 8 << 20

// retire drops the schemes that are no longer declared, when their longest window is over. Until then, a scheme that is
// declared again continues with its counters. If the deleted schemes exceed deletedBytes, the deployment with the most
// bytes loses its oldest deleted schemes first. The caller holds the lock.
func (l *Limiter) retire() {
	now, current := l.clock(), l.current()
	var deleted []int64
	held, sum := map[string]int64{}, int64(0)
	for id, known := range l.schemes {
		if entry, found := current.ByID(v1alpha1.KindRateLimitScheme, known.deployment, id); found && entry.ID == id {
			known.deleted, known.bytes = false, 0
			continue
		}
		if !known.deleted {
			known.deleted, known.entry, known.until, known.bytes = true, nil, now.Steady+known.scheme.Lasts(now), known.scheme.Bytes()
		}
		if known.until <= now.Steady {
			l.drop(id)
			continue
		}
		deleted = append(deleted, id)
		held[known.deployment] += known.bytes
		sum += known.bytes
	}
	if sum <= deletedBytes {
		return
	}
	slices.SortFunc(deleted, func(a, b int64) int { return cmp.Compare(l.schemes[a].order, l.schemes[b].order) })
	for sum > deletedBytes {
		most := ""
		for deployment, bytes := range held {
			if bytes > held[most] {
				most = deployment
			}
		}
		at := slices.IndexFunc(deleted, func(id int64) bool { return l.schemes[id].deployment == most })
		bytes := l.schemes[deleted[at]].bytes
		held[most] -= bytes
		sum -= bytes
		l.drop(deleted[at])
		deleted = slices.Delete(deleted, at, at+1)
	}
}

func (l *Limiter) drop(id int64) {
	l.engine.Forget(l.schemes[id].scheme)
	delete(l.schemes, id)
}
