package events

import (
	"fmt"
	"strconv"
	"strings"
)

// optIn has the types that can be too many for readers that did not ask for them.
var optIn = map[Type]bool{}

// OptIn reports whether only patterns select the type that name it, or all that its name has before the last dot: "*"
// and shorter prefixes do not.
func (t Type) OptIn() bool { return optIn[t] }

// selects reports whether a pattern selects a version of a type.
func selects(pattern string, t Type, version int64, optIn bool) bool {
	pattern, pin, pinned := strings.Cut(pattern, "@")
	if pinned && pin != strconv.FormatInt(version, 10) {
		return false
	}
	prefix, all := strings.CutSuffix(pattern, "*")
	if !all {
		return pattern == string(t)
	}
	if optIn {
		return prefix == string(t)[:strings.LastIndex(string(t), ".")+1]
	}
	return prefix == "" || strings.HasSuffix(prefix, ".") && strings.HasPrefix(string(t), prefix)
}

// errNoType is the error of a pattern that selects nothing. It names the version that the type has, or the pattern that
// is the most similar one.
func errNoType(pattern string) error {
	name, pin, pinned := strings.Cut(pattern, "@")
	if entry, found := Find(Type(name)); found && pinned {
		return fmt.Errorf("%q selects no type of events: %s has no version %q, its version is %d", pattern, name, pin, entry.Version)
	}
	if len(name) > longestPattern {
		return fmt.Errorf("a pattern of %d characters, which selects no type of events: GET /events/types lists the types", len(pattern))
	}
	nearest, least := "", len(name)+longestPattern
	consider := func(known string) {
		if d := distance(name, known); d < least {
			nearest, least = known, d
		}
	}
	for _, e := range Catalogue {
		consider(string(e.Type))
		consider(string(e.Type)[:strings.LastIndex(string(e.Type), ".")] + ".*")
	}
	return fmt.Errorf("%q selects no type of events: the nearest is %q, and GET /events/types lists the types", pattern, nearest)
}

// longestPattern is more than the length of each type, in bytes.
const longestPattern = 100

// distance is the least number of bytes that must be inserted, deleted or replaced to make one text of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(changed, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}
