// Package permission says what the permissions of a credential grant.
package permission

import "slices"

// All satisfies every permission.
const All = "*"

// Set is a set of permissions. The zero Set grants nothing.
type Set struct {
	all   bool
	names []string
}

// NewSet returns the set of the names; All grants everything.
func NewSet(names []string) Set {
	set := Set{all: slices.Contains(names, All), names: slices.Clone(names)}
	slices.Sort(set.names)
	set.names = slices.Compact(set.names)
	return set
}

// Allows tells whether the set grants a permission.
func (s Set) Allows(name string) bool {
	if s.all {
		return true
	}
	_, found := slices.BinarySearch(s.names, name)
	return found
}
