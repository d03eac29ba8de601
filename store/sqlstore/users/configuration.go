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
		if err := logConfiguration(ctx, on, deployment, changes[:n], at); err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// logConfiguration records the events of changes of one deployment.
func logConfiguration(ctx context.Context, on db.Session, deployment string, changes []people.ConfigurationChange, at time.Time) error {
	namespace, name, _ := strings.Cut(deployment, "/")
	home, err := readApp(ctx, on, document.KindIdentityDeployment, namespace, name)
	if err != nil || home.ID == 0 {
		return err
	}
	known := map[[2]string]people.DeclaredApp{}
	apps := func(kind, name string) (people.DeclaredApp, error) {
		app, found := known[[2]string{kind, name}]
		if found {
			return app, nil
		}
		app, err := readApp(ctx, on, kind, namespace, name)
		known[[2]string{kind, name}] = app
		return app, err
	}
	var events []people.LoggedEvent
	for _, c := range changes {
		more, err := c.Events(at, apps)
		if err != nil {
			return err
		}
		events = append(events, more...)
	}
	if len(events) == 0 {
		return nil
	}
	tx := &peopleTx{Tx: on.Of(ctx, deployment)}
	return tx.Records().LogEvents(events)
}

// readApp returns the id and the natural key of a document, or zero if there is none.
func readApp(ctx context.Context, on db.Session, kind, namespace, name string) (app people.DeclaredApp, err error) {
	_, err = on.Row(ctx, []any{&app.ID, &app.Slug}, `SELECT id, key FROM documents WHERE kind = ? AND namespace = ? AND name = ?`, kind, namespace, name)
	return app, err
}
