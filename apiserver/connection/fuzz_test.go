package connection

import (
	"encoding/json"
	"net/url"
	"testing"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/text"
)

func FuzzResponse(f *testing.F) {
	f.Add("state=a.b&code=c&iss=https%3A%2F%2Fidp.example")
	f.Add("state=a&error=access_denied&error_description=x")
	f.Add("state=a&state=b&code=c")
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		r, whole := ReadResponse(values)
		if whole && (r.State == "" || (r.Code == "") == (r.Error == "") || len(values["state"]) != 1) {
			t.Errorf("%q is read as whole: %+v", query, r)
		}
	})
}

// Whatever a provider states, an address is valid, names are valid, and authority is only over the connection's domain.
func FuzzEvidence(f *testing.F) {
	f.Add(`{"sub":"1","email":"ann@globex.example","given_name":"Ann","email_verified":true,"auth_time":1}`, `{"name":{"firstName":"A"}}`)
	f.Add(`{"email":["a"],"amr":["mfa",1],"acr":{},"auth_time":-1e300,"sid":5}`, `[]`)
	f.Add(`{"email":"a@globex.example@evil.example"}`, ``)
	c := &document.Connection{Type: "OIDC", Domains: []string{"globex.example"}, Attributes: document.ConnectionAttributes{Email: "email", FirstName: "given_name", LastName: "family_name"}, AMR: []string{"mfa"}}
	f.Fuzz(func(t *testing.T, claims, user string) {
		var payload map[string]any
		if json.Unmarshal([]byte(claims), &payload) != nil {
			return
		}
		e := NewEvidence(c, Person{Issuer: "https://idp.example", Subject: "1", Claims: payload}, user, nil, now)
		if e.Email != "" {
			if valid, err := text.Email(e.Email); err != nil || valid != e.Email {
				t.Errorf("the address %q is not valid", e.Email)
			}
		}
		for _, name := range []string{e.FirstName, e.LastName} {
			if !utf8.ValidString(name) || len(name) > 4*80 {
				t.Errorf("the name %q is not valid", name)
			}
		}
		if e.ProvenAt().After(now) {
			t.Errorf("proven in the future: %v", e.ProvenAt())
		}
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var again Evidence
		if err := json.Unmarshal(raw, &again); err != nil || again.Email != e.Email || again.Authoritative != e.Authoritative {
			t.Errorf("%s is read as %+v: %v", raw, again, err)
		}
	})
}

func FuzzLogoutToken(f *testing.F) {
	f.Add("eyJhbGciOiJSUzI1NiJ9.e30.c2ln")
	s := newSigner(f)
	f.Add(s.token(nil))
	c := oidcConnection()
	f.Fuzz(func(t *testing.T, raw string) {
		if _, err := VerifyLogoutToken(t.Context(), c, raw, s.keys, now); err == nil {
			t.Errorf("%q is accepted", raw)
		}
	})
}
