package enduser_test

import (
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// Tenants of Microsoft, an object (user) in a tenant, and the tenant of private accounts.
const (
	acmeTenant, evilTenant = "aaaaaaaa-1111-4222-8333-444444444444", "eeeeeeee-1111-4222-8333-444444444444"
	annObject, eveObject   = "00000000-aaaa-4aaa-8aaa-000000000001", "00000000-eeee-4eee-8eee-000000000002"
	privateTenant          = "9188040d-6c67-4c5b-b112-36a304b66dad"
)

// issuerOfTenant returns Microsoft's issuer of a tenant; of "{tenantid}", that of its documents for several tenants.
func issuerOfTenant(tenant string) string {
	return "https://login.microsoftonline.com/" + tenant + "/v2.0"
}

// toMicrosoft declares a connection to Microsoft for the users of all organizations. A provider stands in: it issues
// tokens of all tenants with one key, as Microsoft does. The endpoints are declared, because the discovery document is
// on the internet.
func (w *world) toMicrosoft(slug string, p *identityprovider.Provider, change func(*document.Connection)) string {
	w.T.Helper()
	return w.connection(slug, p, func(c *document.Connection) {
		c.Type = string(v1alpha1.ConnectionTypeMicrosoft)
		c.Provider.Tenant, c.Provider.Issuer = "organizations", issuerOfTenant("{tenantid}")
		c.Provider.AuthorizationURL, c.Provider.TokenURL, c.Provider.JWKSURL = p.URL+"/authorize", p.URL+"/token", p.URL+"/jwks"
		if change != nil {
			change(c)
		}
	})
}

// ofTenant returns the claims of a user of a tenant.
func ofTenant(tenant, object, email string) identityprovider.User {
	return identityprovider.User{"iss": issuerOfTenant(tenant), "tid": tenant, "oid": object, "sub": "of-this-client-" + object, "email": email}
}

// microsoft signs in by a connection to Microsoft. The response states an issuer, "" for none.
func (b *browser) microsoft(conn string, p *identityprovider.Provider, user identityprovider.User, issuer string) answer {
	b.w.T.Helper()
	return b.do("GET", callback(conn, with(b.authorized(conn, p, user), "iss", issuer)), "", "Sec-Fetch-Site", "cross-site")
}

// needsAnAddress reports whether a response was accepted, of a user whose address no account takes over.
func (a answer) needsAnAddress() bool {
	return a.Status == 200 && a.user() == "" && a.attempt()["current_step"] == "verify_email"
}

func TestMicrosoftUsersAreOfTheTenantThatIssuedTheToken(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		p.SetKeyIssuer(issuerOfTenant("{tenantid}"))
		conn := w.toMicrosoft("microsoft", p, nil)
		single := w.toMicrosoft("acme", p, func(c *document.Connection) {
			c.Provider.Tenant, c.Provider.Issuer = acmeTenant, issuerOfTenant(acmeTenant)
		})
		listed := w.toMicrosoft("listed", p, func(c *document.Connection) { c.Provider.AllowedTenants = []string{acmeTenant} })
		ann := ofTenant(acmeTenant, annObject, "ann@acme.example")
		for _, conn := range []string{conn, single, listed} {
			for _, issuer := range []string{"", issuerOfTenant(acmeTenant)} {
				if a := w.browser().microsoft(conn, p, ann, issuer); !a.needsAnAddress() {
					t.Errorf("a user of the tenant, with iss %q: %s", issuer, a.Raw)
				}
			}
		}
		changed := func(name string, value any) identityprovider.User {
			user := ofTenant(acmeTenant, annObject, "ann@acme.example")
			if user[name] = value; value == nil {
				delete(user, name)
			}
			return user
		}
		eve := ofTenant(evilTenant, eveObject, "eve@evil.example")
		for name, try := range map[string]struct {
			conn   string
			user   identityprovider.User
			iss    string
			reason string
		}{
			"a user of another tenant":                   {single, eve, "", "tid"},
			"a user of a tenant that is not listed":      {listed, eve, "", "tid"},
			"a private account":                          {conn, ofTenant(privateTenant, eveObject, "eve@outlook.com"), "", "tid"},
			"a token of one tenant that names another":   {conn, changed("tid", evilTenant), "", "iss"},
			"a token that another tenant issued":         {conn, changed("iss", issuerOfTenant(evilTenant)), "", "iss"},
			"a tenant that is no GUID":                   {conn, changed("tid", "acme.onmicrosoft.com"), "", "tid"},
			"a tenant of a path":                         {conn, changed("tid", acmeTenant+"/../"+evilTenant), "", "tid"},
			"no tenant":                                  {conn, changed("tid", nil), "", "tid"},
			"no object":                                  {conn, changed("oid", nil), "", "sub"},
			"an object that is no GUID":                  {conn, changed("oid", "ann"), "", "sub"},
			"a response of another tenant":               {conn, ann, issuerOfTenant(evilTenant), "response_iss"},
			"a response of another tenant, to a single":  {single, ann, issuerOfTenant(evilTenant), "response_iss"},
			"a response of another server":               {conn, ann, "https://evil.example/" + acmeTenant + "/v2.0", "response_iss"},
			"a response of the placeholder of documents": {conn, ann, issuerOfTenant("{tenantid}"), "response_iss"},
		} {
			before := len(w.failures(try.conn))
			w.Clock.Advance(time.Second) // failures are listed by time
			a := w.browser().microsoft(try.conn, p, try.user, try.iss)
			if a.Status != 400 || a.code() != "SSO_RESPONSE_INVALID" || a.user() != "" {
				t.Errorf("%s: %s", name, a.Raw)
			}
			if failures := w.failures(try.conn); len(failures) != before+1 || failures[0].Reason != try.reason {
				t.Errorf("%s: want the reason %s, have %+v", name, try.reason, failures)
			}
		}
	})
}

