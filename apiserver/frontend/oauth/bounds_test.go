package oauth_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// A client that is declared again has the same id and, if its Secret was kept, the same secret. The former grants and
// tokens must not return with it.
func TestRedeclaredClientHasNoFormerGrants(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		token := c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code")))
		w.Put(v1alpha1.KindOAuthClient, "reports", frontendtest.Deployment, "", c.declared) // as a rebuilt cluster does
		if a := c.introspect(token.text("access_token")); a.body["active"] != true {
			t.Fatalf("%s", a.raw)
		}
		namespace, _, _ := strings.Cut(frontendtest.Deployment, "/")
		w.Withdraw(v1alpha1.KindOAuthClient, namespace, "reports")
		w.Eventually("the client is gone", func() bool { return c.introspect(token.text("access_token")).text("error") == "invalid_client" })
		w.Put(v1alpha1.KindOAuthClient, "reports", frontendtest.Deployment, "", c.declared)
		w.Eventually("the client is back", func() bool { return c.introspect(token.text("access_token")).status == 200 })

		if a := c.introspect(token.text("access_token")); a.body["active"] != false {
			t.Errorf("the access token is back: %s", a.raw)
		}
		if a := c.refresh(token.text("refresh_token")); a.text("error") != "invalid_grant" {
			t.Errorf("the refresh token is back: %d %s", a.status, a.raw)
		}
		if grants := p.ask("GET", "/me/oauth-grants", nil)["data"].([]any); len(grants) != 0 {
			t.Errorf("the grant is back: %v", grants)
		}
		w.Clock.Advance(3 * time.Second) // by now, all servers know that it was deleted
		if to := p.authorize(c.request("jobs:read")); !strings.HasPrefix(to.Path, "/authorize/") {
			t.Errorf("the user is not asked again, but redirected to %s", to)
		}
		if a := c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code"))); a.status != 200 {
			t.Errorf("granted anew: %d %s", a.status, a.raw)
		}
	})
}

// New registrations must not evict clients in use.
func TestUsedRegistrationsAreEvictedAfterTheirTokensExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	made := w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{callback}})
	c, p := &client{w: w, id: made.text("client_id"), secret: made.text("client_secret")}, w.signUp("ada@example.com")
	p.allow(c.request("jobs:read"))
	app := ids.Derive(v1alpha1.KindOAuthApp, strings.Split(frontendtest.Deployment, "/")[0], "portal")
	w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		for n := range 9_999 {
			row := people.OAuthClient{App: app, Client: fmt.Sprint("https://agent.example/", n), Content: "{}", CreatedAt: w.Clock.Now(), UsedAt: w.Clock.Now().Add(time.Hour)}
			if err := tx.OAuthClients().InsertOAuthClient(row); err != nil {
				return err
			}
			grant := people.Grant{ID: 1<<40 + int64(n), App: app, Client: row.Client, User: 1<<40 + int64(n), CreatedAt: row.CreatedAt, UpdatedAt: row.UsedAt}
			if _, err := tx.OAuth().PutGrant(grant, 500); err != nil {
				return err
			}
		}
		return nil
	}))
	register := func() answer {
		return w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{callback}})
	}
	w.Clock.Advance(30 * 24 * time.Hour) // not enough: the last use may be up to a day later than the recorded one
	if a := register(); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("while all are in use: %d %s", a.status, a.raw)
	}
	p = w.signUp("grace@example.com")
	p.allow(c.request("jobs:read")) // this use makes another client the least recently used one
	w.Clock.Advance(24*time.Hour + 2*time.Hour)
	if a := register(); a.status != 201 {
		t.Errorf("when one was not used for so long: %d %s", a.status, a.raw)
	}
	if a := c.post("/token", url.Values{"grant_type": {"x"}}); a.text("error") != "unsupported_grant_type" {
		t.Errorf("the one that is in use: %s", a.raw)
	}
}

// A client that only one account used can be evicted once that account's grant to it was evicted.
func TestClientsOfOneAccountAreEvictedWithItsGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	app := ids.Derive(v1alpha1.KindOAuthApp, strings.Split(frontendtest.Deployment, "/")[0], "portal")
	w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		for n := range 10_000 {
			row := people.OAuthClient{App: app, Client: fmt.Sprint("https://agent.example/", n), Content: "{}", CreatedAt: w.Clock.Now(), UsedAt: w.Clock.Now()}
			if err := tx.OAuthClients().InsertOAuthClient(row); err != nil {
				return err
			}
			if _, err := tx.OAuth().PutGrant(people.Grant{ID: 1<<40 + int64(n), App: app, Client: row.Client, User: 1 << 40, CreatedAt: row.CreatedAt, UpdatedAt: row.UsedAt.Add(time.Duration(n))}, 500); err != nil {
				return err
			}
		}
		return nil
	}))
	register := func() answer {
		return w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{callback}})
	}
	if a := register(); a.status != 503 {
		t.Errorf("new clients are protected: %d %s", a.status, a.raw)
	}
	w.Clock.Advance(11 * time.Minute)
	for range 3 {
		if a := register(); a.status != 201 {
			t.Fatalf("the same day: %d %s", a.status, a.raw)
		}
	}
}

