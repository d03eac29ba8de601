package saml

import (
	"testing"
	"time"

	"github.com/beevik/etree"
)

// set returns a change of an attribute of the first element with a tag; value "-" removes it.
func set(tag, name, value string) func(*etree.Element) {
	return func(root *etree.Element) {
		el := at(root, tag)
		if el.RemoveAttr(name); value != "-" {
			el.CreateAttr(name, value)
		}
	}
}

// inAssertion limits a change to the assertion.
func inAssertion(change func(*etree.Element)) func(*etree.Element) {
	return func(root *etree.Element) { change(at(root, "Assertion")) }
}

func setText(tag, value string) func(*etree.Element) {
	return func(root *etree.Element) { at(root, tag).SetText(value) }
}

func remove(tag string) func(*etree.Element) {
	return func(root *etree.Element) {
		el := at(root, tag)
		el.Parent().RemoveChild(el)
	}
}

// stated is what the identity provider states and signs, and the reason of the refusal.
type stated struct {
	states func(*etree.Element)
	reason string
}

// forOthers are statements that are for another request, service provider or time, or that lack what they need.
func forOthers() map[string]stated {
	audience := func(value string) *etree.Element {
		return element(`<saml:AudienceRestriction xmlns:saml="` + nsAssertion + `"><saml:Audience>` + value + `</saml:Audience></saml:AudienceRestriction>`)
	}
	return map[string]stated{
		"no audience":                           {remove("AudienceRestriction"), ReasonAudience},
		"an empty restriction":                  {remove("Audience"), ReasonAudience},
		"another audience":                      {setText("Audience", "https://other.example"), ReasonAudience},
		"an audience that begins with ours":     {setText("Audience", testSP+".evil.example"), ReasonAudience},
		"a second restriction to another":       {func(root *etree.Element) { at(root, "Conditions").AddChild(audience("https://other.example")) }, ReasonAudience},
		"no recipient":                          {set("SubjectConfirmationData", "Recipient", "-"), ReasonRecipient},
		"another recipient":                     {set("SubjectConfirmationData", "Recipient", "https://other.example/acs"), ReasonRecipient},
		"the recipient of another host":         {set("SubjectConfirmationData", "Recipient", "https://acme-2.example/sso/conn_1/acs"), ReasonRecipient},
		"another destination":                   {set("Response", "Destination", "https://other.example/acs"), ReasonDestination},
		"an empty destination":                  {set("Response", "Destination", ""), ReasonDestination},
		"the request of another attempt":        {set("Response", "InResponseTo", "_other"), ReasonInResponseTo},
		"no request":                            {set("Response", "InResponseTo", "-"), ReasonInResponseTo},
		"the confirmation of another attempt":   {set("SubjectConfirmationData", "InResponseTo", "_other"), ReasonInResponseTo},
		"the confirmation of no request":        {set("SubjectConfirmationData", "InResponseTo", "-"), ReasonInResponseTo},
		"another issuer of the response":        {setText("Issuer", "https://evil.example"), ReasonIssuer},
		"another issuer of the assertion":       {inAssertion(setText("Issuer", "https://evil.example")), ReasonIssuer},
		"an issuer that begins with the right":  {inAssertion(setText("Issuer", testIDP+"/x")), ReasonIssuer},
		"holder of key":                         {set("SubjectConfirmation", "Method", "urn:oasis:names:tc:SAML:2.0:cm:holder-of-key"), ReasonConfirmation},
		"sender vouches":                        {set("SubjectConfirmation", "Method", "urn:oasis:names:tc:SAML:2.0:cm:sender-vouches"), ReasonConfirmation},
		"no method":                             {set("SubjectConfirmation", "Method", "-"), ReasonConfirmation},
		"no confirmation data":                  {remove("SubjectConfirmationData"), ReasonStructure},
		"a status of failure":                   {set("StatusCode", "Value", "urn:oasis:names:tc:SAML:2.0:status:Responder"), ReasonStatus},
		"no status":                             {remove("Status"), ReasonStructure},
		"version 1.1 of the response":           {set("Response", "Version", "1.1"), ReasonVersion},
		"version 1.1 of the assertion":          {set("Assertion", "Version", "1.1"), ReasonVersion},
		"no end of the confirmation":            {set("SubjectConfirmationData", "NotOnOrAfter", "-"), ReasonTime},
		"an end that is no time":                {set("Conditions", "NotOnOrAfter", "tomorrow"), ReasonTime},
		"a time without a zone":                 {set("Conditions", "NotOnOrAfter", "2026-11-26T12:05:00"), ReasonTime},
		"a time of 65 characters":               {set("Conditions", "NotOnOrAfter", "2026-11-26T12:05:00."+"000000000000000000000000000000000000000000000Z"), ReasonTime},
		"no time of the authentication":         {set("AuthnStatement", "AuthnInstant", "-"), ReasonTime},
		"no time of the response":               {set("Response", "IssueInstant", "-"), ReasonTime},
		"no time of the assertion":              {set("Assertion", "IssueInstant", "-"), ReasonTime},
		"an ID of the assertion with a bracket": {set("Assertion", "ID", "_a[1]"), ""},
	}
}

func TestResponsesForOthersAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range forOthers() {
		for _, s := range shapes {
			refused(t, s.name+", "+name, answer{shape: s, states: tc.states}.xml(), expected(), tc.reason)
		}
	}
}

