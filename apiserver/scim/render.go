package scim

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"
	"time"
)

// Meta is what the server records of a resource.
type Meta struct {
	ID                int64
	Created, Modified time.Time
	Version           int64
	Location          string
}

// ETag returns the entity tag: W/"7".
func (m Meta) ETag() string { return `W/"` + strconv.FormatInt(m.Version, 10) + `"` }

// MatchesETag reports whether a header If-Match or If-None-Match names a version: a list of weak or strong tags, or *.
func MatchesETag(header string, version int64) bool {
	want := strconv.FormatInt(version, 10)
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == `"`+want+`"` {
			return true
		}
	}
	return false
}

func (m Meta) document(resource string) any {
	return struct {
		ResourceType string `json:"resourceType"`
		Created      string `json:"created"`
		LastModified string `json:"lastModified"`
		Location     string `json:"location"`
		Version      string `json:"version"`
	}{resource, formatTime(m.Created), formatTime(m.Modified), m.Location, m.ETag()}
}

// formatTime returns a time of milliseconds in UTC, which filters compare.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// GroupRef is a group that has a user.
type GroupRef struct {
	ID                int64
	Display, Location string
}

// writer writes the members of a JSON object.
type writer struct {
	w     *bufio.Writer
	comma bool
}

func newWriter(w io.Writer) *writer { return &writer{w: bufio.NewWriter(w)} }

// The bufio.Writer keeps the first error, which Flush returns.
func (w *writer) raw(s string) { _, _ = w.w.WriteString(s) }

func (w *writer) name(name string) {
	if w.comma {
		w.raw(",")
	}
	w.comma = true
	_, _ = w.w.Write(encode(name))
	w.raw(":")
}

func (w *writer) member(name string, value any) {
	w.name(name)
	_, _ = w.w.Write(encode(value))
}

// RenderUser returns the selected attributes of a user as JSON.
func RenderUser(u User, m Meta, groups []GroupRef, s Selection) ([]byte, error) {
	var b bytes.Buffer
	w := newWriter(&b)
	w.raw("{")
	schemas := []string{UserSchema}
	extension := u.doc[EnterpriseSchema]
	if extension != nil {
		schemas = append(schemas, EnterpriseSchema)
	}
	w.member("schemas", schemas)
	w.member("id", strconv.FormatInt(m.ID, 10))
	for _, a := range userSchema.attributes {
		if !s.Wants(a.name) {
			continue
		}
		if a.name == "groups" {
			writeGroups(w, groups, s)
		} else if value := u.doc[a.name]; value != nil {
			w.member(a.name, s.trim(a.name, ".", value))
		}
	}
	if extension != nil && s.Wants(EnterpriseSchema) {
		w.member(EnterpriseSchema, s.trim(EnterpriseSchema, ":", extension))
	}
	writeMeta(w, m, "User", s)
	w.raw("}")
	err := w.w.Flush()
	return b.Bytes(), err
}

func writeGroups(w *writer, groups []GroupRef, s Selection) {
	if len(groups) == 0 {
		return
	}
	list := make([]any, len(groups))
	for i, g := range groups {
		list[i] = referenceTo(g.ID, g.Location, g.Display, "direct")
	}
	w.member("groups", s.trim("groups", ".", list))
}

// referenceTo returns a value of groups or members.
func referenceTo(id int64, location, display, kind string) map[string]any {
	entry := map[string]any{"value": strconv.FormatInt(id, 10), "type": kind}
	if location != "" {
		entry["$ref"] = location
	}
	if display != "" {
		entry["display"] = display
	}
	return entry
}

func writeMeta(w *writer, m Meta, resource string, s Selection) {
	if s.Wants("meta") {
		w.member("meta", m.document(resource))
	}
}

// Member is a member of a group.
type Member struct {
	ID                int64
	Display, Location string
}

// WriteGroup writes the selected attributes of a group as JSON. It calls members, if they are selected, with a function
// that writes one of them. After an error the output is incomplete.
func WriteGroup(out io.Writer, g Group, m Meta, s Selection, members func(yield func(Member) error) error) error {
	w := newWriter(out)
	w.raw("{")
	w.member("schemas", []string{GroupSchema})
	w.member("id", strconv.FormatInt(m.ID, 10))
	if g.ExternalID != "" && s.Wants("externalId") {
		w.member("externalId", g.ExternalID)
	}
	if s.Wants("displayName") {
		w.member("displayName", g.DisplayName)
	}
	writeMeta(w, m, "Group", s)
	if members != nil && s.Wants("members") {
		if err := writeMembers(w, s, members); err != nil {
			return err
		}
	}
	w.raw("}")
	return w.w.Flush()
}

func writeMembers(w *writer, s Selection, members func(yield func(Member) error) error) error {
	some := false
	err := members(func(m Member) error {
		if some {
			w.raw(",")
		} else {
			some = true
			w.name("members")
			w.raw("[")
		}
		_, err := w.w.Write(encode(s.trim("members", ".", referenceTo(m.ID, m.Location, m.Display, "User"))))
		return err
	})
	if some {
		w.raw("]")
	}
	return err
}

// WriteList writes a ListResponse. It calls resources with a function that writes one of them, which is JSON. total is
// the number of all matches, startIndex the position of the first resource, from 1, and itemsPerPage their number.
// After an error the output is incomplete.
func WriteList(out io.Writer, total, startIndex, itemsPerPage int, resources func(yield func([]byte) error) error) error {
	w := newWriter(out)
	w.raw("{")
	w.member("schemas", []string{listSchema})
	w.member("totalResults", total)
	w.member("startIndex", startIndex)
	w.member("itemsPerPage", itemsPerPage)
	w.name("Resources")
	w.raw("[")
	if resources != nil {
		some := false
		err := resources(func(resource []byte) error {
			if some {
				w.raw(",")
			}
			some = true
			_, err := w.w.Write(resource)
			return err
		})
		if err != nil {
			return err
		}
	}
	w.raw("]}")
	return w.w.Flush()
}
