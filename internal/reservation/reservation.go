// Package reservation writes the keys by which a resource reserves what it must own alone: an id, a slug, a host. A key
// is one string, at most 512 bytes; two resources that need the same key are in conflict. Keys are stored, in the store
// and in status.claims, so their form is frozen.
package reservation

import (
	"strings"

	"github.com/cardea-iam/cardea/internal/ids"
)

// AudiencePrefix begins the audiences that Cardea assigns.
const AudiencePrefix = "cardea:"

// ID reserves an id, unique per kind in the install.
func ID(kind string, id int64) string { return "id/" + kind + "/" + ids.Format(id) }

// Slug reserves a slug, unique per kind in a deployment ("namespace/name").
func Slug(kind, deployment, slug string) string {
	return "slug/" + kind + "/" + deployment + "/" + slug
}

// IsSlug reports whether a key reserves a slug.
func IsSlug(key string) bool { return strings.HasPrefix(key, "slug/") }

// Host reserves a host name, unique in the install.
func Host(host string) string { return "host/" + host }

// Domain reserves a domain of connections, unique in a deployment ("namespace/name").
func Domain(deployment, domain string) string { return "domain/" + deployment + "/" + domain }

// APIKey reserves an API key's public id, unique in the install.
func APIKey(publicID string) string { return "api-key/" + publicID }

// SCIMToken reserves the public id of a directory's token, unique in the install.
func SCIMToken(publicID string) string { return "scim-token/" + publicID }

// JWT reserves the tokens of an issuer ("" for the Kubernetes API) for an audience, unique in the install.
func JWT(issuer, audience string) string { return "jwt/" + audience + " " + issuer }

// AdoptedSecret reserves one key of a Secret that an APIKey, OAuthClient or Directory adopts.
func AdoptedSecret(namespace, name, key string) string {
	return "secret/" + namespace + "/" + name + "/" + key
}

// OwnAudience is the audience of a deployment's own tokens.
func OwnAudience(namespace, name string) string { return AudiencePrefix + namespace + ":" + name }

// Innate reports whether a key belongs to a resource because of its kind, namespace and name: the derived id, and the
// derived audience. No other resource can keep it.
func Innate(key, kind, namespace, name string) bool {
	return key == ID(kind, ids.Derive(kind, namespace, name)) ||
		strings.HasPrefix(key, JWT("", OwnAudience(namespace, name))) && kind == "IdentityDeployment"
}

// Describe says in words what a key reserves, for messages: "slug free", "host app.example.com".
func Describe(key string) string {
	what, rest, _ := strings.Cut(key, "/")
	last := rest[strings.LastIndexByte(rest, '/')+1:]
	switch what {
	case "id", "slug", "host", "domain":
		return what + " " + last
	case "api-key":
		return "API key " + last
	case "scim-token":
		return "SCIM token " + last
	case "secret":
		return "Secret " + rest
	case "jwt":
		return "JWT audience and issuer " + rest
	}
	return key
}
