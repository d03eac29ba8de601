package backend

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// keyView is the served form of a key from the store.
func (p *peopleRequest) keyView(u *account.Unit, k people.APIKey) (backendapi.ApiKey, error) {
	organization, workspace, err := account.KeyRoles(u, k)
	if err != nil {
		return backendapi.ApiKey{}, err
	}
	served := backendapi.ApiKey{
		Id: ids.Format(k.ID), KeyId: optional(people.KeyID(k.PublicID, k.ID)), DeploymentId: ids.Format(p.c.principal.Deployment.ID), AppSlug: k.App, Name: k.Name, KeyPrefix: k.Prefix, KeySuffix: k.Suffix,
		Permissions: listed(k.Permissions), OrgRolePermissions: organization, WorkspaceRolePermissions: workspace, Metadata: []byte("{}"),
		OwnerUserId: optionalID(k.Owner), OrganizationId: optionalID(k.Organization), WorkspaceId: optionalID(k.Workspace),
		RateLimitSchemeSlug: optional(k.Scheme), ExpiresAt: optionalTime(k.EndsAt()), LastUsedAt: optionalTime(k.LastUsedAt), IsActive: k.Active(p.Now),
		CreatedAt: k.CreatedAt, UpdatedAt: k.UpdatedAt, RevokedAt: optionalTime(k.RevokedAt), RevokedReason: optional(k.RevokedReason),
		RotatedFrom: optionalID(k.RotatedFrom), Source: backendapi.ApiKeySourceRuntime,
	}
	if len(k.Metadata) > 0 {
		served.Metadata = k.Metadata
	}
	return served, nil
}

// declaredView is the served form of a key that a resource declares.
func (c *call) declaredView(e *snapshot.Entry, app *snapshot.App) backendapi.ApiKey {
	content := snapshot.ContentOf[document.APIKey](e)
	served := backendapi.ApiKey{
		Id: ids.Format(e.ID), DeploymentId: ids.Format(c.principal.Deployment.ID), AppSlug: app.Slug, Name: content.Name, KeyPrefix: app.EffectiveKeyPrefix(),
		Permissions: listed(content.Permissions), OrgRolePermissions: []string{}, WorkspaceRolePermissions: []string{}, Metadata: []byte("{}"),
		CreatedAt: e.Meta.CreatedAt.UTC(), UpdatedAt: e.Meta.UpdatedAt.UTC(), Source: backendapi.ApiKeySourceDeclared, Resource: &e.Name,
	}
	if len(content.Verifiers) > 0 {
		current := content.Verifiers[0]
		served.KeyId = &current.ID
		served.KeySuffix, served.ExpiresAt = current.Last4, current.ExpiresAt
		served.IsActive = current.ExpiresAt == nil || c.Received.Before(*current.ExpiresAt)
	}
	if content.Scheme != "" {
		served.RateLimitSchemeSlug = optional(c.schemeSlug(e.Namespace, content.Scheme))
	}
	return served
}

// declaredOf returns the entries of a kind that resources declare for an app, the newest first.
func (c *call) declaredOf(app *snapshot.Entry, kind string) []*snapshot.Entry {
	declared := slices.DeleteFunc(c.snapshot.Referrers(app.Identity), func(e *snapshot.Entry) bool { return e.Kind != kind })
	slices.SortFunc(declared, func(a, b *snapshot.Entry) int {
		return cmp.Or(b.Meta.CreatedAt.Compare(a.Meta.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return declared
}

// declaredKey returns the tenant's key that a resource declares, by a public id (a rotated key has two) or by its own
// id.
func (c *call) declaredKey(id string) (*snapshot.Entry, bool) {
	if key, found := c.snapshot.APIKey(id); found && key.Entry.Deployment == c.tenant() {
		return key.Entry, true
	}
	number, err := ids.Parse(id)
	if err != nil {
		return nil, false
	}
	return c.snapshot.ByID(v1alpha1.KindAPIKey, c.tenant(), number)
}

// withSecret is the served form of a new key with its secret.
func withSecret(key backendapi.ApiKey, secret apikey.Key) backendapi.ApiKeyWithSecret {
	return backendapi.ApiKeyWithSecret{Key: key, Secret: secret.Plain()}
}

// keyCursor is where a list of keys continues: after a declared key, or after a key of the store. Id 0 is the
// beginning.
type keyCursor struct {
	declared bool
	id       int64
}

func (k keyCursor) String() string {
	if k.declared {
		return "d" + ids.Format(k.id)
	}
	return "r" + ids.Format(k.id)
}

// keyCursor reads the parameter cursor.
func (q *parameters) keyCursor() (at keyCursor) {
	sent, ok := q.Text("cursor")
	if !ok || sent == "" {
		return keyCursor{declared: true}
	}
	id, err := ids.Parse(strings.TrimLeft(sent, "dr"))
	if err != nil || sent[1:] != ids.Format(id) {
		q.Fault("cursor", "must be next_cursor of the page before")
	}
	return keyCursor{declared: sent[0] == 'd', id: id}
}

func listed(names []string) []string { return append([]string{}, names...) }

func optionalID(id int64) *string {
	if id == 0 {
		return nil
	}
	return optional(ids.Format(id))
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// isDeclared refuses to change a key that a resource declares.
func isDeclared(e *snapshot.Entry) error {
	return &apierror.Error{Status: 409, Faults: []apierror.Fault{{
		Message: "the key is declared by the APIKey \"" + e.Name + "\": change that resource", ResourcePath: "spec"}}}
}
