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

// readKeyPermissions reads the permissions of a key: what its app lacks is a fault. `*` stands for all of the app's.
func readKeyPermissions(o *body.Object, ceiling permission.Set, app string) ([]string, bool) {
	names, sent := input.Permissions(o, "permissions")
	for i, name := range names {
		if name != permission.All && !ceiling.Allows(name) {
			o.Fault(input.ElementOf("permissions", i), "%s is not among the permissions of the app %s: add it there first", name, app)
		}
	}
	return names, sent
}

// readResources reads a member of published clients: Cardea knows no resources beside permissions.
func readResources(o *body.Object) {
	if names, sent := o.Strings("resources"); sent && len(names) > 0 {
		o.Fault("resources", "must be empty: limit what keys may do by permissions")
	}
}

// mayGrant refuses to give away, or to have the secret of, what this API itself asks for where the credential does not have it: else the
// right to make keys would be every right. ceiling bounds what is granted.
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

// mayExtend decides whether a credential may change a key. A change that extends what the key may do, for how long or how often (a later or
// removed expiry, another scheme) needs what creating the key as it will be needs; any other change needs the permissions that it adds.
// A key that acts for a user manages nothing, so extending it grants nothing here.
func (c *call) mayExtend(before, after people.APIKey, ceiling permission.Set) error {
	later := !before.ExpiresAt.IsZero() && (after.ExpiresAt.IsZero() || after.ExpiresAt.After(before.ExpiresAt))
	if (later || after.Scheme != before.Scheme) && after.Owner == 0 {
		return c.mayGrant(after.Permissions, ceiling)
	}
	return c.mayGrant(added(after.Permissions, before.Permissions), ceiling)
}

// added are the names that are not in a list yet.
func added(names, before []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(before, name) })
}
