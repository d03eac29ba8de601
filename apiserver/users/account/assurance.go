package account

import (
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// The reasons of an AssuranceError.
var (
	// ErrStepUp: the account can show more, and must.
	ErrStepUp = errors.New("a stronger proof is required")
	// ErrEnroll: the account must add a factor first.
	ErrEnroll = errors.New("another factor is required")
	// ErrNotFresh: what the account has shown is too old for the operation.
	ErrNotFresh = errors.New("a recent proof is required")
)

// AssuranceError refuses an operation until the user has shown more.
type AssuranceError struct {
	// Reason is ErrStepUp, ErrEnroll or ErrNotFresh.
	Reason error
	// Required is the level that the operation needs, None for ErrNotFresh.
	Required assurance.Level
	// By is the source of the requirement; "" if the request itself asks for it.
	By assurance.Source
	// Strategies are what the account can show, the best one first; with ErrEnroll it is empty.
	Strategies []string
	// Enroll are the kinds of factors of which one would do; only with ErrEnroll.
	Enroll []string
}

func (e *AssuranceError) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e *AssuranceError) Unwrap() error { return e.Reason }

// deploymentDemand returns what the deployment requires of an account that was created at a time.
func (t *Tenant) deploymentDemand(created time.Time) assurance.Demand {
	settings, _ := t.Settings.Strong()
	requirement := settings.Required.Effective().Delayed(created, time.Duration(settings.GraceSeconds)*time.Second)
	return assurance.Demand{By: assurance.ByDeployment, Requirement: requirement}
}

// accountDemand returns what an account requires itself.
func accountDemand(twoStep bool) assurance.Demand {
	d := assurance.Demand{By: assurance.ByAccount}
	if twoStep {
		d.Level = assurance.TwoFactors
	}
	return d
}

// RequiredOfAccount returns what the account itself and its deployment require at a time.
func (t *Tenant) RequiredOfAccount(twoStep bool, created, now time.Time) assurance.Required {
	return assurance.Require(now, accountDemand(twoStep), t.deploymentDemand(created))
}

// RequiredBelow returns what the account of a sign-in and its deployment require at a time. The sign-in is that of
// SessionByToken or LockSession.
func (t *Tenant) RequiredBelow(g *people.SignIn, now time.Time) assurance.Required {
	return t.RequiredOfAccount(g.TwoStep, g.UserCreatedAt, now)
}

// DeploymentRequires returns the level that the deployment requires of an account at a time.
func (t *Tenant) DeploymentRequires(created, now time.Time) assurance.Level {
	return assurance.Require(now, t.deploymentDemand(created)).Level
}

// RequiresOwn reports whether an organization itself requires more than one factor, now or from a later time.
func (t *Tenant) RequiresOwn(o people.Organization) bool {
	return o.Required.Level > assurance.OneFactor && !t.B2B.OrganizationAssuranceOff
}

// OrganizationDemands returns what an organization, and the roles of a member in it, require. workspaces are the
// member's workspaces in the organization.
func (t *Tenant) OrganizationDemands(m people.Member, workspaces []people.WorkspaceMember) []assurance.Demand {
	var demands []assurance.Demand
	if t.RequiresOwn(m.Organization) {
		demands = append(demands, assurance.Demand{By: assurance.ByOrganization, Requirement: m.Organization.Required})
	}
	role := t.B2B.OwnerAssurance.Effective()
	if !m.Owner {
		role = t.roleRequirement(v1alpha1.RoleLevelOrganization, m.Role)
	}
	demands = append(demands, assurance.Demand{By: assurance.ByRole, Requirement: role})
	for _, w := range workspaces {
		if !w.Owner && w.Workspace.Organization == m.Organization.ID {
			demands = append(demands, assurance.Demand{By: assurance.ByRole, Requirement: t.roleRequirement(v1alpha1.RoleLevelWorkspace, w.Role)})
		}
	}
	return demands
}

// roleRequirement returns what a role requires of its holders.
func (t *Tenant) roleRequirement(level v1alpha1.RoleLevel, role int64) assurance.Requirement {
	if role == 0 {
		return assurance.Requirement{}
	}
	content, found := t.snapshot.MembershipRole(t.Key(), level, role)
	if !found {
		return assurance.Requirement{}
	}
	return content.Assurance.Effective()
}

// RequiredAmong returns what is required of a sign-in in an organization at a time: by the account, the deployment, the
// organization, and the member's roles. workspaces are the member's workspaces.
func (t *Tenant) RequiredAmong(g *people.SignIn, m people.Member, workspaces []people.WorkspaceMember, now time.Time) assurance.Required {
	demands := []assurance.Demand{accountDemand(g.TwoStep), t.deploymentDemand(g.UserCreatedAt)}
	return assurance.Require(now, append(demands, t.OrganizationDemands(m, workspaces)...)...)
}

