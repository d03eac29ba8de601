package browser

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// oauthWorld is a deployment whose users receive authorization requests of third-party applications.
type oauthWorld struct {
	*frontendtest.World
	app document.OAuthApp
}

// authorizing returns an oauthWorld; change, if not nil, may change the deployment before it is declared.
func authorizing(t testing.TB, change func(*document.Deployment)) *oauthWorld {
	t.Helper()
	w := &oauthWorld{World: frontendtest.New(t, change)}
	w.app = w.DeclareOAuthApp(localhost(w.Server))
	w.app.AllowDynamicClientRegistration = true
	w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", w.app)
	w.DeclareOAuthScope("jobs", document.OAuthScope{Scope: "jobs:run", DisplayName: "Run jobs", Description: "Begin them, and see how they end."})
	w.orders("Read orders")
	return w
}

// orders declares the scope of an organization's orders with a display name.
func (w *oauthWorld) orders(name string) {
	w.DeclareOAuthScope("orders", document.OAuthScope{
		Scope: "orders:read", DisplayName: name, Description: "Those of the whole organization.", Category: "organization", OrganizationPermission: "billing:read",
	})
}

// party declares a client with a secret, unless change makes it a public client, and serves the application.
func (w *oauthWorld) party(name string, change func(*document.OAuthClient)) *party {
	w.T.Helper()
	minted, err := apikey.Mint(rand.Reader, "cs")
	w.Must(err)
	content := document.OAuthClient{
		App: "portal", Name: name, Authentication: string(v1alpha1.ClientAuthenticationSecretBasic), RedirectURIs: []string{"http://127.0.0.1/callback"},
		GrantTypes: []string{string(v1alpha1.GrantTypeAuthorizationCode), string(v1alpha1.GrantTypeRefreshToken)}, Active: true,
		Verifiers:          []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Last4()}},
		AccessTokenSeconds: 600, RefreshTokenSeconds: 2592000, RefreshIdleSeconds: 604800,
	}
	secret := minted.Plain()
	if change != nil {
		change(&content)
	}
	if content.Authentication == string(v1alpha1.ClientAuthenticationNone) {
		content.Verifiers, secret = nil, ""
	}
	id := ids.Format(w.Put(v1alpha1.KindOAuthClient, strings.ToLower(strings.ReplaceAll(name, " ", "-")), frontendtest.Deployment, "", content))
	w.Eventually("the client is known", func() bool {
		answer, err := http.PostForm(w.app.Issuer+"/token", url.Values{"client_id": {id}, "client_secret": {minted.Plain()}, "grant_type": {"x"}})
		w.Must(err)
		defer answer.Body.Close() //nolint:errcheck // read to the end
		var said struct{ Error string }
		return json.NewDecoder(answer.Body).Decode(&said) == nil && (said.Error == "unsupported_grant_type" || secret == "" && said.Error != "invalid_client")
	})
	return newParty(w.T, name, w.app.Issuer, id, secret, w.Clock.Now)
}

