package account

import (
	"errors"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// Errors of an organization's own requirement.
var (
	// ErrAssuranceOff: the B2B settings turn the requirements of organizations off.
	ErrAssuranceOff = errors.New("organizations require nothing of their own here")
	// ErrAssuranceClosed: the deployment's document does not have the settings of factors yet.
	ErrAssuranceClosed = errors.New("the deployment takes no second factors yet")
	// ErrUnreachable: no kind of factor that is enabled reaches the level.
	ErrUnreachable = errors.New("no factor that is enabled here reaches the level")
)

// noticesOfRequirement is how many members one transaction notifies when their organization begins to require a level,
// and noticesEvery the shortest time between two such notices of an organization.
const (
	noticesOfRequirement = 100
	noticesEvery         = 24 * time.Hour
)

// RequirementChange is a change of an organization's own requirement. Nil fields stay as they are.
type RequirementChange struct {
	// Level is OneFactor for no requirement.
	Level *assurance.Level
	// From is the zero time for at once.
	From *time.Time
}

// Any reports whether anything changes.
func (c RequirementChange) Any() bool { return c.Level != nil || c.From != nil }

// ChangeRequirement changes the requirement of an organization for its owner g, and notifies members who have too
// little. The caller writes the organization. The owner must have proven the new level, so that no owner locks themself
// out. Errors: ErrOwnersOnly, ErrAssuranceClosed, ErrAssuranceOff, ErrUnreachable, an AssuranceError.
func ChangeRequirement(u *Unit, g *people.SignIn, owner people.Member, o *people.Organization, change RequirementChange) error {
	_, open := u.Settings.Strong()
	switch {
	case !owner.Owner:
		return ErrOwnersOnly
	case !open:
		return ErrAssuranceClosed
	case u.B2B.OrganizationAssuranceOff:
		return ErrAssuranceOff
	}
	if err := RequireFresh(u, g, false); err != nil {
		return err
	}
	before := o.Required
	if change.Level != nil {
		o.Required.Level = *change.Level
	}
	if change.From != nil {
		o.Required.From = *change.From
	}
	if o.Required.Level <= assurance.OneFactor {
		o.Required = assurance.Requirement{}
	} else if len(u.Enrollable(o.Required.Level)) == 0 {
		return ErrUnreachable
	}
	if o.Required == before {
		return nil
	}
	if err := check(u, g, assurance.Required{Level: o.Required.Level, By: assurance.ByOrganization}); err != nil {
		return err
	}
	if o.Required.Level > before.Level {
		if err := notifyWeak(u, *o); err != nil {
			return err
		}
	}
	u.Log(events.OfOrganization(events.OrganizationUpdated, o.ID, "required_assurance"))
	return u.Audit("organization.assurance_changed", object("organization", o.ID))
}

// notifyWeak mails the first members whose usable factors do not reach what their organization requires. Upkeep
// notifies the others (ContinueNotices).
func notifyWeak(u *Unit, o people.Organization) error {
	if u.Settings.Email == nil || u.Keyring.Empty() {
		return nil
	}
	counted, err := u.Limits().Count("assurance-notice", object("organization", o.ID), u.Now, u.Now.Add(noticesEvery))
	if err != nil || counted.Count > 1 {
		return err
	}
	_, next, err := notifyBatch(u, o, 0)
	if err != nil {
		return err
	}
	return u.Organizations().SetPendingNotices(o.ID, next)
}

// ContinueNotices mails the next members of an organization that wait for notices of what it requires, at most
// noticesOfRequirement, and returns how many it mailed. It does nothing if another server did this step.
func ContinueNotices(u *Unit, pending people.PendingNotice) (int, error) {
	o, found, err := u.Organizations().LockOrganization(pending.Organization)
	if err != nil || !found {
		return 0, err
	}
	if after, err := u.Organizations().NoticesAfter(o.ID); err != nil || after != pending.After {
		return 0, err
	}
	sent, next := 0, int64(0)
	// A requirement that was lifted meanwhile, or that is without effect, needs no notices.
	if o.Required.Level > assurance.OneFactor && !u.B2B.OrganizationAssuranceOff && u.Settings.Email != nil && !u.Keyring.Empty() {
		if sent, next, err = notifyBatch(u, o, pending.After); err != nil {
			return 0, err
		}
	}
	return sent, u.Organizations().SetPendingNotices(o.ID, next)
}

// notifyBatch mails members after a membership. It returns how many it mailed and the last membership that it handled,
// 0 after the last member.
func notifyBatch(u *Unit, o people.Organization, after int64) (sent int, next int64, err error) {
	members, err := u.Organizations().MembersOf(o.ID, after, membersAtOnce)
	if err != nil {
		return 0, 0, err
	}
	levels, err := u.Organizations().FactorLevelsOf(o.ID, after, membersAtOnce, UsableFactors(u.Tenant))
	if err != nil {
		return 0, 0, err
	}
	mail := messages.OrganizationRequiresMail(u.AppName(), o.Name, o.Required)
	for _, m := range members {
		if sent == noticesOfRequirement {
			return sent, next, nil
		}
		next = m.ID
		if levels[m.User] >= o.Required.Level || m.Account.Email == "" {
			continue
		}
		sent++
		if err := u.Post(people.Message{Channel: people.ChannelMail, Recipient: m.Account.Email, ExpiresAt: u.Now.Add(changeNoticeLifetime)}, mail); err != nil {
			return 0, 0, err
		}
	}
	if len(members) < membersAtOnce {
		next = 0
	}
	return sent, next, nil
}