// OutstandingAmong is RequiredAmong without a requirement of the organization itself that its identity provider has met
// by stating two factors. Requirements of the deployment are not the organization's, also those of roles and owners.
func OutstandingAmong(t *Tenant, g *people.SignIn, m people.Member, workspaces []people.WorkspaceMember, now time.Time) assurance.Required {
	if !g.Proven().Has(assurance.SSOOrganization) || !isProvider(t, g.Upstream.Connection, m.Organization) {
		return t.RequiredAmong(g, m, workspaces, now)
	}
	demands := []assurance.Demand{accountDemand(g.TwoStep), t.deploymentDemand(g.UserCreatedAt)}
	return assurance.Require(now, append(demands, unmet(t.OrganizationDemands(m, workspaces))...)...)
}

// OutstandingOf is the level of OutstandingAmong that an organization, and the roles of a member in it, require of the
// tokens of an authorization.
func OutstandingOf(t *Tenant, family people.TokenFamily, m people.Member, workspaces []people.WorkspaceMember, now time.Time) assurance.Level {
	demands := t.OrganizationDemands(m, workspaces)
	if slices.Contains(family.AMR, assurance.AMROrganization) && isProvider(t, family.Connection, m.Organization) {
		demands = unmet(demands)
	}
	return assurance.Require(now, demands...).Level
}

// isProvider reports whether a declared connection is one of an organization. Other connections state no factors.
func isProvider(t *Tenant, connection int64, o people.Organization) bool {
	return connection != 0 && has(t.usable(t.snapshot.ConnectionsOf(t.Key(), o.Slug)), connection)
}

// unmet returns the demands without an organization's own that two factors meet.
func unmet(demands []assurance.Demand) []assurance.Demand {
	return slices.DeleteFunc(demands, func(d assurance.Demand) bool {
		return d.By == assurance.ByOrganization && d.Level <= assurance.TwoFactors
	})
}

// CheckHeld returns an AssuranceError if a sign-in shows less than its account or deployment requires. It reads the
// store only in that case.
func (u *Unit) CheckHeld(g *people.SignIn) error {
	return check(u, g, u.RequiredBelow(g, u.Now))
}

// CheckIn returns an error if a sign-in does not count in an organization: that of CheckConnection, or an
// AssuranceError if it shows less than is required there.
func (u *Unit) CheckIn(g *people.SignIn, m people.Member) error {
	if err := CheckConnection(u, g, m); err != nil {
		return err
	}
	workspaces, err := u.Organizations().WorkspaceMembershipsOf(m.User, m.Organization.ID)
	if err != nil {
		return err
	}
	return check(u, g, OutstandingAmong(u.Tenant, g, m, workspaces, u.Now))
}

// CheckAmong is CheckIn with the member's workspaces.
func CheckAmong(u *Unit, g *people.SignIn, m people.Member, workspaces []people.WorkspaceMember) error {
	if err := CheckConnection(u, g, m); err != nil {
		return err
	}
	return check(u, g, OutstandingAmong(u.Tenant, g, m, workspaces, u.Now))
}

// CheckOwner returns an AssuranceError if a sign-in shows less than the deployment requires of owners.
func CheckOwner(u *Unit, g *people.SignIn) error {
	return check(u, g, assurance.Require(u.Now, assurance.Demand{By: assurance.ByRole, Requirement: u.B2B.OwnerAssurance.Effective()}))
}

func check(u *Unit, g *people.SignIn, required assurance.Required) error {
	if g.Proven().Level() >= required.Level {
		return nil
	}
	return u.Missing(g, required)
}

// Missing returns the AssuranceError for a sign-in below a level: ErrStepUp if the account's usable factors, with the
// password and emailed codes, can reach the level, else ErrEnroll.
func (u *Unit) Missing(g *people.SignIn, needed assurance.Required) error {
	required := needed.Level
	factors, err := u.FactorsOf(g.User)
	if err != nil {
		return err
	}
	strategies, err := u.StrategiesOf(g.User, factors)
	if err != nil {
		return err
	}
	showable := factors.Methods()
	for _, first := range []assurance.Method{assurance.Password, assurance.EmailOTP} {
		if slices.Contains(strategies, string(first)) {
			showable = append(showable, first)
		}
	}
	if factors.Any() && g.Proven().Raise(showable...) >= required {
		return &AssuranceError{Reason: ErrStepUp, Required: required, By: needed.By, Strategies: raising(u, g, required, factors, strategies)}
	}
	return &AssuranceError{Reason: ErrEnroll, Required: required, By: needed.By, Enroll: u.Enrollable(required)}
}

// raising returns the strategies of an account that help to reach a level.
func raising(u *Unit, g *people.SignIn, required assurance.Level, f Factors, strategies []string) []string {
	proven := g.Proven()
	return slices.DeleteFunc(strategies, func(strategy string) bool {
		switch strategy {
		case StrategyPasskey:
			return false
		case people.MethodPassword, people.MethodEmailOTP:
			// A first factor helps only together with a passkey that cannot verify its user.
			without := proven.Raise(f.Methods()...)
			return without >= required
		}
		return required > assurance.TwoFactors
	})
}

// Enrollable returns the kinds of factors with which an account can reach a level in the deployment.
func (t *Tenant) Enrollable(required assurance.Level) []string {
	kinds := []string{}
	if _, open := t.Settings.Strong(); !open {
		return kinds
	}
	for _, kind := range t.Settings.FactorsFor(required) {
		kinds = append(kinds, string(kind))
	}
	return kinds
}