// organize makes a user the owner of two organizations, and a member of a third without any role.
func (w *oauthWorld) organize(subject string) {
	w.T.Helper()
	user, err := ids.Parse(subject)
	w.Must(err)
	w.Must(w.Store.Change(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		for n, name := range []string{"First", "Second", "Third"} {
			id := int64(1001 + n)
			o := people.Organization{ID: id, Name: name, Slug: strings.ToLower(name), CreatedAt: w.Clock.Now().Add(time.Duration(n) * time.Millisecond)}
			if err := tx.Organizations().InsertOrganization(o); err != nil {
				return err
			}
			if err := tx.Organizations().InsertMember(people.Member{ID: id, User: user, Organization: o, Owner: name != "Third", CreatedAt: o.CreatedAt}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// everyLook are the sizes and color schemes in which the grant pages are checked.
var everyLook = []look{{360, false}, {360, true}, {1280, true}, {1280, false}}

// beholds waits for a page, checks it in every look, and keeps pictures of it.
func (v *person) beholds(heading, name string) {
	v.t.Helper()
	v.reaches(heading)
	if weight := eval[int](v.tab, `performance.getEntries().reduce((sum, e) => sum + (e.encodedBodySize ?? 0), 0)`); weight == 0 || weight > 60<<10 {
		v.t.Errorf("%s weighs %d bytes", name, weight)
	}
	if !v.scripts {
		v.expectNarrow(name)
		return
	}
	for _, l := range everyLook {
		v.wears(l)
		v.expectNarrow(name)
		v.picture("pages-" + name + "-" + l.String())
		if l.dark == (l.width > 360) { // both schemes and both widths
			v.expectAccessible(name + " at " + l.String())
		}
	}
}

// reaches waits for a page with a heading.
func (v *person) reaches(heading string) {
	v.t.Helper()
	v.until(`document.readyState === "complete" && document.querySelector("h1")?.innerText.replace(/\s+/g, " ").startsWith(` + quoted(heading) + `)`)
}

// asks has a party request scopes, through the link on the party's own page.
func (v *person) asks(p *party, scope string, pairs ...string) {
	v.t.Helper()
	v.run(chromedp.Navigate(p.link(scope, pairs...)))
	v.reaches(p.name)
	v.presses("Sign in with Acme")
}

// isBack waits for the party's page after its nth sign-in, with the user's email and organization.
func (v *person) isBack(p *party, email, organization string) {
	v.t.Helper()
	v.reaches("Signed in to " + p.name)
	v.sees(email + ", " + organization + ", time " + strconv.Itoa(p.times()))
}

// joins creates an account, starting from the sign-in page.
func (v *person) joins(email string) {
	v.t.Helper()
	v.reaches("Sign in to Acme")
	v.presses("Create an account")
	v.reaches("Create your Acme account")
	v.types("Email address", email)
	v.types("Password", passphrase)
	v.keys(kb.Enter)
	v.reaches("Check your email")
	v.types("Code", v.mail.CodeFor(email, 1))
	v.keys(kb.Enter)
}

// Users grant third-party applications access by keyboard, with and without scripts, from the first sign-up to the last
// revoked grant. Every response is a redirect to another origin after a form, which a browser follows only if the
// page's policy allows it.
func TestUsersGrantAppsAccess(t *testing.T) {
	t.Parallel()
	for _, scripts := range []bool{true, false} {
		t.Run("scripts "+strconv.FormatBool(scripts), func(t *testing.T) {
			t.Parallel()
			w := authorizing(t, nil)
			reports := w.party("Reports", func(c *document.OAuthClient) {
				c.PolicyURI, c.TOSURI = "https://reports.example/privacy", "https://reports.example/terms"
				c.PostLogoutURIs = []string{"http://127.0.0.1/bye"}
			})
			v := arrives(t, w.World, look{width: 360}, scripts)
			v.signsUpOnTheWay(reports)
			w.organize(reports.who(1).Subject)
			v.choosesWhere(reports)
			v.isAskedInTheWordsOfNow(w, reports)
			v.isNotAskedWhereNothingIsLeft(w, reports)
			v.decidesAsAnotherAccount(reports)
			v.connectsADevice(w)
			v.takesAccessBack(reports)
			v.signsOutAt(reports)
		})
	}
}

func (v *person) signsUpOnTheWay(p *party) {
	v.t.Helper()
	v.email = "ada@example.com"
	v.asks(p, "openid email offline_access jobs:run")
	v.joins(v.email)
	v.beholds(p.name+" would like access", "consent")
	for _, what := range []string{"Run jobs", "Begin them, and see how they end.", "Keep access while you are not signed in", v.email, "127.0.0.1"} {
		v.sees(what)
	}
	v.presses("Allow")
	v.isBack(p, v.email, "")
}

func (v *person) choosesWhere(p *party) {
	v.t.Helper()
	v.asks(p, "openid email orders:read")
	v.beholds(p.name+" would like access", "consent-organization")
	v.sees("Third: you may not do this there yourself: Read orders")
	v.tabTo("First")
	v.keys(kb.ArrowDown)
	v.presses("Allow")
	v.isBack(p, v.email, "second")
}

// isAskedInTheWordsOfNow renames a scope while its page is open.
func (v *person) isAskedInTheWordsOfNow(w *oauthWorld, p *party) {
	v.t.Helper()
	v.asks(p, "openid email orders:read", "prompt", "consent")
	v.reaches(p.name + " would like access")
	v.sees("Read orders")
	v.until(`document.querySelector("input[name=place]:checked")?.closest("label").innerText.trim() === "Second"`) // as chosen before
	w.orders("See what is ordered")
	w.Eventually("the page says what the scope is called now", func() bool {
		v.run(chromedp.Reload())
		v.reaches(p.name + " would like access")
		return v.shows("See what is ordered")
	})
	v.presses("Refuse")
	v.reaches("Refused: access_denied")
}

func (v *person) isNotAskedWhereNothingIsLeft(w *oauthWorld, p *party) {
	v.t.Helper()
	v.asks(p, "openid email jobs:run")
	v.isBack(p, v.email, "")
	v.asks(p, "openid email orders:read", "prompt", "none")
	v.isBack(p, v.email, "second")
	v.asks(p, "openid phone", "prompt", "none")
	v.reaches("Refused: consent_required")
	own := w.party("Our own app", func(c *document.OAuthClient) { c.SkipsConsent = true })
	v.asks(own, "openid email jobs:run")
	v.isBack(own, v.email, "")
	stranger := arrives(v.t, w.World, look{width: 360}, v.scripts)
	stranger.asks(p, "openid", "prompt", "none")
	stranger.reaches("Refused: login_required")
	// After these forms the browser goes to the app at once.
	stranger.asks(p, "openid email jobs:run", "login_hint", v.email)
	stranger.reaches("Sign in to Acme")
	stranger.presses("Continue") // the app sent the address as login_hint
	stranger.reaches("Enter your password")
	stranger.types("Password", passphrase)
	stranger.keys(kb.Enter)
	stranger.isBack(p, v.email, "")
	w.Clock.Advance(time.Second)
	stranger.asks(p, "openid email jobs:run", "prompt", "login")
	stranger.reaches("Is it you?")
	stranger.types("Password", passphrase)
	stranger.keys(kb.Enter)
	stranger.isBack(p, v.email, "")
}

func (v *person) decidesAsAnotherAccount(p *party) {
	v.t.Helper()
	v.asks(p, "openid email", "prompt", "select_account")
	v.reaches(p.name + " would like access")
	v.presses("Use another account")
	v.joins("bob@example.com")
	v.beholds(p.name+" would like access", "consent-accounts")
	v.sees("bob@example.com")
	v.presses("Switch to " + v.email)
	v.until(`document.querySelector(".lead")?.innerText.includes(` + quoted(v.email) + `)`)
	v.presses("Allow")
	v.isBack(p, v.email, "")
}

func (v *person) takesAccessBack(p *party) {
	v.t.Helper()
	v.goes("/account/apps")
	v.beholds("Apps with access", "apps")
	for _, what := range []string{p.name, "Run jobs", "See what is ordered", "Second"} {
		v.sees(what)
	}
	v.presses("Remove the access of " + p.name)
	v.sees("The access was removed.")
	p.expectOver(1)
	p.refreshes(2) // the grant in an organization is a separate grant
	v.presses("Remove the access of " + p.name + " in Second")
	v.until(`![...document.querySelectorAll("button")].some((b) => b.ariaLabel?.endsWith(" in Second"))`)
	p.expectOver(2)
	v.sees("The access was removed.")
}

// signsOutAt has the party sign a user out by a link without an ID token, so the user has to confirm.
func (v *person) signsOutAt(p *party) {
	v.t.Helper()
	var issuer struct {
		Logout string `json:"end_session_endpoint"`
	}
	if err := p.provider.Claims(&issuer); err != nil {
		v.t.Fatal(err)
	}
	v.run(chromedp.Navigate(issuer.Logout + "?" + url.Values{"client_id": {p.config.ClientID}, "post_logout_redirect_uri": {p.server.URL + "/bye"}}.Encode()))
	v.reaches("Sign out?")
	v.presses("Sign out of all accounts")
	v.reaches("Signed out of " + p.name)
}

// connectsADevice authorizes a terminal without a browser.
func (v *person) connectsADevice(w *oauthWorld) {
	v.t.Helper()
	terminal := w.party("Terminal", func(c *document.OAuthClient) {
		c.Authentication, c.RedirectURIs = string(v1alpha1.ClientAuthenticationNone), nil
		c.GrantTypes = []string{string(v1alpha1.GrantTypeDeviceCode), string(v1alpha1.GrantTypeRefreshToken)}
	})
	late := terminal.begins(w)
	w.Clock.Advance(11 * time.Minute)
	waiting := terminal.begins(w)
	if got := terminal.polls(w, waiting); got != "authorization_pending" {
		v.t.Errorf("polling before the decision returns %q, want authorization_pending", got)
	}
	v.goes("/device")
	v.beholds("Connect a device", "device")
	for _, wrong := range []string{"BBBB-BBBB", late.UserCode} {
		v.types("Code", wrong)
		v.keys(kb.Enter)
		v.sees("No device waits under this code")
		v.goes("/device")
		v.reaches("Connect a device")
	}
	v.types("Code", "BBBB-BBBB")
	v.keys(kb.Enter)
	v.sees("No device waits under this code")
	v.beholds("Connect a device", "device-refused")
	v.goes("/device?user_code=" + waiting.UserCode)
	v.reaches("Connect a device")
	v.types("Code", "") // the link has filled in the code
	v.keys(kb.Enter)
	v.beholds("Terminal would like access", "device-consent")
	v.sees("The device that shows the code will have this access")
	v.presses("Allow")
	v.beholds("Connect a device", "device-granted")
	v.sees("Your device is connected")
	if got := terminal.polls(w, waiting); got != "" {
		v.t.Errorf("polling after the user allowed the request returns error %q", got)
	}
}

// waitingDevice is the response that a device gets for its authorization request.
type waitingDevice struct {
	DeviceCode string `json:"device_code"`
	UserCode   string `json:"user_code"`
}

func (p *party) begins(w *oauthWorld) (told waitingDevice) {
	p.t.Helper()
	answer, err := p.post(w.app.Issuer+"/device_authorization", url.Values{"scope": {"openid jobs:run"}})
	w.Must(err)
	defer answer.Body.Close() //nolint:errcheck // read to the end
	w.Must(json.NewDecoder(answer.Body).Decode(&told))
	return told
}

// polls requests the tokens of a device, and returns the error code, "" on success.
func (p *party) polls(w *oauthWorld, device waitingDevice) string {
	p.t.Helper()
	w.Clock.Advance(10 * time.Second)
	answer, err := p.post(w.app.Issuer+"/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {device.DeviceCode}})
	w.Must(err)
	defer answer.Body.Close() //nolint:errcheck // read to the end
	var told struct {
		Error string
		Token string `json:"access_token"`
	}
	w.Must(json.NewDecoder(answer.Body).Decode(&told))
	if told.Error == "" && told.Token == "" {
		p.t.Error("neither a token nor a reason")
	}
	return told.Error
}
