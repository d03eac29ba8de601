package connection

import (
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// Every combination of what the provider and the account say about an address, without a known identity.
func TestAddressSelectsAnAccountOnlyWithAuthorityOrACode(t *testing.T) {
	t.Parallel()
	for bits := range 32 {
		s := Situation{
			Intent: people.IntentSignIn, Address: "ann@globex.example", Authoritative: bits&1 != 0, Verified: bits&2 != 0, TrustsEmail: bits&8 != 0, RefusesSignUp: bits&16 != 0,
		}
		if bits&4 != 0 {
			s.Holder = 7
		}
		want := ProvesAddress
		switch {
		case s.Holder != 0 && s.Authoritative:
			want = LinksByAddress
		case s.Holder != 0:
		case s.Authoritative || s.TrustsEmail && s.Verified:
			if want = Creates; s.RefusesSignUp {
				want = RefusesUnknown
			}
		}
		if got := Resolve(s); got != want {
			t.Errorf("%+v: %d, want %d", s, got, want)
		}
	}
}

func TestKnownIdentitySignsInWhateverItsAddress(t *testing.T) {
	t.Parallel()
	for bits := range 16 {
		s := Situation{Intent: people.IntentSignIn, Owner: 3, Authoritative: bits&1 != 0, Verified: bits&2 != 0, TrustsEmail: bits&4 != 0, RefusesSignUp: bits&8 != 0, Address: "victim@globex.example", Holder: 7}
		if got := Resolve(s); got != SignsIn {
			t.Errorf("%+v: %d", s, got)
		}
	}
}

func TestWithoutAnAddressOneIsAskedFor(t *testing.T) {
	t.Parallel()
	if got := Resolve(Situation{Intent: people.IntentSignIn, Verified: true, TrustsEmail: true}); got != AsksForAddress {
		t.Errorf("%d", got)
	}
}

func TestSignedInUserLinksOnlyTheirOwnIdentity(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		s    Situation
		want Outcome
	}{
		"a new identity":                          {Situation{Intent: people.IntentLink, Account: 3}, Links},
		"its own identity again":                  {Situation{Intent: people.IntentLink, Account: 3, Owner: 3}, SignsIn},
		"another account's":                       {Situation{Intent: people.IntentLink, Account: 3, Owner: 4}, RefusesTaken},
		"the eleventh":                            {Situation{Intent: people.IntentLink, Account: 3, Identities: 10}, RefusesMore},
		"an address of another account":           {Situation{Intent: people.IntentLink, Account: 3, Holder: 4, Address: "x@y.example", Authoritative: true}, Links},
		"reauthentication":                        {Situation{Intent: people.IntentReauthenticate, Account: 3, Owner: 3}, SignsIn},
		"reauthentication as another user":        {Situation{Intent: people.IntentReauthenticate, Account: 3, Owner: 4}, RefusesTaken},
		"reauthentication by an unknown identity": {Situation{Intent: people.IntentReauthenticate, Account: 3}, RefusesTaken},
	} {
		if got := Resolve(tc.s); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestAuthorityIsOfTheDomainsOwner(t *testing.T) {
	t.Parallel()
	verified := map[string]any{"email_verified": true, "hd": "globex.example"}
	for name, tc := range map[string]struct {
		kind    string
		own     []string
		claims  map[string]any
		address string
		want    bool
	}{
		"a domain of the connection":                 {"OIDC", []string{"globex.example"}, nil, "ann@globex.example", true},
		"in capital letters":                         {"OIDC", []string{"globex.example"}, nil, "Ann@GLOBEX.example", true},
		"a subdomain":                                {"OIDC", []string{"globex.example"}, nil, "ann@eu.globex.example", false},
		"an address with two signs":                  {"OIDC", []string{"globex.example"}, nil, `"x@globex.example"@evil.example`, false},
		"no address":                                 {"OIDC", []string{""}, nil, "globex.example", false},
		"a provider's word alone":                    {"OIDC", nil, verified, "ann@globex.example", false},
		"Gmail":                                      {"Google", nil, nil, "ann@gmail.com", true},
		"Gmail by another provider":                  {"OIDC", nil, verified, "ann@gmail.com", false},
		"a domain of Google Workspace":               {"Google", nil, verified, "ann@globex.example", true},
		"... unverified":                             {"Google", nil, map[string]any{"hd": "globex.example"}, "ann@globex.example", false},
		"another domain of Google Workspace":         {"Google", nil, verified, "ann@other.example", false},
		"Apple's relay":                              {"Apple", nil, nil, "x@privaterelay.appleid.com", true},
		"an address at Apple":                        {"Apple", nil, map[string]any{"email_verified": "true"}, "ann@globex.example", false},
		"an address that Microsoft's admin wrote":    {"Microsoft", nil, verified, "ann@globex.example", false},
		"... whose domain's owner is verified":       {"Microsoft", nil, map[string]any{"xms_edov": true}, "ann@globex.example", false},
		"a domain of the connection at Microsoft":    {"Microsoft", []string{"globex.example"}, nil, "ann@globex.example", true},
		"a verified primary address at GitHub alone": {"GitHub", nil, verified, "ann@globex.example", false},
	} {
		a := Authority{Connection: &document.Connection{Type: tc.kind, Domains: tc.own}, Claims: tc.claims}
		if got := a.Of(tc.address); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWordsForAVerifiedAddress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind   string
		claims map[string]any
		want   bool
	}{
		"true":                                   {"OIDC", map[string]any{"email_verified": true}, true},
		"false":                                  {"OIDC", map[string]any{"email_verified": false}, false},
		"the word true":                          {"Apple", map[string]any{"email_verified": "true"}, true},
		"the word false":                         {"Apple", map[string]any{"email_verified": "false"}, false},
		"another word":                           {"OIDC", map[string]any{"email_verified": "yes"}, false},
		"a number":                               {"OIDC", map[string]any{"email_verified": 1.0}, false},
		"a list":                                 {"OIDC", map[string]any{"email_verified": []any{true}}, false},
		"absent":                                 {"OIDC", nil, false},
		"email_verified of Microsoft":            {"Microsoft", map[string]any{"email_verified": true}, false},
		"the verified domain owner of Microsoft": {"Microsoft", map[string]any{"xms_edov": true}, true},
		"... as a number":                        {"Microsoft", map[string]any{"xms_edov": 1.0}, true},
		"... as a digit":                         {"Microsoft", map[string]any{"xms_edov": "1"}, true},
		"... zero":                               {"Microsoft", map[string]any{"xms_edov": "0"}, false},
	} {
		if got := SaysVerified(tc.kind, tc.claims); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAddressOfTheIDTokenIsNotVerifiedByUserinfo(t *testing.T) {
	t.Parallel()
	userinfo := map[string]any{"email": "own@example.com", "email_verified": true, "name": "Ann"}
	own := map[string]any{"email": "victim@example.com"}
	AddClaims(own, userinfo, "email")
	if SaysVerified("OIDC", own) || own["email"] != "victim@example.com" || own["name"] != "Ann" {
		t.Errorf("%v", own)
	}
	without := map[string]any{}
	AddClaims(without, userinfo, "email")
	if !SaysVerified("OIDC", without) || without["email"] != "own@example.com" {
		t.Errorf("%v", without)
	}
}

func TestVerificationIsAboutTheClaimEmailAlone(t *testing.T) {
	t.Parallel()
	claims := map[string]any{"email": "ann@globex.example", "email_verified": true, "mail": "victim@example.com"}
	for attribute, want := range map[string]bool{"email": true, "mail": false} {
		c := &document.Connection{Type: "OIDC", Attributes: document.ConnectionAttributes{Email: attribute}}
		if e := NewEvidence(c, Person{Claims: claims}, "", nil, now); e.Verified != want || e.Email != claims[attribute] {
			t.Errorf("%s: %+v", attribute, e)
		}
	}
}
