package document

import (
	"reflect"
	"testing"
	"time"
)

func TestEffectiveSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		session SessionSettings
		signIn  SignInSettings
	}{
		"a document from before end users": {`{"display_name":"Acme","mode":"Production"}`,
			SessionSettings{IdleTimeoutSeconds: 86400, LifetimeSeconds: 604800, MaxSignIns: 5}, SignInSettings{Password: true, PasswordMinLength: 15, EmailCode: true}},
		"a document with settings": {`{"session":{"idle_timeout_seconds":60,"lifetime_seconds":300,"max_sign_ins":1},"sign_in":{"password":false,"password_min_length":8,"email_code":true}}`,
			SessionSettings{IdleTimeoutSeconds: 60, LifetimeSeconds: 300, MaxSignIns: 1}, SignInSettings{PasswordMinLength: 8, EmailCode: true}},
		"a document with connections only": {`{"sign_in":{"password":false,"password_min_length":15,"email_code":false,"connections_only":true}}`,
			DefaultSession(), SignInSettings{PasswordMinLength: 15, ConnectionsOnly: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var d Deployment
			if _, err := Decode([]byte(`{"v":1,"meta":{},"content":`+tc.content+`}`), &d); err != nil {
				t.Fatal(err)
			}
			if got := d.EffectiveSession(); got != tc.session {
				t.Errorf("session %+v, want %+v", got, tc.session)
			}
			if got := d.EffectiveSignIn(); got != tc.signIn {
				t.Errorf("sign-in %+v, want %+v", got, tc.signIn)
			}
		})
	}
	if idle, life := DefaultSession().IdleTimeout(), DefaultSession().Lifetime(); idle != 24*time.Hour || life != 7*24*time.Hour {
		t.Errorf("idle %s, lifetime %s", idle, life)
	}
}

func TestPagesAreServedUnlessDeclaredOtherwise(t *testing.T) {
	for content, want := range map[string]Pages{
		`{"display_name":"Acme"}`:                       {},
		`{"pages":{"disabled":true,"url":"https://a"}}`: {Disabled: true, URL: "https://a"},
	} {
		var d Deployment
		if _, err := Decode([]byte(`{"v":1,"meta":{},"content":`+content+`}`), &d); err != nil || d.EffectivePages() != want {
			t.Errorf("%s: %+v, want %+v (%v)", content, d.EffectivePages(), want, err)
		}
	}
}

func TestAddressesAreKeptForThirtyDaysUnlessDeclared(t *testing.T) {
	for days, want := range map[int]time.Duration{0: 720 * time.Hour, 1: 24 * time.Hour, 3650: 87600 * time.Hour} {
		if got := (&Deployment{AddressRetentionDays: days}).AddressRetention(); got != want {
			t.Errorf("%d days: %s, want %s", days, got, want)
		}
	}
}

// An empty list (no country) and an absent list (all countries) stay different.
func TestCountriesSurviveTheStore(t *testing.T) {
	for _, want := range []*[]string{nil, {}, {"US"}} {
		payload, err := Encode(Meta{}, Deployment{SMS: &SMS{Provider: "Log", AllowedCountries: want}})
		if err != nil {
			t.Fatal(err)
		}
		var got Deployment
		if _, err := Decode(payload, &got); err != nil || !reflect.DeepEqual(got.SMS.AllowedCountries, want) {
			t.Errorf("got %v, want %v (%v)", got.SMS.AllowedCountries, want, err)
		}
	}
}

func TestSecretIDsTellDeploymentsAndFieldsApart(t *testing.T) {
	seen := map[string]bool{}
	for _, deployment := range []string{"a/b", "a/c"} {
		for _, kind := range []string{SealedSMTPPassword, SealedTwilioToken, SealedWebhookSecret} {
			seen[SecretID(deployment, kind)] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d ids, want 6: %v", len(seen), seen)
	}
}
