package enduser

import (
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// viewOrganizationConnection returns a connection of an organization without its secret.
func viewOrganizationConnection(c *call, u *account.Unit, row people.Connection) (enduserapi.OrganizationConnection, error) {
	settings, err := connection.ReadSettings(row.Settings)
	if err != nil {
		return enduserapi.OrganizationConnection{}, err
	}
	content := settings.Content(row.Slug, row.Active, "", "")
	view := viewContent(c, row.ID, content)
	view.Source, view.OrganizationId = enduserapi.OrganizationConnectionSourceRuntime, format(row.Organization)
	view.CreatedAt, view.UpdatedAt = ptr.To(row.CreatedAt), ptr.To(row.UpdatedAt)
	for _, m := range settings.Mappings {
		view.RoleMappings = append(view.RoleMappings, enduserapi.RoleMapping{Claim: m.Claim, Value: m.Value, RoleId: format(m.Role)})
	}
	return view, addProvider(c, u, row.ID, content, &view)
}

// viewDeclaredOf returns a declared connection of an organization.
func viewDeclaredOf(c *call, u *account.Unit, organization int64, conn account.Connection) (enduserapi.OrganizationConnection, error) {
	view := viewContent(c, conn.ID, conn.Connection)
	view.Source, view.OrganizationId = enduserapi.OrganizationConnectionSourceDeclared, format(organization)
	return view, addProvider(c, u, conn.ID, conn.Connection, &view)
}

// viewContent returns what a view has of a connection's content. A connection of type SAML has no client, and no secret
// that a user could enter.
func viewContent(c *call, id int64, content *document.Connection) enduserapi.OrganizationConnection {
	view := enduserapi.OrganizationConnection{
		Id: format(id), Slug: content.Slug, Type: content.Type, DisplayName: content.Name, IsActive: content.Active, Enforcement: content.Enforcement,
		JustInTime: content.Membership.JustInTime, RedirectUris: []string{}, RoleMappings: []enduserapi.RoleMapping{},
	}
	if content.SAML == nil {
		view.Issuer, view.ClientId, view.ClientSecret = content.Provider.Issuer, content.Client.ID, input.MaskedSecret
		view.RedirectUris = connectionURLs(c, id, "/callback")
	}
	return view
}

// addProvider adds what servers know of the provider. For Reachable, nil means that nothing was fetched.
func addProvider(c *call, u *account.Unit, id int64, content *document.Connection, view *enduserapi.OrganizationConnection) error {
	kind := people.UpstreamDiscovery
	if content.SAML != nil {
		kind = people.UpstreamSAML
		metadata, err := connections.SAMLMetadata(u, id, content.SAML)
		if err != nil {
			return err
		}
		view.Saml = viewSAML(c, id, content.SAML, metadata)
		if content.SAML.Given != nil {
			return nil
		}
	}
	document, found, err := u.Connections().UpstreamDocument(id, kind)
	if err != nil || !found || document.TriedAt.IsZero() {
		return err
	}
	view.LastError = document.Error
	if document.Error != "" || !document.FetchedAt.IsZero() {
		view.Reachable = ptr.To(document.Error == "")
	}
	return nil
}

// viewSAML returns what an identity provider of SAML needs to know, and what is known of it; metadata is nil if nothing
// is.
func viewSAML(c *call, id int64, content *document.ConnectionSAML, metadata *saml.Metadata) *enduserapi.SAMLConnection {
	view := &enduserapi.SAMLConnection{
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
	urls := site.Origins(c.request.Settings, c.r)
	for i := range urls {
		urls[i] += connectionPath(id) + endpoint
	}
	return urls
}

// addSAMLKey gives a connection to set up its key, if the caller may set it up.
func addSAMLKey(c *call, wanted *connections.New) error {
	_, err := changeManaged(c, func(u *unit, in connections.Scope) (any, error) { return nil, in.CountKey(u.Unit) })
	if err != nil {
		return err
	}
	if origins := site.Origins(c.request.Settings, c.r); len(origins) > 0 {
		wanted.Origin = origins[0]
	}
	wanted.Key, err = c.Keys.Generate(c.r.Context(), c.request.Key(), site.Host(c.r), c.now)
	return c.answerTo(err)
}
