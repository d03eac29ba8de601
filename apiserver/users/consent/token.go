package consent

import (
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Subject is whom a family's tokens are about, where they act.
type Subject struct {
	User   people.User
	Place  Place
	Family people.TokenFamily
}

// Standing tells what a family of a client stands for now: the scopes that the person still holds and the client may still ask for. Nil: for
// nothing any more, because the person, the grant or the sign-in is gone, or nothing of what was granted is left.
func (a *App) Standing(u *account.Unit, client *Client, family people.TokenFamily) ([]string, *Subject, error) {
	user, found, err := u.User(family.User)
	if err != nil || !found || user.Disabled || !u.Now.Before(family.ExpiresAt) {
		return nil, nil, err
	}
	if _, granted, err := u.Grant(family.Grant); err != nil || !granted {
		return nil, nil, err
	}
	if !family.Offline {
		s, signedIn, err := u.SessionOfSignIn(family.SignIn)
		if err != nil || !signedIn || session.Evaluate(s, session.PolicyOf(u.Settings), u.Now) != session.Live {
			return nil, nil, err
		}
	}
	place, err := PlaceOf(u, family.User, family.Organization, family.Workspace)
	if err != nil {
		return nil, nil, err
	}
	held := slices.DeleteFunc(a.Held(u, family.Scopes, place), func(scope string) bool { return !a.MayAsk(client, scope) })
	if len(held) == 0 && len(family.Scopes) > 0 {
		return nil, nil, nil
	}
	return held, &Subject{User: user, Place: place, Family: family}, nil
}

// Judged is what is true of an access token now.
type Judged struct {
	Claims bearer.AccessClaims
	// Client is whose token it is, nil: the token is not good.
	Client *Client
	// Subject is whom it is about, nil for a client's own.
	Subject *Subject
	// Scopes are those that are still held.
	Scopes []string
}

// Has reports whether a scope is still held.
func (j *Judged) Has(scope string) bool { return slices.Contains(j.Scopes, scope) }

// Judge tells what is true of an access token now, of which the claims were read: what the person still holds of it, or nothing.
func (a *App) Judge(u *account.Unit, claims bearer.AccessClaims) (Judged, error) {
	client, found, err := FindClient(u, a, claims.ClientID)
	if err != nil || !found {
		return Judged{}, err
	}
	out := Judged{Claims: claims, Client: client, Scopes: strings.Fields(claims.Scope)}
	if claims.Authorization == "" {
		out.Scopes = slices.DeleteFunc(out.Scopes, func(scope string) bool { return !a.MayAsk(client, scope) })
		out.Claims.Permissions = slices.DeleteFunc(slices.Clone(claims.Permissions), func(name string) bool { return !slices.Contains(client.MachinePermissions, name) })
		return out, nil
	}
	id, err := ids.Parse(claims.Authorization)
	if err != nil {
		return Judged{}, nil
	}
	family, found, err := u.TokenFamily(id)
	if err != nil || !found || family.Client != client.ID || family.App != a.Entry.ID {
		return Judged{}, err
	}
	held, subject, err := a.Standing(u, client, family)
	if err != nil || subject == nil {
		return Judged{}, err
	}
	asked := len(out.Scopes)
	out.Subject, out.Scopes = subject, slices.DeleteFunc(out.Scopes, func(scope string) bool { return !slices.Contains(held, scope) })
	if asked > 0 && len(out.Scopes) == 0 {
		return Judged{}, nil
	}
	return out, nil
}
