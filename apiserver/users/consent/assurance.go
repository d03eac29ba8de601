package consent

import (
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// MissingAssurance is the entry of Option.Missing for a place whose organization requires a higher level than the
// sign-in has proven. A scope of that name that is missing makes the place as impossible as any other scope.
const MissingAssurance = "assurance"

// MissingConnection is the entry of Option.Missing for a place where the sign-in does not count: the organization's
// members must sign in by its connections, or the sign-in is confined to another organization.
const MissingConnection = "connection"

// withheld appends what a place lacks beside scopes: MissingConnection or MissingAssurance.
func withheld(u *account.Unit, g *people.SignIn, m people.Member, workspaces []people.WorkspaceMember, missing []string) ([]string, error) {
	err := account.CheckConnection(u, g, m)
	required, confined := new(account.ConnectionRequiredError), new(account.AssuranceError)
	switch {
	case errors.As(err, &required), errors.As(err, &confined):
		return append(missing, MissingConnection), nil
	case err == nil && g.Proven().Level() < account.OutstandingAmong(u.Tenant, g, m, workspaces, u.Now).Level:
		return append(missing, MissingAssurance), nil
	}
	return missing, err
}

// checkConfined returns an AssuranceError if a sign-in that is confined to an organization would grant more than the
// organization's: scopes of the user, or no organization at all. The scopes of OpenID Connect are the user's: a client
// takes the subject of an ID token for the account, wherever it counts. ScopeOffline is not: it prolongs what the other
// scopes grant.
func (r *Request) checkConfined(u *account.Unit, g *people.SignIn) error {
	organization, _, _ := r.App.Needs(r.Scopes)
	personal := slices.ContainsFunc(r.Scopes, func(scope string) bool {
		declared, found := r.App.Scopes[scope]
		if !found {
			return scope != ScopeOffline
		}
		return declared.Category != categoryOrganization && declared.Category != categoryWorkspace
	})
	if organization && !personal {
		return nil
	}
	return account.CheckConfined(u, g)
}

// RequirementError refuses the tokens of a family whose level is below what is required of it now. The family stays:
// its tokens are valid again once the requirement is lifted.
type RequirementError struct {
	Required assurance.Level
	// Connection reports that the organization's members must sign in by its connections.
	Connection bool
}

func (e *RequirementError) Error() string {
	if e.Connection {
		return "the authorization's organization requires a sign-in by one of its connections"
	}
	return "the authorization's assurance level is below " + e.Required.String()
}

// condition is a level that a request needs, proven at a time or later (zero: at any time). None: any proof.
type condition struct {
	level assurance.Level
	since time.Time
}

// conditions returns what the client asked for, and what its declaration requires whatever it asks. A proof since the
// request was created is always recent enough.
func (r *Request) conditions(u *account.Unit) []condition {
	_, level := assurance.Requested(r.ACRValues)
	asked := condition{level: level, since: r.since(u.Now)}
	if declared := r.Client.Assurance; declared != nil {
		own := condition{level: declared.Effective()}
		if declared.MaxAgeSeconds != nil {
			own.since = r.within(u.Now, *declared.MaxAgeSeconds)
		}
		return []condition{asked, own}
	}
	return []condition{asked}
}

// since returns the time since which the client wants a proof, zero if any is recent enough.
func (r *Request) since(now time.Time) (since time.Time) {
	if r.MaxAge != nil {
		since = r.within(now, *r.MaxAge)
	}
	if r.Has("login") {
		since = r.CreatedAt
	}
	return since
}

// within returns the time since which a proof is at most some seconds old, or was given after the request.
func (r *Request) within(now time.Time, seconds int64) time.Time {
	if since := now.Add(-time.Duration(seconds) * time.Second); since.Before(r.CreatedAt) {
		return since
	}
	return r.CreatedAt
}

// prove returns the step that the person must take before the decision, and what it needs; the step is "" if nothing is
// missing.
func (r *Request) prove(u *account.Unit, person *Person) (Step, *account.AssuranceError, error) {
	stale := false
	for _, c := range r.conditions(u) {
		proven := person.Proven()
		at := proven.ProvenAt(c.level)
		if !at.IsZero() && !at.Before(c.since) {
			continue
		}
		if proven.Level() >= c.level && c.level < assurance.PhishingResistant { // any proof renews the lower levels
			stale = true
			continue
		}
		recent := *person.SignIn
		if recent.Proofs = proven.Since(c.since); len(recent.Proofs) == 0 {
			recent.Proofs = proven.Without(assurance.Passkey, assurance.PasskeyUV)
		}
		step, missing, err := stepFor(u.Missing(&recent, assurance.Required{Level: c.level}))
		return step, missing, err
	}
	if stale {
		return StepProve, nil, nil
	}
	return "", nil, nil
}

// stepFor returns the step for an account.AssuranceError; any other error stays one.
func stepFor(err error) (Step, *account.AssuranceError, error) {
	var missing *account.AssuranceError
	switch {
	case !errors.As(err, &missing):
		return "", nil, err
	case errors.Is(missing, account.ErrEnroll):
		return StepEnroll, missing, nil
	}
	return StepStepUp, missing, nil
}

// missing returns the scopes that a person does not have in a place, and MissingConnection or MissingAssurance if the
// organization requires more of the sign-in.
func (r *Request) missing(u *account.Unit, person *Person, at Place) ([]string, error) {
	missing := r.App.missing(u, r.Scopes, at)
	if at.Member == nil {
		return missing, nil
	}
	workspaces, err := u.Organizations().WorkspaceMembershipsOf(person.User, at.Member.Organization.ID)
	if err != nil {
		return missing, err
	}
	return withheld(u, person.SignIn, *at.Member, workspaces, missing)
}

// stated returns what the tokens of an authorization state of the sign-in.
func (r *Request) stated(u *account.Unit, person *Person, family *people.TokenFamily) {
	proven := person.Proven()
	family.ACR, family.AMR = proven.Level().ACR(), proven.AMR()
	family.StatedACR, family.AuthenticatedAt = proven.State(r.ACRValues, r.since(u.Now))
}

// checkFamily returns a RequirementError if a token family's level is below what its deployment, its client and the
// organization of its grant require now, or if that organization requires a sign-in by its connections. The account's
// own second step does not count: apps that were connected before it was turned on stay connected.
func checkFamily(u *account.Unit, client *Client, user people.User, place Place, family people.TokenFamily) error {
	if place.Member != nil {
		err := account.CheckFamilyConnection(u, family, *place.Member)
		if required := new(account.ConnectionRequiredError); errors.As(err, &required) {
			return &RequirementError{Connection: true}
		}
		if err != nil {
			return err
		}
	}
	level, _ := family.Proven()
	required := max(u.DeploymentRequires(user.CreatedAt, u.Now), client.Assurance.Effective())
	if place.Member != nil && level < assurance.PhishingResistant {
		workspaces, err := u.Organizations().WorkspaceMembershipsOf(user.ID, place.Member.Organization.ID)
		if err != nil {
			return err
		}
		required = max(required, account.OutstandingOf(u.Tenant, family, *place.Member, workspaces, u.Now))
	}
	if level < required {
		return &RequirementError{Required: required}
	}
	return nil
}

// lacksOnlyAssurance reports whether a place permits all scopes, and only its organization's level is missing.
func lacksOnlyAssurance(missing []string) bool {
	return slices.Equal(missing, []string{MissingAssurance})
}
