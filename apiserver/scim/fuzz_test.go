package scim

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"
)

// asError checks that an error is an Error of status 400.
func asError(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Status != 400 || e.Type == "" || e.Detail == "" || !json.Valid(e.Body()) {
		t.Fatalf("%v is no error of SCIM", err)
	}
}

// consistent checks that a document is canonical: it is read from its own JSON, and from its response, as the same.
func consistent(t *testing.T, u User) {
	t.Helper()
	raw := encode(u.doc)
	if bytes.Contains(raw, []byte(`\u0000`)) && bytes.IndexByte(raw, 0) < 0 && !bytes.Contains(raw, []byte(`\\u0000`)) {
		t.Fatalf("%s has U+0000", raw)
	}
	decoded, err := DecodeUser(raw)
	if err != nil || !decoded.Equal(u) {
		t.Fatalf("%v: %s is decoded as another document", err, raw)
	}
	rendered, err := RenderUser(u, Meta{ID: 1}, []GroupRef{{ID: 2}}, Selection{})
	if err != nil || !json.Valid(rendered) {
		t.Fatalf("%v: %s", err, rendered)
	}
	for _, body := range [][]byte{raw, rendered} {
		if read, err := ReadUser(body); err != nil || !read.Equal(u) {
			t.Fatalf("%v: %s is read as another document", err, body)
		}
	}
}

func FuzzReadUser(f *testing.F) {
	f.Add([]byte(filteredUser))
	f.Add([]byte(`{"USERNAME":"a","active":"False","roles":["x",{"value":"y","primary":"True"}],"` + EnterpriseSchema + `":{"manager":"7"}}`))
	f.Add([]byte(`{"displayName":"G","members":[{"value":"1","$ref":null},{"value":"2","type":"Group"}]}`))
	for _, tc := range userPatches {
		f.Add([]byte(`{"userName":"a",` + tc.want + `}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if u, err := ReadUser(body); err != nil {
			asError(t, err)
		} else {
			consistent(t, u)
			if u.UserName() == "" || u.WithActive(false).Active() {
				t.Fatalf("%s", body)
			}
			_, _ = u.Email(), u.DisplayName()
		}
		g, change, err := ReadGroup(body)
		if err != nil {
			asError(t, err)
			return
		}
		checkChange(t, change)
		if g.DisplayName == "" || !change.Replace {
			t.Fatalf("%s", body)
		}
	})
}

// checkChange checks that a change is sorted, without duplicates and without contradictions.
func checkChange(t *testing.T, c MemberChange) {
	t.Helper()
	for _, ids := range [][]int64{c.Add, c.Remove} {
		for i, id := range ids {
			if id <= 0 || i > 0 && ids[i-1] >= id {
				t.Fatalf("%+v", c)
			}
		}
	}
	for _, id := range c.Add {
		if _, both := slices.BinarySearch(c.Remove, id); both {
			t.Fatalf("%d is in both of %+v", id, c)
		}
	}
	if c.Replace && len(c.Remove) > 0 {
		t.Fatalf("%+v", c)
	}
}

func FuzzPatch(f *testing.F) {
	for _, tc := range userPatches {
		f.Add([]byte(`{"userName":"a",`+tc.before+`}`), patchBody(tc.operations))
		f.Add([]byte(filteredUser), patchBody(tc.operations))
	}
	f.Add([]byte(filteredUser), patchBody(`{"op":"add","path":"members","value":[{"value":"2"}]},{"op":"remove","path":"members[value eq \"7\"]"}`))
	f.Fuzz(func(t *testing.T, body, patch []byte) {
		p, err := ReadPatch(patch)
		if err != nil {
			asError(t, err)
			return
		}
		if g, change, err := (Group{"G", "e"}).Apply(p); err != nil {
			asError(t, err)
		} else if checkChange(t, change); g.DisplayName == "" {
			t.Fatalf("%s removes displayName", patch)
		}
		u, err := ReadUser(body)
		if err != nil {
			return
		}
		before := encode(u.doc)
		after, err := u.Apply(p)
		if err != nil {
			asError(t, err)
		} else {
			consistent(t, after)
		}
		if !bytes.Equal(encode(u.doc), before) {
			t.Fatalf("%s changes %s to %s", patch, before, encode(u.doc))
		}
	})
}

func FuzzFilter(f *testing.F) {
	for _, tc := range userFilters {
		f.Add(tc.text)
	}
	f.Add(`emails[type eq "work"].value`)
	f.Add(`members[value eq "7"] and displayName sw "x" or not (id eq "7")`)
	u, err := ReadUser([]byte(filteredUser))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		checkPath(t, text)
		for _, parse := range []func(string) (*Filter, error){ParseUserFilter, ParseGroupFilter} {
			filter, err := parse(text)
			if err != nil {
				asError(t, err)
				continue
			}
			matches := filter.MatchUser(u, filteredMeta)
			filter.MatchGroup(Group{"Eng", "E"}, filteredMeta, func(string) bool { return true })
			if lookup, ok := filter.Lookup(); ok && matches && lookup.Value == "" {
				t.Fatalf("%s: %+v", text, lookup)
			}
		}
		if _, err := ReadPatch(encode(document{"Operations": []document{{"op": "remove", "path": text}}})); err != nil {
			asError(t, err)
		}
		if took := time.Since(start); took > time.Second {
			t.Fatalf("%s took %v", text, took)
		}
	})
}
