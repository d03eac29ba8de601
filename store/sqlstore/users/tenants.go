package users

import (
	"context"
	"fmt"
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
