package input

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
)

const (
	// maxPermissions bounds the permissions of an app or a key, and maxPermission the characters of a permission. The
	// custom resources have the same bounds.
	maxPermissions = 128
	maxPermission  = 100
	// maxMetadata bounds the JSON that is stored with a key, in bytes.
	maxMetadata = 4096
)

var permissionForm = regexp.MustCompile(`^(\*|[A-Za-z0-9_./-]+(:[A-Za-z0-9_./-]+)*)$`)

// Permissions reads a list of permissions in order, without duplicates. It returns false if the list was not sent or is
// faulty.
func Permissions(o *body.Object, member string) ([]string, bool) {
	names, sent := o.Strings(member)
	if !sent {
		return nil, false
	}
	if len(names) > maxPermissions {
		o.Fault(member, "has %d entries: at most %d are allowed", len(names), maxPermissions)
		return nil, false
	}
	kept := []string{}
	for i, name := range names {
		switch {
		case len(name) > maxPermission || !permissionForm.MatchString(name):
			o.Fault(ElementOf(member, i), "must be * or words of letters, digits, _ . - / joined by colons, at most %d characters", maxPermission)
		case !slices.Contains(kept, name):
			kept = append(kept, name)
		}
	}
	return kept, true
}

// ElementOf names an element of a list.
func ElementOf(member string, i int) string { return member + "/" + strconv.Itoa(i) }

// Metadata reads the metadata of a key as JSON, nil for null and an empty object. It returns false if it was not sent.
func Metadata(o *body.Object, member string) ([]byte, bool) {
	if o.IsNull(member) {
		return nil, true
	}
	raw, sent := o.Raw(member)
	if len(raw) > maxMetadata {
		o.Fault(member, "has %d bytes of JSON: at most %d are kept", len(raw), maxMetadata)
	}
	if string(raw) == "{}" {
		raw = nil
	}
	return raw, sent
}
