package scim

import (
	"strings"
	"testing"
)

const enterprisePath = EnterpriseSchema

func patchBody(operations string) []byte {
	return []byte(`{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[` + operations + `]}`)
}

func applyTo(u User, operations string) (User, error) {
	p, err := ReadPatch(patchBody(operations))
	if err != nil {
		return User{}, err
	}
	return u.Apply(p)
}

type userPatch struct{ name, before, operations, want string }

// userPatches are the operations of Okta, Entra and RFC 7644. Users have the userName "a".
var userPatches = []userPatch{
	{"Okta deactivates", `"active":true`, `{"op":"replace","value":{"active":false}}`, `"active":false`},
	{"Okta replaces attributes", `"title":"x"`, `{"op":"replace","value":{"id":"3","title":"y","name":{"givenName":"B"}}}`, `"name":{"givenName":"B"},"title":"y"`},
	{"Entra deactivates", ``, `{"op":"Replace","path":"active","value":"False"}`, `"active":false`},
	{"Entra activates", `"active":false`, `{"op":"Add","path":"Active","value":"True"}`, `"active":true`},
	{"Entra replaces an address", `"emails":[{"type":"work","value":"a"},{"type":"home","value":"h"}]`, `{"op":"Replace","path":"emails[type eq \"work\"].value","value":"b"}`, `"emails":[{"type":"work","value":"b"},{"type":"home","value":"h"}]`},
	{"Entra adds an address that is missing", ``, `{"op":"Add","path":"emails[type eq \"work\"].value","value":"b"}`, `"emails":[{"type":"work","value":"b"}]`},
	{"Entra replaces an address that is missing", `"emails":[{"type":"home","value":"h"}]`, `{"op":"Replace","path":"emails[type eq \"work\"].value","value":"b"}`, `"emails":[{"type":"home","value":"h"},{"type":"work","value":"b"}]`},
	{"Entra removes an address", `"emails":[{"type":"work","value":"a"},{"type":"home","value":"h"}]`, `{"op":"Remove","path":"emails[type eq \"work\"]"}`, `"emails":[{"type":"home","value":"h"}]`},
	{"Entra removes a value", `"emails":[{"type":"work","value":"a"}]`, `{"op":"Remove","path":"emails[type eq \"work\"].value"}`, `"emails":[{"type":"work"}]`},
	{"Entra writes dotted keys", `"name":{"familyName":"F"}`, `{"op":"Add","value":{"name.givenName":"B","` + enterprisePath + `:department":"IT","emails[type eq \"work\"].value":"w"}}`, `"emails":[{"type":"work","value":"w"}],"name":{"familyName":"F","givenName":"B"},"` + enterprisePath + `":{"department":"IT"}`},
	{"the extension as an object", `"` + enterprisePath + `":{"division":"D"}`, `{"op":"Add","value":{"` + enterprisePath + `":{"department":"IT","manager":"7","manager.displayName":"M"}}}`, `"` + enterprisePath + `":{"department":"IT","division":"D","manager":{"displayName":"M","value":"7"}}`},
	{"the extension as a path", ``, `{"op":"Add","path":"` + enterprisePath + `","value":{"department":"IT"}}`, `"` + enterprisePath + `":{"department":"IT"}`},
	{"the extension removed", `"` + enterprisePath + `":{"division":"D"}`, `{"op":"remove","path":"` + enterprisePath + `"}`, ``},
	{"an attribute of the extension removed", `"` + enterprisePath + `":{"division":"D"}`, `{"op":"remove","path":"` + enterprisePath + `:division"}`, ``},
	{"the manager as a string", `"` + enterprisePath + `":{"manager":{"value":"1","displayName":"M"}}`, `{"op":"Replace","path":"` + enterprisePath + `:manager","value":"7"}`, `"` + enterprisePath + `":{"manager":{"value":"7"}}`},
	{"the manager in another case", ``, `{"op":"Add","path":"URN:ietf:params:scim:schemas:extension:enterprise:2.0:user:Manager","value":{"value":"7"}}`, `"` + enterprisePath + `":{"manager":{"value":"7"}}`},
	{"a part of the manager", ``, `{"op":"Add","path":"` + enterprisePath + `:manager.value","value":"7"}`, `"` + enterprisePath + `":{"manager":{"value":"7"}}`},
	{"the primary role", `"roles":[{"primary":true,"value":"x"},{"value":"y"}]`, `{"op":"Replace","path":"roles[primary eq \"True\"].value","value":"z"}`, `"roles":[{"primary":true,"value":"z"},{"value":"y"}]`},
	{"the primary role that is missing", ``, `{"op":"Add","path":"roles[primary eq \"True\"].value","value":"z"}`, `"roles":[{"primary":true,"value":"z"}]`},
	{"the core schema in a path", ``, `{"op":"add","path":"` + UserSchema + `:name.givenName","value":"B"}`, `"name":{"givenName":"B"}`},
	{"the core schema as a key", ``, `{"op":"add","value":{"` + UserSchema + `":{"title":"T"}}}`, `"title":"T"`},
	{"another primary value", `"emails":[{"primary":true,"value":"a"},{"value":"b"}]`, `{"op":"replace","path":"emails[value eq \"b\"].primary","value":"True"}`, `"emails":[{"primary":false,"value":"a"},{"primary":true,"value":"b"}]`},
	{"another primary value that is added", `"emails":[{"primary":true,"value":"a"}]`, `{"op":"add","path":"emails","value":[{"value":"b","primary":true}]}`, `"emails":[{"primary":false,"value":"a"},{"primary":true,"value":"b"}]`},
	{"add appends without duplicates", `"emails":[{"type":"work","value":"a"}]`, `{"op":"add","path":"emails","value":[{"type":"work","value":"a"},{"type":"home","value":"a"}]}`, `"emails":[{"type":"work","value":"a"},{"type":"home","value":"a"}]`},
	{"add of one value", `"emails":[{"value":"a"}]`, `{"op":"add","path":"emails","value":{"value":"b"}}`, `"emails":[{"value":"a"},{"value":"b"}]`},
	{"add without a path appends", `"emails":[{"value":"a"}]`, `{"op":"add","value":{"emails":[{"value":"b"}]}}`, `"emails":[{"value":"a"},{"value":"b"}]`},
	{"replace without a path replaces values", `"emails":[{"value":"a"}]`, `{"op":"replace","value":{"emails":[{"value":"b"}]}}`, `"emails":[{"value":"b"}]`},
	{"replace of all values", `"emails":[{"value":"a"}]`, `{"op":"replace","path":"emails","value":[{"value":"b"}]}`, `"emails":[{"value":"b"}]`},
	{"replace by nothing", `"emails":[{"value":"a"}]`, `{"op":"replace","path":"emails","value":[]}`, ``},
	{"replace of a selected value", `"emails":[{"type":"work","value":"a","display":"A"}]`, `{"op":"replace","path":"emails[type eq \"work\"]","value":{"value":"b","type":"other"}}`, `"emails":[{"display":"A","type":"other","value":"b"}]`},
	{"null in a selected value", `"emails":[{"type":"work","value":"a","display":"A"}]`, `{"op":"replace","path":"emails[type eq \"work\"]","value":{"display":null}}`, `"emails":[{"type":"work","value":"a"}]`},
	{"replace of a selected value that is missing", ``, `{"op":"replace","path":"emails[type eq \"work\" and primary eq true]","value":[{"value":"b"}]}`, `"emails":[{"primary":true,"type":"work","value":"b"}]`},
	{"add to a selected value", `"emails":[{"type":"work","value":"a"}]`, `{"op":"add","path":"emails[type eq \"work\"]","value":{"display":"A"}}`, `"emails":[{"display":"A","type":"work","value":"a"}]`},
	{"a sub-attribute of all values", `"emails":[{"value":"a"},{"value":"b"}]`, `{"op":"replace","path":"emails.type","value":"work"}`, `"emails":[{"type":"work","value":"a"},{"type":"work","value":"b"}]`},
	{"a sub-attribute of no values", ``, `{"op":"add","path":"emails.value","value":"a"}`, `"emails":[{"value":"a"}]`},
	{"name merges", `"name":{"familyName":"F"}`, `{"op":"replace","path":"name","value":{"givenName":"B"}}`, `"name":{"familyName":"F","givenName":"B"}`},
	{"name merges null", `"name":{"familyName":"F","givenName":"B"}`, `{"op":"add","path":"name","value":{"givenName":null}}`, `"name":{"familyName":"F"}`},
	{"a part of name removed", `"name":{"familyName":"F"}`, `{"op":"remove","path":"name.familyName"}`, ``},
	{"name removed", `"name":{"familyName":"F"}`, `{"op":"remove","path":"NAME"}`, ``},
	{"replace by null", `"title":"x"`, `{"op":"replace","path":"title","value":null}`, ``},
	{"null without a path", `"title":"x","emails":[{"value":"a"}]`, `{"op":"replace","value":{"title":null,"emails":null}}`, ``},
	{"add of null", `"title":"x"`, `{"op":"add","path":"title","value":null}`, `"title":"x"`},
	{"remove of values", `"roles":[{"value":"x"},{"value":"y"}]`, `{"op":"Remove","path":"roles","value":[{"$ref":null,"value":"x"}]}`, `"roles":[{"value":"y"}]`},
	{"remove of all values", `"roles":[{"value":"x"},{"value":"y"}]`, `{"op":"remove","path":"roles"}`, ``},
	{"remove of what is absent", `"title":"x"`, `{"op":"remove","path":"emails[type eq \"work\"]"},{"op":"remove","path":"nickName"}`, `"title":"x"`},
	{"unknown attributes in values", ``, `{"op":"add","value":{"shoeSize":4,"a b":1,"":2,"x[y]":3,"urn:x:y":{"z":1},"groups":[],"meta":{},"password":"p","schemas":[]}}`, ``},
	{"another schema in a path", ``, `{"op":"add","path":"urn:example:2.0:User:shoeSize","value":4}`, ``},
	{"a password in a path", ``, `{"op":"replace","path":"password","value":"p"}`, ``},
	{"operations in order", ``, `{"op":"add","path":"title","value":"x"},{"op":"remove","path":"title"},{"op":"add","path":"title","value":"y"}`, `"title":"y"`},
	{"escapes in a filter", `"roles":[{"value":"a\"é"}]`, `{"op":"replace","path":"roles[value eq \"a\\\"\\u00e9\"].type","value":"t"}`, `"roles":[{"type":"t","value":"a\"é"}]`},
}

