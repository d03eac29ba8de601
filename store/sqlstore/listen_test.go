package sqlstore

import (
	"testing"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

// TestListenConnectionReconnects terminates the LISTEN connection at the server. The reconnection sends a signal, and
// later commits send signals again.
func TestListenConnectionReconnects(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	url := pgtest.ForTest(t)
	writer, reader := migrated(t, url, Options{}), openAt(t, url, Options{})
	signals := reader.Signals(t.Context())
	g.Eventually(signals, "20s").Should(gomega.Receive(), "connected")

	on := writer.db.Writes()
	ended := 0
	_, err := on.Row(t.Context(), []any{&ended}, `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND query = 'LISTEN `+db.FeedChannel+`'`)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(ended).To(gomega.Equal(1))
	g.Eventually(signals, "20s").Should(gomega.Receive(), "connected again")
	putNumbered(t, writer, "a", 1)
	g.Eventually(signals, "20s").Should(gomega.Receive(), "the commit")
}
