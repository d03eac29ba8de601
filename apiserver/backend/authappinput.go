package backend

import (
	"regexp"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/translation"
)

const maxKeyPrefix = 20

var keyPrefixForm = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)

// newAuthApp reads the body of a creation into a resource.
func newAuthApp(c *call) (*v1alpha1.APIAuthApp, error) {
	o, err := body.Parse(c.body)
	if err != nil {
		return nil, err
	}
	spec := v1alpha1.APIAuthAppSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: c.principal.Deployment.Name}}
	if o.Require("app_slug") {
		if slug, ok := o.String("app_slug"); ok {
			if !slugForm.MatchString(slug) {
				o.Fault("app_slug", "must be 1 to 63 lower-case letters, digits and inner dashes")
			}
			spec.Slug = v1alpha1.Slug(slug)
		}
	}
	if o.Require("name") {
		spec.DisplayName = typed[v1alpha1.DisplayName](input.Name(o, "name"))
	}
	if !o.IsNull("description") { // on create, null means absent
		spec.Description = typed[v1alpha1.Description](input.Description(o, "description"))
	}
	spec.KeyPrefix = readKeyPrefix(o)
	names, _ := input.Permissions(o, "permissions")
	spec.Permissions = declaredPermissions(names)
	readResources(o)
	spec.RateLimitSchemeRef, _ = c.readSchemeRef(o)
	o.Close()
	if err := o.Err(); err != nil {
		return nil, err
	}
	return &v1alpha1.APIAuthApp{ObjectMeta: created(c), Spec: spec}, nil
}

// authAppUpdate is a PATCH: the members that were sent, and for nullable or optional ones whether they were sent.
type authAppUpdate struct {
	name             *v1alpha1.DisplayName
	description      *v1alpha1.Description
	clearDescription bool
	prefix           *v1alpha1.KeyPrefix
	active           *bool
	permissions      []v1alpha1.Permission
	setsPermissions  bool
	scheme           *v1alpha1.RateLimitSchemeReference
	setsScheme       bool
}

func readAuthAppUpdate(c *call) (*authAppUpdate, error) {
	o, err := body.Parse(c.body)
	if err != nil {
		return nil, err
	}
	sent := &authAppUpdate{clearDescription: o.IsNull("description")}
	sent.name = typed[v1alpha1.DisplayName](input.Name(o, "name"))
	if !sent.clearDescription {
		sent.description = typed[v1alpha1.Description](input.Description(o, "description"))
	}
	sent.prefix, sent.active = readKeyPrefix(o), input.Bool(o, "is_active")
	var names []string
	names, sent.setsPermissions = input.Permissions(o, "permissions")
	sent.permissions = declaredPermissions(names)
	readResources(o)
	sent.scheme, sent.setsScheme = c.readSchemeRef(o)
	o.Close()
	return sent, o.Err()
}

// changes returns the writes after which a live resource has the sent values.
func (s *authAppUpdate) changes(obj *v1alpha1.APIAuthApp) []change {
	now := translation.APIAuthApp(obj)
	var changes []change
	set := func(differs bool, field, path string, value any) {
		if differs {
			changes = append(changes, change{field: field, path: path, value: value})
		}
	}
	if s.name != nil {
		set(string(*s.name) != now.Name, "/name", "displayName", *s.name)
	}
	if s.clearDescription {
		set(obj.Spec.Description != nil, "/description", "description", nil)
	} else if s.description != nil {
		set(string(*s.description) != ptr.Deref(now.Description, "\x00"), "/description", "description", *s.description)
	}
	if s.prefix != nil {
		set(string(*s.prefix) != now.EffectiveKeyPrefix(), "/key_prefix", "keyPrefix", *s.prefix)
	}
	if s.active != nil {
		set(*s.active != now.Active, "/is_active", "active", *s.active)
	}
	if s.setsPermissions {
		set(!slices.Equal(permissionNames(s.permissions), now.Permissions), "/permissions", "permissions", s.permissions)
	}
	if s.setsScheme && s.scheme == nil {
		set(obj.Spec.RateLimitSchemeRef != nil, "/rate_limit_scheme_slug", "rateLimitSchemeRef", nil)
	} else if s.setsScheme {
		set(s.scheme.Name != now.Scheme, "/rate_limit_scheme_slug", "rateLimitSchemeRef", s.scheme)
	}
	return changes
}

// readKeyPrefix reads the member key_prefix, nil if it is absent.
func readKeyPrefix(o *body.Object) *v1alpha1.KeyPrefix {
	prefix, sent := o.String("key_prefix")
	if !sent {
		return nil
	}
	if len(prefix) > maxKeyPrefix || !keyPrefixForm.MatchString(prefix) {
		o.Fault("key_prefix", "must be 1 to %d lower-case letters and digits in words joined by _", maxKeyPrefix)
	}
	return ptr.To(v1alpha1.KeyPrefix(prefix))
}

// readSchemeRef reads the member rate_limit_scheme_slug as a reference to the scheme's resource, nil for null; false:
// it was not sent.
func (c *call) readSchemeRef(o *body.Object) (*v1alpha1.RateLimitSchemeReference, bool) {
	slug, sent := c.readScheme(o)
	entry, found := (*snapshot.Entry)(nil), false
	if slug != "" {
		entry, found = c.snapshot.BySlug(v1alpha1.KindRateLimitScheme, c.tenant(), slug)
	}
	if !found {
		return nil, sent
	}
	return &v1alpha1.RateLimitSchemeReference{Name: entry.Name}, sent
}

func declaredPermissions(names []string) []v1alpha1.Permission {
	permissions := make([]v1alpha1.Permission, len(names))
	for i, name := range names {
		permissions[i] = v1alpha1.Permission(name)
	}
	return permissions
}

func permissionNames(permissions []v1alpha1.Permission) []string {
	names := make([]string, len(permissions))
	for i, permission := range permissions {
		names[i] = string(permission)
	}
	return names
}
