package browser

import (
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/internal/document"
)

// stepUp is an authorization request that needs more than the password, and how the user gives it.
type stepUp struct {
	name, language string
	scripts        bool
	// requires is what the client requires, whatever it asks for.
	requires *document.ClientAssurance
	// asks are further parameters of the request.
	asks []string
	// has is the factor of the account. If it has none, the user adds one on the way.
	has, adds string
	// acr and amr are what the ID token states. A new user has proven the address by the code, and not the password.
	acr string
	amr []string
}

// Apps ask for more than the password, by acr_values, by max_age or by their declaration: the user shows or adds a
// factor, decides the request, and returns to the app with a code. The ID token states what was shown.
func TestAppsAskForMoreThanThePassword(t *testing.T) {
	app, passkey := []string{"mfa", "otp", "pwd"}, []string{"mfa", "pop", "pwd", "user"}
	for n, tt := range []stepUp{
		{"two factors, an app", "en", true, nil, []string{"acr_values", "2"}, anApp, "", "2", app},
		{"two factors, an app, without scripts", "de", false, nil, []string{"acr_values", "2"}, anApp, "", "2", app},
		{"two factors, a passkey", "de", true, nil, []string{"acr_values", "2"}, aPasskey, "", "2", passkey},
		{"a passkey", "en", true, nil, []string{"acr_values", "phr"}, aPasskey, "", "phr", passkey},
		{"a passkey that is added", "de", true, nil, []string{"acr_values", "phr"}, noFactor, aPasskey, "phr", []string{"mfa", "otp", "pop", "user"}},
		{"an app that is added, without scripts", "en", false, nil, []string{"acr_values", "2"}, noFactor, anApp, "2", []string{"mfa", "otp"}},
		{"the client requires it", "en", true, &document.ClientAssurance{Level: "two_factors", MaxAgeSeconds: ptr.To[int64](300)}, nil, anApp, "", "2", app},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := authorizing(t, strong)
			p := w.party("Reports", func(c *document.OAuthClient) { c.Assurance = tt.requires })
			v := arrivesReading(t, tt.language, localhost(w.Server), w, everyLook[n%len(everyLook)], tt.scripts)
			if tt.adds == aPasskey {
				v.device()
			}
			v.becomesUser("ada@example.com")
			a := v.adds(w.World, tt.has)
			if tt.has != noFactor {
				w.Clock.Advance(time.Minute)
				v.returns()
			}

			v.asks(p, "openid email jobs:run", tt.asks...)
			v.proves(w.World, tt.has, a, tt.adds)
			v.reaches(v.says("authorize.title", "client", "Reports"))
			v.presses(v.says("authorize.allow"))
			v.isBack(p, v.email, "")
			p.states(w, 1, tt)

			// A second request is answered at once: the proofs still suffice, and the access was granted.
			v.asks(p, "openid email jobs:run", tt.asks...)
			v.isBack(p, v.email, "")
			p.states(w, 2, tt)
			v.repeats(w, p, a, tt)
		})
	}
}

// states fails the test if the nth ID token does not state what the user has shown.
func (p *party) states(w *oauthWorld, nth int, want stepUp) {
	p.t.Helper()
	got := p.proven(nth)
	slices.Sort(got.AMR)
	if age := w.Clock.Now().Unix() - got.AuthTime; got.ACR != want.acr || !slices.Equal(got.AMR, want.amr) || age < 0 || age > 60 {
		p.t.Errorf("sign-in %d states %+v, %d seconds old; want acr %s, amr %v", nth, got, age, want.acr, want.amr)
	}
}

// repeats lets ten minutes pass: an app that asks for a newer proof gets one.
func (v *person) repeats(w *oauthWorld, p *party, a authenticatorApp, tt stepUp) {
	v.t.Helper()
	if tt.has == noFactor {
		return
	}
	w.Clock.Advance(10 * time.Minute)
	asks := tt.asks
	if tt.requires == nil {
		asks = append(slices.Clone(asks), "max_age", "300")
	}
	v.asks(p, "openid email jobs:run", asks...)
	v.proves(w.World, tt.has, a, "")
	v.isBack(p, v.email, "")
	p.states(w, 3, tt)
}
