package scim

import (
	"strings"
	"testing"
	"time"
)

var (
	filteredUser = `{"userName":"Bo@X.org","externalId":"Ext","title":"Chef","name":{"givenName":"Bo","familyName":"Ek"},"displayName":"Bo \"B\" Ek","active":true,` +
		`"emails":[{"type":"work","value":"Bo@Work.org","primary":true},{"type":"home","value":"bo@home.org"}],` +
		`"` + EnterpriseSchema + `":{"department":"IT","manager":{"value":"26"}}}`
	filteredMeta = Meta{
		ID: 42, Version: 3,
		Created: time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC), Modified: time.Date(2026, 2, 2, 0, 0, 0, 0, time.UTC),
	}
)

var userFilters = []struct {
	text string
	want bool
}{
	{`userName eq "bo@x.ORG"`, true}, {`userName eq "bo"`, false}, {`USERNAME EQ "bo@x.org"`, true},
	{`userName ne "bo@x.org"`, false}, {`userName ne "x"`, true}, {`nickName ne "x"`, true}, {`nickName eq "x"`, false},
	{`userName co "@X"`, true}, {`userName sw "BO"`, true}, {`userName sw "o"`, false}, {`userName ew ".ORG"`, true}, {`userName ew "x"`, false},
	{`title gt "CHEE"`, true}, {`title ge "chef"`, true}, {`title lt "chef"`, false}, {`title le "Chef"`, true}, {`title gt "chef"`, false},
	{`title pr`, true}, {`nickName pr`, false}, {`name pr`, true}, {`emails pr`, true}, {`roles pr`, false}, {`not (roles pr)`, true},
	{`title eq null`, false}, {`nickName eq null`, true}, {`title ne null`, true},
	{`externalId eq "Ext"`, true}, {`externalId eq "ext"`, false}, {`externalId sw "E"`, true},
	{`id eq "42"`, true}, {`id eq "43"`, false}, {`id ne "43"`, true}, {`id sw "4"`, true},
	{`active eq true`, true}, {`active eq "True"`, true}, {`active eq "False"`, false}, {`active ne false`, true}, {`active pr`, true},
	{`emails eq "bo@work.org"`, true}, {`emails.value eq "bo@home.org"`, true}, {`emails.value eq "x"`, false}, {`emails.type eq "HOME"`, true},
	{`emails.value ne "bo@home.org"`, false}, {`emails.value co "work"`, true}, {`emails.primary eq true`, true},
	{`emails[type eq "work" and value co "@work"]`, true}, {`emails[type eq "home" and value co "@work"]`, false},
	{`emails[type eq "home" and primary eq "True"]`, false}, {`emails[not (type eq "work")]`, true}, {`emails[type pr]`, true}, {`roles[type pr]`, false},
	{`name.givenName eq "BO"`, true}, {`name.middleName pr`, false}, {`name.familyName sw "e"`, true},
	{`displayName eq "bo \"b\" ek"`, true}, {`displayName co "\""`, true}, {`displayName co "\u0022b\u0022"`, true}, {`displayName co "\\"`, false},
	{`urn:ietf:params:scim:schemas:core:2.0:User:userName eq "bo@x.org"`, true},
	{EnterpriseSchema + `:department eq "it"`, true}, {EnterpriseSchema + `:manager eq "26"`, true},
	{EnterpriseSchema + `:manager.value eq "26"`, true}, {EnterpriseSchema + `:division pr`, false},
	{`meta.created eq "2026-01-02T03:04:05.678Z"`, true}, {`meta.created gt "2026-01-01T00:00:00Z"`, true}, {`meta.created lt "2026-01-02T04:04:05.679+01:00"`, true},
	{`meta.lastModified ge "2026-02-02T00:00:00Z"`, true}, {`meta.lastModified le "2026-02-01T00:00:00Z"`, false}, {`meta pr`, true}, {`meta.created pr`, true},
	{`title eq "chef" and active eq true`, true}, {`title eq "x" and active eq true`, false}, {`title eq "x" or active eq true`, true},
	{`title eq "chef" or title eq "x" and title eq "y"`, true}, {`(title eq "chef" or title eq "x") and title eq "y"`, false},
	{`not (title eq "chef") or not (title eq "x")`, true}, {`  title eq "chef"  `, true},
}

