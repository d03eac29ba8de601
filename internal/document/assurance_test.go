package document

import (
	"fmt"
	"testing"

	"github.com/cardea-iam/cardea/internal/assurance"
)

func TestFactorsThatReachALevel(t *testing.T) {
	all := Assurance{Passkey: true, TOTP: true, SMS: true, RelyingParty: "acme.example"}
	noHost, noPasskey, texts := all, all, Assurance{SMS: true}
	noHost.RelyingParty, noPasskey.Passkey = "", false
	for _, tc := range []struct {
		name                   string
		deployment             Deployment
		two, phishingResistant string
	}{
		{"every kind", Deployment{Assurance: &all, SMS: &SMS{}}, "[passkey totp sms]", "[passkey]"},
		{"texts that are not sent", Deployment{Assurance: &all}, "[passkey totp]", "[passkey]"},
		{"passkeys without a host", Deployment{Assurance: &noHost}, "[totp]", "[]"},
		{"no passkeys", Deployment{Assurance: &noPasskey}, "[totp]", "[]"},
		{"texts alone", Deployment{Assurance: &texts, SMS: &SMS{}}, "[sms]", "[]"},
		{"nothing", Deployment{Assurance: &Assurance{}}, "[]", "[]"},
		{"an earlier version", Deployment{FrontendHosts: []string{"acme.example"}}, "[passkey totp]", "[passkey]"},
	} {
		if got := fmt.Sprint(tc.deployment.FactorsFor(assurance.TwoFactors)); got != tc.two {
			t.Errorf("%s, two factors: got %s, want %s", tc.name, got, tc.two)
		}
		if got := fmt.Sprint(tc.deployment.FactorsFor(assurance.PhishingResistant)); got != tc.phishingResistant {
			t.Errorf("%s, phishing-resistant: got %s, want %s", tc.name, got, tc.phishingResistant)
		}
	}
}
