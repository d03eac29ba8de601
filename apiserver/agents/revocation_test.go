package agents_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// serverPair is two servers of one store, each with its listeners.
type serverPair struct {
	*world
	frontends [2]*httptest.Server
	backends  [2]http.Handler
}

func newServerPair(w *world) *serverPair {
	w.T.Helper()
	pair := &serverPair{world: w, frontends: [2]*httptest.Server{w.Server}, backends: [2]http.Handler{w.Backend}}
	pair.frontends[1], _ = w.Serve(w.Store, w.Store)
	pair.backends[1] = w.Backend
	return pair
}

// statuses returns the statuses of one call on each listener of each server.
func (p *serverPair) statuses(token string) string {
	p.T.Helper()
	var found []string
	for i := range p.frontends {
		p.Server, p.Backend = p.frontends[i], p.backends[i]
		found = append(found, fmt.Sprint(p.post("support", token, calling).status), fmt.Sprint(p.directAnswer(token, "acme", "support", "find-order", findingOrder).Code))
	}
	return strings.Join(found, " ")
}

// expectRevoked checks that the first call on each listener of each server after a revocation is refused, and that
// none reaches the tool.
func (p *serverPair) expectRevoked(what, token string) {
	p.T.Helper()
	_, before := p.up.last()
	if got := p.statuses(token); got != "401 401 401 401" {
		p.T.Errorf("after %s: the statuses are %s", what, got)
	}
	if _, after := p.up.last(); after != before {
		p.T.Errorf("after %s: %d calls reached the tool", what, after-before)
	}
}

func TestRevokedAccessTokenIsRefusedAtOnceOnEveryServer(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newPeopleWorldIn(t, newWorldOver(t, url), nil)
		pair := newServerPair(w.world)
		user := int64(100)
		for what, revoke := range map[string]func(tx people.Tx, f people.TokenFamily) error{
			"the end of the token family": func(tx people.Tx, f people.TokenFamily) error { _, err := tx.OAuth().EndTokenFamily(f.ID); return err },
			"the end of the grant":        func(tx people.Tx, f people.TokenFamily) error { _, err := tx.OAuth().DeleteGrant(f.Grant); return err },
			"the end of the session":      func(tx people.Tx, f people.TokenFamily) error { return tx.Sessions().EndSession(f.Session) },
			"the sign-out of the user": func(tx people.Tx, f people.TokenFamily) error {
				_, err := tx.Sessions().EndSessionsOf(f.User)
				return err
			},
			"the user was disabled": func(tx people.Tx, f people.TokenFamily) error {
				return tx.Users().UpdateUser(people.User{ID: f.User, Disabled: true, UpdatedAt: w.Clock.Now()})
			},
			"the user was deleted": func(tx people.Tx, f people.TokenFamily) error { return tx.Users().DeleteUser(f.User) },
			"the membership ended": func(tx people.Tx, f people.TokenFamily) error {
				_, err := tx.Organizations().DeleteMember(f.Organization, f.User)
				return err
			},
		} {
			user++
			family := w.authorizes(user, func(f *people.TokenFamily) { f.Offline = false })
			token := w.tokenOf(family, "orders.change")
			if got := pair.statuses(token); got != "200 200 200 200" {
				t.Fatalf("before %s: the statuses are %s", what, got)
			}
			w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error { return revoke(tx, family) }))
			pair.expectRevoked(what, token)
		}
	})
}

// Configuration reaches a server within a second. One round in which the machine was busy does not count.
func TestTokenOfAWithdrawnClientOrAppIsRefusedWithinASecond(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newPeopleWorldIn(t, newWorldOver(t, url), nil)
		token := w.token("orders:read")
		app, agent := w.app, document.AIAgent{Name: "Support", Active: true, Tools: []string{"find-order"}, URL: agentURL, OAuthApp: "portal", Sessions: true}
		app.Active = false
		client := document.OAuthClient{
			App: "portal", Name: "CLI", Active: true, Authentication: "None", GrantTypes: []string{"AuthorizationCode", "RefreshToken"}, RedirectURIs: []string{"https://client.example/callback"},
		}
		inactive, elsewhere, other := client, client, agent
		inactive.Active, elsewhere.Resources, other.OAuthApp = false, &[]string{"https://api.acme.example"}, ""
		for what, one := range map[string]struct {
			kind, name, key string
			before, after   any
		}{
			"an inactive client":                  {v1alpha1.KindOAuthClient, "cli", "", client, inactive},
			"a client of other resources":         {v1alpha1.KindOAuthClient, "cli", "", client, elsewhere},
			"an inactive app":                     {v1alpha1.KindOAuthApp, "portal", "portal", w.app, app},
			"an agent that takes no access token": {v1alpha1.KindAIAgent, "support", "", agent, other},
		} {
			fastest := time.Hour
			for round := 0; round < 5 && fastest > inTime; round++ {
				w.Put(one.kind, one.name, frontendtest.Deployment, one.key, one.before)
				w.Eventually("the token is accepted before "+what, func() bool { return w.post("support", token, listing).status == 200 })
				began := time.Now()
				w.World.World.Put(one.kind, one.name, frontendtest.Deployment, one.key, one.after)
				w.Eventually("the token is refused by "+what, func() bool { return w.post("support", token, listing).status == 401 })
				fastest = min(fastest, time.Since(began))
			}
			if fastest > inTime {
				t.Errorf("%s refuses the token after %s", what, fastest)
			}
			if a := w.directAnswer(token, "acme", "support", "find-order", findingOrder); a.Code != 401 {
				t.Errorf("%s, without MCP: %d %s", what, a.Code, a.Body)
			}
			w.Put(one.kind, one.name, frontendtest.Deployment, one.key, one.before)
		}
	})
}