func TestUserFilter(t *testing.T) {
	u := mustUser(t, filteredUser)
	for _, tc := range userFilters {
		f, err := ParseUserFilter(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		if got := f.MatchUser(u, filteredMeta); got != tc.want {
			t.Errorf("%s: %t", tc.text, got)
		}
		if f.NeedsMembers() {
			t.Errorf("%s needs members", tc.text)
		}
	}
}

func TestFilterOfAbsentActive(t *testing.T) {
	u := mustUser(t, `{"userName":"a"}`)
	for text, want := range map[string]bool{`active eq true`: true, `active eq "False"`: false, `active ne true`: false, `active pr`: true} {
		f, err := ParseUserFilter(text)
		if err != nil || f.MatchUser(u, Meta{}) != want || f.MatchUser(u.WithActive(false), Meta{}) != (text == `active pr` || !want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestGroupFilter(t *testing.T) {
	hasMember := func(id string) bool { return id == "7" }
	for text, want := range map[string]struct{ match, members bool }{
		`displayName eq "ENG"`:                    {true, false},
		`displayName eq "Eng" and members eq "7"`: {true, true},
		`members.value eq "7"`:                    {true, true},
		`members.value eq "8"`:                    {false, true},
		`members.value ne "8"`:                    {true, true},
		`members[value eq "7"]`:                   {true, true},
		`not (members[value eq "7"])`:             {false, true},
		`displayName eq "x" or members eq "7"`:    {true, true},
		`externalId eq "E" and id eq "42"`:        {true, false},
		`externalId eq "e"`:                       {false, false},
		`meta.created ge "2026-01-01T00:00:00Z"`:  {true, false},
		GroupSchema + `:displayName sw "en"`:      {true, false},
	} {
		f, err := ParseGroupFilter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := f.MatchGroup(Group{"Eng", "E"}, filteredMeta, hasMember); got != want.match || f.NeedsMembers() != want.members {
			t.Errorf("%s: %t, members %t", text, got, f.NeedsMembers())
		}
	}
}

func TestFilterRefuses(t *testing.T) {
	nested := strings.Repeat("(", maxDepth+1) + `title pr` + strings.Repeat(")", maxDepth+1)
	for _, text := range []string{
		"", "x", "title", `title eq`, `title eq x`, `title is "x"`, `title eq "x`, `(title pr`, `title pr)`, `title eq "x" and`, `emails[type eq "x"`,
		`shoeSize eq "x"`, `name.x eq "x"`, `name eq "x"`, `title.x pr`, `password eq "x"`, `groups eq "1"`, `groups.value eq "1"`, `schemas eq "x"`, `meta eq "x"`,
		`meta.version eq "x"`, `members eq "1"`, `urn:x:y eq "x"`, EnterpriseSchema + `:x eq "y"`, GroupSchema + `:displayName eq "x"`,
		`active gt true`, `active co "t"`, `active eq "yes"`, `active eq 1`, `title eq true`, `title eq 5`, `title gt null`, `title co null`,
		`meta.created eq "x"`, `meta.created co "2026-01-01T00:00:00Z"`, `meta.created eq "2026-01-01T00:00:00"`, `meta.created eq true`,
		`emails[x eq "y"]`, `emails[emails.type eq "y"]`, `emails.value[type eq "x"]`, `name[givenName eq "x"]`, `title[value eq "x"]`, `emails[primary eq "x"]`,
		`title eq "\u0000"`, "title eq \"\x01\"", "title eq \"\xff\"", nested, `title eq "` + strings.Repeat("x", MaxFilterBytes) + `"`,
		`title eq "\x"`, `title eq "\`, `title eq "\u12"`,
	} {
		_, err := ParseUserFilter(text)
		if err == nil {
			t.Errorf("%s is accepted", text)
			continue
		}
		fails(t, err, InvalidFilter)
	}
	for _, text := range []string{
		`userName eq "x"`, `members pr`, `members co "7"`, `members.display eq "x"`, `members[type eq "User"]`, `members[value co "7"]`, `members eq null`,
		`members[value eq "1" or value eq "2"]`, `members[not (value eq "1")]`, EnterpriseSchema + `:department eq "x"`,
	} {
		_, err := ParseGroupFilter(text)
		if err == nil {
			t.Errorf("%s is accepted", text)
			continue
		}
		fails(t, err, InvalidFilter)
	}
}

func TestFilterAtItsBounds(t *testing.T) {
	nested := strings.Repeat("(", maxDepth) + `title pr` + strings.Repeat(")", maxDepth)
	long := `title eq "` + strings.Repeat("x", MaxFilterBytes-11) + `"`
	quoted := `title eq "` + strings.Repeat("(", maxDepth+9) + `"`
	for _, text := range []string{nested, long, quoted} {
		if _, err := ParseUserFilter(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestLookup(t *testing.T) {
	for text, want := range map[string]Lookup{
		`userName eq "Bo"`:                          {"userName", "Bo"},
		`externalId eq "a\"b"`:                      {"externalId", `a"b`},
		`id eq "7"`:                                 {"id", "7"},
		`emails eq "a@x"`:                           {"emails.value", "a@x"},
		`emails.value eq "a@x"`:                     {"emails.value", "a@x"},
		`emails[type eq "work" and value eq "a@x"]`: {"emails.value", "a@x"},
		`title pr and (active eq true and userName eq "Bo")`: {"userName", "Bo"},
		`emails eq "a@x" and userName eq "Bo"`:               {"userName", "Bo"},
		`userName eq "Bo" and (title pr or title eq "x")`:    {"userName", "Bo"},
		`userName eq "Bo" or userName eq "x"`:                {},
		`not (userName eq "Bo")`:                             {},
		`userName ne "Bo"`:                                   {},
		`userName sw "Bo"`:                                   {},
		`userName eq null`:                                   {},
		`emails[type eq "work" or value eq "a@x"]`:           {},
		`emails[not (value eq "a@x")]`:                       {},
		`displayName eq "x"`:                                 {},
		`title eq "x"`:                                       {},
		`roles.value eq "x"`:                                 {},
		EnterpriseSchema + `:department eq "x"`:              {},
	} {
		f, err := ParseUserFilter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, ok := f.Lookup(); got != want || ok != (want != Lookup{}) {
			t.Errorf("%s: %+v %t", text, got, ok)
		}
	}
	for text, want := range map[string]Lookup{
		`displayName eq "G"`:           {"displayName", "G"},
		`members eq "7"`:               {"members.value", "7"},
		`members[value eq "7"]`:        {"members.value", "7"},
		`id eq "7" and members eq "7"`: {"id", "7"},
		`members ne "7"`:               {},
	} {
		f, err := ParseGroupFilter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, _ := f.Lookup(); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
