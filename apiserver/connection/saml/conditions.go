package saml

import (
	"slices"
	"strings"
	"time"

	"github.com/beevik/etree"
)

// checkConfirmation checks that the response's bearer is confirmed for this request (SAML profiles 4.1.4.3). It
// returns when the confirmation is no longer accepted.
func checkConfirmation(subject *etree.Element, want Expected) (time.Time, error) {
	confirmation, err := required(subject, nsAssertion, "SubjectConfirmation")
	if err != nil {
		return time.Time{}, err
	}
	if got := attribute(confirmation, "Method"); got != methodBearer {
		return time.Time{}, fault(ReasonConfirmation, got, methodBearer)
	}
	data, err := required(confirmation, nsAssertion, "SubjectConfirmationData")
	if err != nil {
		return time.Time{}, err
	}
	if got := attribute(data, "Recipient"); got != want.ACSURL || got == "" {
		return time.Time{}, fault(ReasonRecipient, got, want.ACSURL)
	}
	if got := attribute(data, "InResponseTo"); got != want.RequestID || got == "" {
		return time.Time{}, fault(ReasonInResponseTo, got, want.RequestID)
	}
	if start, found := lookup(data, "NotBefore"); found {
		if err := after(start, want); err != nil {
			return time.Time{}, err
		}
	}
	end, err := before(attribute(data, "NotOnOrAfter"), ReasonNotOnOrAfter, want)
	return end.Add(want.Skew), err
}

// checkConditions checks that the assertion is for this service provider, and that it is valid now.
func checkConditions(el *etree.Element, want Expected) error {
	conditions, err := required(el, nsAssertion, "Conditions")
	if err != nil {
		return err
	}
	restrictions := children(conditions, nsAssertion, "AudienceRestriction")
	if len(restrictions) == 0 {
		return fault(ReasonAudience, "", want.EntityID)
	}
	for _, restriction := range restrictions { // each of them must hold, by one of its audiences
		var audiences []string
		for _, audience := range children(restriction, nsAssertion, "Audience") {
			audiences = append(audiences, word(audience))
		}
		if want.EntityID == "" || !slices.Contains(audiences, want.EntityID) {
			return fault(ReasonAudience, strings.Join(audiences, ", "), want.EntityID)
		}
	}
	if start, found := lookup(conditions, "NotBefore"); found {
		if err := after(start, want); err != nil {
			return err
		}
	}
	if end, found := lookup(conditions, "NotOnOrAfter"); found {
		if _, err := before(end, ReasonNotOnOrAfter, want); err != nil {
			return err
		}
	}
	return nil
}

// after reads a NotBefore, and checks that it is reached.
func after(text string, want Expected) error {
	at, err := readTime(text)
	if err != nil {
		return err
	}
	if at.After(want.Now.Add(want.Skew)) {
		return fault(ReasonNotBefore, text, "a time before "+want.Now.UTC().Format(time.RFC3339)+" (check both clocks)")
	}
	return nil
}

// before reads the end of a time, and checks that it is not reached.
func before(text, reason string, want Expected) (time.Time, error) {
	at, err := readTime(text)
	if err != nil {
		return time.Time{}, err
	}
	if !want.Now.Before(at.Add(want.Skew)) {
		return time.Time{}, fault(reason, text, "a time after "+want.Now.UTC().Format(time.RFC3339)+" (check both clocks)")
	}
	return at, nil
}
