package scim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Group is a group without its members. ExternalID is empty if it has none.
type Group struct {
	DisplayName, ExternalID string
}

// MemberChange is a change of a group's members. With Replace the members are those of Add; otherwise Add and Remove
// change those that exist. Both are sorted and without duplicates, and no id is in both.
type MemberChange struct {
	Replace     bool
	Add, Remove []int64
}

// ReadGroup parses the body of a POST or a PUT. The members are those of the body; absent ones mean an empty group.
func ReadGroup(body []byte) (Group, MemberChange, error) {
	o, err := decode(body)
	if err != nil {
		return Group{}, MemberChange{}, err
	}
	doc := map[string]any{}
	f := fold{replace: true}
	for _, m := range o {
		if strings.EqualFold(m.name, "members") {
			ids, err := readMembers(m.value)
			if err != nil {
				return Group{}, MemberChange{}, err
			}
			f.set(ids)
			continue
		}
		if err := readMember(groupSchema, doc, m); err != nil {
			return Group{}, MemberChange{}, err
		}
	}
	if doc["displayName"] == nil {
		return Group{}, MemberChange{}, refuse(InvalidValue, "displayName: is required")
	}
	return groupOf(doc), f.change(), nil
}

func groupOf(doc map[string]any) Group {
	var g Group
	g.DisplayName, _ = doc["displayName"].(string)
	g.ExternalID, _ = doc["externalId"].(string)
	return g
}

func (g Group) document() map[string]any {
	doc := map[string]any{"displayName": g.DisplayName}
	if g.ExternalID != "" {
		doc["externalId"] = g.ExternalID
	}
	return doc
}

// readMembers reads members: an array, or a single one. Each is an object with a value, or the id alone.
func readMembers(value any) ([]int64, error) {
	given, ok := value.([]any)
	if !ok {
		if value == nil {
			return nil, nil
		}
		given = []any{value}
	}
	ids := make([]int64, 0, len(given))
	for _, v := range given {
		id, err := readMemberID(v)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func readMemberID(value any) (int64, error) {
	o, ok := value.(object)
	if !ok {
		return memberID(value)
	}
	var id any
	for _, m := range o {
		s, _ := m.value.(string)
		switch strings.ToLower(m.name) {
		case "value":
			id = m.value
		case "type":
			if strings.EqualFold(s, "group") {
				return 0, nested()
			}
		case "$ref":
			if strings.Contains(strings.ToLower(s), "/groups/") {
				return 0, nested()
			}
		}
	}
	return memberID(id)
}

func nested() *Error {
	return refuse(InvalidValue, "members: nested groups are not supported; list the users")
}

// memberID parses the id of a user: a positive decimal number without a sign or leading zeros, as a string.
func memberID(value any) (int64, error) {
	s, _ := value.(string)
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id <= 0 || strconv.FormatInt(id, 10) != s {
		return 0, refuse(InvalidValue, "members: unknown member %s; use the id of a user of this directory", shorten(s))
	}
	return id, nil
}

// shorten quotes a value for an error.
func shorten(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "") + "...")
	}
	return strconv.Quote(s)
}

// fold combines the operations of a PATCH on members. Every operation costs as much as it has members.
type fold struct {
	replace     bool
	add, remove map[int64]struct{}
}

func (f *fold) set(ids []int64) {
	f.replace, f.add, f.remove = true, nil, nil
	f.plus(ids)
}

func (f *fold) plus(ids []int64) {
	for _, id := range ids {
		if f.add == nil {
			f.add = map[int64]struct{}{}
		}
		f.add[id] = struct{}{}
		delete(f.remove, id)
	}
}

func (f *fold) minus(ids []int64) {
	for _, id := range ids {
		delete(f.add, id)
		if f.replace {
			continue
		}
		if f.remove == nil {
			f.remove = map[int64]struct{}{}
		}
		f.remove[id] = struct{}{}
	}
}

func (f *fold) change() MemberChange {
	return MemberChange{f.replace, slices.Sorted(maps.Keys(f.add)), slices.Sorted(maps.Keys(f.remove))}
}
