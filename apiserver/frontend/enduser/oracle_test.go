package enduser_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Cases with the same response must also run the same statements, so that their times differ by noise only. `go test
// ./test/bench -run TestBenchTiming` measures the time itself.
func TestStatementsDoNotRevealExistence(t *testing.T) {
	onSQLite(t, func(w *world) {
		owner, _ := w.signedUp("ada@example.com")
		phone := owner.addPhone(number)
		other, _ := w.signedUp("eve@example.com")
		fresh := func(n int) *browser { return w.unknownClient(n) }
		for what, ask := range map[string]struct{ exists, unknown func() answer }{
			"a wrong password": {
				func() answer { return fresh(1).password("ada@example.com", "wrong wrong wrong wrong") },
				func() answer { return fresh(2).password("nobody@example.com", "wrong wrong wrong wrong") },
			},
			"a sign-in by code": {
				func() answer { return fresh(3).otp("ada@example.com") }, func() answer { return fresh(4).otp("nobody2@example.com") },
			},
			"a sign-up": {
				func() answer {
					return fresh(5).do("POST", "/auth/signup", `{"email":"ada@example.com","password":"`+goodPassword+`"}`)
				},
				func() answer {
					return fresh(6).do("POST", "/auth/signup", `{"email":"new@example.com","password":"`+goodPassword+`"}`)
				},
			},
			"a forgotten password": {
				func() answer {
					return fresh(7).do("POST", "/auth/forgot-password", `{"email":"ada@example.com"}`)
				},
				func() answer {
					return fresh(8).do("POST", "/auth/forgot-password", `{"email":"nobody3@example.com"}`)
				},
			},
			"an address to add": {
				func() answer {
					return other.do("POST", "/me/email-addresses", `{"email":"ada@example.com"}`)
				},
				func() answer {
					return other.do("POST", "/me/email-addresses", `{"email":"nobody4@example.com"}`)
				},
			},
			"a code for a phone": {
				func() answer { return other.do("POST", verifyPath(phone), codeBody("123456")) },
				func() answer { return other.do("POST", verifyPath("1234567890"), codeBody("123456")) },
			},
			"a text to a phone": {
				func() answer { return other.do("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`) },
				func() answer { return other.do("POST", "/me/phone-numbers/1234567890/prepare-verification", `{}`) },
			},
		} {
			w.Clock.Advance(2 * time.Minute) // the use of a session is recorded before the compared requests
			other.ok("GET", "/me", "")
			var of [2]answer
			known := w.traced.of(func() { of[0] = ask.exists() })
			unknown := w.traced.of(func() { of[1] = ask.unknown() })
			if of[0].Status != of[1].Status || of[0].code() != of[1].code() {
				t.Errorf("%s: answered %s and %s", what, of[0].Raw, of[1].Raw)
			}
			if len(known) < 2 || !slices.Equal(known, unknown) {
				t.Errorf("%s: %d statements where it exists, %d where it does not:\n%s", what, len(known), len(unknown), firstDifference(known, unknown))
			}
		}
	})
}

func firstDifference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf("number %d: %q and %q", i, a[min(i, len(a)-1)], b[min(i, len(b)-1)])
		}
	}
	return ""
}
