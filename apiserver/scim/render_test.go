package scim

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

const renderBase = "https://acme.example.com/scim/v2/dir_1"

// members returns the names of a JSON object, sorted, in one string.
func members(t *testing.T, raw []byte) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return strings.Join(slices.Sorted(maps.Keys(o)), " ")
}

func TestRenderUser(t *testing.T) {
	m := filteredMeta
	m.Location = renderBase + "/Users/42"
	raw, err := RenderUser(mustUser(t, `{"userName":"a","active":true,"`+EnterpriseSchema+`":{"department":"<IT>"}}`), m,
		[]GroupRef{{7, "Eng", renderBase + "/Groups/7"}}, Selection{})
	want := `{"schemas":["` + UserSchema + `","` + EnterpriseSchema + `"],"id":"42","userName":"a","active":true,` +
		`"groups":[{"$ref":"` + renderBase + `/Groups/7","display":"Eng","type":"direct","value":"7"}],` +
		`"` + EnterpriseSchema + `":{"department":"<IT>"},` +
		`"meta":{"resourceType":"User","created":"2026-01-02T03:04:05.678Z","lastModified":"2026-02-02T00:00:00.000Z","location":"` + m.Location + `","version":"W/\"3\""}}`
	if err != nil || string(raw) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, raw, want)
	}
}

func TestRenderedUserIsReadAsTheSame(t *testing.T) {
	u := mustUser(t, filteredUser)
	raw, err := RenderUser(u, filteredMeta, []GroupRef{{ID: 7}}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if again := mustUser(t, string(raw)); !again.Equal(u) {
		t.Errorf("%s", raw)
	}
}

func TestSelection(t *testing.T) {
	u := mustUser(t, filteredUser)
	for name, tc := range map[string]struct{ attributes, excluded, want string }{
		"all":                          {"", "", "active displayName emails externalId groups id meta name schemas title " + EnterpriseSchema + " userName"},
		"some, without regard to case": {"USERNAME, name.givenName,,x", "", "id name schemas userName"},
		"the schema in a name":         {UserSchema + ":title", "", "id schemas title"},
		"all but some":                 {"", "groups,emails,meta,name,id,schemas," + EnterpriseSchema, "active displayName externalId id schemas title userName"},
		"the extension":                {EnterpriseSchema, "", "id schemas " + EnterpriseSchema},
		"a part of the extension":      {EnterpriseSchema + ":department", "", "id schemas " + EnterpriseSchema},
		"nothing that exists":          {"x", "", "id schemas"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ReadSelection(tc.attributes, tc.excluded)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := RenderUser(u, filteredMeta, []GroupRef{{ID: 7}}, s)
			if got := members(t, raw); err != nil || got != tc.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, tc.want)
			}
		})
	}
}

func TestSelectionOfParts(t *testing.T) {
	u := mustUser(t, filteredUser)
	for name, tc := range map[string]struct{ attributes, excluded, contains, lacks string }{
		"a part":                  {"name.givenName", "", `"name":{"givenName":"Bo"}`, "Ek"},
		"a part of values":        {"emails.value", "", `"emails":[{"value":"Bo@Work.org"},{"value":"bo@home.org"}]`, "home\""},
		"but a part":              {"", "emails.value,name.familyName", `"emails":[{"primary":true,"type":"work"},{"type":"home"}]`, "@home"},
		"a part of the extension": {EnterpriseSchema + ":department", "", `{"department":"IT"}`, "manager"},
		"but one of it":           {"", EnterpriseSchema + ":manager", `{"department":"IT"}`, "manager"},
		"the whole and a part":    {"name,name.givenName", "", `"name":{"familyName":"Ek","givenName":"Bo"}`, "Chef"},
		"a part of a manager":     {EnterpriseSchema + ":manager.value", "", `{"manager":{"value":"26"}}`, "department"},
		"a part of groups":        {"groups.value", "", `"groups":[{"value":"7"}]`, "direct"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ReadSelection(tc.attributes, tc.excluded)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := RenderUser(u, filteredMeta, []GroupRef{{ID: 7}}, s)
			if err != nil || !json.Valid(raw) || !strings.Contains(string(raw), tc.contains) || strings.Contains(string(raw), tc.lacks) {
				t.Errorf("%v %s", err, raw)
			}
		})
	}
}

func TestReadSelectionRefuses(t *testing.T) {
	for _, pair := range [][2]string{{"userName", "emails"}, {strings.Repeat("x", MaxSelectionBytes+1), ""}, {"", strings.Repeat("x", MaxSelectionBytes+1)}} {
		_, err := ReadSelection(pair[0], pair[1])
		fails(t, err, InvalidValue)
	}
}

