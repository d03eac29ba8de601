package consent

import (
	"errors"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/redirecturi"
	"github.com/cardea-iam/cardea/store/people"
)

// Step is the next step of an authorization request.
type Step string

// The steps.
const (
	// StepSignIn: no user is signed in.
	StepSignIn Step = "sign_in"
	// StepProve: the user must authenticate again.
	StepProve Step = "reauthenticate"
	// StepStepUp: the user must show a stronger proof, which the account has.
	StepStepUp Step = "step_up"
	// StepEnroll: the user must add a factor first.
	StepEnroll Step = "enroll"
	// StepDecide: the user must decide, and choose a place.
	StepDecide Step = "decide"
	// StepAnswer: the request can be answered without asking the user.
	StepAnswer Step = "answer"
	// StepRefused: the client is refused. The browser may only return to it when the user follows a link.
	StepRefused Step = "refused"
)

// Person is the user who decides, by a sign-in of a session.
type Person struct {
	Session int64
	*people.SignIn
}

// Actor returns the sign-in that decides: the active one or, if the client requested a certain user, that user's. It
// returns nil if there is none.
func (r *Request) Actor(session int64, signIns []people.SignIn, active *people.SignIn) *Person {
	if r.Hinted != 0 {
		at := slices.IndexFunc(signIns, func(g people.SignIn) bool { return g.User == r.Hinted })
		if active = nil; at >= 0 {
			active = &signIns[at]
		}
	}
	if active == nil {
		return nil
	}
	return &Person{Session: session, SignIn: active}
}

// Offer is the next step for a user and what the user can decide.
type Offer struct {
	Step Step
	// Options are the places to choose from. Place is the place that applies if Step is StepAnswer, and otherwise a
	// proposal, the zero Place for none.
	Options []Option
	Place   Place
	// Back is the link to the client with the refusal, for StepRefused.
	Back string
	// Missing is what StepStepUp and StepEnroll need. For StepDecide it is what an organization requires for which the
	// user need not be asked otherwise, nil for nothing.
	Missing *account.AssuranceError
}

// Offer returns the next step for a person; nil means that no user is signed in. An account.AssuranceError: the sign-in
// has proven less than the account or the deployment requires.
func (r *Request) Offer(u *account.Unit, person *Person) (Offer, error) {
	if person == nil {
		return Offer{Step: StepSignIn}, nil
	}
	user, found, err := u.Users().User(person.User)
	if err != nil || !found || user.Disabled {
		return Offer{Step: StepSignIn}, err
	}
	if err := u.CheckHeld(person.SignIn); err != nil {
		if !r.Has("none") {
			return Offer{}, err
		}
		step, missing, err := stepFor(err) // the page may not ask
		return Offer{Step: step, Missing: missing}, err
	}
	if err := r.checkConfined(u, person.SignIn); err != nil {
		if !r.Has("none") {
			return Offer{}, err
		}
		step, missing, err := stepFor(err)
		return Offer{Step: step, Missing: missing}, err
	}
	if step, missing, err := r.prove(u, person); err != nil || step != "" {
		return Offer{Step: step, Missing: missing}, err
	}
	offer := Offer{Step: StepDecide}
	if offer.Options, err = r.options(u, person); err != nil {
		return offer, err
	}
	grants, err := r.granted(u, person.User)
	if err != nil {
		return offer, err
	}
	if err := r.choosePlace(u, &offer, person, grants); err != nil {
		return offer, err
	}
	if r.Has("consent") || r.Has("select_account") {
		offer.Step = StepDecide
	}
	if offer.Step == StepDecide && r.firstOffline(grants) {
		if fresh, err := account.Fresh(u, person.SignIn); err != nil || !fresh {
			return Offer{Step: StepProve}, err
		}
	}
	return offer, nil
}

// firstOffline reports whether the client requests its first tokens that outlive the sign-in.
func (r *Request) firstOffline(grants []people.Grant) bool {
	return slices.Contains(r.Scopes, ScopeOffline) && !slices.ContainsFunc(grants, func(g people.Grant) bool { return slices.Contains(g.Scopes, ScopeOffline) })
}

// granted returns the user's earlier grants to the client, newest first.
func (r *Request) granted(u *account.Unit, user int64) ([]people.Grant, error) {
	all, err := u.OAuth().GrantsOf(user)
	return slices.DeleteFunc(all, func(g people.Grant) bool { return g.App != r.App.Entry.ID || g.Client != r.Client.ID }), err
}

