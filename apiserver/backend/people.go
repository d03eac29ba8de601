package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/apiserver/users/directories"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// peopleRequest is one request about a deployment's users.
type peopleRequest struct {
	*account.Request
	c *call
}

// people returns the values that the request's transactions share. The analytics events of these transactions do not
// contain the backend's own address.
func (c *call) people() *peopleRequest {
	return &peopleRequest{c: c, Request: &account.Request{
		Tenant: account.NewTenant(c.snapshot, c.principal.Deployment), Store: c.api.People, Random: c.api.Random, Actor: c.actor(),
		Now: c.Received.UTC().Truncate(time.Microsecond), // the precision of the store
	}}
}

// view runs do on the deployment's rows.
func (p *peopleRequest) view(do func(*account.Unit) error) error {
	return peopleError(p.View(p.c.r.Context(), do))
}

// change runs do in one transaction, possibly several times.
func (p *peopleRequest) change(do func(*account.Unit) error) error {
	return peopleError(p.Change(p.c.r.Context(), do))
}

// audit records the credential's action and address.
func (p *peopleRequest) audit(u *account.Unit, action, object string, about int64) error {
	return p.record(u, action, object+":"+ids.Format(about))
}

// record is audit with the full name of an object.
func (p *peopleRequest) record(u *account.Unit, action, object string) error {
	id, err := u.NewID()
	if err != nil {
		return err
	}
	return u.Records().RecordAudit(people.Audit{ID: id, At: p.Now, Actor: p.Actor, Action: action, Object: object, Address: p.c.address()})
}

