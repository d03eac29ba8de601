package oauth_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
)

// A token request reads the rows for its decision in the transaction that writes. It reads each row once. It reads a
// row again only if a concurrent request may have changed it before the token family was locked.
func TestTokenRequestRunsInOneTransaction(t *testing.T) {
	t.Parallel()
	for engine, open := range servertest.Engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var seen []string
			w := &world{World: frontendtest.NewOver(t, open(t), func(query string, _ []any) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, query)
			}, nil)}
			w.app = w.DeclareOAuthApp("http://localhost:8081")
			c, p := w.web("reports", nil), w.signUp("ada@example.com")
			reads := func(form url.Values) (answer, string) {
				mu.Lock()
				from := len(seen)
				mu.Unlock()
				a := c.post("/token", form)
				if a.status != 200 {
					t.Fatalf("%d %s", a.status, a.raw)
				}
				mu.Lock()
				defer mu.Unlock()
				took, count := seen[from:], map[string]int{}
				for i, query := range took {
					table := ""
					for _, name := range []string{"oauth_codes", "oauth_families", "oauth_refresh_tokens"} {
						if strings.HasPrefix(strings.TrimSpace(query), "SELECT") && strings.Contains(query, "FROM "+name) && !strings.Contains(query, "ORDER BY") {
							table = name
						}
					}
					if table == "" {
						continue
					}
					if count[table]++; !slices.Contains(took[:i], "BEGIN") {
						t.Errorf("before the transaction: %s", query)
					}
				}
				return a, fmt.Sprint(count)
			}
			first, took := reads(redeem(p.allow(c.request("openid email")).Get("code")))
			if took != "map[oauth_codes:1 oauth_families:1]" {
				t.Errorf("a redemption read %s", took)
			}
			if _, took = reads(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {first.text("refresh_token")}}); took != "map[oauth_families:1 oauth_refresh_tokens:2]" {
				t.Errorf("a refresh read %s", took)
			}
		})
	}
}
