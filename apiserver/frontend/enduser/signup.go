package enduser

import (
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// signUpRequest is the body of a sign-up.
type signUpRequest struct {
	email, password, firstName, lastName, organization, invitation string
	hasPassword                                                    bool
}

func readSignUp(c *call) (q signUpRequest, err error) {
	settings := c.request.Settings.EffectiveSignIn()
	err = c.parse(func(o *body.Object) {
		q.email = required(o, "email", input.Email)
		q.firstName, q.lastName = ptr.Deref(input.PersonName(o, "first_name"), ""), ptr.Deref(input.PersonName(o, "last_name"), "")
		q.organization = ptr.Deref(input.Name(o, "organization_name"), "")
		q.invitation, _ = o.String("invitation_token")
		if o.Has("organization_name") && o.Has("invitation_token") {
			o.Fault("invitation_token", "and organization_name exclude each other: send one of them")
		}
		switch q.password, q.hasPassword = o.String("password"); {
		case o.Has("password") && !settings.Password:
			o.Fault("password", "is not enabled in this deployment: omit it, and use the emailed code")
		case !o.Has("password") && !settings.EmailCode:
			o.Fault("password", "is required: this deployment has no emailed codes to sign in with")
		}
	})
	if err != nil || !q.hasPassword {
		return q, err
	}
	if err := password.Validate(q.password, settings.PasswordMinLength, q.email, q.firstName, q.lastName); err != nil {
		return q, apierror.Bad("WEAK_PASSWORD", "%s", err)
	}
	return q, nil
}

// signUp begins a sign-up. The account is created only after the emailed code is verified. Signing up with an address
// that is already in use returns the same response in the same time, and its owner is notified by mail.
func signUp(c *call) (reply, error) {
	if c.request.Settings.EffectiveSignIn().ConnectionsOnly {
		all, err := account.DeploymentConnections(c.r.Context(), c.request)
		return reply{}, c.answerTo(account.FirstOf(err, &account.ConnectionRequiredError{Connections: all}))
	}
	q, err := readSignUp(c)
	if err != nil {
		return reply{}, err
	}
	if err := requireNoConnection(c, q.email); err != nil {
		return reply{}, err
	}
	if err := c.requireEmail(); err != nil {
		return reply{}, err
	}
	tenant := c.request.Tenant
	if q.organization != "" {
		if err := tenant.RequireOwnable(); err != nil {
			return reply{}, c.answerTo(err)
		}
	}
	if err := tenant.RequireOrganization(q.organization != "" || q.invitation != ""); err != nil {
		return reply{}, c.answerTo(err)
	}
	a := people.Attempt{
		Kind: people.AttemptSignUp, Method: people.MethodEmailOTP, Email: q.email, FirstName: q.firstName, LastName: q.lastName,
		OrganizationName: q.organization,
	}
	if q.hasPassword {
		a.Method = people.MethodPassword
		if a.PasswordHash, err = hashFor(c, q); err != nil {
			return reply{}, err
		}
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		begun := a
		if q.invitation != "" {
			invitation, err := account.OpenInvitation(u.Unit, q.invitation, q.email)
			if err != nil {
				return reply{}, err
			}
			begun.Invitation = invitation.ID
		}
		e, err := account.AddressForCode(u.Unit, q.email) // zero if the address cannot sign in to any account
		if err != nil {
			return reply{}, err
		}
		return reply{}, c.begin(u, begun, e)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// hashFor hashes the password of a sign-up. It calls precheck first, so that a request that would be refused does not
// cost a hash. The transaction checks again.
func hashFor(c *call, q signUpRequest) (string, error) {
	if err := precheck(c, q); err != nil {
		return "", err
	}
	hash, err := c.Hasher.Hash(c.r.Context(), hashClient(c), q.password)
	return hash, c.answerTo(err)
}

// hashClient returns the client for which the request's hashes are counted.
func hashClient(c *call) password.Client {
	return password.Client{Deployment: c.request.Key(), Network: c.request.Client.Network, WideNetwork: c.request.Client.WideNetwork}
}

// precheck refuses a sign-up with an invalid invitation, or whose client is at a limit.
func precheck(c *call, q signUpRequest) error {
	return c.view(func(u *account.Unit) error {
		if q.invitation != "" {
			if _, err := account.OpenInvitation(u, q.invitation, q.email); err != nil {
				return err
			}
		}
		folded := people.FoldEmail(q.email)
		owner, err := account.AddressForCode(u, folded)
		if err != nil {
			return err
		}
		if c.session == nil {
			if err := mayPend(u, owner.User); err != nil {
				return err
			}
		}
		return c.codes.MaySend(u, verification.Target{Purpose: people.PurposeSignUp, Channel: people.ChannelMail, Account: owner.User, Recipient: folded})
	})
}

// completeSignUp creates the account, creates its organization or accepts its invitation, and signs the user in. It
// uses the current B2B settings.
func (u *unit) completeSignUp(a people.Attempt) error {
	user, err := createAccount(u, a, a.OrganizationName != "" || a.Invitation != 0)
	if err != nil {
		return err
	}
	return u.signIn(account.NewSignIn{User: user, Method: a.Method, Proofs: assurance.Proofs{}.With(assurance.EmailOTP, u.Now)})
}

// createAccount creates the account of an attempt, creates its organization or accepts its invitation, and returns the
// account's id. brings reports whether the user gets into an organization.
func createAccount(u *unit, a people.Attempt, brings bool) (int64, error) {
	if err := u.RequireOrganization(brings); err != nil {
		return 0, err
	}
	user, err := u.CreateAccount(account.NewAccount{
		Email: a.Email, FirstName: a.FirstName, LastName: a.LastName, PasswordHash: a.PasswordHash, Method: a.Method,
	})
	if err != nil {
		return 0, err
	}
	self := "user:" + format(user.ID)
	if err := u.AuditAs(self, "user.created", self, u.Session); err != nil {
		return 0, err
	}
	if u.B2B.Enabled && a.OrganizationName != "" {
		created, err := account.CreateOwnOrganization(u.Unit, user.ID, a.OrganizationName, "")
		if err != nil {
			return 0, err
		}
		if err := u.AuditAs(self, "organization.created", "organization:"+format(created.Member.Organization.ID), u.Session); err != nil {
			return 0, err
		}
		if err := u.Users().SetLastOrganization(user.ID, created.Member.Organization.ID); err != nil {
			return 0, err
		}
	}
	if a.Invitation != 0 {
		if err := u.joinByInvitation(a, user.ID); err != nil {
			return 0, err
		}
	}
	return user.ID, nil
}

// joinByInvitation accepts the invitation of a sign-up. If the invitation is no longer valid, the sign-up continues
// without it, because the address is verified. It fails only if the deployment requires an organization.
func (u *unit) joinByInvitation(a people.Attempt, user int64) error {
	invitation, found, err := u.Organizations().Invitation(a.Invitation)
	if err != nil {
		return err
	}
	accepted := false
	if found && u.B2B.Enabled && people.FoldEmail(invitation.Email) == people.FoldEmail(a.Email) {
		if accepted, err = account.Accept(u.Unit, invitation, user); err != nil {
			return err
		}
	}
	if !accepted && u.B2B.Enabled && u.B2B.RequireOrgForSignup {
		return account.ErrInvalidInvitation
	}
	return nil
}
