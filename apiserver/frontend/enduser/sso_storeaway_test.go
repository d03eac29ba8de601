package enduser_test

import (
	"fmt"
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// The store fails at each change of a sign-in and of a link in turn: the response is 503, and nothing is half done. The
// next attempt succeeds.
func TestStoreUnavailableDuringAResponseLeavesNoHalfLink(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		counts := func() string {
			return fmt.Sprint(w.count("SELECT COUNT(*) FROM users"), w.count("SELECT COUNT(*) FROM identities"), w.count("SELECT COUNT(*) FROM signins"), w.count("SELECT COUNT(*) FROM emails"))
		}
		for _, intent := range []string{"sign_in", "link"} {
			failed := 0
			for after := int64(0); ; after++ {
				user := identityprovider.User{"sub": fmt.Sprint(intent, after), "email": fmt.Sprintf("%s%d@globex.example", intent, after)}
				away := &failingChange{Store: w.Store}
				away.after.Store(1 << 40)
				b := w.browser()
				b.base = w.serve(away).URL
				more := ""
				if intent == "link" {
					b.signUp(fmt.Sprintf("own%d@example.com", after))
					more = `,"intent":"link"`
				}
				values, err := p.Authorize(b.begin(conn, more), user)
				w.Must(err)
				before := counts()
				away.after.Store(after)
				a := b.do("GET", callback(conn, values), "", "Sec-Fetch-Site", "cross-site")
				if a.Status == 200 { // fewer changes were made
					break
				}
				failed++
				if a.Status != 503 || a.Header.Get("Retry-After") == "" || counts() != before {
					t.Errorf("%s, failed at change %d: users, identities, sign-ins, addresses %s before and %s after %d %s", intent, after, before, counts(), a.Status, a.Raw)
				}
				away.after.Store(1 << 40)
				if a := b.ssoFor(conn, p, user, more); a.Status != 200 || a.user() == "" || counts() == before {
					t.Errorf("%s, after a failure at change %d: %s", intent, after, a.Raw)
				}
			}
			if failed < 2 {
				t.Errorf("%s: the store failed at %d changes", intent, failed)
			}
		}
	})
}
