package saml

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

// logoutRequest makes a logout request, changed before and after it is signed.
type logoutRequest struct {
	states, attack func(*etree.Element)
	signs          signatureOptions
	by             *signer
	unsigned       bool
}

func (l logoutRequest) field() string {
	root := element(strings.NewReplacer("{slo}", testSLO, "{idp}", testIDP, "{sp}", testSP, "{subject}", testSubject).Replace(
		`<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_logout" Version="2.0" IssueInstant="2026-11-26T12:00:00Z" NotOnOrAfter="2026-11-26T12:05:00Z" Destination="{slo}"><saml:Issuer>{idp}</saml:Issuer><saml:NameID Format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent" NameQualifier="q" SPNameQualifier="{sp}">{subject}</saml:NameID><samlp:SessionIndex>session-1</samlp:SessionIndex><samlp:SessionIndex>session-2</samlp:SessionIndex></samlp:LogoutRequest>`))
	apply(l.states, root)
	by := keys().idp
	if l.by != nil {
		by = *l.by
	}
	if !l.unsigned {
		l.signs.sign(root, by)
	}
	apply(l.attack, root)
	return encode(render(root))
}

func logoutExpected() LogoutExpected {
	return LogoutExpected{URL: testSLO, Provider: provider(keys().idp, keys().next), Skew: time.Minute, Now: now}
}

