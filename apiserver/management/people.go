package management

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// desk is one request about a deployment's people.
type desk struct {
	*directory.Directory
	api *API
	c   *call
	r   *http.Request
	// now is the one time of the request, as exact as the store keeps it.
	now time.Time
}

func (a *API) desk(r *http.Request) *desk {
	c := callOf(r)
	now := c.received.UTC().Truncate(time.Microsecond)
	return &desk{Directory: directory.New(c.snapshot, c.principal.Deployment, a.Random, now), api: a, c: c, r: r, now: now}
}

// view runs do on the deployment's rows.
func (d *desk) view(do func(people.Tx) error) error {
	return peopleProblem(d.api.People.View(d.r.Context(), d.Deployment.Deployment, do))
}

// change runs do in one transaction. It may run several times.
func (d *desk) change(do func(people.Tx) error) error {
	return peopleProblem(d.api.People.Change(d.r.Context(), d.Deployment.Deployment, do))
}

// audit records what the credential did.
func (d *desk) audit(tx people.Tx, action, object string, about int64) error {
	id, err := d.NewID()
	if err != nil {
		return err
	}
	return tx.RecordAudit(people.Audit{ID: id, At: d.now, Actor: d.c.actor(), Action: action, Object: object + ":" + ids.Format(about), Address: d.c.address()})
}

// peopleProblem turns a store that is away into an answer. What is an answer already stays one.
func peopleProblem(err error) error {
	switch {
	case err == nil || apierror.Is(err):
		return err
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return apierror.Unavailable(err, "the store is out of reach: try again; if this request changes something, look first whether it did")
	}
	return err
}

// taken turns a refusal with a code into a 409 about a field, in words for backends.
func taken(err error, code, field, message string) error {
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == code {
		return &apierror.Error{Status: http.StatusConflict, Faults: []apierror.Fault{{Pointer: field, Message: message}}}
	}
	return err
}

// parse reads the body by read, which notes what is wrong with members.
func (d *desk) parse(read func(*body.Object)) error {
	o, err := body.Parse(d.c.body)
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
func lockNamed(tx people.Tx, id int64, field string) (people.User, error) {
	user, found, err := tx.LockUser(id)
	if err == nil && !found {
		err = apierror.Invalid(apierror.Fault{Pointer: field, Message: "is the id of no user of the deployment: list them to see which there are"})
	}
	return user, err
}

func noSuch(parameter, what string) error {
	return &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{Pointer: ":" + parameter, Message: "is the id of no " + what + " of the deployment"}}}
}

// membership is the served form of a membership.
func (d *desk) membership(m people.Member) openapi.OrganizationMembership {
	served := openapi.OrganizationMembership{
		Id: ids.Format(m.ID), CreatedAt: m.CreatedAt,
		Organization: openapi.Organization{Id: ids.Format(m.Organization.ID), Name: m.Organization.Name, Slug: m.Organization.Slug, ImageUrl: m.Organization.ImageURL},
	}
	if role := d.RoleOf(v1alpha1.RoleLevelOrganization, m.Owner, m.Role); role != nil {
		served.Role = &openapi.MemberRole{Name: role.Name, Permissions: append([]string{}, role.Permissions...)}
		if role.ID != 0 {
			id := ids.Format(role.ID)
			served.Role.Id = &id
		}
	}
	return served
}