func TestKeyOfAnotherIssuerSignsNoTokenOfMicrosoft(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		p.SetKeyIssuer(issuerOfTenant(evilTenant))
		conn := w.toMicrosoft("microsoft", p, nil)
		if a := w.browser().microsoft(conn, p, ofTenant(acmeTenant, annObject, "ann@acme.example"), ""); a.code() != "SSO_RESPONSE_INVALID" || a.user() != "" {
			t.Errorf("%s", a.Raw)
		}
		if failures := w.failures(conn); len(failures) != 1 || failures[0].Reason != "key" {
			t.Errorf("%+v", failures)
		}
		if a := w.browser().microsoft(conn, p, ofTenant(evilTenant, eveObject, "eve@evil.example"), ""); !a.needsAnAddress() {
			t.Errorf("a token of the key's own issuer: %s", a.Raw)
		}
	})
}

// The admin of any tenant can write any address into the claim email of its users.
func TestMicrosoftAddressSelectsNoAccount(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.toMicrosoft("microsoft", p, func(c *document.Connection) { c.TrustsEmail = true })
		w.browser().signUp("victim@acme.example")
		for _, word := range []any{nil, true, 1, "1", "true"} {
			eve := ofTenant(evilTenant, eveObject, "victim@acme.example")
			eve["email_verified"] = true
			if word != nil {
				eve["xms_edov"] = word
			}
			if a := w.browser().microsoft(conn, p, eve, ""); !a.needsAnAddress() {
				t.Errorf("xms_edov %v: %s", word, a.Raw)
			}
		}
		eve := ofTenant(evilTenant, eveObject, "new@acme.example")
		eve["email_verified"] = true
		if a := w.browser().microsoft(conn, p, eve, ""); !a.needsAnAddress() {
			t.Errorf("email_verified creates an account: %s", a.Raw)
		}
		// xms_edov says that the domain of the address belongs to the tenant: it verifies the address of a new account.
		ann := ofTenant(acmeTenant, annObject, "ann@acme.example")
		ann["xms_edov"] = true
		account := w.browser().microsoft(conn, p, ann, "").user()
		if account == "" {
			t.Fatal("xms_edov creates no account")
		}
		// The id of an object is one in its tenant alone.
		if a := w.browser().microsoft(conn, p, ofTenant(evilTenant, annObject, "ann@acme.example"), ""); a.user() != "" {
			t.Errorf("the object of another tenant: %s", a.Raw)
		}
	})
}