// peopleWordings map refusals of the rules about users to errors of the backend API.
var peopleWordings = []struct {
	refused error
	status  int
	fault   apierror.Fault
}{
	{account.ErrEmailTaken, http.StatusConflict, apierror.Fault{Pointer: "/email", Message: "belongs to a user of the deployment already: choose another, or update that user"}},
	{account.ErrAlreadyMember, http.StatusConflict, apierror.Fault{Pointer: "/user_id", Message: "is the id of a user who is already a member of the organization"}},
	{account.ErrSuspended, http.StatusConflict, apierror.Fault{Pointer: "/user_id", Message: "is the id of a user that a directory of the organization deactivated: activate the user there"}},
	{account.ErrTooManyOrganizations, http.StatusConflict, apierror.Fault{Pointer: "/owner_id", Message: "is the id of a user who already owns the maximum number of organizations (B2BSettings maxOrganizationsPerUser)"}},
	{account.ErrOrganizationsDisabled, http.StatusForbidden, apierror.Fault{Message: "organizations are disabled in this deployment: enable them in its B2B settings"}},
	{account.ErrUserUnknown, http.StatusNotFound, apierror.Fault{Pointer: ":user_id", Message: "is the id of no user of the deployment"}},
	{errNoMember, http.StatusNotFound, apierror.Fault{Pointer: ":user_id", Message: "is the id of no member of the organization"}},
	{errNoOrganization, http.StatusNotFound, apierror.Fault{Pointer: ":organization_id", Message: "is the id of no organization of the deployment"}},
	{account.ErrNotMember, http.StatusNotFound, apierror.Fault{Pointer: ":organization_id", Message: "is the id of an organization that was deleted meanwhile"}},
	{errPasswordsDisabled, http.StatusConflict, apierror.Fault{Message: "the deployment enables no passwords (spec.signIn.password): enable them first"}},
	{account.ErrKeyEnded, http.StatusConflict, apierror.Fault{Pointer: ":id", Message: "is the id of a key that was revoked, has expired, or was rotated already: create another"}},
	{account.ErrKeyUnknown, http.StatusNotFound, apierror.Fault{Pointer: ":id", Message: "is the id of no key of the app: list them to see which there are"}},
	{factors.ErrUnknown, http.StatusNotFound, apierror.Fault{Pointer: ":id", Message: "is the id of no authenticator app of the user: list the second factors to see which there are"}},
	{factors.ErrPasskeyUnknown, http.StatusNotFound, apierror.Fault{Pointer: ":id", Message: "is the id of no passkey of the user: list the second factors to see which there are"}},
	{account.ErrIdentityUnknown, http.StatusNotFound, apierror.Fault{Pointer: ":id", Message: "is the id of no identity of the user: list the identities to see which there are"}},
	{connections.ErrClosed, http.StatusForbidden, apierror.Fault{Message: "the deployment has only declared connections and directories: declare spec.connections, which may be empty, to permit others"}},
	{connections.ErrTooManyLinks, http.StatusTooManyRequests, apierror.Fault{Message: "too many setup links were made for the organization today: wait before you make another"}},
	{connections.ErrTooManyKeys, http.StatusTooManyRequests, apierror.Fault{Message: "too many connections of type SAML were set up today for the organization, or without one for the deployment: wait before you set up another"}},
	{connections.ErrInvalidLink, http.StatusNotFound, apierror.Fault{Pointer: ":setup_link_id", Message: "is the id of no live setup link of the organization: list the links to see which there are"}},
	{connections.ErrTooMany, http.StatusConflict, apierror.Fault{Pointer: "/organization_id", Message: "has as many connections as it may: delete one first, or raise spec.connections.maxPerOrganization"}},
	{connections.ErrOpenProvider, http.StatusBadRequest, apierror.Fault{Pointer: "/just_in_time", Message: "must be false: everybody can get an account at this provider, and would become a member"}},
	{connections.ErrOrganizationOnly, http.StatusBadRequest, apierror.Fault{Pointer: "/organization_id", Message: "is required with enforcement, just_in_time or role_mappings, which are for connections of an organization"}},
	{connections.ErrIncomplete, http.StatusBadRequest, apierror.Fault{Pointer: "/is_active", Message: "must be false while issuer, client_id or client_secret is missing, or of type SAML metadata_url, metadata_xml or entity_id"}},
	{connections.ErrOtherType, http.StatusBadRequest, apierror.Fault{Message: "issuer, client_id and client_secret are for connections of type OIDC, and metadata_url, metadata_xml, entity_id, sso_url and certificate for those of type SAML: omit those of the other type"}},
	{connections.ErrNoHost, http.StatusConflict, apierror.Fault{Pointer: "/type", Message: "cannot be SAML while the deployment has no frontend host: declare spec.frontendHosts first"}},
	{connections.ErrUnconfirmed, http.StatusBadRequest, apierror.Fault{Pointer: "/confirmation", Message: "must repeat the current display_name: another issuer, entity ID or metadata_url ends all sign-ins by the connection and deletes its identities"}},
	{account.ErrRoleUnknown, http.StatusBadRequest, apierror.Fault{Pointer: "/role_mappings", Message: "has the id of no role of organizations in the deployment"}},
	{connections.ErrUnknown, http.StatusNotFound, apierror.Fault{Pointer: ":connection_id", Message: "is the id of no connection of the deployment: list the connections to see which there are"}},
	{connections.ErrChanged, http.StatusConflict, apierror.Fault{Pointer: "/expected_updated_at", Message: "is not the updated_at of the connection now, and this change was not made: get the connection, and send the change again"}},
	{account.ErrDirectoryUnknown, http.StatusNotFound, apierror.Fault{Pointer: ":directory_id", Message: "is the id of no directory of the deployment: list the directories to see which there are"}},
	{directories.ErrDeclared, http.StatusConflict, apierror.Fault{Pointer: ":directory_id", Message: "is the id of a directory that a resource declares: change the resource"}},
	{directories.ErrChanged, http.StatusConflict, apierror.Fault{Pointer: "/expected_updated_at", Message: "is not the updated_at of the directory now, and nothing was changed: get the directory, and send the change again"}},
	{directories.ErrTooMany, http.StatusConflict, apierror.Fault{Pointer: "/organization_id", Message: fmt.Sprintf("has the maximum number of directories (%d): delete one first", directories.MaxOfOrganization)}},
	{directories.ErrTooManyTokens, http.StatusConflict, apierror.Fault{Pointer: ":directory_id", Message: fmt.Sprintf("is the id of a directory with the maximum number of live tokens (%d): delete one first", directories.MaxTokens)}},
	{directories.ErrTokenUnknown, http.StatusNotFound, apierror.Fault{Pointer: ":token_id", Message: "is the id of no token of the directory: get the directory to see which there are"}},
	{domain.ErrUnknown, http.StatusNotFound, apierror.Fault{Pointer: ":domain_id", Message: "is the id of no domain of the organization: list the domains to see which there are"}},
	{domain.ErrExists, http.StatusConflict, apierror.Fault{Pointer: "/name", Message: "is a domain of the organization already"}},
	{domain.ErrTooMany, http.StatusConflict, apierror.Fault{Pointer: "/name", Message: "cannot be added: the organization has the maximum number of domains (50)"}},
	{domain.ErrTaken, http.StatusConflict, apierror.Fault{Pointer: "/verified", Message: "cannot be true: another organization has the domain; remove it there first"}},
	{factors.ErrDisabled, http.StatusForbidden, apierror.Fault{Message: "the deployment does not take second factors yet (SECOND_FACTORS_DISABLED): upgrade its operator"}},
	{errNoPassword, http.StatusNotFound, apierror.Fault{Pointer: ":user_id", Message: "is the id of a user without a password"}},
}

