package scim

import (
	"errors"
	"strings"
	"testing"
)

// fails checks that an error is an Error of a type.
func fails(t *testing.T, err error, scimType string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Type != scimType || e.Status != 400 {
		t.Errorf("error %v, want %q", err, scimType)
	}
}

func mustUser(t testing.TB, body string) User {
	t.Helper()
	u, err := ReadUser([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return u
}

// document returns the canonical JSON of a user.
func canonical(t testing.TB, u User) string {
	t.Helper()
	raw, err := u.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestReadUserIsCanonical(t *testing.T) {
	for name, tc := range map[string]struct{ body, want string }{
		"names without regard to case": {
			`{"USERNAME":"bo","Name":{"GIVENname":"Bo"},"Emails":[{"VALUE":"bo@x.org","Type":"work","PRIMARY":true}],"externalid":"7"}`,
			`{"emails":[{"primary":true,"type":"work","value":"bo@x.org"}],"externalId":"7","name":{"givenName":"Bo"},"userName":"bo"}`,
		},
		"the last of two members counts": {`{"username":"a","userName":"b"}`, `{"userName":"b"}`},
		"unknown attributes and schemas are ignored": {
			`{"userName":"a","shoeSize":44,"urn:example:Foo":{"x":1},"name":{"nick":"x"},"schemas":["x"]}`, `{"userName":"a"}`,
		},
		"read-only attributes and the password are ignored": {
			`{"userName":"a","id":"9","meta":{"version":"x"},"groups":[{"value":"1"}],"password":"secret"}`, `{"userName":"a"}`,
		},
		"words for booleans": {
			`{"userName":"a","active":"FALSE","roles":[{"value":"x","primary":"True"}]}`,
			`{"active":false,"roles":[{"primary":true,"value":"x"}],"userName":"a"}`,
		},
		"null and empty lists are absent": {
			`{"userName":"a","title":null,"emails":[],"roles":[null,{}],"name":{"formatted":null},"externalId":""}`, `{"userName":"a"}`,
		},
		"single and bare values": {
			`{"userName":"a","emails":{"value":"a@x.org"},"roles":["admin","ops"]}`,
			`{"emails":[{"value":"a@x.org"}],"roles":[{"value":"admin"},{"value":"ops"}],"userName":"a"}`,
		},
		"the enterprise extension": {
			`{"userName":"a","URN:ietf:params:scim:schemas:extension:Enterprise:2.0:User":{"Department":"IT","manager":"26","x":1}}`,
			`{"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User":{"department":"IT","manager":{"value":"26"}},"userName":"a"}`,
		},
		"a manager as an object": {
			`{"userName":"a","` + EnterpriseSchema + `":{"manager":{"value":"26","$REF":"../26","displayName":"Jo"}}}`,
			`{"` + EnterpriseSchema + `":{"manager":{"$ref":"../26","displayName":"Jo","value":"26"}},"userName":"a"}`,
		},
		"an empty extension": {`{"userName":"a","` + EnterpriseSchema + `":{"x":1}}`, `{"userName":"a"}`},
		"characters of HTML": {`{"userName":"a","title":"<&>\u00e9"}`, `{"title":"<&>é","userName":"a"}`},
		"addresses":          {`{"userName":"a","addresses":[{"type":"work","country":"SE"}]}`, `{"addresses":[{"country":"SE","type":"work"}],"userName":"a"}`},
	} {
		t.Run(name, func(t *testing.T) {
			u := mustUser(t, tc.body)
			got := canonical(t, u)
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			again, err := DecodeUser([]byte(got))
			if err != nil || !again.Equal(u) {
				t.Errorf("%v, decoded %v", err, again)
			}
		})
	}
}

func TestReadUserRefuses(t *testing.T) {
	long := strings.Repeat("x", MaxNameBytes+1)
	for name, tc := range map[string]struct{ body, want string }{
		"no JSON":                        {`{`, InvalidSyntax},
		"an array":                       {`[]`, InvalidSyntax},
		"data after the object":          {`{"userName":"a"} {}`, InvalidSyntax},
		"invalid UTF-8":                  {"{\"userName\":\"a\xff\"}", InvalidSyntax},
		"deep nesting":                   {`{"userName":"a","x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, InvalidSyntax},
		"no userName":                    {`{}`, InvalidValue},
		"an empty userName":              {`{"userName":" "}`, InvalidValue},
		"a userName that is null":        {`{"userName":null}`, InvalidValue},
		"a number as userName":           {`{"userName":7}`, InvalidValue},
		"a long userName":                {`{"userName":"` + long + `"}`, InvalidValue},
		"a long externalId":              {`{"userName":"a","externalId":"` + long + `"}`, InvalidValue},
		"a control character":            {`{"userName":"a\n"}`, InvalidValue},
		"a control character, displayed": {`{"userName":"a","displayName":"\u0085"}`, InvalidValue},
		"NUL":                            {`{"userName":"a","title":"\u0000"}`, InvalidValue},
		"active of another word":         {`{"userName":"a","active":"yes"}`, InvalidValue},
		"active as a number":             {`{"userName":"a","active":1}`, InvalidValue},
		"emails as a number":             {`{"userName":"a","emails":[5]}`, InvalidValue},
		"name as a string":               {`{"userName":"a","name":"Bo"}`, InvalidValue},
		"title as an object":             {`{"userName":"a","title":{}}`, InvalidValue},
		"two primary values":             {`{"userName":"a","emails":[{"value":"a","primary":true},{"value":"b","primary":true}]}`, InvalidValue},
		"too many values":                {`{"userName":"a","roles":[` + strings.Repeat(`"x",`, maxValues) + `"x"]}`, InvalidValue},
		"an extension that is a list":    {`{"userName":"a","` + EnterpriseSchema + `":[]}`, InvalidValue},
		"a value of 8 KiB":               {`{"userName":"a","title":"` + strings.Repeat("x", MaxUserBytes+1) + `"}`, InvalidValue},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadUser([]byte(tc.body))
			fails(t, err, tc.want)
		})
	}
}

func TestReadUserErrorNamesTheAttribute(t *testing.T) {
	for body, want := range map[string]string{
		`{"userName":"a","emails":[{"value":7}]}`:                             "emails.value: must be a string",
		`{"userName":"a","` + EnterpriseSchema + `":{"manager":{"value":7}}}`: EnterpriseSchema + ":manager.value: must be a string",
	} {
		_, err := ReadUser([]byte(body))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestEncodeBoundsTheDocument(t *testing.T) {
	part := strings.Repeat("x", MaxUserBytes/2)
	u := mustUser(t, `{"userName":"a","title":"`+part+`","nickName":"`+part+`"}`)
	_, err := u.Encode()
	fails(t, err, InvalidValue)
}

func TestUserAttributes(t *testing.T) {
	type attributes struct{ email, given, family, display string }
	for body, want := range map[string]attributes{
		`{"userName":"a"}`:         {},
		`{"userName":"bo@x.org"}`:  {email: "bo@x.org"},
		`{"userName":"bo@x@y"}`:    {},
		`{"userName":"bo@"}`:       {},
		`{"userName":"b o@x.org"}`: {},
		`{"userName":"u@x.org","emails":[{"value":"h@x.org","type":"home"},{"value":"w@x.org","type":"Work","primary":true}]}`:  {email: "w@x.org"},
		`{"userName":"u@x.org","emails":[{"type":"work"},{"value":"h@x.org","type":"home"},{"value":"w@x.org","type":"work"}]}`: {email: "h@x.org"},
		`{"userName":"a","name":{"givenName":"Bo","familyName":"Ek"}}`:                                                          {"", "Bo", "Ek", "Bo Ek"},
		`{"userName":"a","name":{"familyName":"Ek"}}`:                                                                           {"", "", "Ek", "Ek"},
		`{"userName":"a","name":{"givenName":"Bo","formatted":"Dr. Bo"}}`:                                                       {"", "Bo", "", "Dr. Bo"},
		`{"userName":"a","displayName":"B","name":{"formatted":"Dr. Bo"}}`:                                                      {"", "", "", "B"},
	} {
		u := mustUser(t, body)
		got := attributes{u.Email(), u.GivenName(), u.FamilyName(), u.DisplayName()}
		if got != want {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
	}
}

func TestActive(t *testing.T) {
	u := mustUser(t, `{"userName":"a"}`)
	if !u.Active() || u.HasActive() {
		t.Error("an absent active means true")
	}
	off := u.WithActive(false)
	if off.Active() || !off.HasActive() || u.HasActive() || u.Equal(off) {
		t.Errorf("%v after %v", off, u)
	}
	if on := off.WithActive(true); !on.Active() || !on.HasActive() {
		t.Errorf("%v", on)
	}
}
