package consent

import (
	"errors"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Subject is the user of a token family, with the organization and workspace in which its tokens act.
type Subject struct {
	User   people.User
	Place  Place
	Family people.TokenFamily
}

// EffectiveGrant returns the scopes of a token family that the user still has and the client may still request, and the
// subject of its tokens. The subject is nil if the family no longer grants anything: it has expired, its user was
// deleted or disabled, its grant was deleted, the connection of its sign-in was deleted, its sign-in ended (unless it
// is offline), or no scope is left. A RequirementError: more is required of the user now than the family's sign-in had
// proven.
func (a *App) EffectiveGrant(u *account.Unit, client *Client, family people.TokenFamily) ([]string, *Subject, error) {
	user, found, err := u.Users().User(family.User)
	if err != nil || !found || user.Disabled || !u.Now.Before(family.ExpiresAt) {
		return nil, nil, err
	}
	if _, granted, err := u.OAuth().Grant(family.Grant); err != nil || !granted {
		return nil, nil, err
	}
	if family.Connection != 0 {
		if exists, err := account.HasConnection(u, family.Connection); err != nil || !exists {
			return nil, nil, err
		}
	}
	if !family.Offline {
		s, signedIn, err := u.OAuth().SessionOfSignIn(family.SignIn)
		if err != nil || !signedIn || session.Evaluate(s, session.PolicyOf(u.Settings), u.Now) != session.Live {
			return nil, nil, err
		}
	}
	place, err := PlaceOf(u, family.User, family.Organization, family.Workspace)
	if err != nil {
		return nil, nil, err
	}
	granted := slices.DeleteFunc(a.Permitted(u, family.Scopes, place), func(scope string) bool { return !a.MayAsk(client, scope) })
	if len(granted) == 0 && len(family.Scopes) > 0 {
		return nil, nil, nil
	}
	if err := checkFamily(u, client, user, place, family); err != nil {
		return nil, nil, err
	}
	return granted, &Subject{User: user, Place: place, Family: family}, nil
}

// Evaluation is what an access token grants now.
type Evaluation struct {
	Claims bearer.AccessClaims
	// Client is the client that has the token, nil if the token is not valid.
	Client *Client
	// Subject is the user that the token is about, nil for a client's own token.
	Subject *Subject
	// Scopes are those that are still granted.
	Scopes []string
}

// Has reports whether a scope is still granted.
func (j *Evaluation) Has(scope string) bool { return slices.Contains(j.Scopes, scope) }

// Evaluate returns what an access token with verified claims grants now. The zero Evaluation means that the token
// grants nothing.
func (a *App) Evaluate(u *account.Unit, claims bearer.AccessClaims) (Evaluation, error) {
	client, found, err := FindClient(u, a, claims.ClientID)
	if err != nil || !found {
		return Evaluation{}, err
	}
	out := Evaluation{Claims: claims, Client: client, Scopes: strings.Fields(claims.Scope)}
	if claims.Authorization == "" {
		out.Scopes = slices.DeleteFunc(out.Scopes, func(scope string) bool { return !a.MayAsk(client, scope) })
		out.Claims.Permissions = slices.DeleteFunc(slices.Clone(claims.Permissions), func(name string) bool { return !slices.Contains(client.MachinePermissions, name) })
		return out, nil
	}
	id, err := ids.Parse(claims.Authorization)
	if err != nil {
		return Evaluation{}, nil
	}
	family, found, err := u.OAuth().TokenFamily(id)
	if err != nil || !found || family.Client != client.ID || family.App != a.Entry.ID {
		return Evaluation{}, err
	}
	granted, subject, err := a.EffectiveGrant(u, client, family)
	if unmet := new(RequirementError); errors.As(err, &unmet) { // the token is not valid meanwhile
		return Evaluation{}, nil
	}
	if err != nil || subject == nil {
		return Evaluation{}, err
	}
	asked := len(out.Scopes)
	out.Subject, out.Scopes = subject, slices.DeleteFunc(out.Scopes, func(scope string) bool { return !slices.Contains(granted, scope) })
	if asked > 0 && len(out.Scopes) == 0 {
		return Evaluation{}, nil
	}
	return out, nil
}
