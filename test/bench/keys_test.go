package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

// keysMade are the numbers of rows at which first uses are measured; CARDEA_BENCH_KEYS replaces the larger number. Ten
// million rows take six minutes to create.
var keysMade = []int{1_000_000, 2_000_000}

// TestBenchKeys measures the first use of a runtime key on PostgreSQL, among a million rows and among more.
func TestBenchKeys(t *testing.T) {
	ctx := t.Context()
	url := pgtest.ForTest(t)
	st, err := sqlstore.Open(ctx, url, sqlstore.Options{Clock: time.Now, Logger: logr.Discard()})
	check(t, err)
	defer st.Close() //nolint:errcheck // the database goes with it
	check(t, st.Migrate(ctx))
	if most, err := strconv.Atoi(os.Getenv("CARDEA_BENCH_KEYS")); err == nil {
		keysMade[1] = most
	}
	var p50 []time.Duration
	made := 0
	for _, count := range keysMade {
		began := time.Now()
		makeKeys(ctx, t, url, made, count)
		took := time.Since(began)
		made = count
		uses := firstUses(ctx, t, st, count)
		p50 = append(p50, quantile(uses, 0.5))
		row(fmt.Sprintf("first use of a key, PostgreSQL, %d rows: p50 and p99", count), "p99 5 ms", "%s, %s (rows made in %s)", ms(quantile(uses, 0.5)), ms(quantile(uses, 0.99)), took.Round(time.Second))
	}
	row("... the larger to the smaller at p50", "<= 1.2", "%.2f", float64(p50[1])/float64(p50[0]))
}

// makeKeys creates the rows with the numbers from+1 to to; the digest of a row is the hash of its number.
func makeKeys(ctx context.Context, t *testing.T, url string, from, to int) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	check(t, err)
	db := stdlib.OpenDB(*config)
	defer db.Close() //nolint:errcheck // only this test used it
	const step = 1_000_000
	for at := from; at < to; at += step {
		_, err := db.ExecContext(ctx, `INSERT INTO api_keys (deployment, id, public_id, digest, prefix, suffix, app, name, permissions, metadata,
			owner_user_id, organization_id, workspace_id, scheme, expires_at, retires_at, last_used_at, created_at, updated_at, revoked_at, revoked_reason, rotated_from)
			SELECT 'bench/d', i, 'k' || i, sha256(convert_to(i::text, 'UTF8')), 'ck', 'abcd', 'app', 'Customer ' || i, '["orders:read"]', '',
			0, 0, 0, '', 0, 0, 0, 1, 1, 0, '', 0 FROM generate_series($1::bigint + 1, $2::bigint) AS i`, at, min(at+step, to))
		check(t, err)
	}
	_, err = db.ExecContext(ctx, "ANALYZE api_keys")
	check(t, err)
	_, err = db.ExecContext(ctx, "CHECKPOINT")
	check(t, err)
}

// firstUses reads keys at random, as a server does on the first use of a key.
func firstUses(ctx context.Context, t *testing.T, st *sqlstore.Store, count int) []time.Duration {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(count)))
	var uses []time.Duration
	for i := range 3000 {
		id := 1 + random.IntN(count)
		digest := apikey.Digest(sha256.Sum256([]byte(strconv.Itoa(id))))
		began := time.Now()
		found, known, err := st.APIKeyByDigest(ctx, digest)
		took := time.Since(began)
		check(t, err)
		if !known || found.ID != int64(id) {
			t.Fatalf("key %d: %v, %+v", id, known, found.ID)
		}
		if i >= 500 { // the first ones open connections
			uses = append(uses, took)
		}
	}
	return uses
}
