package enduser_test

import (
	"net/http"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// A server that is killed at any statement of a response by which a user signs in or adds an identity leaves all of it
// or nothing. To save time, each engine takes every fourth statement, as TestFactorsAreAtomicWhenServerIsKilled does.
func TestSignInByConnectionIsAtomicWhenServerIsKilled(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		first, step, most := w.killedAt()
		p := w.provider()
		conn := w.connection("globex", p, func(c *document.Connection) { c.Domains = []string{"example.com"} })
		entering, linking := w.members("entering", most, 0, false), w.members("linking", most, most, false)
		w.Server.Close()
		k := w.Killable()
		response := func(more string) func(*member) killedRequest {
			return func(m *member) killedRequest {
				values, err := p.Authorize(m.b.begin(conn, more), identityprovider.User{"sub": m.id, "email": m.email})
				w.Must(err)
				return killedRequest{method: http.MethodGet, path: callback(conn, values), once: true}
			}
		}
		const identities = "SELECT count(*) FROM identities WHERE user_id = $user"
		for _, story := range []killedStory{
			{
				what: "a sign-in by a connection", members: entering, request: response(""),
				columns: []string{identities, signInsOf, eventsOf, loggedOf(events.SessionCreated), auditsOf("session.signed_in"), auditsOf("identity.linked"), mailsTo},
			},
			{
				what: "a link", members: linking, signedIn: true, request: response(`,"intent":"link"`),
				columns: []string{identities, auditsOf("identity.linked"), mailsTo},
			},
		} {
			story.run(w, k, first, step)
		}
	})
}
