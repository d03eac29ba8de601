// Package claims writes the claims by which a resource owns something alone. A claim is one string, at most 512 bytes;
// two resources of one kind that need the same claim are in conflict.
package claims

import (
	"strings"

	"github.com/cardea-iam/cardea/internal/ids"
)

// ID is the claim on an id, unique per kind in the install.
func ID(kind string, id int64) string { return "id/" + kind + "/" + ids.Format(id) }

// Slug is the claim on a slug, unique per kind in a deployment ("namespace/name").
func Slug(kind, deployment, slug string) string {
	return "slug/" + kind + "/" + deployment + "/" + slug
}

// Host is the claim on a host name, unique in the install.
func Host(host string) string { return "host/" + host }

// APIKey is the claim on an API key's public id, unique in the install.
func APIKey(publicID string) string { return "api-key/" + publicID }

// JWT is the claim on tokens of an issuer ("" for the Kubernetes API) for an audience, unique in the install.
func JWT(issuer, audience string) string { return "jwt/" + audience + " " + issuer }

// AdoptedSecret is the claim on one key of a Secret that an APIKey adopts.
func AdoptedSecret(namespace, name, key string) string {
	return "secret/" + namespace + "/" + name + "/" + key
}

// Describe says in words what a claim is on, for messages: "slug free", "host app.example.com".
func Describe(claim string) string {
	what, rest, _ := strings.Cut(claim, "/")
	last := rest[strings.LastIndexByte(rest, '/')+1:]
	switch what {
	case "id", "slug", "host":
		return what + " " + last
	case "api-key":
		return "API key " + last
	case "secret":
		return "Secret " + rest
	case "jwt":
		return "JWT audience and issuer " + rest
	}
	return claim
}