// Creating accounts is free, so a bound per user does not bound a network.
func TestUsedClientsOfLargestNetworkAreEvicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	made := w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{callback}})
	c, p := &client{w: w, id: made.text("client_id"), secret: made.text("client_secret")}, w.signUp("ada@example.com")
	p.allow(c.request("jobs:read"))
	app := ids.Derive(v1alpha1.KindOAuthApp, strings.Split(frontendtest.Deployment, "/")[0], "portal")
	w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		for n := range 9_999 {
			row := people.OAuthClient{App: app, Client: fmt.Sprint("https://agent.example/", n), Content: "{}", Network: "203.0.113.0/24", CreatedAt: w.Clock.Now(), UsedAt: w.Clock.Now().Add(time.Hour)}
			if err := tx.OAuthClients().InsertOAuthClient(row); err != nil {
				return err
			}
			if _, err := tx.OAuth().PutGrant(people.Grant{ID: 1<<40 + int64(n), App: app, Client: row.Client, User: 1<<40 + int64(n/500), CreatedAt: row.CreatedAt, UpdatedAt: row.UsedAt}, 500); err != nil {
				return err
			}
		}
		return nil
	}))
	for range 3 {
		if a := w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{callback}}); a.status != 201 {
			t.Fatalf("an honest client: %d %s", a.status, a.raw)
		}
	}
	if n := w.count("SELECT count(*) FROM oauth_clients WHERE network = '203.0.113.0/24'"); n != 9_998 {
		t.Errorf("%d used clients of the network that has the most", n)
	}
	if a := c.post("/token", url.Values{"grant_type": {"x"}}); a.text("error") != "unsupported_grant_type" {
		t.Errorf("the client of a network with few: %s", a.raw)
	}
}

// Each change writes an audit record; a request without a change writes none.
func TestRegistrationChangesAreBoundedPerDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	made := w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{callback}})
	rewrite := func(n int) answer {
		return w.ask("PUT", "/register/"+made.text("client_id"), made.text("registration_access_token"), map[string]any{"client_name": fmt.Sprint("Agent ", n), "redirect_uris": []string{callback}})
	}
	for n := range 60 {
		if a := rewrite(n / 10); a.status != 200 {
			t.Fatalf("%d: %d %s", n, a.status, a.raw)
		}
	}
	if n := w.audited("oauth.client_changed"); n != 6 {
		t.Errorf("%d records of six changes", n)
	}
	for n := 6; n < 100; n++ {
		if a := rewrite(n); a.status != 200 {
			t.Fatalf("%d: %d %s", n, a.status, a.raw)
		}
	}
	if a := rewrite(100); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %s", a.status, a.raw)
	}
	if a := rewrite(99); a.status != 200 {
		t.Errorf("the metadata that are registered already: %d %s", a.status, a.raw)
	}
	w.Clock.Advance(24*time.Hour + time.Second)
	if a := rewrite(100); a.status != 200 {
		t.Errorf("a day later: %d %s", a.status, a.raw)
	}
}

// The responses of concurrent refreshes all work, such as those of a page that refreshes in parallel.
func TestConcurrentRefreshesAllSucceed(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		first := c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code"))).text("refresh_token")
		for n, a := range atOnce(20, func() answer { return c.refresh(first) }) {
			if a.status != 200 {
				t.Fatalf("%d: %d %s", n, a.status, a.raw)
			}
			if next := c.refresh(a.text("refresh_token")); next.status != 200 {
				t.Errorf("the token of answer %d: %d %s", n, next.status, next.raw)
			}
		}
		if n := w.count(`SELECT COUNT(*) FROM oauth_families`); n != 1 {
			t.Errorf("%d families", n)
		}
	})
}

// If responses are lost repeatedly, the same refresh token yields a sibling each time. Only the newest eight and those
// within the grace are kept. An older one is refused, and does not end the token family.
func TestNewestSiblingRefreshTokensRemainValid(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		first := c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code"))).text("refresh_token")
		var siblings []string
		for n := range 10 {
			w.Clock.Advance(11 * time.Second) // the grace is over
			a := c.refresh(first)
			if a.status != 200 {
				t.Fatalf("%d: %d %s", n, a.status, a.raw)
			}
			siblings = append(siblings, a.text("refresh_token"))
		}
		for n := range 1 {
			if a := c.refresh(siblings[n]); a.status != 400 || a.text("error") != "invalid_grant" {
				t.Errorf("sibling %d: %d %s", n, a.status, a.raw)
			}
		}
		for n := 1; n < 10; n++ {
			if a := c.refresh(siblings[n]); a.status != 200 {
				t.Errorf("sibling %d: %d %s", n, a.status, a.raw)
			}
		}
		if n := w.count(`SELECT COUNT(*) FROM oauth_families`); n != 1 {
			t.Errorf("%d families", n)
		}
	})
}
