package scim

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	filter "github.com/scim2/filter-parser/v2"
)

// subject is what a filter is evaluated on.
type subject interface {
	// read returns the value of an attribute: string, bool, time.Time, map[string]any or []any; nil if it has none.
	read(field) any
	hasMember(id string) bool
}

// MatchUser reports whether the filter holds for a user. active is true if it is absent.
func (f *Filter) MatchUser(u User, m Meta) bool {
	return f.root.matches(userSubject{u.doc, m})
}

// MatchGroup reports whether the filter holds for a group. hasMember reports whether the user with an id is a member.
// It is called only if NeedsMembers.
func (f *Filter) MatchGroup(g Group, m Meta, hasMember func(id string) bool) bool {
	return f.root.matches(groupSubject{userSubject{g.document(), m}, hasMember})
}

// NeedsMembers reports whether the filter compares members.
func (f *Filter) NeedsMembers() bool { return f.root.needsMembers() }

func (n *node) needsMembers() bool {
	return n != nil && (n.isMembers() || n.left.needsMembers() || n.right.needsMembers())
}

func (n *node) isMembers() bool {
	return n.kind == compareNode && n.field.leaf().label == "members.value"
}

type userSubject struct {
	doc  map[string]any
	meta Meta
}

func (s userSubject) read(f field) any {
	switch f.attribute.label {
	case "id":
		return strconv.FormatInt(s.meta.ID, 10)
	case "active":
		return User{s.doc}.Active()
	case "meta":
		return map[string]any{"created": s.meta.Created, "lastModified": s.meta.Modified}
	}
	if f.extension {
		extension, _ := s.doc[EnterpriseSchema].(map[string]any)
		return extension[f.attribute.name]
	}
	return s.doc[f.attribute.name]
}

func (userSubject) hasMember(string) bool { return false }

type groupSubject struct {
	userSubject
	has func(id string) bool
}

func (s groupSubject) hasMember(id string) bool { return s.has != nil && s.has(id) }

// entrySubject is one value of a multi-valued attribute.
type entrySubject map[string]any

func (s entrySubject) read(f field) any { return s[f.attribute.name] }

func (entrySubject) hasMember(string) bool { return false }

func (n *node) matches(s subject) bool {
	switch n.kind {
	case andNode:
		return n.left.matches(s) && n.right.matches(s)
	case orNode:
		return n.left.matches(s) || n.right.matches(s)
	case notNode:
		return !n.left.matches(s)
	case entryNode:
		entries, _ := s.read(n.field).([]any)
		for _, e := range entries {
			if entry, ok := e.(map[string]any); ok && n.left.matches(entrySubject(entry)) {
				return true
			}
		}
		return false
	default:
		return n.compares(s)
	}
}

// compares evaluates a comparison. A multi-valued attribute matches if one of its values does.
func (n *node) compares(s subject) bool {
	if n.isMembers() {
		return s.hasMember(n.operand.given) == (n.operator == filter.EQ)
	}
	value := s.read(n.field)
	switch {
	case n.operator == filter.PR:
		return n.some(value, present)
	case n.operand.null:
		return n.some(value, present) == (n.operator == filter.NE)
	case n.operator == filter.NE:
		return !n.some(value, func(v any) bool { return n.operand.holds(filter.EQ, n.field.leaf(), v) })
	default:
		return n.some(value, func(v any) bool { return n.operand.holds(n.operator, n.field.leaf(), v) })
	}
}

// some reports whether a condition holds for one of the values of the field.
func (n *node) some(value any, holds func(any) bool) bool {
	switch v := value.(type) {
	case nil:
		return false
	case []any:
		for _, e := range v {
			if n.some(e, holds) {
				return true
			}
		}
		return false
	case map[string]any:
		if n.field.sub == nil {
			return len(v) > 0
		}
		sub, ok := v[n.field.sub.name]
		return ok && holds(sub)
	default:
		return holds(v)
	}
}

// present reports whether a value is not empty.
func present(value any) bool { return value != nil && value != "" }

// holds compares one value with the operand.
func (o operand) holds(operator filter.CompareOperator, a *attribute, value any) bool {
	switch v := value.(type) {
	case string:
		return compareText(operator, a.fold(v), o.text)
	case bool:
		return operator == filter.EQ && v == o.boolean
	case time.Time:
		return ordered(operator, v.Truncate(time.Millisecond).Compare(o.time))
	default:
		return false
	}
}

func compareText(operator filter.CompareOperator, value, operand string) bool {
	switch operator {
	case filter.CO:
		return strings.Contains(value, operand)
	case filter.SW:
		return strings.HasPrefix(value, operand)
	case filter.EW:
		return strings.HasSuffix(value, operand)
	default:
		return ordered(operator, cmp.Compare(value, operand))
	}
}

func ordered(operator filter.CompareOperator, order int) bool {
	switch operator {
	case filter.EQ:
		return order == 0
	case filter.GT:
		return order > 0
	case filter.GE:
		return order >= 0
	case filter.LT:
		return order < 0
	case filter.LE:
		return order <= 0
	default:
		return false
	}
}

// Lookup is an equality that a store answers by an index. Attribute is userName, externalId, id, emails.value,
// displayName (of groups) or members.value.
type Lookup struct {
	Attribute string
	Value     string
}

// Lookup returns an equality that every match fulfills: the whole filter, or a term of a conjunction at its top. Match
// evaluates the rest. Of several it returns the most selective one.
func (f *Filter) Lookup() (Lookup, bool) {
	best, rank := Lookup{}, 0
	f.root.lookups("", func(l Lookup, r int) {
		if rank == 0 || r < rank {
			best, rank = l, r
		}
	})
	return best, rank != 0
}

// ranks orders the attributes of lookups, from the most selective.
var ranks = map[string]int{"id": 1, "userName": 2, "externalId": 3, "emails.value": 4, "displayName": 5, "members.value": 6}

func (n *node) lookups(entry string, found func(Lookup, int)) {
	switch {
	case n.kind == andNode:
		n.left.lookups(entry, found)
		n.right.lookups(entry, found)
	case n.kind == entryNode:
		n.left.lookups(n.field.attribute.label, found)
	case n.kind != compareNode || n.operator != filter.EQ || n.operand.null:
	default:
		label := n.field.leaf().label
		rank, ok := ranks[label]
		// Users have no index of displayName.
		if ok && n.field.leaf() != userSchema.lookup("displayName") {
			found(Lookup{label, n.operand.given}, rank)
		}
	}
}
