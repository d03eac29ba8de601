package backend

import (
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// readNewKey reads the body of a creation.
func (p *peopleRequest) readNewKey(o *body.Object, app *snapshot.App, k *people.APIKey) {
	if o.Require("name") {
		if name := input.Name(o, "name"); name != nil {
			k.Name = *name
		}
	}
	k.Permissions, _ = readKeyPermissions(o, app.Ceiling, app.Slug)
	k.Metadata, _ = input.Metadata(o, "metadata")
	k.ExpiresAt, _ = p.readExpiry(o)
	k.Scheme, _ = p.c.readScheme(o)
	k.Owner, k.Organization, k.Workspace = nullableID(o, "owner_user_id"), nullableID(o, "organization_id"), nullableID(o, "workspace_id")
	if k.Owner == 0 && (k.Organization != 0 || k.Workspace != 0) && !o.Faulty("owner_user_id") {
		o.Fault("owner_user_id", "is required with organization_id and workspace_id: the key gets the permissions of that member")
	}
}

// keyUpdate is a PATCH: the members that were sent, and for nullable ones whether they were sent.
type keyUpdate struct {
	name                                                     *string
	permissions                                              []string
	metadata                                                 []byte
	expiresAt                                                time.Time
	scheme                                                   string
	setsPermissions, setsMetadata, setsExpiresAt, setsScheme bool
}

func (p *peopleRequest) readKeyUpdate(o *body.Object, app *snapshot.App) (sent keyUpdate) {
	sent.name = input.Name(o, "name")
	sent.permissions, sent.setsPermissions = readKeyPermissions(o, app.Ceiling, app.Slug)
	sent.metadata, sent.setsMetadata = input.Metadata(o, "metadata")
	sent.expiresAt, sent.setsExpiresAt = p.readExpiry(o)
	sent.scheme, sent.setsScheme = p.c.readScheme(o)
	return sent
}

// apply changes a key, and returns the names of the members that changed.
func (s *keyUpdate) apply(k *people.APIKey) (changed []string) {
	before := *k
	if s.name != nil {
		k.Name = *s.name
	}
	if s.setsPermissions {
		k.Permissions = s.permissions
	}
	if s.setsMetadata {
		k.Metadata = s.metadata
	}
	if s.setsExpiresAt {
		k.ExpiresAt = s.expiresAt
	}
	if s.setsScheme {
		k.Scheme = s.scheme
	}
	for _, member := range []struct {
		name string
		is   bool
	}{
		{"name", k.Name != before.Name}, {"permissions", !slices.Equal(k.Permissions, before.Permissions)}, {"metadata", string(k.Metadata) != string(before.Metadata)},
		{"expires_at", !k.ExpiresAt.Equal(before.ExpiresAt)}, {"rate_limit_scheme_slug", k.Scheme != before.Scheme},
	} {
		if member.is {
			changed = append(changed, member.name)
		}
	}
	return changed
}

// readExpiry reads the member expires_at, zero for null; false: it was not sent.
func (p *peopleRequest) readExpiry(o *body.Object) (time.Time, bool) {
	return input.Future(o, "expires_at", p.Now), o.Has("expires_at")
}

// readScheme reads the member rate_limit_scheme_slug, "" for null; false: it was not sent.
func (c *call) readScheme(o *body.Object) (string, bool) {
	if o.IsNull("rate_limit_scheme_slug") {
		return "", true
	}
	slug, sent := o.String("rate_limit_scheme_slug")
	if !sent {
		return "", false
	}
	if _, found := c.snapshot.BySlug(v1alpha1.KindRateLimitScheme, c.tenant(), slug); !found {
		o.Fault("rate_limit_scheme_slug", "names no rate-limit scheme of the deployment: list them to see which there are")
	}
	return slug, true
}

// schemeSlug is the slug of a scheme's resource, "" if there is none.
func (c *call) schemeSlug(namespace, name string) string {
	entry, found := c.snapshot.Get(store.Identity{Kind: v1alpha1.KindRateLimitScheme, Namespace: namespace, Name: name})
	if !found {
		return ""
	}
	return snapshot.ContentOf[document.RateLimitScheme](entry).Slug
}

// nullableID reads an id, 0 if it is absent or null.
func nullableID(o *body.Object, member string) int64 {
	if o.IsNull(member) {
		return 0
	}
	return input.ID(o, member)
}

// unboundKey is the error if a new key cannot be bound to its owner, organization or workspace.
func unboundKey(err error) error {
	for refused, fault := range map[error]apierror.Fault{
		account.ErrUserUnknown:      {Pointer: "/owner_user_id", Message: "is the id of no user of the deployment: list them to see which there are"},
		account.ErrNotMember:        {Pointer: "/owner_user_id", Message: "is the id of no member of the organization: make the user a member first"},
		account.ErrWorkspaceUnknown: {Pointer: "/workspace_id", Message: "is the id of no workspace of the organization that the owner is a member of"},
	} {
		if errors.Is(err, refused) {
			return apierror.Invalid(fault)
		}
	}
	return err
}