// choosePlace sets the place of the offer, and sets StepAnswer if the user need not be asked.
func (r *Request) choosePlace(u *account.Unit, offer *Offer, person *Person, grants []people.Grant) error {
	for _, g := range grants {
		place, err := PlaceOf(u, person.User, g.Organization, g.Workspace)
		if err != nil {
			return err
		}
		organization, workspace := place.IDs()
		if organization != g.Organization || workspace != g.Workspace {
			continue
		}
		answers := covers(g.Scopes, r.Scopes) && covers(g.Resources, r.Resources) && r.identified()
		missing, err := r.missing(u, person, place)
		if err != nil {
			return err
		}
		if answers && lacksOnlyAssurance(missing) && offer.Missing == nil {
			if _, offer.Missing, err = stepFor(u.CheckIn(person.SignIn, *place.Member)); err != nil {
				return err
			}
		}
		if len(missing) > 0 {
			continue
		}
		if offer.Place.Member == nil {
			offer.Place = place
		}
		if answers {
			offer.Place, offer.Step, offer.Missing = place, StepAnswer, nil
			return nil
		}
	}
	fitting := slices.DeleteFunc(slices.Clone(offer.Options), func(o Option) bool { return len(o.Missing) > 0 })
	active := slices.IndexFunc(fitting, func(o Option) bool { return o.Member.Organization.ID == person.Organization })
	switch {
	case offer.Place.Member != nil: // the place of an earlier grant
	case len(fitting) == 1:
		offer.Place = fitting[0].Place
	case active >= 0:
		offer.Place = fitting[active].Place
	}
	// Offline access needs one consent even for clients that skip consent (OpenID Connect Core 11). If an earlier grant
	// covers the request, the loop above has answered it.
	skips := r.Client.SkipsConsent && !slices.Contains(r.Scopes, ScopeOffline)
	if !skips || !r.identified() {
		return nil
	}
	missing, err := r.missing(u, person, offer.Place)
	if err == nil && len(missing) == 0 {
		offer.Step, offer.Missing = StepAnswer, nil
	}
	return err
}

// identified reports whether the client's identity is certain: the client authenticates, or only it receives the
// response. For a client without a certain identity, an earlier grant does not skip the question (RFC 8252 8.6): any
// program on the machine can impersonate the client.
func (r *Request) identified() bool {
	if r.Device != nil { // the sender of the user code may control the device
		return false
	}
	form, err := redirecturi.Classify(r.RedirectURI)
	return !r.Client.Public() || err == nil && form == redirecturi.HTTPS
}

// Resolve answers a request that needs no question, and returns the URI for the browser, "" if the user must be asked.
// A refusal of prompt=none redirects to trusted clients only; for a client that registered itself the step is
// StepRefused (RFC 9700 4.11.2).
func (r *Request) Resolve(u *account.Unit, person *Person) (Offer, string, error) {
	offer, err := r.Offer(u, person)
	switch {
	case err != nil:
		return offer, "", err
	case offer.Step == StepAnswer:
		to, err := r.allow(u, person, offer.Place)
		return offer, to, err
	case r.Has("none"):
		code := offer.unasked()
		const description = "the user would have to be asked"
		if !r.Client.Trusted() { // the request remains until it expires, so that the page can be loaded again
			offer.Step, offer.Back = StepRefused, r.answer("error", code, "error_description", description)
			return offer, "", nil
		}
		to, err := r.refuse(u, code, description)
		return offer, to, err
	}
	return offer, "", nil
}

// Allow records that a user grants the request in an organization and a workspace (0 for none), and returns the URI for
// the browser with the code. ErrStep: another step comes first. ErrPlace: not all scopes can be granted there.
func (r *Request) Allow(u *account.Unit, person *Person, organization, workspace int64) (string, error) {
	offer, err := r.Offer(u, person)
	if err != nil {
		return "", err
	}
	switch {
	case offer.Step == StepStepUp || offer.Step == StepEnroll:
		return "", offer.Missing
	case offer.Step != StepDecide && offer.Step != StepAnswer:
		return "", ErrStep
	}
	place, err := PlaceOf(u, person.User, organization, workspace)
	if err != nil {
		return "", err
	}
	if o, w := place.IDs(); o != organization || w != workspace || len(r.App.missing(u, r.Scopes, place)) > 0 {
		return "", ErrPlace
	}
	if place.Member != nil {
		if err := u.CheckIn(person.SignIn, *place.Member); err != nil {
			return "", err
		}
	}
	return r.allow(u, person, place)
}

// unasked returns the error code for a client whose request cannot be answered without asking the user (OpenID Connect
// Core 3.1.2.6).
func (o Offer) unasked() string {
	switch {
	case o.Step == StepEnroll, o.Step == StepDecide && o.Missing != nil && errors.Is(o.Missing, account.ErrEnroll):
		return "interaction_required"
	case o.Step == StepDecide && o.Missing == nil:
		return "consent_required"
	}
	return "login_required"
}

