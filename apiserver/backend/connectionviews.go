package backend

import (
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/relyingparty"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store/people"
)

// viewConnection returns a declared connection without its secret.
func viewConnection(c *call, u *account.Unit, e *snapshot.Entry) (backendapi.Connection, error) {
	content := snapshot.ContentOf[snapshot.Connection](e)
	view, err := viewContent(c, u, e.ID, &content.Connection)
	view.Source, view.Domains = backendapi.ConnectionSourceDeclared, append(view.Domains, content.Domains...)
	view.JustInTime = content.Organization != "" && content.Membership.JustInTime
	view.CreatedAt, view.UpdatedAt = e.Meta.CreatedAt, e.Meta.UpdatedAt
	return view, err
}

// viewRow returns a connection of an organization or a backend without its secret.
func viewRow(c *call, u *account.Unit, row people.Connection) (backendapi.Connection, error) {
	if row.Organization == 0 {
		return viewOf(c, u, row, "")
	}
	o, _, err := u.Organizations().Organization(row.Organization)
	if err != nil {
		return backendapi.Connection{}, err
	}
	return viewOf(c, u, row, o.Slug)
}

// viewOf is viewRow for a connection whose organization has a slug, "" for none.
func viewOf(c *call, u *account.Unit, row people.Connection, organization string) (backendapi.Connection, error) {
	settings, err := connection.ReadSettings(row.Settings)
	if err != nil {
		return backendapi.Connection{}, err
	}
	view, err := viewContent(c, u, row.ID, settings.Content(row.Slug, row.Active, organization, ""))
	view.Source, view.OrganizationId = backendapi.ConnectionSourceRuntime, optionalID(row.Organization)
	view.JustInTime, view.CreatedAt, view.UpdatedAt = settings.JustInTime, row.CreatedAt, row.UpdatedAt
	for _, m := range settings.Mappings {
		view.RoleMappings = append(view.RoleMappings, backendapi.RoleMapping{Claim: m.Claim, Value: m.Value, RoleId: ids.Format(m.Role)})
	}
	return view, err
}

// viewContent returns what a view has of a connection's content. A connection of type SAML has no client, and no secret
// that a backend could enter.
func viewContent(c *call, u *account.Unit, id int64, content *document.Connection) (backendapi.Connection, error) {
	view := backendapi.Connection{
		Id: ids.Format(id), Slug: content.Slug, Type: content.Type, OrganizationSlug: optional(content.Organization), DisplayName: content.Name,
		IsActive: content.Active, Enforcement: content.Enforcement, Domains: []string{}, RedirectUris: []string{}, RoleMappings: []backendapi.RoleMapping{},
	}
	if content.SAML == nil {
		view.Issuer, view.ClientId, view.ClientSecret = content.Provider.Issuer, content.Client.ID, input.MaskedSecret
		view.RedirectUris = connectionURLs(c, id, "/callback")
		return view, nil
	}
	metadata, err := connections.SAMLMetadata(u, id, content.SAML)
	view.Saml = viewSAML(c, id, content.SAML, metadata)
	return view, err
}

// viewSAML returns what an identity provider of SAML needs to know, and what is known of it; metadata is nil if nothing
// is.
func viewSAML(c *call, id int64, content *document.ConnectionSAML, metadata *saml.Metadata) *backendapi.SAMLConnection {
	view := &backendapi.SAMLConnection{
		MetadataUrl: content.MetadataURL, EntityId: content.EntityID, AcsUrls: connectionURLs(c, id, "/acs"), SpEntityId: content.ServiceEntityID,
	}
	if urls := connectionURLs(c, id, "/metadata"); len(urls) > 0 {
		view.SpMetadataUrl = urls[0]
	}
	if metadata != nil {
		view.EntityId, view.SsoUrl = metadata.EntityID, metadata.SignOnEndpoint().URL
		view.CertificateExpiresAt = ptr.To(metadata.CertificateExpiry().UTC())
	}
	return view
}

// connectionURLs returns the URLs of an endpoint of a connection, one for each frontend host.
func connectionURLs(c *call, id int64, endpoint string) []string {
	urls := frontendOrigins(c)
	for i := range urls {
		urls[i] += translation.ConnectionPath(id) + endpoint
	}
	return append([]string{}, urls...)
}

// frontendOrigins returns the origins of the deployment's frontend hosts.
func frontendOrigins(c *call) []string {
	return relyingparty.Origins(c.principal.Deployment.Content.(*document.Deployment).FrontendHosts, nil, nil)
}

// addSAMLKey gives a connection to set up its key, if it may be set up.
func addSAMLKey(c *call, p *peopleRequest, organization int64, wanted *connections.New) error {
	err := p.change(func(u *account.Unit) error {
		in, err := newConnectionScope(u, organization)
		if err != nil {
			return err
		}
		return in.CountKey(u)
	})
	if err != nil {
		return err
	}
	name := "cardea"
	if origins := frontendOrigins(c); len(origins) > 0 {
		wanted.Origin = origins[0]
		name = c.principal.Deployment.Content.(*document.Deployment).FrontendHosts[0]
	}
	wanted.Key, err = c.api.Keys.Generate(c.r.Context(), p.Key(), name, p.Now)
	return peopleError(err)
}