var (
	errNoMember          = errors.New("no member of the organization")
	errNoOrganization    = errors.New("no organization of the deployment")
	errPasswordsDisabled = errors.New("the deployment enables no passwords")
	errNoPassword        = errors.New("the user has no password")
)

// peopleError turns a refusal of the rules, and an unavailable store, into an error of this API. It returns an error of
// this API unchanged.
func peopleError(err error) error {
	switch {
	case err == nil || apierror.Is(err):
		return err
	case errors.Is(err, password.ErrBusy):
		busy := apierror.Unavailable(err, "too many passwords are being hashed at once: try again")
		busy.RetryAfter = 2 * time.Second
		return busy
	case errors.Is(err, connections.ErrKeysBusy):
		return apierror.Unavailable(err, "too many connections of type SAML are being set up at once: try again")
	case errors.Is(err, verification.ErrNoKey), errors.Is(err, account.ErrCannotSeal):
		return apierror.Unavailable(err, "the server has no root key to protect codes with: start it with --root-key")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return apierror.Unavailable(err, "the store is unavailable: try again; if this request changes something, check first whether it did")
	}
	for _, wording := range peopleWordings {
		if errors.Is(err, wording.refused) {
			return &apierror.Error{Status: wording.status, Faults: []apierror.Fault{wording.fault}}
		}
	}
	return err
}

// parse reads the body with read, which records the faults of members.
func (p *peopleRequest) parse(read func(*body.Object)) error {
	o, err := body.Parse(p.c.body)
	if err != nil {
		return err
	}
	read(o)
	o.Close()
	return o.Err()
}

// unknownUser is the error for a body with a member that names no user.
func unknownUser(field string) error {
	return apierror.Invalid(apierror.Fault{Pointer: field, Message: "is the id of no user of the deployment: list them to see which there are"})
}

// membership is the served form of a membership.
func (p *peopleRequest) membership(m people.Member) backendapi.OrganizationMembership {
	served := backendapi.OrganizationMembership{
		Id: ids.Format(m.ID), CreatedAt: m.CreatedAt,
		Organization: backendapi.Organization{Id: ids.Format(m.Organization.ID), Name: m.Organization.Name, Slug: m.Organization.Slug, ImageUrl: m.Organization.ImageURL},
	}
	if role := p.RoleOf(v1alpha1.RoleLevelOrganization, m.Owner, m.Role); role != nil {
		served.Role = &backendapi.MemberRole{Name: role.Name, Permissions: append([]string{}, role.Permissions...)}
		if role.ID != 0 {
			id := ids.Format(role.ID)
			served.Role.Id = &id
		}
	}
	return served
}
