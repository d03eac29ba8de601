// Package permission evaluates the permissions of a credential.
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

// Allows reports whether the set grants a permission.
func (s Set) Allows(name string) bool {
	if s.all {
		return true
	}
	_, found := slices.BinarySearch(s.names, name)
	return found
}

// Within returns the names that both sets grant, sorted. If one set has All, the result is the names of the other set.
// If both have All, the result is All.
func (s Set) Within(ceiling Set) []string {
	switch {
	case s.all && ceiling.all:
		return []string{All}
	case s.all:
		return slices.Clone(ceiling.names)
	}
	within := []string{}
	for _, name := range s.names {
		if ceiling.Allows(name) {
			within = append(within, name)
		}
	}
	return within
}
