package bench

import (
	cryptorand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	"github.com/cardea-iam/cardea/internal/testing/welch"
)

// TestBenchTiming looks for differences in response time that reveal whether an account exists: wrong passwords,
// phone codes and forged passkeys, for existing and unknown accounts. Requests alternate, and each pair has a random
// order.
func TestBenchTiming(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for a minute")
	}
	w := newPeopleWorld(t, "SQLite")
	phone := w.do(t, w.persons[0], "POST", "/me/phone-numbers", `{"phone_number":"+12025550123"}`)["id"].(string)
	post := func(p *person, path, body string, want int) time.Duration {
		begin := time.Now()
		recorder := w.ask(p, "POST", path, body)
		took := time.Since(begin)
		if recorder.Code != want {
			t.Fatalf("%s: %s", path, recorder.Body)
		}
		return took
	}
	eve := w.persons[1]
	row("a code for another user's phone and for an unknown phone: Welch's t of 2,000 pairs", "|t| < 4.5", "%.1f", pairs(2000,
		func(int) time.Duration {
			return post(eve, "/me/phone-numbers/"+phone+"/attempt-verification", `{"code":"123456"}`, http.StatusNotFound)
		},
		func(int) time.Duration {
			return post(eve, "/me/phone-numbers/1234567890/attempt-verification", `{"code":"123456"}`, http.StatusNotFound)
		}))
	wrong := func(email string) time.Duration {
		return post(&person{}, "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%q,"password":"wrong wrong wrong wrong"}`, email), http.StatusUnauthorized)
	}
	// Ten failed attempts of an account are not throttled.
	row("a wrong password for an account and for an unknown email: Welch's t of 80 pairs", "|t| < 4.5", "%.1f", pairs(80,
		func(i int) time.Duration { return wrong(fmt.Sprintf("user%d@example.com", i%people8)) },
		func(i int) time.Duration { return wrong(fmt.Sprintf("nobody%d@example.com", i%people8)) }))
	codes := verification.NewBinder(w.keyring)
	salt, mac, key, err := codes.Bind(7, "555555", cryptorand.Reader)
	check(t, err)
	guess := func(code string) func(int) time.Duration {
		return func(int) time.Duration {
			begin := time.Now()
			if codes.Matches(7, salt, mac, key, code) {
				t.Fatal("a wrong code matches")
			}
			return time.Since(begin)
		}
	}
	row("a code whose first digit is wrong and one whose last is: Welch's t of 20,000 pairs", "|t| < 4.5", "%.1f", pairs(20_000, guess("055555"), guess("555550")))
	strong := newStrongWorld(t, "SQLite")
	forged, unknown := strong.refusedAssertions(t, 2000, false), strong.refusedAssertions(t, 2000, true)
	row("a forged assertion of a passkey and one of an unknown passkey: Welch's t of 2,000 pairs", "|t| < 4.5", "%.1f", pairs(2000,
		func(i int) time.Duration { return strong.refusal(t, forged[i]) },
		func(i int) time.Duration { return strong.refusal(t, unknown[i]) }))
}

// refusedAssertions returns the bodies of n sign-ins by passkey with a wrong signature: of known passkeys, or of
// unknown ones that name the user of a known passkey.
func (w *strongWorld) refusedAssertions(t *testing.T, n int, unknown bool) []string {
	t.Helper()
	known := w.devices
	defer func() { w.devices = known }()
	w.devices = nil
	for _, d := range known {
		other := frontendtest.NewCredential()
		if !unknown {
			other.ID = d.key.ID
		}
		w.devices = append(w.devices, &passkeyDevice{key: other, auth: d.auth})
	}
	return w.assertions(t, n)
}

// refusal returns how long a sign-in takes that must be refused.
func (w *strongWorld) refusal(t *testing.T, body string) time.Duration {
	begin := time.Now()
	recorder := w.ask(&person{}, "POST", "/auth/signin", body)
	took := time.Since(begin)
	if recorder.Code != http.StatusUnauthorized {
		t.Fatalf("a forged sign-in by passkey: %s", recorder.Body)
	}
	return took
}

// pairs measures two functions in turn and returns Welch's t of the times they take.
func pairs(n int, first, second func(i int) time.Duration) float64 {
	var a, b []time.Duration
	for i := range n {
		if rand.IntN(2) == 0 {
			a, b = append(a, first(i)), append(b, second(i))
			continue
		}
		b, a = append(b, second(i)), append(a, first(i))
	}
	return welch.T(a, b)
}