func TestSignedLogoutRequestsAreAccepted(t *testing.T) {
	t.Parallel()
	got, err := ReadLogoutRequest(logoutRequest{}.field(), logoutExpected())
	want := &LogoutRequest{
		ID: "_logout", ExpiresAt: now.Add(6 * time.Minute), NameID: NameID{testSubject, FormatPersistent, "q", testSP}, Sessions: []string{"session-1", "session-2"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = ReadLogoutRequest(logoutRequest{by: &keys().next, states: func(root *etree.Element) {
		root.RemoveAttr("NotOnOrAfter")
		remove("SessionIndex")(root)
		remove("SessionIndex")(root)
	}}.field(), logoutExpected())
	if err != nil || len(got.Sessions) != 0 || !got.ExpiresAt.Equal(now.Add(11*time.Minute)) {
		t.Errorf("of all sessions: %+v, %v", got, err)
	}
	comment := logoutRequest{attack: func(root *etree.Element) {
		el := at(root, "NameID")
		whole := el.Text()
		el.SetText("")
		el.CreateText(whole[:5])
		el.CreateComment("x")
		el.CreateText(whole[5:])
	}}
	if got, err := ReadLogoutRequest(comment.field(), logoutExpected()); err != nil || got.NameID.Value != testSubject {
		t.Errorf("a comment: %+v, %v", got, err)
	}
}

func TestOtherLogoutRequestsEndNothing(t *testing.T) {
	t.Parallel()
	k := keys()
	at64 := func(root *etree.Element) {
		for range maxSessions - 1 {
			root.AddChild(at(root, "SessionIndex").Copy())
		}
	}
	for name, tc := range map[string]struct {
		request logoutRequest
		reason  string
	}{
		"unsigned":               {logoutRequest{unsigned: true}, ReasonSignature},
		"of another key":         {logoutRequest{by: &k.attacker}, ReasonCertificate},
		"by SHA-1":               {logoutRequest{signs: signatureOptions{method: dsig.RSASHA1SignatureMethod, digest: sha1Digest}}, ReasonSignature},
		"of a part":              {logoutRequest{signs: signatureOptions{covers: func(el *etree.Element) *etree.Element { return at(el, "Issuer") }}}, ReasonSignature},
		"with two references":    {logoutRequest{signs: signatureOptions{references: 2}}, ReasonSignature},
		"of another subject":     {logoutRequest{attack: setText("NameID", evilSubject)}, ReasonSignature},
		"of another session":     {logoutRequest{attack: setText("SessionIndex", "session-3")}, ReasonSignature},
		"of another issuer":      {logoutRequest{states: setText("Issuer", "https://evil.example")}, ReasonIssuer},
		"to another":             {logoutRequest{states: set("LogoutRequest", "Destination", "https://other.example/slo")}, ReasonDestination},
		"to no destination":      {logoutRequest{states: set("LogoutRequest", "Destination", "-")}, ReasonDestination},
		"of version 1.1":         {logoutRequest{states: set("LogoutRequest", "Version", "1.1")}, ReasonVersion},
		"without a name":         {logoutRequest{states: remove("NameID")}, ReasonSubject},
		"with two names":         {logoutRequest{states: func(root *etree.Element) { root.AddChild(at(root, "NameID").Copy()) }}, ReasonStructure},
		"with an empty name":     {logoutRequest{states: setText("NameID", "")}, ReasonSubject},
		"with an element":        {logoutRequest{states: func(root *etree.Element) { at(root, "NameID").CreateElement("x") }}, ReasonSubject},
		"with a long qualifier":  {logoutRequest{states: set("NameID", "NameQualifier", strings.Repeat("x", 1025))}, ReasonSubject},
		"with a long name":       {logoutRequest{states: setText("NameID", strings.Repeat("x", 256))}, ReasonSubject},
		"with an empty session":  {logoutRequest{states: setText("SessionIndex", "")}, ReasonSession},
		"with a long session":    {logoutRequest{states: setText("SessionIndex", strings.Repeat("x", 256))}, ReasonSession},
		"with 65 sessions":       {logoutRequest{states: at64}, ReasonSession},
		"without a time":         {logoutRequest{states: set("LogoutRequest", "IssueInstant", "-")}, ReasonTime},
		"in another request":     {logoutRequest{attack: wrapLogout("LogoutRequest")}, ReasonStructure},
		"in Extensions":          {logoutRequest{attack: wrapLogout("Extensions")}, ReasonStructure},
		"with the ID of another": {logoutRequest{attack: func(root *etree.Element) { at(root, "NameID").CreateAttr("ID", "_logout") }}, ReasonStructure},
	} {
		got, err := ReadLogoutRequest(tc.request.field(), logoutExpected())
		expectFault(t, name, got, err, tc.reason)
	}
	got, err := ReadLogoutRequest(encode(answer{shape: shapes[1]}.xml()), logoutExpected())
	expectFault(t, "a response", got, err, ReasonStructure)
}

// wrapLogout puts the signed request into a forged one, in an element.
func wrapLogout(tag string) func(*etree.Element) {
	return func(root *etree.Element) {
		original, forged := root.Copy(), root.Copy()
		forged.RemoveChild(at(forged, "Signature"))
		forged.CreateAttr("ID", "_evil")
		at(forged, "NameID").SetText(evilSubject)
		if tag == "LogoutRequest" {
			forged.AddChild(original)
		} else {
			signature := take(original)
			forged.InsertChildAt(1, wrapped("samlp:Extensions", original))
			forged.InsertChildAt(1, signature)
		}
		become(root, forged)
	}
}

func TestTimesOfLogoutRequests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		attribute string
		at        time.Duration
		reason    string // "" for accepted
	}{
		"at the end":           {"NotOnOrAfter", -time.Minute, ReasonNotOnOrAfter},
		"after the end":        {"NotOnOrAfter", -time.Minute - time.Second, ReasonNotOnOrAfter},
		"before the end":       {"NotOnOrAfter", -time.Minute + time.Second, ""},
		"issued after now":     {"IssueInstant", time.Minute + time.Second, ReasonIssueInstant},
		"issued with the skew": {"IssueInstant", time.Minute, ""},
		"too old":              {"IssueInstant", -11 * time.Minute, ReasonIssueInstant},
		"nearly too old":       {"IssueInstant", -11*time.Minute + time.Second, ""},
	} {
		got, err := ReadLogoutRequest(logoutRequest{states: set("LogoutRequest", tc.attribute, now.Add(tc.at).Format(time.RFC3339))}.field(), logoutExpected())
		if tc.reason != "" {
			expectFault(t, name, got, err, tc.reason)
		} else if err != nil || !got.ExpiresAt.After(now) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestLogoutResponses(t *testing.T) {
	t.Parallel()
	r := LogoutResponse{ID: "_r", InResponseTo: "_logout", IssuedAt: now, Issuer: testSP, Destination: "https://idp.globex.example/slo", RelayState: "x"}
	form, err := r.PostForm(keys().sp)
	if err != nil || form.URL != r.Destination || form.Name != "SAMLResponse" || form.RelayState != "x" {
		t.Fatalf("%+v, %v", form, err)
	}
	root := posted(t, form, "LogoutResponse", keys().sp)
	if attribute(root, "InResponseTo") != "_logout" || attribute(root, "Destination") != r.Destination || attribute(at(root, "StatusCode"), "Value") != statusSuccess || word(at(root, "Issuer")) != testSP {
		t.Errorf("%s", render(root))
	}
	r.InResponseTo = ""
	if _, err := r.PostForm(keys().sp); err == nil {
		t.Error("a response to nothing is written")
	}
}

func TestSignOutsByRedirect(t *testing.T) {
	t.Parallel()
	r := SignOut{
		ID: "_out", IssuedAt: now, Issuer: testSP, Destination: "https://idp.globex.example/slo", NameID: NameID{"a<b&c", FormatPersistent, "q", testSP},
		SessionIndex: "session-1", RelayState: "s",
	}
	address, err := r.RedirectURL(keys().sp)
	if err != nil {
		t.Fatal(err)
	}
	root, state := redirected(t, address, r.Destination, keys().sp)
	want := `<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_out" Version="2.0" IssueInstant="2026-11-26T12:00:00Z" Destination="https://idp.globex.example/slo" NotOnOrAfter="2026-11-26T12:10:00Z"><saml:Issuer>` + testSP +
		`</saml:Issuer><saml:NameID Format="` + FormatPersistent + `" NameQualifier="q" SPNameQualifier="` + testSP + `">a&lt;b&amp;c</saml:NameID><samlp:SessionIndex>session-1</samlp:SessionIndex></samlp:LogoutRequest>`
	if got := string(render(root)); got != want || state != "s" {
		t.Errorf("%s\n%s", got, want)
	}
	r.NameID = NameID{}
	if _, err := r.RedirectURL(keys().sp); err == nil {
		t.Error("a request without a subject is written")
	}
}
