package management

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/password"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// peopleRequest is one request about a deployment's people.
type peopleRequest struct {
	*account.Request
	api *API
	c   *call
	r   *http.Request
}

func (a *API) people(r *http.Request) *peopleRequest {
	c := callOf(r)
	request := &account.Request{
		Tenant: account.NewTenant(c.snapshot, c.principal.Deployment), Store: a.People, Random: a.Random,
		// as exact as the store keeps it
		Now: c.received.UTC().Truncate(time.Microsecond), Actor: c.actor(),
	}
	return &peopleRequest{Request: request, api: a, c: c, r: r}
}

// view runs do on the deployment's rows.
func (p *peopleRequest) view(do func(*account.Unit) error) error {
	return peopleError(p.View(p.r.Context(), do))
}

// change runs do in one transaction, perhaps several times.
func (p *peopleRequest) change(do func(*account.Unit) error) error {
	return peopleError(p.Change(p.r.Context(), do))
}

// audit records what the credential did, and from where. What analytics counts knows nothing of a backend's own address.
func (p *peopleRequest) audit(u *account.Unit, action, object string, about int64) error {
	id, err := u.NewID()
	if err != nil {
		return err
	}
	return u.RecordAudit(people.Audit{ID: id, At: p.Now, Actor: p.Actor, Action: action, Object: object + ":" + ids.Format(about), Address: p.c.address()})
}

// peopleWordings are the answers to what the rules over people refuse, in the words of backends.
var peopleWordings = []struct {
	refused error
	status  int
	fault   apierror.Fault
}{
	{account.ErrEmailTaken, http.StatusConflict, apierror.Fault{Pointer: "/email", Message: "belongs to a user of the deployment already: choose another, or update that user"}},
	{account.ErrAlreadyMember, http.StatusConflict, apierror.Fault{Pointer: "/user_id", Message: "is the id of a member of the organization already"}},
	{account.ErrTooManyOrganizations, http.StatusConflict, apierror.Fault{Pointer: "/owner_id", Message: "is the id of a user who owns as many organizations as one may (B2BSettings maxOrganizationsPerUser)"}},
	{account.ErrOrganizationsDisabled, http.StatusForbidden, apierror.Fault{Message: "organizations are disabled in this deployment: its B2B settings enable them"}},
	{account.ErrUserUnknown, http.StatusNotFound, apierror.Fault{Pointer: ":user_id", Message: "is the id of no user of the deployment"}},
}

// peopleError turns what the rules refuse, and a store that is away, into an answer. What is an answer already stays one.
func peopleError(err error) error {
	switch {
	case err == nil || apierror.Is(err):
		return err
	case errors.Is(err, password.ErrBusy):
		busy := apierror.Unavailable(err, "too many passwords are being hashed at once: try again")
		busy.RetryAfter = 2 * time.Second
		return busy
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return apierror.Unavailable(err, "the store is out of reach: try again; if this request changes something, look first whether it did")
	}
	for _, wording := range peopleWordings {
		if errors.Is(err, wording.refused) {
			return &apierror.Error{Status: wording.status, Faults: []apierror.Fault{wording.fault}}
		}
	}
	return err
}

// parse reads the body by read, which notes what is wrong with members.
func (p *peopleRequest) parse(read func(*body.Object)) error {
	o, err := body.Parse(p.c.body)
	if err != nil {
		return err
	}
	read(o)
	o.Close()
	return o.Err()
}

// readID reads a member that is an id: 0 if it is absent.
func readID(o *body.Object, name string) int64 {
	sent, ok := o.String(name)
	if !ok {
		return 0
	}
	id, err := ids.Parse(sent)
	if err != nil {
		o.Fault(name, "must be an id: a decimal integer from 1 to 9223372036854775807, as a string")
	}
	return id
}

// lockNamed locks the user that a body's member names; an id of none is a fault of that member.
func lockNamed(u *account.Unit, id int64, field string) (people.User, error) {
	user, found, err := u.LockUser(id)
	if err == nil && !found {
		err = apierror.Invalid(apierror.Fault{Pointer: field, Message: "is the id of no user of the deployment: list them to see which there are"})
	}
	return user, err
}

func noSuch(parameter, what string) error {
	return &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{Pointer: ":" + parameter, Message: "is the id of no " + what + " of the deployment"}}}
}

// membership is the served form of a membership.
func (p *peopleRequest) membership(m people.Member) openapi.OrganizationMembership {
	served := openapi.OrganizationMembership{
		Id: ids.Format(m.ID), CreatedAt: m.CreatedAt,
		Organization: openapi.Organization{Id: ids.Format(m.Organization.ID), Name: m.Organization.Name, Slug: m.Organization.Slug, ImageUrl: m.Organization.ImageURL},
	}
	if role := p.RoleOf(v1alpha1.RoleLevelOrganization, m.Owner, m.Role); role != nil {
		served.Role = &openapi.MemberRole{Name: role.Name, Permissions: append([]string{}, role.Permissions...)}
		if role.ID != 0 {
			id := ids.Format(role.ID)
			served.Role.Id = &id
		}
	}
	return served
}