func (p userPatch) user(t testing.TB, attributes string) User {
	t.Helper()
	if attributes != "" {
		attributes = "," + attributes
	}
	return mustUser(t, `{"userName":"a"`+attributes+`}`)
}

func TestPatchOfUser(t *testing.T) {
	for _, tc := range userPatches {
		t.Run(tc.name, func(t *testing.T) {
			before, want := tc.user(t, tc.before), tc.user(t, tc.want)
			kept := canonical(t, before)
			got, err := applyTo(before, tc.operations)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(want) {
				t.Errorf("got  %s\nwant %s", canonical(t, got), canonical(t, want))
			}
			if canonical(t, before) != kept {
				t.Errorf("the document before became %s", canonical(t, before))
			}
		})
	}
}

func TestPatchOfUserRefuses(t *testing.T) {
	before := mustUser(t, `{"userName":"a","emails":[{"value":"x","type":"work"},{"value":"y"}]}`)
	for name, tc := range map[string]struct{ operations, want string }{
		"no operations":                  {``, InvalidSyntax},
		"an operation that is no object": {`7`, InvalidSyntax},
		"an unknown op":                  {`{"op":"move","path":"title","value":"x"}`, InvalidSyntax},
		"no op":                          {`{"path":"title","value":"x"}`, InvalidSyntax},
		"no value":                       {`{"op":"add","path":"title"}`, InvalidValue},
		"a value that is no object":      {`{"op":"add","value":"x"}`, InvalidValue},
		"an extension that is no object": {`{"op":"add","value":{"` + enterprisePath + `":"x"}}`, InvalidValue},
		"remove without a path":          {`{"op":"remove"}`, NoTarget},
		"a path that is a number":        {`{"op":"add","path":7,"value":"x"}`, InvalidPath},
		"a path with a syntax error":     {`{"op":"add","path":"emails[","value":"x"}`, InvalidPath},
		"a path over 1 KiB":              {`{"op":"add","path":"emails[value eq \"` + strings.Repeat("x", MaxPathBytes) + `\"]","value":{}}`, InvalidPath},
		"an unknown attribute":           {`{"op":"add","path":"shoeSize","value":"x"}`, InvalidPath},
		"an unknown sub-attribute":       {`{"op":"add","path":"name.x","value":"x"}`, InvalidPath},
		"an unknown enterprise one":      {`{"op":"add","path":"` + enterprisePath + `:x","value":"x"}`, InvalidPath},
		"a part of a string":             {`{"op":"add","path":"title.x","value":"x"}`, InvalidPath},
		"a filter of one value":          {`{"op":"add","path":"name[givenName eq \"x\"]","value":{}}`, InvalidPath},
		"a filter of a part":             {`{"op":"add","path":"emails.value[type eq \"x\"]","value":"x"}`, InvalidPath},
		"an unknown attribute in it":     {`{"op":"add","path":"emails[x eq \"x\"].value","value":"x"}`, InvalidFilter},
		"a word for primary":             {`{"op":"add","path":"emails[primary eq \"x\"].value","value":"x"}`, InvalidFilter},
		"id":                             {`{"op":"replace","path":"id","value":"x"}`, Mutability},
		"meta":                           {`{"op":"replace","path":"meta.created","value":"x"}`, Mutability},
		"groups":                         {`{"op":"add","path":"groups","value":[{"value":"1"}]}`, Mutability},
		"remove of userName":             {`{"op":"remove","path":"userName"}`, Mutability},
		"userName null":                  {`{"op":"replace","value":{"userName":null}}`, Mutability},
		"an empty userName":              {`{"op":"replace","path":"userName","value":""}`, InvalidValue},
		"a wrong type":                   {`{"op":"replace","path":"active","value":"maybe"}`, InvalidValue},
		"a wrong type in a list":         {`{"op":"add","path":"emails","value":[7]}`, InvalidValue},
		"nothing matches, not created":   {`{"op":"replace","path":"emails[value co \"q\"].type","value":"x"}`, NoTarget},
		"nothing matches, or":            {`{"op":"add","path":"emails[type eq \"q\" or type eq \"r\"].value","value":"x"}`, NoTarget},
		"nothing matches, contradiction": {`{"op":"add","path":"emails[type eq \"q\" and type eq \"r\"].value","value":"x"}`, NoTarget},
		"two primary values":             {`{"op":"replace","path":"emails.primary","value":true}`, InvalidValue},
		"the second of two":              {`{"op":"replace","path":"title","value":"x"},{"op":"replace","path":"active","value":5}`, InvalidValue},
		"another message":                {`{"op":"add","path":"title","value":"x"}],"schemas":["x"],"x":[`, InvalidSyntax},
	} {
		t.Run(name, func(t *testing.T) {
			kept := canonical(t, before)
			_, err := applyTo(before, tc.operations)
			fails(t, err, tc.want)
			if canonical(t, before) != kept {
				t.Errorf("the document became %s", canonical(t, before))
			}
		})
	}
}

