package management

import (
	"net/http"
	"regexp"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/internal/permission"
)

const (
	// maxPermissions is how many permissions an app or a key lists, and maxPermission the length of one, as in the resources.
	maxPermissions = 128
	maxPermission  = 100
)

var permissionForm = regexp.MustCompile(`^(\*|[A-Za-z0-9_./-]+(:[A-Za-z0-9_./-]+)*)$`)

// readPermissions reads the member permissions, each once, in their order; false: it was not sent, or not whole.
func readPermissions(o *body.Object) ([]string, bool) {
	names, sent := o.Strings("permissions")
	if !sent {
		return nil, false
	}
	if len(names) > maxPermissions {
		o.Fault("permissions", "has %d entries: at most %d are allowed", len(names), maxPermissions)
		return nil, false
	}
	kept := []string{}
	for i, name := range names {
		switch {
		case len(name) > maxPermission || !permissionForm.MatchString(name):
			o.Fault(elementOf("permissions", i), "must be * or words of letters, digits, _ . - / joined by colons, at most %d characters", maxPermission)
		case !slices.Contains(kept, name):
			kept = append(kept, name)
		}
	}
	return kept, true
}

// readKeyPermissions is readPermissions for a key: what its app lacks is a fault. `*` stands for all of the app's.
func readKeyPermissions(o *body.Object, ceiling permission.Set, app string) ([]string, bool) {
	names, sent := readPermissions(o)
	for i, name := range names {
		if name != permission.All && !ceiling.Allows(name) {
			o.Fault(elementOf("permissions", i), "%s is not among the permissions of the app %s: add it there first", name, app)
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

// added are the names that are not in a list yet.
func added(names, before []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(before, name) })
}