// sessionOf returns the session of a user that is signed in to one session.
func (w *world) sessionOf(user int64) (s people.Session) {
	w.T.Helper()
	w.Must(w.Store.View(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		sessions, err := tx.Sessions().SessionsOf(user)
		if err == nil && len(sessions) == 1 {
			s = sessions[0]
		}
		return err
	}))
	if s.ID == 0 {
		w.T.Fatalf("user %d is not signed in to one session", user)
	}
	return s
}

// userOf returns the id of the user with an address.
func (w *world) userOf(email string) (id int64) {
	w.T.Helper()
	w.Must(w.Store.View(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		found, _, err := tx.Users().UserByEmail(people.FoldEmail(email))
		id = found.ID
		return err
	}))
	return id
}

// inOrganization makes a signed-in user a member of a new organization with a workspace, and active there.
func (w *flowWorld) inOrganization(user int64) (organization, workspace int64) {
	w.T.Helper()
	organization, workspace = w.newID(), w.newID()
	member, in, now := w.newID(), w.newID(), w.Clock.Now()
	session := w.sessionOf(user)
	w.Must(w.Store.Change(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		o := people.Organization{ID: organization, Name: "Acme", Slug: fmt.Sprint("acme-", organization), CreatedAt: now}
		for _, do := range []func() error{
			func() error { return tx.Organizations().InsertOrganization(o) },
			func() error {
				return tx.Organizations().InsertMember(people.Member{ID: member, Organization: o, User: user, Owner: true, CreatedAt: now})
			},
			func() error {
				return tx.Organizations().InsertWorkspace(people.Workspace{ID: workspace, Organization: organization, Name: "Main", CreatedAt: now})
			},
			func() error {
				return tx.Organizations().InsertWorkspaceMember(people.WorkspaceMember{
					ID: in, Workspace: people.Workspace{ID: workspace, Organization: organization}, User: user, CreatedAt: now,
				})
			},
			func() error {
				return tx.Sessions().SetActiveOrganization(session.SignIns[0].ID, organization, workspace)
			},
		} {
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	}))
	return organization, workspace
}

func TestTokenOfAnEndedSessionIsRefusedAtOnceOnEveryServer(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newFlowWorld(t, newWorldOver(t, url))
		w.declareSessionKey()
		w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{
			Name: "Support", Active: true, Tools: []string{"find-order"}, URL: w.at("support"), Sessions: true,
		})
		pair := newServerPair(w.world)
		store := func(do func(people.Tx) error) { w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, do)) }
		for i, revoke := range []func(b *browser, user, organization, workspace int64) string{
			func(b *browser, _, _, _ int64) string {
				b.ask("/session/sign-out", map[string]any{})
				return "the sign-out"
			},
			func(_ *browser, user, _, _ int64) string {
				store(func(tx people.Tx) error { _, err := tx.Sessions().EndSessionsOf(user); return err })
				return "the end of all sessions"
			},
			func(_ *browser, user, _, _ int64) string {
				store(func(tx people.Tx) error {
					return tx.Users().UpdateUser(people.User{ID: user, Disabled: true, UpdatedAt: w.Clock.Now()})
				})
				return "the user was disabled"
			},
			func(_ *browser, user, _, _ int64) string {
				store(func(tx people.Tx) error { return tx.Users().DeleteUser(user) })
				return "the user was deleted"
			},
			func(_ *browser, user, organization, _ int64) string {
				store(func(tx people.Tx) error { _, err := tx.Organizations().DeleteMember(organization, user); return err })
				return "the membership ended"
			},
			func(_ *browser, user, _, workspace int64) string {
				store(func(tx people.Tx) error {
					member, _, err := tx.Organizations().WorkspaceMember(workspace, user)
					if err != nil {
						return err
					}
					return tx.Organizations().DeleteWorkspaceMember(member)
				})
				return "the membership in the workspace ended"
			},
			func(*browser, int64, int64, int64) string {
				w.Clock.Advance(time.Minute)
				return "the minute of the token"
			},
		} {
			pair.Server = pair.frontends[0]
			email := fmt.Sprintf("user%d@example.com", i)
			b := w.browser()
			b.signUp(email)
			user := w.userOf(email)
			organization, workspace := w.inOrganization(user)
			token := fmt.Sprint(b.ask("/session/token", map[string]any{"resource": w.at("support")}).Data["token"])
			if got := pair.statuses(token); got != "200 200 200 200" {
				t.Fatalf("user %d: the statuses are %s", i, got)
			}
			pair.expectRevoked(revoke(b, user, organization, workspace), token)
		}
	})
}
