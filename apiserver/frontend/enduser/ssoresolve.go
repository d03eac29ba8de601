package enduser

import (
	"encoding/json"
	"errors"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// resolved is what an evaluated response led to.
type resolved struct {
	// outcome is that of metrics: signed_in, created, linked, reauthenticated or pending.
	outcome string
}

// resolveSSO completes the attempt of an evaluated response, once, and does what the response leads to.
func resolveSSO(u *unit, c *call, at waitingAttempt, e connection.Evidence) (out resolved, err error) {
	a, err := u.attemptOf(at.row.Attempt)
	if err != nil {
		return out, err
	}
	conn, err := lockConnection(u, at.row.Connection, e)
	if err != nil || conn.Client.ID != at.conn.Client.ID {
		return out, account.FirstOf(err, errInvalidAttempt)
	}
	at.conn = conn
	completed, err := completeSSO(u, c, a.ID, e)
	if err != nil || !completed {
		return out, account.FirstOf(err, errInvalidAttempt)
	}
	s, holder, err := situationOf(u, at, e)
	if err != nil {
		return out, err
	}
	a.FirstName, a.LastName, a.Proofs = e.FirstName, e.LastName, withProofs(a.Proofs, proofsOf(at.conn, e), e.ProvenAt())
	switch outcome := connection.Resolve(s); outcome {
	case connection.RefusesTaken:
		return out, refusalOf(at.row.Intent)
	case connection.RefusesMore:
		return out, account.ErrTooManyIdentities
	case connection.RefusesUnknown:
		return out, account.ErrNotProvisioned
	case connection.Links:
		return resolved{outcome: "linked"}, linkSSO(u, a, at, e, s)
	case connection.SignsIn:
		if at.row.Intent == people.IntentReauthenticate {
			return resolved{outcome: "reauthenticated"}, reauthenticateSSO(u, a, at, e)
		}
		if at.row.Intent == people.IntentLink {
			if err := endAttempt(u, a.ID); err != nil {
				return out, err
			}
			return resolved{outcome: "linked"}, account.UseIdentity(u.Unit, at.row.User, account.ConnectionSignIn{Connection: at.conn, Evidence: e})
		}
		a.User = s.Owner
	case connection.LinksByAddress:
		a.User, a.Email = holder.User, holder.Address
	case connection.Creates:
		a.User, a.Email = 0, e.Email
	case connection.ProvesAddress:
		a.Email = e.Email
		return resolved{outcome: "pending"}, askForCode(u, c, a, holder, at.row.Connection)
	case connection.AsksForAddress:
		a.Email = ""
		return resolved{outcome: "pending"}, updateAttempt(u, a)
	}
	if err := enforceOn(u, at.row.Connection, a); err != nil {
		return out, err
	}
	if err := updateAttempt(u, a); err != nil {
		return out, err
	}
	return proceedSSO(u, c, a)
}

// lockConnection locks the connection of a response. It refuses a response of a provider that the connection no longer
// has, also if the attempt waited for a code or a second factor meanwhile.
func lockConnection(u *unit, id int64, e connection.Evidence) (account.Connection, error) {
	conn, err := account.LockConnection(u.Unit, id)
	if err != nil {
		return conn, err
	}
	if !e.Fits(conn.Connection) {
		return conn, errInvalidAttempt
	}
	return conn, nil
}

// updateAttempt stores what an attempt learned. The attempt may have completed, or been deleted, since it was read.
func updateAttempt(u *unit, a people.Attempt) error {
	updated, err := u.Attempts().UpdateAttempt(a)
	if err != nil || !updated {
		return account.FirstOf(err, errInvalidAttempt)
	}
	return nil
}

// completeSSO stores what is known of the user with the attempt, and reports whether this call completed the attempt.
func completeSSO(u *unit, c *call, id int64, e connection.Evidence) (bool, error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return false, err
	}
	return u.Connections().CompleteSSOAttempt(id, sealAttempt(c, id, raw), u.Now)
}

// refusalOf returns the refusal of an identity that another account has, or that is not the account's own.
func refusalOf(intent string) error {
	if intent == people.IntentReauthenticate {
		return errOtherIdentity
	}
	return account.ErrIdentityExists
}