func TestPatchIsBounded(t *testing.T) {
	one := `{"op":"add","path":"title","value":"x"}`
	if _, err := ReadPatch(patchBody(one + strings.Repeat(","+one, MaxOperations-1))); err != nil {
		t.Error(err)
	}
	_, err := ReadPatch(patchBody(one + strings.Repeat(","+one, MaxOperations)))
	fails(t, err, TooMany)

	u := mustUser(t, `{"userName":"a"}`)
	role := func(i int) string {
		return `{"op":"add","path":"roles","value":[{"value":"` + strings.Repeat("x", i) + `"}]}`
	}
	grows := role(1)
	for i := range maxValues {
		grows += "," + role(i+2)
	}
	_, err = applyTo(u, grows)
	fails(t, err, InvalidValue)
	big := strings.Repeat("x", MaxUserBytes-2)
	_, err = applyTo(u, `{"op":"add","value":{"title":"`+big+`","nickName":"`+big+`","userType":"`+big+`","locale":"`+big+`","timezone":"`+big+`"}},`+one)
	fails(t, err, InvalidValue)
}

func TestReadPatchIsLenientAboutSchemas(t *testing.T) {
	operations := `"OPERATIONS":[{"OP":"ADD","Path":"title","VALUE":"x"}]`
	for schemas, ok := range map[string]bool{
		``: true, `"schemas":[],`: true, `"schemas":null,`: true, `"Schemas":["` + strings.ToUpper(patchSchema) + `"],`: true,
		`"schemas":"` + patchSchema + `",`: true, `"schemas":["` + UserSchema + `","` + patchSchema + `"],`: true,
		`"schemas":["` + UserSchema + `"],`: false, `"schemas":7,`: false,
	} {
		p, err := ReadPatch([]byte("{" + schemas + operations + "}"))
		if (err == nil) != ok {
			t.Errorf("%s: %v", schemas, err)
		} else if !ok {
			fails(t, err, InvalidSyntax)
		} else if u, err := mustUser(t, `{"userName":"a"}`).Apply(p); err != nil || u.text("title") != "x" {
			t.Errorf("%s: %v", schemas, err)
		}
	}
}

func BenchmarkFilterOfStoredUser(b *testing.B) {
	stored, err := mustUser(b, filteredUser).Encode()
	if err != nil {
		b.Fatal(err)
	}
	f, err := ParseUserFilter(`emails[type eq "home" and value co "x"] or title sw "y"`)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		u, err := DecodeUser(stored)
		if err != nil || f.MatchUser(u, filteredMeta) {
			b.Fatal(err)
		}
	}
}

func BenchmarkPatchOfUser(b *testing.B) {
	u := mustUser(b, filteredUser)
	body := patchBody(`{"op":"Replace","path":"active","value":"False"},{"op":"Add","path":"emails[type eq \"work\"].value","value":"a@x.org"}`)
	for b.Loop() {
		p, err := ReadPatch(body)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := u.Apply(p); err != nil {
			b.Fatal(err)
		}
	}
}
