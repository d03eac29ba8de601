package enduser_test

import (
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// toGitHub declares a connection to a GitHub, as the operator does for a GitHub Enterprise Server. Its word about an
// address counts for new accounts.
func (w *world) toGitHub() (conn string, g *identityprovider.GitHub) {
	w.T.Helper()
	g = identityprovider.StartGitHub()
	w.T.Cleanup(g.Close)
	return w.connection("github", &identityprovider.Provider{}, func(c *document.Connection) {
		c.Type, c.TrustsEmail = string(v1alpha1.ConnectionTypeGitHub), true
		c.Scopes, c.Client.Authentication = []string{"read:user", "user:email"}, string(v1alpha1.UpstreamAuthenticationPost)
		c.Provider = document.UpstreamProvider{
			BaseURL: g.URL, AuthorizationURL: g.URL + "/login/oauth/authorize", TokenURL: g.URL + "/login/oauth/access_token", UserinfoURL: g.URL + "/user",
		}
	}), g
}

// gitHub signs in by a connection as a user of GitHub, and returns the response to the callback.
func (b *browser) gitHub(conn string, g *identityprovider.GitHub, user identityprovider.GitHubUser) answer {
	b.w.T.Helper()
	values, err := g.Authorize(b.begin(conn, ""), user)
	b.w.Must(err)
	return b.do("GET", callback(conn, values), "", "Sec-Fetch-Site", "cross-site")
}

func verifiedAtGitHub(email string) []identityprovider.GitHubEmail {
	return []identityprovider.GitHubEmail{{Email: email, Primary: true, Verified: true}}
}

func TestRenamedGitHubUserKeepsTheAccount(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		conn, g := w.toGitHub()
		ann := identityprovider.GitHubUser{ID: 7, Login: "ann", Name: "Ann Lee", Emails: verifiedAtGitHub("ann@example.org")}
		first := w.browser()
		account := first.gitHub(conn, g, ann).user()
		if me := first.ok("GET", "/me", ""); account == "" || me["email"] != "ann@example.org" || me["first_name"] != "Ann" || me["last_name"] != "Lee" {
			t.Fatalf("the account is %v", me)
		}
		ann.Login, ann.Emails = "ann-lee", verifiedAtGitHub("lee@example.org")
		if a := w.browser().gitHub(conn, g, ann); a.user() != account {
			t.Errorf("after the change of the login: %s", a.Raw)
		}
		// Another user of GitHub takes the login that is free now.
		a := w.browser().gitHub(conn, g, identityprovider.GitHubUser{ID: 8, Login: "ann", Name: "Ann Lee", Emails: verifiedAtGitHub("eve@example.org")})
		if a.user() == "" || a.user() == account {
			t.Errorf("another user with the former login: %s", a.Raw)
		}
		a = w.browser().gitHub(conn, g, identityprovider.GitHubUser{ID: 9, Login: "ann", Emails: verifiedAtGitHub("ann@example.org")})
		if a.user() != "" || a.attempt()["current_step"] != "verify_email" {
			t.Errorf("another user with the address of the account: %s", a.Raw)
		}
	})
}

func TestOfGitHubOnlyThePrimaryVerifiedAddressCounts(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		conn, g := w.toGitHub()
		w.browser().signUp("victim@example.com")
		const victim, own = "victim@example.com", "own@example.com"
		for name, user := range map[string]identityprovider.GitHubUser{
			"the public profile":            {Email: victim},
			"a primary unverified address":  {Emails: []identityprovider.GitHubEmail{{Email: victim, Primary: true}}},
			"a secondary verified address":  {Emails: []identityprovider.GitHubEmail{{Email: victim, Verified: true}}},
			"a secondary one, and no other": {Emails: []identityprovider.GitHubEmail{{Email: own, Primary: true}, {Email: victim, Verified: true}}},
		} {
			user.ID, user.Login = 11, "eve"
			a := w.browser().gitHub(conn, g, user)
			if a.Status != 200 || a.user() != "" || a.attempt()["current_step"] != "enter_email" {
				t.Errorf("%s: %s", name, a.Raw)
			}
		}
	})
}

func TestGitHubErrorsWithStatus200AreRefused(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		conn, g := w.toGitHub()
		b := w.browser()
		values, err := g.Authorize(b.begin(conn, ""), identityprovider.GitHubUser{ID: 7, Login: "ann", Emails: verifiedAtGitHub("ann@example.org")})
		w.Must(err)
		if a := b.refused(400, "SSO_RESPONSE_INVALID", "GET", callback(conn, with(values, "code", "another")), ""); a.user() != "" {
			t.Errorf("%s", a.Raw)
		}
		if failures := w.failures(conn); len(failures) != 1 || failures[0].Reason != "token_response" || failures[0].Got != "bad_verification_code" {
			t.Errorf("%+v", failures)
		}
		if a := b.do("GET", callback(conn, values), ""); a.user() == "" {
			t.Errorf("the rightful response is refused: %s", a.Raw)
		}
	})
}
