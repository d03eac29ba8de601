package saml

import (
	"errors"
	"slices"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/connection"
)

// No document that differs from what the identity provider signed is about another user, and every refusal is a fault.
func FuzzSAMLResponse(f *testing.F) {
	for _, s := range shapes {
		f.Add(answer{shape: s}.xml())
		for _, w := range wrappings() {
			if w.response == s.response && !s.encrypts && (w.response || s.assertion) {
				f.Add(answer{shape: s, attack: w.attack}.xml())
			}
		}
	}
	for _, xml := range refusedXML() {
		f.Add([]byte(xml))
	}
	want := expected()
	f.Fuzz(func(t *testing.T, xml []byte) {
		a, err := evaluate(xml, want)
		var fault *connection.Fault
		switch {
		case err != nil && !errors.As(err, &fault):
			t.Errorf("%v is no fault", err)
		case err == nil && (a.Subject != testSubject || a.ID != "_assertion" || a.SessionIndex != "session-1" || !slices.Equal(a.Attributes["groups"], []string{"eng", "ops"}) || len(a.Attributes) != 4):
			t.Errorf("%q is accepted as %+v", xml, a)
		}
	})
}

// The trees that are read keep their bounds, and are canonicalized without a panic to what is read again as the same.
func FuzzSAMLDocument(f *testing.F) {
	f.Add(render(response()))
	for _, xml := range refusedXML() {
		f.Add([]byte(xml))
	}
	f.Fuzz(func(t *testing.T, xml []byte) {
		root, err := parse(xml, messageBounds)
		if err != nil {
			return
		}
		once, err := canonicalize(detach(root), "")
		if err != nil {
			t.Fatalf("%q has no canonical form: %v", xml, err)
		}
		again, err := parse(once, bounds{len(once), messageBounds.depth, messageBounds.elements, messageBounds.attributes, messageBounds.declarations})
		if err != nil {
			t.Fatalf("the canonical form of %q is refused: %v", xml, err)
		}
		if twice, err := canonicalize(again, ""); err != nil || string(twice) != string(once) {
			t.Errorf("%q: %q, then %q, %v", xml, once, twice, err)
		}
	})
}

// Metadata that is accepted has what callers rely on.
func FuzzSAMLMetadata(f *testing.F) {
	k := keys()
	f.Add([]byte(entity(testIDP, `validUntil="2026-11-28T12:00:00Z" cacheDuration="PT6H"`, keyDescriptor("", k.idp, k.p256))))
	f.Add([]byte(entities("", entity(testIDP, "", keyDescriptor("signing", k.p256)))))
	for _, xml := range refusedXML() {
		f.Add([]byte(xml))
	}
	f.Fuzz(func(t *testing.T, xml []byte) {
		m, err := ParseMetadata(xml, MetadataWanted{Now: now})
		var fault *connection.Fault
		switch {
		case err != nil && !errors.As(err, &fault):
			t.Errorf("%v is no fault", err)
		case err != nil:
		case m.EntityID == "" || m.SignOnEndpoint().URL == "" || len(m.Certificates) == 0 || len(m.Certificates) > maxCertificates:
			t.Errorf("%q is accepted as %+v", xml, m)
		case !m.ValidUntil.IsZero() && !m.ValidUntil.After(now), m.RefreshIn(now) < MinRefresh, m.RefreshIn(now) > MaxRefresh, m.CertificateExpiry().IsZero():
			t.Errorf("%q has the times %+v", xml, m)
		}
	})
}