// Deny ends the request, and returns the URI for the browser. A user who must add a factor first and refuses ends it
// with unmet_authentication_requirements.
func (r *Request) Deny(u *account.Unit, person *Person) (string, error) {
	if person == nil {
		return "", ErrStep
	}
	if err := u.Audit("oauth.denied", "oauth_client:"+r.Client.ID); err != nil {
		return "", err
	}
	enrolls, err := r.needsEnrollment(u, person)
	switch {
	case err != nil:
		return "", err
	case enrolls:
		return r.refuse(u, "unmet_authentication_requirements", "the user added no factor that the request needs")
	}
	return r.refuse(u, "access_denied", "the user refused")
}

// needsEnrollment reports whether the user must add a factor before the decision.
func (r *Request) needsEnrollment(u *account.Unit, person *Person) (bool, error) {
	step, _, err := stepFor(u.CheckHeld(person.SignIn))
	if err == nil && step == "" {
		step, _, err = r.prove(u, person)
	}
	return step == StepEnroll, err
}

func (r *Request) refuse(u *account.Unit, code, description string) (string, error) {
	if _, err := u.OAuth().DeleteAuthorizationRequest(r.Hash); err != nil {
		return "", err
	}
	if r.Device != nil {
		return r.decideDevice(u, people.DeviceDenied, 0)
	}
	return r.answer("error", code, "error_description", description), nil
}

// touch records the use of a runtime client, at most once per touchInterval. Unused clients are evicted first.
func (r *Request) touch(u *account.Unit) error {
	if r.Client.Registered == nil || u.Now.Before(r.Client.Registered.UsedAt.Add(touchInterval)) {
		return nil
	}
	row, found, err := u.OAuthClients().LockOAuthClient(r.Client.Registered.App, r.Client.ID) // a concurrent request may be changing it
	if err != nil {
		return err
	}
	if !found {
		return ErrRequestUnknown
	}
	if row.UsedAt.IsZero() {
		row.Network = u.Client.WideNetwork
	}
	row.UsedAt = u.Now
	return u.OAuthClients().UpdateOAuthClient(row)
}

// allow writes the grant and a code for it.
func (r *Request) allow(u *account.Unit, person *Person, place Place) (string, error) {
	deleted, err := u.OAuth().DeleteAuthorizationRequest(r.Hash)
	if err != nil {
		return "", err
	}
	if !deleted { // another tab answered the request first
		return "", ErrRequestUnknown
	}
	before, err := r.granted(u, person.User)
	if err != nil {
		return "", err
	}
	grant, err := r.grant(u, person, place, before)
	if err != nil {
		return "", err
	}
	if r.firstOffline(before) {
		change := "The app " + messages.Quoted(r.Client.Name, "without a name") + " was granted access to your account that lasts while you are signed out."
		if err := u.Notify(person.User, change); err != nil {
			return "", err
		}
	}
	if err := r.touch(u); err != nil {
		return "", err
	}
	family := people.TokenFamily{
		Grant: grant.ID, App: grant.App, Client: grant.Client, User: grant.User, Organization: grant.Organization, Workspace: grant.Workspace,
		Session: person.Session, SignIn: person.ID, Connection: person.Upstream.Connection, Scopes: r.Scopes, Resources: r.Resources, Nonce: r.Nonce, Method: person.Method,
		Offline: slices.Contains(r.Scopes, ScopeOffline), Backchannel: r.Client.BackchannelLogoutURI != "", CreatedAt: u.Now, UsedAt: u.Now, ExpiresAt: u.Now.Add(CodeLifetime),
	}
	if family.ID, err = u.NewID(); err != nil {
		return "", err
	}
	r.stated(u, person, &family)
	if r.Device != nil {
		family.ExpiresAt = u.Now.Add(DeviceLifetime)
	}
	if err := u.OAuth().InsertTokenFamily(family, MaxFamilies); err != nil {
		return "", err
	}
	if err := u.Audit("oauth.granted", "oauth_grant:"+ids.Format(grant.ID)); err != nil {
		return "", err
	}
	if r.Device != nil {
		return r.decideDevice(u, people.DeviceGranted, family.ID)
	}
	code, hash, err := session.Mint(u.Random)
	if err != nil {
		return "", err
	}
	err = u.OAuth().InsertAuthorizationCode(people.AuthorizationCode{
		Hash: hash, Family: family.ID, RedirectURI: r.RedirectURI, Challenge: r.Challenge, CreatedAt: u.Now, ExpiresAt: u.Now.Add(CodeLifetime),
	})
	if err != nil {
		return "", err
	}
	return r.answer("code", code), nil
}
