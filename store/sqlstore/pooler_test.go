package sqlstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

// reads runs a prepared statement repeatedly on several connections at once, and returns the errors.
func reads(t *testing.T, s *Store) error {
	t.Helper()
	var running sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for worker := range 8 {
		running.Go(func() {
			for n := range 50 {
				_, err := s.Stored(t.Context(), store.Identity{Kind: "AIAgent", Namespace: "ns", Name: fmt.Sprint(worker, n)})
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return failed
}

// A pooler in transaction mode gives each transaction another connection. A store that prepares statements fails with
// ErrPooled. A store whose URL sets a suitable default_query_exec_mode works, and detects commits by polling.
func TestPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	direct := pgtest.ForTest(t)
	migrated(t, direct, Options{})
	through := pgtest.Pooled(t, direct)

	err := reads(t, openAt(t, through, Options{}))
	g.Expect(err).To(gomega.MatchError(store.ErrPooled))
	g.Expect(err).To(gomega.MatchError(store.ErrUnavailable))
	g.Expect(err.Error()).To(gomega.ContainSubstring("default_query_exec_mode=exec"))

	for _, mode := range []string{"exec", "cache_describe"} {
		separator := "?"
		if strings.Contains(through, "?") {
			separator = "&"
		}
		told := openAt(t, through+separator+"default_query_exec_mode="+mode, Options{})
		g.Expect(reads(t, told)).To(gomega.Succeed(), mode)
		_ = told.Signals(t.Context())
		putNumbered(t, told, mode, 1)
	}
	// No connection listens through the pooler.
	migrated(t, direct, Options{})
	on := openAt(t, direct, Options{}).db.Reads()
	listening := 0
	_, err = on.Row(t.Context(), []any{&listening}, `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN `+db.FeedChannel+`'`)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(listening).To(gomega.BeZero())
}
