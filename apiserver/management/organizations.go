package management

import (
	"net/http"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// CreateOrganization creates an organization, with an owner or without one.
func (a *API) CreateOrganization(w http.ResponseWriter, r *http.Request) {
	p := a.people(r)
	if err := p.RequireB2B(); err != nil {
		a.refuse(w, r, peopleError(err))
		return
	}
	var name, description string
	var owner int64
	err := p.parse(func(o *body.Object) {
		if o.Require("name") {
			name = sent(readName(o))
		}
		description, owner = sent(readDescription(o)), readID(o, "owner_id")
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	var served openapi.CreatedOrganization
	err = p.change(func(u *account.Unit) error {
		if owner != 0 {
			if _, err := lockNamed(u, owner, "/owner_id"); err != nil {
				return err
			}
		}
		created, err := u.CreateOrganization(owner, name, description)
		if err != nil {
			return err
		}
		served = createdOrganization(created)
		return p.audit(u, "organization.created", "organization", created.Member.Organization.ID)
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, r, served)
}

// sent is the text of a member, "" if it was absent.
func sent[T ~string](member *T) string {
	if member == nil {
		return ""
	}
	return string(*member)
}

func createdOrganization(created account.Created) openapi.CreatedOrganization {
	o := created.Member.Organization
	served := openapi.CreatedOrganization{
		Id: ids.Format(o.ID), Name: o.Name, Slug: o.Slug, Description: o.Description, ImageUrl: o.ImageURL, CreatedAt: o.CreatedAt,
	}
	if created.Workspace != nil {
		workspace := created.Workspace.Workspace
		served.DefaultWorkspace = &openapi.Workspace{Id: ids.Format(workspace.ID), Name: workspace.Name, Slug: workspace.Slug}
	}
	return served
}

// AddOrganizationMember makes a user a member of an organization and of its default workspace.
func (a *API) AddOrganizationMember(w http.ResponseWriter, r *http.Request, organizationID string) {
	p := a.people(r)
	if err := p.RequireB2B(); err != nil {
		a.refuse(w, r, peopleError(err))
		return
	}
	var user, role int64
	err := p.parse(func(o *body.Object) {
		if o.Require("user_id") {
			user = readID(o, "user_id")
		}
		role = readID(o, "role_id")
		if role != 0 && !p.HasRole(v1alpha1.RoleLevelOrganization, role) {
			o.Fault("role_id", "is the id of no role of level %s in the deployment: choose one that is", v1alpha1.RoleLevelOrganization)
		}
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	var served openapi.OrganizationMembership
	err = p.change(func(u *account.Unit) error {
		if _, err := lockNamed(u, user, "/user_id"); err != nil {
			return err
		}
		organization, err := findOrganization(u, organizationID)
		if err != nil {
			return err
		}
		member, err := u.Join(organization, user, role)
		if err != nil {
			return err
		}
		served = p.membership(member)
		return p.audit(u, "organization.member_added", "membership", member.ID)
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, r, served)
}

func findOrganization(u *account.Unit, text string) (people.Organization, error) {
	id, err := ids.Parse(text)
	if err != nil {
		return people.Organization{}, noSuchOrganization()
	}
	organization, found, err := u.Organization(id)
	if err == nil && !found {
		err = noSuchOrganization()
	}
	return organization, err
}

func noSuchOrganization() error { return noSuch("organization_id", "organization") }

// RemoveOrganizationMember ends a membership, also an owner's: who calls answers for the organization.
func (a *API) RemoveOrganizationMember(w http.ResponseWriter, r *http.Request, organizationID, userID string) {
	p := a.people(r)
	user, err := ids.Parse(userID)
	if err != nil {
		a.refuse(w, r, noSuchMember())
		return
	}
	err = p.change(func(u *account.Unit) error {
		organization, err := findOrganization(u, organizationID)
		if err != nil {
			return err
		}
		member, found, err := u.Member(organization.ID, user)
		if err != nil || !found {
			return orNoSuchMember(err)
		}
		if removed, err := u.DeleteMember(organization.ID, user); err != nil || !removed {
			return orNoSuchMember(err)
		}
		return p.audit(u, "organization.member_removed", "membership", member.ID)
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func noSuchMember() error {
	return &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{Pointer: ":user_id", Message: "is the id of no member of the organization"}}}
}

func orNoSuchMember(err error) error {
	if err != nil {
		return err
	}
	return noSuchMember()
}
