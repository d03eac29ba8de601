package users

import (
	"cmp"
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
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b people.ConfigurationChange) int { return cmp.Compare(a.Deployment, b.Deployment) })
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
	// All resources that the store has take effect now. Earlier changes of them are part of that.
	created := map[resource]bool{}
	for _, c := range changes {
		if c.Type == people.ConfigurationCreated {
			created[resource{c.Kind, c.Name}] = true
		}
	}
	changes = slices.DeleteFunc(changes, func(c people.ConfigurationChange) bool { return !created[resource{c.Kind, c.Name}] })
	if err := writtenBefore(ctx, on, deployment, func(page []people.ConfigurationChange) error {
		return record(slices.DeleteFunc(page, func(c people.ConfigurationChange) bool { return created[resource{c.Kind, c.Name}] }))
	}); err != nil {
		return err
	}
	return record(changes)
}

// begins reports whether a change is the creation of a deployment.
func begins(c people.ConfigurationChange) bool {
	return c.Type == people.ConfigurationCreated && c.Kind == document.KindIdentityDeployment
}

// resource is a resource of a deployment.
type resource struct{ kind, name string }

// writtenBefore calls each with pages of the resources of a deployment, as changes by which they are created. They are
// declared: the management API creates none before its deployment. Only those that declare keys and clients have their
// contents.
func writtenBefore(ctx context.Context, on db.Session, deployment string, each func(page []people.ConfigurationChange) error) error {
	namespace, _, _ := strings.Cut(deployment, "/")
	var kinds []string
	if err := on.Query(ctx, func(row *sql.Rows) error {
		kinds = append(kinds, "")
		return row.Scan(&kinds[len(kinds)-1])
	}, `SELECT DISTINCT kind FROM documents WHERE namespace = ? AND deployment = ? ORDER BY kind`, namespace, deployment); err != nil {
		return err
	}
	for _, kind := range kinds {
		payload := "NULL"
		if people.DeclaresEvents(kind) {
			payload = "payload"
		}
		for after, more := "", true; more; {
			var page []people.ConfigurationChange
			if err := on.Query(ctx, func(row *sql.Rows) error {
				c := people.ConfigurationChange{Type: people.ConfigurationCreated, Deployment: deployment, Kind: kind, Source: store.SourceDeclared, After: &people.ConfigurationState{}}
				err := row.Scan(&c.Name, &c.ID, &c.Generation, &c.After.Payload)
				c.After.ID, c.After.Generation = c.ID, c.Generation
				page = append(page, c)
				return err
			}, `SELECT name, id, generation, `+payload+` FROM documents
				WHERE kind = ? AND namespace = ? AND name > ? AND deployment = ? ORDER BY name LIMIT ?`, kind, namespace, after, deployment, earlierMost); err != nil {
				return err
			}
			if more = len(page) == earlierMost; more {
				after = page[len(page)-1].Name
			}
			if err := each(page); err != nil {
				return err
			}
		}
	}
	return nil
}

// readApp returns the id and the natural key of a document, or zero if there is none.
func readApp(ctx context.Context, on db.Session, kind, namespace, name string) (app people.DeclaredApp, err error) {
	_, err = on.Row(ctx, []any{&app.ID, &app.Slug}, `SELECT id, key FROM documents WHERE kind = ? AND namespace = ? AND name = ?`, kind, namespace, name)
	return app, err
}