// situationOf returns what decides about a response, and the address of the account that would be selected by it.
func situationOf(u *unit, at waitingAttempt, e connection.Evidence) (s connection.Situation, holder people.Email, err error) {
	s = connection.Situation{
		Intent: at.row.Intent, Account: at.row.User, Address: e.Email, Authoritative: e.Authoritative, Verified: e.Verified,
		RefusesSignUp: at.conn.RefusesSignUp, TrustsEmail: at.conn.TrustsEmail,
	}
	known, found, err := u.Identities().IdentityOf(at.row.Connection, e.Issuer, e.Subject)
	if err != nil {
		return s, holder, err
	}
	if found {
		s.Owner = known.User
	}
	if s.Intent == people.IntentSignIn {
		provisioned, err := account.ProvisionedBy(u.Unit, at.conn, e.Subject, e.Email)
		switch {
		case err != nil:
			return s, holder, err
		case provisioned.Inactive:
			return s, holder, account.ErrNotProvisioned
		case provisioned.User != 0:
			s.Provisioned, s.Holder = true, provisioned.User
			return s, people.Email{User: provisioned.User, Address: provisioned.Address}, nil
		}
	}
	if at.row.User != 0 {
		have, err := u.Identities().IdentitiesOf(at.row.User)
		if err != nil {
			return s, holder, err
		}
		s.Identities = len(have)
	}
	if e.Email == "" {
		return s, holder, nil
	}
	if holder, err = account.AddressForCode(u.Unit, e.Email); err != nil {
		return s, holder, err
	}
	s.Holder = holder.User
	if !s.Authoritative {
		s.Authoritative, err = account.Authoritative(u.Unit, at.conn, e.Email)
	}
	return s, holder, err
}

// enforceOn refuses a sign-in if the address of the response, or the primary address of the account, belongs to a
// domain whose users must sign in by other connections than the used one.
func enforceOn(u *unit, used int64, a people.Attempt) error {
	addresses := []string{a.Email}
	if a.User != 0 {
		user, found, err := u.Users().User(a.User)
		if err != nil {
			return err
		}
		if found {
			addresses = append(addresses, user.Email)
		}
	}
	for _, address := range addresses {
		if err := account.RequireNoConnection(u.Unit, address, used); err != nil {
			return err
		}
	}
	return nil
}

// askForCode mails a code to the address of an attempt that used a connection.
func askForCode(u *unit, c *call, a people.Attempt, holder people.Email, used int64) error {
	if err := c.requireEmail(); err != nil {
		return err
	}
	if err := account.RequireNoConnection(u.Unit, a.Email, used); err != nil {
		return err
	}
	a.User = holder.User
	if err := updateAttempt(u, a); err != nil {
		return err
	}
	return sendSSOCode(c, u.Unit, a, holder)
}

// connectionOf returns the connection of an attempt.
func connectionOf(u *unit, attempt int64) (int64, error) {
	row, found, err := u.Connections().SSOAttempt(attempt)
	if err != nil || !found {
		return 0, account.FirstOf(err, errInvalidAttempt)
	}
	return row.Connection, nil
}

// endAttempt completes an attempt, once.
func endAttempt(u *unit, id int64) error {
	first, err := u.Attempts().CompleteAttempt(id)
	if err != nil || !first {
		return account.FirstOf(err, errInvalidAttempt)
	}
	return nil
}

// linkSSO adds an identity to the account whose fresh sign-in began the attempt. An address that the provider is
// authoritative for, and that no account can sign in with, is added too.
func linkSSO(u *unit, a people.Attempt, at waitingAttempt, e connection.Evidence, s connection.Situation) error {
	g := u.signedIn()
	if g == nil || g.ID != at.row.SignIn || g.User != at.row.User {
		return errInvalidAttempt
	}
	if err := requireOwn(u, people.IntentLink); err != nil {
		return err
	}
	if err := endAttempt(u, a.ID); err != nil {
		return err
	}
	user, found, err := u.Users().LockUser(g.User)
	if err != nil || !found {
		return account.FirstOf(err, account.ErrUserUnknown)
	}
	if _, err := account.LinkIdentity(u.Unit, user.ID, account.ConnectionSignIn{Connection: at.conn, Evidence: e}); err != nil {
		return err
	}
	if !s.Authoritative || s.Address == "" {
		return nil
	}
	return addProven(u, user.ID, e.Email)
}

// addProven adds a verified address to an account, unless an account can sign in with it already or the account has as
// many as it may.
func addProven(u *unit, user int64, address string) error {
	added, err := account.AddEmail(u.Unit, user, address)
	if errors.Is(err, account.ErrOwnEmail) || errors.Is(err, account.ErrTooManyEmails) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = account.AcceptEmail(u.Unit, added)
	if errors.Is(err, account.ErrEmailTaken) {
		return account.RemoveEmail(u.Unit, added)
	}
	return err
}

