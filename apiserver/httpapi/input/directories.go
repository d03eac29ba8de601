package input

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/directories"
)

// The values of on_delete.
const (
	onDeleteKeep  = "Keep"
	onDeleteErase = "Erase"
)

// OnDelete returns the value of on_delete.
func OnDelete(erases bool) string {
	if erases {
		return onDeleteErase
	}
	return onDeleteKeep
}

// Directory reads what a request sets of a directory.
func Directory(o *body.Object) directories.Change {
	change := directories.Change{GroupRoles: groupRoles(o, "group_roles"), Active: Bool(o, "is_active")}
	switch {
	case o.IsNull("connection_id"):
		change.Connection = ptr.To[int64](0)
	case o.Has("connection_id"):
		change.Connection = ptr.To(ID(o, "connection_id"))
	}
	if sent, ok := o.String("on_delete"); ok {
		change.Erases = ptr.To(sent == onDeleteErase)
		if sent != onDeleteKeep && sent != onDeleteErase {
			o.Fault("on_delete", "must be %s or %s", onDeleteKeep, onDeleteErase)
		}
	}
	return change
}

// DirectoryUpdate is Directory with the state of the directory that the request changes.
func DirectoryUpdate(o *body.Object) directories.Change {
	change := Directory(o)
	change.Read = Seen(o)
	return change
}

func groupRoles(o *body.Object, member string) *[]directory.GroupRole {
	sent, ok := o.Objects(member)
	if !ok {
		return nil
	}
	if len(sent) > directory.MaxGroupRoles {
		o.Fault(member, "must have at most %d entries", directory.MaxGroupRoles)
		return nil
	}
	given := []directory.GroupRole{}
	for _, one := range sent {
		g := directory.GroupRole{}
		if one.Require("group") {
			g.Group, _ = one.String("group")
			switch {
			case g.Group == "" || utf8.RuneCountInString(g.Group) > directory.MaxGroup:
				one.Fault("group", "must have 1 to %d characters", directory.MaxGroup)
			case strings.ContainsFunc(g.Group, unicode.IsControl): // no group has one, and no form sends it back unchanged
				one.Fault("group", "has a control character, such as a line break: remove it")
			case slices.ContainsFunc(given, func(other directory.GroupRole) bool { return other.Group == g.Group }):
				one.Fault("group", "has a role already: name each group once")
			}
		}
		if one.Require("role_id") {
			g.Role = ID(one, "role_id")
		}
		one.Close()
		given = append(given, g)
	}
	return &given
}

// MaxTokenLifetime bounds the lifetime of a directory's token: five years of 365 days.
const MaxTokenLifetime = 5 * 365 * 24 * time.Hour

// DirectoryToken reads the lifetime of a directory's token, 0 if it has no end.
func DirectoryToken(o *body.Object) time.Duration {
	sent, ok := o.Integer("expires_in")
	if ok && (sent < 60 || sent > int64(MaxTokenLifetime/time.Second)) {
		o.Fault("expires_in", "must be a number of seconds from 60 to %d", int64(MaxTokenLifetime/time.Second))
	}
	return time.Duration(sent) * time.Second
}
