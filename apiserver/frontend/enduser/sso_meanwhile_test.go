package enduser_test

import (
	"net/http"
	"testing"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/store/people"
)

// An attempt that cannot be updated anymore neither signs in nor asks for an address, and its response is not used.
func TestResponseOfAnAttemptThatEndedMeanwhileIsRefused(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		for name, user := range map[string]identityprovider.User{"with an address": ann, "without an address": {"sub": "2"}} {
			b := w.browser()
			values := b.authorized(conn, p, user)
			attempt, err := ids.Parse(b.last.attempt()["id"].(string))
			w.Must(err)
			w.tx(func(tx people.Tx) error {
				return tx.Attempts().ProveAttempt(attempt, assurance.Proofs{}, w.Clock.Now())
			})
			a := b.refused(http.StatusBadRequest, "INVALID_ATTEMPT", "GET", callback(conn, values), "")
			if a.user() != "" {
				t.Errorf("%s: signed in: %s", name, a.Raw)
			}
			w.tx(func(tx people.Tx) error {
				row, found, err := tx.Connections().SSOAttempt(attempt)
				if !found || row.Claims != "" {
					t.Errorf("%s: the response is kept (found %t)", name, found)
				}
				return err
			})
		}
	})
}