// reauthenticateSSO records that the provider authenticated the signed-in user again.
func reauthenticateSSO(u *unit, a people.Attempt, at waitingAttempt, e connection.Evidence) error {
	g := u.signedIn()
	if g == nil || g.ID != at.row.SignIn || g.User != at.row.User {
		return errInvalidAttempt
	}
	if err := endAttempt(u, a.ID); err != nil {
		return err
	}
	return u.prove(g.User, proofsAgain(g, at.conn, e)...)
}

// proceedSSO continues a sign-in whose account is known: it signs the user in, or the attempt waits for a second
// factor.
func proceedSSO(u *unit, c *call, a people.Attempt) (resolved, error) {
	if a.User == 0 {
		return resolved{outcome: "created"}, finishSSO(u, c, a)
	}
	_, more, err := evaluate(u, a)
	if err != nil {
		return resolved{}, err
	}
	if more {
		return resolved{outcome: "pending"}, waitForFactor(u, c, a)
	}
	return resolved{outcome: "signed_in"}, finishSSO(u, c, a)
}

// finishSSO completes a sign-in by a connection: it creates the account if the attempt has none, adds the identity,
// makes the user a member of the connection's organization, and signs the user in. A disabled account is refused after
// that.
func finishSSO(u *unit, c *call, a people.Attempt) error {
	if err := endAttempt(u, a.ID); err != nil {
		return err
	}
	row, found, err := u.Connections().SSOAttempt(a.ID)
	if err != nil || !found || row.Claims == "" {
		return account.FirstOf(err, errInvalidAttempt)
	}
	var e connection.Evidence
	if err := openAttempt(c, a.ID, row.Claims, &e); err != nil {
		return err
	}
	conn, err := lockConnection(u, row.Connection, e)
	if err != nil {
		return err
	}
	s := account.ConnectionSignIn{Connection: conn, Evidence: e, Links: a.Email != "", Address: a.Email, Proofs: a.Proofs}
	if a.User == 0 {
		if a.User, err = createBySSO(u, a, row, s); err != nil {
			return err
		}
		s.Created = true
	}
	err = u.signIn(account.NewSignIn{
		User: a.User, Method: people.MethodSSO, Event: conn.Event(), Proofs: a.Proofs,
		Prepare: func(user people.User) (people.Upstream, int64, error) { return account.AddConnection(u.Unit, user, s) },
	})
	switch {
	case errors.Is(err, account.ErrUserDisabled):
		return account.Refuse(err)
	case errors.Is(err, account.ErrUserUnknown):
		return account.ErrInvalidCredentials
	}
	return err
}

// createBySSO creates the account of an attempt. The connection's organization counts as the organization that a
// sign-up must bring.
func createBySSO(u *unit, a people.Attempt, row people.SSOAttempt, s account.ConnectionSignIn) (int64, error) {
	if s.Connection.RefusesSignUp {
		return 0, account.Refuse(account.ErrNotProvisioned) // the code is used up
	}
	brings := row.OrganizationName != "" || row.Invitation != 0 || s.Connection.Organization != ""
	a.OrganizationName, a.Invitation, a.Method = row.OrganizationName, row.Invitation, s.Connection.Event()
	return createAccount(u, a, brings)
}

// ssoAddress reads the address that an attempt waits for, and mails a code there.
func ssoAddress(u *unit, c *call, a people.Attempt, address string) error {
	if stepOf(a) == stepEnterEmail {
		if address == "" {
			return apierror.Invalid(apierror.Fault{Pointer: "/email", Message: "is required: the identity provider stated no address"})
		}
		a.Email = address
	} else if address != "" {
		return apierror.Invalid(apierror.Fault{Pointer: "/email", Message: "is only for an attempt at the step enter_email: omit it"})
	}
	holder, err := account.AddressForCode(u.Unit, a.Email)
	if err != nil {
		return err
	}
	used, err := connectionOf(u, a.ID)
	if err != nil {
		return err
	}
	return askForCode(u, c, a, holder, used)
}

// acceptSSOCode continues a sign-in by a connection whose code was right.
func acceptSSOCode(u *unit, c *call, a people.Attempt) error {
	holder, err := account.AddressForCode(u.Unit, a.Email)
	if err != nil {
		return err
	}
	a.User, a.Proofs = holder.User, a.Proofs.With(assurance.EmailOTP, u.Now)
	used, err := connectionOf(u, a.ID)
	if err != nil {
		return err
	}
	if err := enforceOn(u, used, a); err != nil {
		return err
	}
	if err := updateAttempt(u, a); err != nil {
		return err
	}
	_, err = proceedSSO(u, c, a)
	return err
}
