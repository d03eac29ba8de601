package users

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/cardea-iam/cardea/store/people"
)

// OldestUser returns the lowest id of a user in a deployment, 0 if there is none.
func (s *Rows) OldestUser(ctx context.Context, deployment string) (int64, error) {
	var id int64
	_, err := s.db.Reads().Row(ctx, []any{&id}, `SELECT id FROM users WHERE deployment = ? ORDER BY id LIMIT 1`, deployment)
	if err != nil {
		return 0, fmt.Errorf("look for users of deployment %s: %w", deployment, err)
	}
	return id, nil
}

// OtherPasskeys implements store.Tenants. Two ranges of an index leave the passkeys of the relying party out: usually
// all of them belong to it, and none is read.
func (s *Rows) OtherPasskeys(ctx context.Context, deployment, relyingParty string) ([]people.RelyingPartyCount, error) {
	var counts []people.RelyingPartyCount
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var c people.RelyingPartyCount
		err := row.Scan(&c.RelyingParty, &c.Passkeys)
		counts = append(counts, c)
		return err
	}, `SELECT rp_id, COUNT(*) FROM passkeys WHERE deployment = ? AND rp_id < ? GROUP BY rp_id
UNION ALL SELECT rp_id, COUNT(*) FROM passkeys WHERE deployment = ? AND rp_id > ? GROUP BY rp_id`, deployment, relyingParty, deployment, relyingParty)
	if err != nil {
		return nil, fmt.Errorf("count passkeys of other relying parties in deployment %s: %w", deployment, err)
	}
	slices.SortFunc(counts, func(a, b people.RelyingPartyCount) int { return cmp.Compare(a.RelyingParty, b.RelyingParty) })
	return counts, nil
}
