package enduser

import (
	"context"
	"errors"
	"time"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/password"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

// attemptLifetime bounds an attempt of a signed-in session; those of an anonymous one end with it.
const attemptLifetime = time.Hour

// signUpRequest is the body of a sign-up.
type signUpRequest struct {
	email, password, firstName, lastName, organization, invitation string
	hasPassword                                                    bool
}

func (c *call) readSignUp() (q signUpRequest, err error) {
	settings := c.settings.EffectiveSignIn()
	err = c.parse(func(o *body.Object) {
		q.email = readEmail(o, "email")
		q.firstName, q.lastName = readName(o, "first_name"), readName(o, "last_name")
		q.organization = readOrganizationName(o, "organization_name", false)
		q.invitation, _ = o.String("invitation_token")
		if o.Has("organization_name") && o.Has("invitation_token") {
			o.Fault("invitation_token", "and organization_name exclude each other: send one of them")
		}
		switch q.password, q.hasPassword = o.String("password"); {
		case o.Has("password") && !settings.Password:
			o.Fault("password", "is not enabled in this deployment: leave it out, and use the emailed code")
		case !o.Has("password") && !settings.EmailCode:
			o.Fault("password", "is required: this deployment has no emailed codes to sign in with")
		}
	})
	if err != nil || !q.hasPassword {
		return q, err
	}
	if err := password.Judge(q.password, settings.PasswordMinLength, q.email, q.firstName, q.lastName); err != nil {
		return q, apierror.Bad("WEAK_PASSWORD", "%s", err)
	}
	return q, nil
}

// readOrganizationName reads the name of an organization or workspace.
func readOrganizationName(o *body.Object, name string, required bool) string {
	if required {
		o.Require(name)
	}
	value, ok := o.String(name)
	if !ok {
		return ""
	}
	trimmed, err := text.Name(value)
	if err != nil {
		o.Fault(name, "%s", err)
	}
	return trimmed
}

// signUp begins a sign-up: nobody exists before the emailed code proved the address. An address that is taken is answered as a
// new one is, in the same time; its owner is told by mail.
func (c *call) signUp() (any, error) {
	q, err := c.readSignUp()
	if err != nil {
		return nil, err
	}
	if err := c.requireEmail(); err != nil {
		return nil, err
	}
	d := c.directory()
	if q.organization != "" {
		if err := d.RequireB2B(); err != nil {
			return nil, err
		}
	}
	if d.B2B.Enabled && d.B2B.RequireOrgForSignup && q.organization == "" && q.invitation == "" {
		return nil, organizationRequired()
	}
	hash := ""
	if q.hasPassword {
		// Who is refused anyway costs no hash. The transaction judges once more.
		if err := c.mayBegin(q); err != nil {
			return nil, err
		}
		if hash, err = c.Hasher.Hash(c.r.Context(), c.network, q.password, c.Random); err != nil {
			return nil, busy(err)
		}
	}
	a := people.Attempt{
		Kind: people.AttemptSignUp, Method: people.MethodEmailOTP, Email: q.email, FirstName: q.firstName, LastName: q.lastName,
		PasswordHash: hash, OrganizationName: q.organization,
	}
	if q.hasPassword {
		a.Method = people.MethodPassword
	}
	return c.beginWithCode(a, func(tx people.Tx, a *people.Attempt) error {
		if q.invitation == "" {
			return nil
		}
		invitation, err := c.openInvitation(tx, q.invitation, q.email)
		a.Invitation = invitation.ID
		return err
	})
}

func organizationRequired() error {
	return apierror.Bad("ORGANIZATION_REQUIRED", "this deployment takes sign-ups only into an organization: send organization_name or invitation_token")
}

// busy turns the hash queue's answer into a refusal.
func busy(err error) error {
	if errors.Is(err, password.ErrBusy) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		r := apierror.Unavailable(err, "too many passwords are being checked at once: try again")
		r.RetryAfter = 2 * time.Second
		return r
	}
	return err
}

// completeSignUp creates the account, with the organization it brought or was invited to, and signs it in. The B2B settings of this
// moment count.
func (c *call) completeSignUp(tx people.Tx, a people.Attempt) error {
	d := c.directory()
	if d.B2B.Enabled && d.B2B.RequireOrgForSignup && a.OrganizationName == "" && a.Invitation == 0 {
		return organizationRequired()
	}
	user, err := d.CreateAccount(tx, directory.NewAccount{
		Email: a.Email, FirstName: a.FirstName, LastName: a.LastName, PasswordHash: a.PasswordHash, Method: a.Method, Origin: c.origin(),
	})
	if err != nil {
		return err
	}
	if d.B2B.Enabled && a.OrganizationName != "" {
		created, err := d.CreateOrganization(tx, user.ID, a.OrganizationName, "", c.origin())
		if err != nil {
			return err
		}
		if err := tx.PlaceUser(user.ID, created.Member.Organization.ID); err != nil {
			return err
		}
	}
	if a.Invitation != 0 {
		if err := c.joinByInvitation(tx, d, a, user.ID); err != nil {
			return err
		}
	}
	return c.completeSignIn(tx, user.ID, a.Method)
}

// joinByInvitation accepts the invitation a sign-up came with. One that is over meanwhile matters only where an organization is
// required: the address is proven all the same.
func (c *call) joinByInvitation(tx people.Tx, d *directory.Directory, a people.Attempt, user int64) error {
	invitation, found, err := tx.Invitation(a.Invitation)
	if err != nil {
		return err
	}
	accepted := false
	if found && d.B2B.Enabled {
		if accepted, err = tx.AcceptInvitation(invitation.ID, c.now); err != nil {
			return err
		}
	}
	if !accepted {
		if d.B2B.Enabled && d.B2B.RequireOrgForSignup {
			return invalidInvitation()
		}
		return nil
	}
	return c.join(tx, d, invitation, user)
}

// completeSignIn adds an account to the session, which is no longer anonymous then, and gives the browser a token nobody else knows.
func (c *call) completeSignIn(tx people.Tx, userID int64, method string) error {
	// Other sessions are locked before the user, as everywhere.
	if err := c.makeRoom(tx, userID); err != nil {
		return err
	}
	user, found, err := tx.LockUser(userID)
	if err != nil {
		return err
	}
	if !found {
		return invalidCredentials()
	}
	if user.Disabled {
		return &usedUp{userDisabled()}
	}
	if err := c.addSignIn(tx, user, method); err != nil {
		return err
	}
	if err := c.directory().CountSignIn(tx, user.ID, method, c.origin()); err != nil {
		return err
	}
	return c.audit(tx, "user:"+format(user.ID), "session.signed_in", "session:"+format(c.session.ID), c.session.ID)
}
