package users

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// earlierMost is how many documents that were written before the one of their deployment are read at once.
const earlierMost = 500

// LogConfiguration records the events of changes of resources. A deployment without a document has none, since nothing
// would erase them: the resources that were written before it have theirs with its creation. The process that numbers
// the events sees them by polling.
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
	tx := &peopleTx{Tx: on.Of(ctx, deployment)}
	record := func(changes []people.ConfigurationChange) error {
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
		return tx.Records().LogEvents(events)
	}
	if !slices.ContainsFunc(changes, begins) {
		return record(changes)
	}
	for after := (resource{}); ; {
		earlier, err := writtenBefore(ctx, on, deployment, after)
		if err != nil {
			return err
		}
		if len(earlier) == 0 {
			return record(changes)
		}
		last := earlier[len(earlier)-1]
		after = resource{last.Kind, last.Name}
		earlier = slices.DeleteFunc(earlier, func(c people.ConfigurationChange) bool { return changesResource(changes, c.Kind, c.Name) })
		if err := record(earlier); err != nil {
			return err
		}
	}
}

// begins reports whether a change is the creation of a deployment.
func begins(c people.ConfigurationChange) bool {
	return c.Type == people.ConfigurationCreated && c.Kind == document.KindIdentityDeployment
}

// changesResource reports whether one of the changes is one of a resource.
func changesResource(changes []people.ConfigurationChange, kind, name string) bool {
	return slices.ContainsFunc(changes, func(c people.ConfigurationChange) bool { return c.Kind == kind && c.Name == name })
}

// resource is a resource of a deployment.
type resource struct{ kind, name string }

// writtenBefore returns the next resources of a deployment, as changes by which they are created. They are declared:
// the management API creates none before its deployment.
func writtenBefore(ctx context.Context, on db.Session, deployment string, after resource) (list []people.ConfigurationChange, err error) {
	namespace, _, _ := strings.Cut(deployment, "/")
	err = on.Query(ctx, func(row *sql.Rows) error {
		c := people.ConfigurationChange{Type: people.ConfigurationCreated, Deployment: deployment, Source: store.SourceDeclared}
		c.After = &people.ConfigurationState{}
		err := row.Scan(&c.Kind, &c.Name, &c.ID, &c.Generation, &c.After.Payload)
		c.After.ID, c.After.Generation = c.ID, c.Generation
		list = append(list, c)
		return err
	}, `SELECT kind, name, id, generation, payload FROM documents
		WHERE namespace = ? AND deployment = ? AND (kind, name) > (?, ?) ORDER BY kind, name LIMIT ?`, namespace, deployment, after.kind, after.name, earlierMost)
	return list, err
}

// readApp returns the id and the natural key of a document, or zero if there is none.
func readApp(ctx context.Context, on db.Session, kind, namespace, name string) (app people.DeclaredApp, err error) {
	_, err = on.Row(ctx, []any{&app.ID, &app.Slug}, `SELECT id, key FROM documents WHERE kind = ? AND namespace = ? AND name = ?`, kind, namespace, name)
	return app, err
}