func TestWriteGroup(t *testing.T) {
	m := filteredMeta
	m.Location = renderBase + "/Groups/42"
	meta := `"meta":{"resourceType":"Group","created":"2026-01-02T03:04:05.678Z","lastModified":"2026-02-02T00:00:00.000Z","location":"` + m.Location + `","version":"W/\"3\""}`
	two := func(yield func(Member) error) error {
		return errors.Join(yield(Member{1, "Bo", renderBase + "/Users/1"}), yield(Member{2, "", renderBase + "/Users/2"}))
	}
	none := func(func(Member) error) error { return nil }
	never := func(func(Member) error) error { return errors.New("members were read") }
	head := `{"schemas":["` + GroupSchema + `"],"id":"42",`
	for name, tc := range map[string]struct {
		attributes, excluded string
		members              func(func(Member) error) error
		want                 string
	}{
		"all": {"", "", two, head + `"externalId":"e","displayName":"G",` + meta +
			`,"members":[{"$ref":"` + renderBase + `/Users/1","display":"Bo","type":"User","value":"1"},{"$ref":"` + renderBase + `/Users/2","type":"User","value":"2"}]}`},
		"no members":           {"", "", none, head + `"externalId":"e","displayName":"G",` + meta + `}`},
		"nil":                  {"", "", nil, head + `"externalId":"e","displayName":"G",` + meta + `}`},
		"members are excluded": {"", "members,meta", never, head + `"externalId":"e","displayName":"G"}`},
		"a part of members":    {"members.value", "", two, head + `"members":[{"value":"1"},{"value":"2"}]}`},
		"only the name":        {"displayName", "", never, head + `"displayName":"G"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ReadSelection(tc.attributes, tc.excluded)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := WriteGroup(&b, Group{"G", "e"}, m, s, tc.members); err != nil || b.String() != tc.want || !json.Valid(b.Bytes()) {
				t.Errorf("%v\ngot  %s\nwant %s", err, b.String(), tc.want)
			}
		})
	}
	if err := WriteGroup(&bytes.Buffer{}, Group{}, m, Selection{}, never); err == nil {
		t.Error("an error of members is lost")
	}
}

// failing is a writer that fails after some bytes.
type failing int

func (f *failing) Write(p []byte) (int, error) {
	if *f -= failing(len(p)); *f < 0 {
		return 0, errors.New("the connection is closed")
	}
	return len(p), nil
}

func TestWritingStopsAtAnError(t *testing.T) {
	calls := 0
	many := func(yield func(Member) error) error {
		for range 100_000 {
			calls++
			if err := yield(Member{ID: 1}); err != nil {
				return err
			}
		}
		return nil
	}
	out := failing(10_000)
	if err := WriteGroup(&out, Group{}, Meta{}, Selection{}, many); err == nil || calls > 1000 {
		t.Errorf("%v after %d members", err, calls)
	}
}

func TestWriteList(t *testing.T) {
	head := `{"schemas":["urn:ietf:params:scim:api:messages:2.0:ListResponse"],"totalResults":9,"startIndex":3,"itemsPerPage":2,"Resources":`
	var b bytes.Buffer
	err := WriteList(&b, 9, 3, 2, func(yield func([]byte) error) error {
		return errors.Join(yield([]byte(`{"a":1}`)), yield([]byte(`{}`)))
	})
	if err != nil || b.String() != head+`[{"a":1},{}]}` {
		t.Errorf("%v %s", err, b.String())
	}
	b.Reset()
	if err := WriteList(&b, 9, 3, 2, nil); err != nil || b.String() != head+`[]}` {
		t.Errorf("%v %s", err, b.String())
	}
	if err := WriteList(&b, 9, 3, 2, func(func([]byte) error) error { return errors.New("the connection is closed") }); err == nil {
		t.Error("an error of the resources is lost")
	}
}

func TestETag(t *testing.T) {
	if got := (Meta{Version: 7}).ETag(); got != `W/"7"` {
		t.Error(got)
	}
	for header, want := range map[string]bool{
		`W/"7"`: true, `"7"`: true, `*`: true, `W/"6", W/"7"`: true, ` W/"6" ,"7" `: true,
		``: false, `7`: false, `W/"77"`: false, `W/"6"`: false, `w/"7"`: false, `W/7`: false, `W/"7`: false,
	} {
		if got := MatchesETag(header, 7); got != want {
			t.Errorf("%s: %t", header, got)
		}
	}
}

func TestErrorBody(t *testing.T) {
	for want, e := range map[string]*Error{
		`{"schemas":["urn:ietf:params:scim:api:messages:2.0:Error"],"scimType":"invalidPath","detail":"x < y","status":"400"}`: {400, InvalidPath, "x < y"},
		`{"schemas":["urn:ietf:params:scim:api:messages:2.0:Error"],"status":"404"}`:                                           {Status: 404},
	} {
		if got := string(e.Body()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := (&Error{404, "", "no such user"}).Error(); got != "scim: no such user" {
		t.Error(got)
	}
}

func TestDiscovery(t *testing.T) {
	for name, raw := range map[string][]byte{"config": ServiceProviderConfig(renderBase), "schemas": Schemas(renderBase), "types": ResourceTypes(renderBase)} {
		if !json.Valid(raw) || !strings.Contains(string(raw), `"location":"`+renderBase+`/`) {
			t.Errorf("%s: %s", name, raw)
		}
	}
	if got := members(t, ServiceProviderConfig(renderBase)); got != "authenticationSchemes bulk changePassword etag filter meta patch schemas sort" {
		t.Error(got)
	}
	for _, id := range []string{UserSchema, GroupSchema, EnterpriseSchema} {
		raw, ok := SchemaByID(renderBase, id)
		if !ok || members(t, raw) != "attributes description id meta name schemas" || !strings.Contains(string(Schemas(renderBase)), string(raw)) {
			t.Errorf("%s: %s", id, raw)
		}
	}
	for _, id := range []string{"User", "Group"} {
		raw, ok := ResourceTypeByID(renderBase, id)
		if !ok || !strings.Contains(string(ResourceTypes(renderBase)), string(raw)) {
			t.Errorf("%s: %s", id, raw)
		}
	}
	if _, ok := SchemaByID(renderBase, "x"); ok {
		t.Error("an unknown schema is found")
	}
	if _, ok := ResourceTypeByID(renderBase, "x"); ok {
		t.Error("an unknown resource type is found")
	}
}
