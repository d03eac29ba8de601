package backend

import (
	"net/http"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/store/people"
)

// readKeyPermissions reads the permissions of a key. A permission that the app does not have is a fault. `*` stands for
// all of the app's permissions.
func readKeyPermissions(o *body.Object, ceiling permission.Set, app string) ([]string, bool) {
	names, sent := input.Permissions(o, "permissions")
	for i, name := range names {
		if name != permission.All && !ceiling.Allows(name) {
			o.Fault(input.ElementOf("permissions", i), "%s is not among the permissions of the app %s: add it there first", name, app)
		}
	}
	return names, sent
}

// readResources reads the member resources, which published clients send. It must be empty: only permissions limit a
// key.
func readResources(o *body.Object) {
	if names, sent := o.Strings("resources"); sent && len(names) > 0 {
		o.Fault("resources", "must be empty: limit what keys may do by permissions")
	}
}

// mayGrant refuses to grant a permission of this API that the credential lacks, and to reveal the secret of a key with
// such a permission. Otherwise the permission to create keys would imply every permission. ceiling bounds the granted
// permissions.
func (c *call) mayGrant(granted []string, ceiling permission.Set) error {
	set := permission.NewSet(granted)
	for _, name := range c.api.builtIn {
		if set.Allows(name) && ceiling.Allows(name) && !c.principal.Allows(name) {
			return &apierror.Error{Status: http.StatusForbidden, Faults: []apierror.Fault{{
				Pointer: "/permissions", Message: "grants " + name + ", which the credential itself lacks: use one that has it"}}}
		}
	}
	return nil
}

// mayExtend decides whether a credential may change a key. If a change extends the key (a later or removed expiry, or
// another scheme), the credential needs the permissions to create the changed key. Any other change needs only the
// permissions that it adds. A key that is bound to a user has no management permissions, so its extension needs none.
func (c *call) mayExtend(before, after people.APIKey, ceiling permission.Set) error {
	later := !before.ExpiresAt.IsZero() && (after.ExpiresAt.IsZero() || after.ExpiresAt.After(before.ExpiresAt))
	if (later || after.Scheme != before.Scheme) && after.Owner == 0 {
		return c.mayGrant(after.Permissions, ceiling)
	}
	return c.mayGrant(added(after.Permissions, before.Permissions), ceiling)
}

// added returns the names that are not in a list yet.
func added(names, before []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(before, name) })
}
