package users

import (
	"context"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// LogConfiguration records the events of changes of resources. A deployment without a document has none: nothing would
// erase them. The process that numbers the events sees them by polling.
func (s *Rows) LogConfiguration(ctx context.Context, on db.Session, changes []people.ConfigurationChange) error {
	at := s.db.Clock().UTC().Truncate(time.Microsecond)
	for len(changes) > 0 {
		deployment, n := changes[0].Deployment, 1
		for n < len(changes) && changes[n].Deployment == deployment {
			n++
		}
		events := make([]people.LoggedEvent, 0, n)
		for _, c := range changes[:n] {
			e, err := c.Event(at)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		changes = changes[n:]
		var one int64
		namespace, name, _ := strings.Cut(deployment, "/")
		found, err := on.Row(ctx, []any{&one}, `SELECT 1 FROM documents WHERE kind = ? AND namespace = ? AND name = ?`, document.KindIdentityDeployment, namespace, name)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		tx := &peopleTx{Tx: on.Of(ctx, deployment)}
		if err := tx.Records().LogEvents(events); err != nil {
			return err
		}
	}
	return nil
}
