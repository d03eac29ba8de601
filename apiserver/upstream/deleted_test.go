package upstream

import (
	"errors"
	"net/http"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// organizationConnection returns a connection that an organization has set up.
func (w *world) organizationConnection() Connection {
	w.T.Helper()
	c := w.connection(func(c *document.Connection) { c.Organization = "globex" })
	c.Runtime = true
	w.Must(w.Store.Change(w.T.Context(), c.Deployment, func(tx people.Tx) error {
		return tx.Connections().InsertConnection(people.Connection{ID: c.ID, Organization: 1, Slug: "globex", Settings: "{}", CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()})
	}))
	return c
}

// deletes deletes the connection of an organization.
func (w *world) deletes(c Connection) {
	w.Must(w.Store.Change(w.T.Context(), c.Deployment, func(tx people.Tx) error {
		_, err := tx.Connections().DeleteConnection(c.ID)
		return err
	}))
}

// An organization's connection that is deleted while its document waits for its request, or is fetched, leaves no
// document: connections of an organization are few, and documents of deleted ones would have no bound.
func TestDeletedConnectionLeavesNoDocument(t *testing.T) {
	for when, want := range map[string]struct{ refused, kept bool }{"never": {false, true}, "before the request": {true, false}, "during the request": {false, false}} {
		t.Run(when, func(t *testing.T) {
			servertest.OnEngines(t, func(t *testing.T, url string) {
				w := newWorld(t, url)
				c, server := w.organizationConnection(), w.server()
				answer := w.provider.pages[discoveryPath]
				w.provider.serve(discoveryPath, func(rw http.ResponseWriter, r *http.Request) {
					if when == "during the request" {
						w.deletes(c)
					}
					answer(rw, r)
				})
				if when == "before the request" {
					w.deletes(c)
				}
				_, err := server.Metadata(t.Context(), c)
				if want.refused != errors.Is(err, errGone) || want.refused != errors.Is(err, ErrUnavailable) {
					t.Errorf("the document is fetched: %v", err)
				}
				if kept := w.row(c, people.UpstreamDiscovery).Connection == c.ID; kept != want.kept {
					t.Errorf("the store keeps a document: %v", kept)
				}
			})
		})
	}
}