// mayBeAbsent are right responses without a part.
func mayBeAbsent() map[string]func(*etree.Element) {
	return map[string]func(*etree.Element){
		"without the ends of the conditions": func(root *etree.Element) { at(root, "Conditions").Attr = nil },
		"without the end of the session":     set("AuthnStatement", "SessionNotOnOrAfter", "-"),
		"without the index of the session":   set("AuthnStatement", "SessionIndex", "-"),
		"without the attributes":             remove("AttributeStatement"),
		"without the class of the context":   remove("AuthnContextClassRef"),
	}
}

func TestWhatResponsesMayLeaveOut(t *testing.T) {
	t.Parallel()
	for name, states := range mayBeAbsent() {
		for _, s := range shapes {
			if got, err := evaluate(answer{shape: s, states: states}.xml(), expected()); err != nil || got.Subject != testSubject {
				t.Errorf("%s, %s: %+v, %v", s.name, name, got, err)
			}
		}
	}
	for _, s := range shapes { // SAML bindings 3.5.5.2
		xml := answer{shape: s, states: set("Response", "Destination", "-")}.xml()
		if s.response {
			refused(t, s.name+", no destination", xml, expected(), ReasonDestination)
		} else if _, err := evaluate(xml, expected()); err != nil {
			t.Errorf("%s, no destination: %v", s.name, err)
		}
	}
}

// Every time, one second before, at, and one second after its limit with the skew.
func TestTimesWithinTheSkew(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, time.Minute, 5 * time.Minute} {
		for name, tc := range map[string]struct {
			tag, attribute string
			reason         string
			// begins reports that the time is the beginning of a time, which is accepted at its limit.
			begins bool
		}{
			"NotBefore of the conditions":      {"Conditions", "NotBefore", ReasonNotBefore, true},
			"NotOnOrAfter of the conditions":   {"Conditions", "NotOnOrAfter", ReasonNotOnOrAfter, false},
			"NotBefore of the confirmation":    {"SubjectConfirmationData", "NotBefore", ReasonNotBefore, true},
			"NotOnOrAfter of the confirmation": {"SubjectConfirmationData", "NotOnOrAfter", ReasonNotOnOrAfter, false},
			"SessionNotOnOrAfter":              {"AuthnStatement", "SessionNotOnOrAfter", ReasonSessionEnd, false},
		} {
			for _, offset := range []time.Duration{-time.Second, 0, time.Second} {
				limit, accepted := now.Add(-skew).Add(offset), offset > 0
				if tc.begins {
					limit, accepted = now.Add(skew).Add(offset), offset <= 0
				}
				want := expected()
				want.Skew = skew
				for _, s := range shapes {
					name := s.name + ", " + name + ", skew " + skew.String() + ", " + offset.String()
					xml := answer{shape: s, states: set(tc.tag, tc.attribute, limit.Format(time.RFC3339))}.xml()
					if !accepted {
						refused(t, name, xml, want, tc.reason)
					} else if got, err := evaluate(xml, want); err != nil {
						t.Errorf("%s: %v", name, err)
					} else if tc.tag == "SubjectConfirmationData" && !tc.begins && !got.ExpiresAt.Equal(now.Add(time.Second)) {
						t.Errorf("%s: a repetition is detected until %v", name, got.ExpiresAt)
					}
				}
			}
		}
	}
}

// Requests with missing expectations accept nothing, because equal emptiness is no match.
func TestEmptyExpectationsAcceptNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		states func(*etree.Element)
		want   func(*Expected)
	}{
		"request": {func(root *etree.Element) {
			set("Response", "InResponseTo", "-")(root)
			set("SubjectConfirmationData", "InResponseTo", "-")(root)
		}, func(w *Expected) { w.RequestID = "" }},
		"ACS": {func(root *etree.Element) {
			set("Response", "Destination", "-")(root)
			set("SubjectConfirmationData", "Recipient", "-")(root)
		}, func(w *Expected) { w.ACSURL = "" }},
		"audience": {setText("Audience", ""), func(w *Expected) { w.EntityID = "" }},
		"issuer": {func(root *etree.Element) {
			setText("Issuer", "")(root)
			setText("Issuer", "")(at(root, "Assertion"))
		}, func(w *Expected) { w.Provider.EntityID = "" }},
	} {
		want := expected()
		tc.want(&want)
		for _, s := range shapes {
			refused(t, s.name+", "+name, answer{shape: s, states: tc.states}.xml(), want, "")
		}
	}
}

// A failure of the identity provider has no assertion. Its words reach the admin, bounded.
func TestFailuresOfTheProviderSayWhy(t *testing.T) {
	t.Parallel()
	states := func(root *etree.Element) {
		remove("Assertion")(root)
		code := at(root, "StatusCode")
		code.CreateAttr("Value", "urn:oasis:names:tc:SAML:2.0:status:Responder")
		code.CreateElement("samlp:StatusCode").CreateAttr("Value", "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed")
		at(root, "Status").CreateElement("samlp:StatusMessage").SetText("the user\x09is blocked")
	}
	for _, s := range []shape{{}, {response: true}} {
		got, err := evaluate(answer{shape: s, states: states}.xml(), expected())
		expectFault(t, "failure", got, err, ReasonStatus)
		if want := `status is "urn:oasis:names:tc:SAML:2.0:status:Responder, urn:oasis:names:tc:SAML:2.0:status:AuthnFailed: the user is blocked", the identity provider must send "urn:oasis:names:tc:SAML:2.0:status:Success"`; err.Error() != want {
			t.Errorf("got %s", err)
		}
	}
}
