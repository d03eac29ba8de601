package events

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cardea-iam/cardea/internal/eventtype"
	"github.com/cardea-iam/cardea/internal/testing/repository"
	"github.com/cardea-iam/cardea/store/people"
)

// compiled returns the schema of a type's data.
func compiled(t *testing.T, e Entry) *jsonschema.Schema {
	t.Helper()
	raw, err := json.Marshal(e.Schema())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(string(e.Type), parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(string(e.Type))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func dataOf(t *testing.T, e people.LoggedEvent) any {
	t.Helper()
	text := e.Data
	if text == "" {
		text = "{}"
	}
	data, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestExampleOfEachTypeHasTheFormOfItsSchema(t *testing.T) {
	t.Parallel()
	seen := map[Type]bool{}
	for _, e := range Catalogue {
		if seen[e.Type] {
			t.Errorf("%s is there twice", e.Type)
		}
		seen[e.Type] = true
		example := e.Example()
		if example.Type != string(e.Type) || example.SubjectID == "" {
			t.Errorf("%s: the example is %+v", e.Type, example)
			continue
		}
		if err := compiled(t, e).Validate(dataOf(t, example)); err != nil {
			t.Errorf("%s: %v", e.Type, err)
		}
	}
}

func TestSchemasRefuseOtherForms(t *testing.T) {
	t.Parallel()
	entry, _ := Find(MembershipCreated)
	schema := compiled(t, entry)
	for _, data := range []string{
		`{}`, `{"user_id":"1","level":"organization"}`, `{"user_id":1,"level":"organization","owner":true}`, `{"user_id":"01","level":"organization","owner":true}`,
		`{"user_id":"1","level":"organization","owner":"true"}`, `{"user_id":"1","level":"team","owner":true}`,
	} {
		if schema.Validate(dataOf(t, people.LoggedEvent{Data: data})) == nil {
			t.Errorf("%s is valid", data)
		}
	}
	for _, data := range []string{`{"user_id":"1","level":"organization","owner":true}`, `{"user_id":"1","level":"organization","owner":true,"later":1}`} {
		if err := schema.Validate(dataOf(t, people.LoggedEvent{Data: data})); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func TestIncompleteEventsAreRefused(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]Event{
		"another type": {Type: "user.renamed", Subject: 1}, "no subject": {Type: UserCreated}, "without changed": {Type: UserUpdated, Subject: 1},
		"without the user": {Type: MembershipDeleted, Subject: 1, Data: Data{Level: LevelOrganization}},
		"another level":    {Type: MembershipDeleted, Subject: 1, Data: Data{User: 1, Level: "team"}},
	} {
		if _, err := e.Log(time.Time{}, "system"); err == nil {
			t.Errorf("%s is logged", name)
		}
	}
	logged, err := OfMember(MembershipDeleted, people.Member{ID: 5, User: 6, Role: 7, Organization: people.Organization{ID: 8}}).Log(time.Time{}, "user:6")
	if err != nil || logged.Data != `{"level":"organization","user_id":"6"}` || logged.Organization != 8 {
		t.Errorf("a deletion has the data %s: %v", logged.Data, err)
	}
}

// texts returns distinct texts of a length.
func texts(n, length int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%04d%s", i, strings.Repeat("<", length-4)))
	}
	return all
}

func TestDataOfAnEventAreAtMost16KiB(t *testing.T) {
	t.Parallel()
	granted := OfGrant(OAuthGrantCreated, people.Grant{ID: 1, App: 2, Client: "https://client.example/" + strings.Repeat("&", 2048-23), User: 3, Scopes: texts(1000, 200)})
	updated := OfUser(UserUpdated, 1, texts(5000, 40)...)
	for _, e := range []Event{granted, updated} {
		logged, err := e.Log(time.Time{}, "user:3")
		if err != nil || len(logged.Data) > MaxData || len(logged.Data) < MaxData/2 {
			t.Errorf("%s: %d bytes: %v", e.Type, len(logged.Data), err)
			continue
		}
		entry, _ := Find(e.Type)
		if err := compiled(t, entry).Validate(dataOf(t, logged)); err != nil {
			t.Errorf("%s: %v", e.Type, err)
		}
		var data struct {
			Scopes  []string
			Omitted int `json:"scopes_omitted"`
		}
		if err := json.Unmarshal([]byte(logged.Data), &data); err != nil || e.Type == OAuthGrantCreated && (len(data.Scopes) == 0 || len(data.Scopes)+data.Omitted != 1000 || data.Scopes[0] != granted.Data.Scopes[0]) {
			t.Errorf("%s: %d scopes, %d omitted: %v", e.Type, len(data.Scopes), data.Omitted, err)
		}
	}
	granted.Data.Scopes = texts(50, 40)
	if logged, err := granted.Log(time.Time{}, "user:3"); err != nil || strings.Contains(logged.Data, "scopes_omitted") || !strings.Contains(logged.Data, "0049") {
		t.Errorf("scopes that fit are left out: %s, %v", logged.Data, err)
	}
	granted.Data.Client = strings.Repeat("c", MaxData)
	if _, err := granted.Log(time.Time{}, "user:3"); err == nil || !strings.Contains(err.Error(), "16384") {
		t.Errorf("larger data are logged: %v", err)
	}
}

func TestActorsAreNoAddresses(t *testing.T) {
	t.Parallel()
	for actor, want := range map[string]string{
		"user:5": "user:5", "system": "system", "key:abc": "key:abc", "token:system:serviceaccount:apps:shop": "token:system:serviceaccount:apps:shop",
		"token:ada@example.com": "token:b5fc85e55755f9e0", "setup:ada@example.com": "setup:b5fc85e55755f9e0",
	} {
		logged, err := OfAccount(1, "password").Log(time.Time{}, actor)
		if err != nil || logged.Actor != want {
			t.Errorf("%s is logged as %s: %v", actor, logged.Actor, err)
		}
	}
}

func TestMembershipsOfWorkspacesAreSubjectsOfTheirOwn(t *testing.T) {
	t.Parallel()
	in := people.WorkspaceMember{ID: 5, User: 6, Workspace: people.Workspace{ID: 7, Organization: 8}}
	logged, err := OfWorkspaceMember(MembershipCreated, in).Log(time.Time{}, "user:6")
	if err != nil || logged.SubjectType != "workspace_membership" || logged.SubjectID != "5" || logged.Workspace != 7 || logged.Organization != 8 {
		t.Errorf("%+v: %v", logged, err)
	}
}

func TestTypesAreSelectedByPatterns(t *testing.T) {
	t.Parallel()
	for patterns, want := range map[string]int{
		"*": len(Catalogue) - 2, "configuration.*": 3, "agent.tool_call.*": 1, "agent.*": 4, "rate_limit.*": 1, "rate_limit.exceeded": 1, "user.created": 1, "user.*": 16, "user.created,user.*": 16, "membership.*,invitation.revoked": 4, "signin.failing": 1, "api_key.*": 5, "oauth.*": 9, "agent.approval.*": 4, "import.*": 1, "oauth.grant.*": 3, "workspace.*": 2, "session.*": 4,
	} {
		if types, err := ParseTypes(strings.Split(patterns, ",")); err != nil || len(types) != want {
			t.Errorf("%s selects %d types: %v", patterns, len(types), err)
		}
	}
	for _, patterns := range []string{"", "user", "user.", "us*", "user.create", "user.created.*", "**", "user.*,", "User.created", "user.created@2"} {
		if types, err := ParseTypes(strings.Split(patterns, ",")); err == nil {
			t.Errorf("%q selects %v", patterns, types)
		}
	}
	if _, err := ParseTypes(make([]string, eventtype.MaxPatterns+1)); err == nil || !strings.Contains(err.Error(), "64") {
		t.Errorf("too many patterns: %v", err)
	}
}

func TestFilterSelectsBySubjectAndOrganization(t *testing.T) {
	t.Parallel()
	e := people.LoggedEvent{Type: "membership.created", SubjectType: "membership", SubjectID: "5", Organization: 8}
	for name, f := range map[string]Filter{
		"all": {}, "the type": {Types: map[Type]bool{MembershipCreated: true}}, "the subject": {SubjectType: "membership", SubjectID: "5"}, "the organization": {Organization: 8},
	} {
		if !f.Takes(&e) {
			t.Errorf("%s: not selected", name)
		}
	}
	for name, f := range map[string]Filter{
		"another type": {Types: map[Type]bool{MembershipDeleted: true}}, "another kind of subject": {SubjectType: "user"}, "another subject": {SubjectID: "6"},
		"another organization": {Organization: 9},
	} {
		if f.Takes(&e) {
			t.Errorf("%s: selected", name)
		}
	}
}

// FuzzCursors: a text that is read as a cursor is the text of that cursor.
func FuzzCursors(f *testing.F) {
	for _, text := range []string{"0-0", "48213-420634165248007002", "1", "-1-2", "1--2", "01-2", "9223372036854775808-1", "1-2-3", "+1-2", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, ok := ParseCursor(text); ok && (c.String() != text || c.Sequence < 0 || c.ID < 0) {
			t.Errorf("%q is read as %+v", text, c)
		}
	})
}

// FuzzTypes: a list of patterns selects types of the catalogue, or is refused.
func FuzzTypes(f *testing.F) {
	for _, text := range []string{"*", "user.*", "user.created,membership.*", "", "**", "user.*.created"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		types, err := ParseTypes(strings.Split(text, ","))
		if (err == nil) != (len(types) > 0) {
			t.Errorf("%q selects %v: %v", text, types, err)
		}
		for one := range types {
			if _, found := Find(one); !found {
				t.Errorf("%q selects %s", text, one)
			}
		}
	})
}

// TestDocumentedTypesAreThoseOfTheCatalogue compares the table of docs/events.md with the catalogue.
func TestDocumentedTypesAreThoseOfTheCatalogue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(repository.Root(), "docs", "events.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| type | when | data |\n|---|---|---|\n")
	for _, e := range Catalogue {
		var members []string
		for _, m := range e.Members {
			members = append(members, "`"+m.Name+"`")
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", e.Type, e.Description, strings.Join(members, ", "))
	}
	if _, table, _ := strings.Cut(string(page), "| type | when | data |"); "| type | when | data |"+table != want.String() {
		t.Errorf("docs/events.md ends with another table than\n%s", &want)
	}
}
