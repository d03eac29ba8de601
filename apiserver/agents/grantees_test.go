package agents_test

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	tokens "github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

func (w *world) newID() int64 {
	w.T.Helper()
	id, err := ids.New(w.Clock.Now(), rand.Reader)
	w.Must(err)
	return id
}

// authorizes has a user authorize a client for the agent, and returns the token family. change may change the family
// before. A user that does not exist yet is inserted, as a member of organization 50.
func (w *peopleWorld) authorizes(user int64, change func(*people.TokenFamily)) people.TokenFamily {
	w.T.Helper()
	family := w.family
	family.ID, family.Grant, family.Session, family.SignIn, family.User = w.newID(), w.newID(), w.newID(), w.newID(), user
	if change != nil {
		change(&family)
	}
	w.insertFamily(frontendtest.Deployment, &family)
	return family
}

// insertFamily inserts a token family in a deployment, with its grant, its session, and its user if there is none.
func (w *peopleWorld) insertFamily(deployment string, family *people.TokenFamily) {
	w.T.Helper()
	now := w.Clock.Now()
	role := ids.Derive(v1alpha1.KindMembershipRole, "acme", "clerk")
	email := people.Email{ID: w.newID(), Address: fmt.Sprintf("user%d@example.com", family.User), Primary: true, CreatedAt: now, VerifiedAt: now}
	session := people.Session{ID: family.Session, ActiveSignIn: family.SignIn, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(24 * time.Hour)}
	membership := w.newID()
	w.Must(w.Store.Change(w.T.Context(), deployment, func(tx people.Tx) error {
		_, exists, err := tx.Users().User(family.User)
		if err == nil && !exists {
			err = tx.Users().InsertUser(people.User{ID: family.User, CreatedAt: now}, email)
		}
		if err == nil && !exists && family.Organization != 0 {
			err = tx.Organizations().InsertMember(people.Member{
				ID: membership, Organization: people.Organization{ID: family.Organization}, User: family.User, Role: role, CreatedAt: now,
			})
		}
		if err == nil {
			err = tx.Sessions().InsertSession(session)
		}
		if err == nil {
			err = tx.Sessions().InsertSignIn(people.SignIn{ID: family.SignIn, Session: family.Session, User: family.User, Method: "password", CreatedAt: now})
		}
		if err == nil {
			family.Grant, err = tx.OAuth().PutGrant(people.Grant{
				ID: family.Grant, App: family.App, Client: family.Client, User: family.User, Organization: family.Organization, Workspace: family.Workspace,
				Scopes: family.Scopes, Resources: family.Resources, CreatedAt: now, UpdatedAt: now,
			}, 9)
		}
		if err != nil {
			return err
		}
		return tx.OAuth().InsertTokenFamily(*family, 9)
	}))
}

// tokenOf signs an access token of a family.
func (w *peopleWorld) tokenOf(family people.TokenFamily, scopes string, change ...func(*tokens.AccessClaims)) string {
	w.T.Helper()
	return w.token(scopes, append([]func(*tokens.AccessClaims){func(c *tokens.AccessClaims) {
		c.Authorization, c.Subject, c.ClientID = ids.Format(family.ID), ids.Format(family.User), family.Client
	}}, change...)...)
}

// forAudience changes the audiences of an access token.
func forAudience(audience ...string) func(*tokens.AccessClaims) {
	return func(c *tokens.AccessClaims) { c.Audience = jwt.Audience(audience) }
}
