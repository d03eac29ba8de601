package sqlstore

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// readsManyDeliveries matches a plan that reads all deliveries, or all of an endpoint: of SQLite, and of PostgreSQL.
var readsManyDeliveries = regexp.MustCompile(`SCAN (webhook_deliveries|webhook_replays)\b|webhook_deliveries_endpoint|Seq Scan on (webhook_deliveries|webhook_replays)`)

// fillDeliveries writes the deliveries of 40 deployments with 5 endpoints each. Most were delivered, one in ten failed
// and was repeated, one in a hundred failed, and one in a hundred is pending.
var fillDeliveries = []string{
	`INSERT INTO webhook_deliveries SELECT 'apps/d' || d, n, d * 10 + n % 5, n, n, 'user.created', 'user', '1', CASE WHEN n % 10 = 1 OR n % 100 = 7 THEN 'failed' WHEN n % 100 = 8 THEN 'pending' ELSE 'delivered' END,
		n, 0, CASE WHEN n % 100 = 8 THEN 0 ELSE n END, 1, 200, 1, '', 0, 0, CASE WHEN n % 10 = 1 THEN 1 ELSE 0 END
		FROM generate_series(0, 39) d, LATERAL generate_series(1, CASE d WHEN 0 THEN 60000 ELSE 500 END) n`,
	`INSERT INTO webhook_replays SELECT 'apps/d' || d, n, d * 10 + n % 5, 'completed', '', '{}', 0, 1, 0, 1, 0, 0, n, n, n FROM generate_series(0, 39) d, generate_series(1, 200) n`,
	`ANALYZE`,
}

// The statements of replays and of lists read what they select, not all deliveries of a deployment or an endpoint.
func TestDeliveriesAreReadByTheirIndexes(t *testing.T) {
	t.Parallel()
	for engine, open := range tabled {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			type statement struct {
				text string
				args []any
			}
			var traced []statement
			on := false
			s := openAt(t, open(t), Options{Trace: func(query string, args []any) {
				if on && strings.Contains(query, "webhook_") {
					traced = append(traced, statement{query, args})
				}
			}})
			if s.db.Dialect.Numbered { // SQLite decides without statistics
				for _, fill := range fillDeliveries {
					if _, err := s.db.Writers.Exec(fill); err != nil {
						t.Fatalf("%v: %s", err, fill)
					}
				}
			}
			on = true
			now := time.Now()
			undo := errors.New("undo") // the plans are to be those for the filled tables
			err := s.Change(t.Context(), "apps/d0", func(tx people.Tx) error {
				w := tx.Webhooks()
				dead := people.DeliveryFilter{Dead: true, After: 5, Before: 50_000, OldestFirst: true}
				for _, run := range []func() error{
					func() error { _, err := w.Deliveries(1, dead, 100); return err },
					func() error { _, err := w.CountDeliveries(1, dead, 100_001); return err },
					func() error {
						dead.Type = "user.deleted"
						_, err := w.CountDeliveries(1, dead, 100_001)
						return err
					},
					func() error {
						_, err := w.Deliveries(1, people.DeliveryFilter{Status: people.DeliveryFailed, Before: 50_000}, 51)
						return err
					},
					func() error { _, err := w.OpenDeliveries(1, 1150); return err },
					func() error { return w.MarkResent(1, []int64{7, 107}) },
					func() error { _, err := w.HastenDeliveries(1, now); return err },
					func() error { _, err := w.SkipDeliveries(1, 9, now); return err },
					func() error { _, _, err := w.OpenReplay(1); return err },
					func() error { _, _, err := w.OpenReplayID(1); return err },
					func() error { _, _, err := w.ReplayByKey(1, "key"); return err },
					func() error { _, err := w.Replays(1, 100, 51); return err },
					func() error { _, _, err := w.ReplayedSince(now); return err },
					func() error { return w.ForgetReplays(1, 10, time.Unix(0, 0)) },
					func() error { _, err := w.ForgetDeliveries(time.Unix(0, 0), time.Unix(0, 0), 100); return err },
				} {
					if err := run(); err != nil {
						return err
					}
				}
				return undo
			})
			if !errors.Is(err, undo) {
				t.Fatal(err)
			}
			on = false
			if len(traced) < 15 {
				t.Errorf("%d statements: this test no longer checks all of them", len(traced))
			}
			for _, one := range traced {
				if plan := planOf(t, s, one.text, one.args); readsManyDeliveries.MatchString(plan) {
					t.Errorf("%v: %s\n%s", one.args, one.text, plan)
				}
			}
		})
	}
}
