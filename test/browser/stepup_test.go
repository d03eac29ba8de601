package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// The factors that a person can have in these tests.
const (
	noFactor = ""
	anApp    = "app"
	aPasskey = "passkey"
)

// belongs makes the person an owner of two organizations, First and Second. The second one requires a level.
func (v *person) belongs(w *frontendtest.World, level assurance.Level) {
	v.t.Helper()
	user, err := ids.Parse(eval[string](v.tab, `document.querySelector("input[name=form_user]").value`))
	w.Must(err)
	w.Must(w.Store.Change(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		for n, name := range []string{"First", "Second"} {
			o := people.Organization{ID: int64(1001 + n), Name: name, Slug: strings.ToLower(name), CreatedAt: w.Clock.Now()}
			if err := tx.Organizations().InsertOrganization(o); err != nil {
				return err
			}
			if name == "Second" {
				o.Required.Level = level
			}
			if err := tx.Organizations().UpdateOrganization(o); err != nil {
				return err
			}
			if err := tx.Organizations().InsertMember(people.Member{ID: o.ID, User: user, Organization: o, Owner: true, CreatedAt: o.CreatedAt}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// adds adds a factor to the account. The second step stays off, so that a password is enough to sign in.
func (v *person) adds(w *frontendtest.World, factor string) (a authenticatorApp) {
	v.t.Helper()
	switch factor {
	case anApp:
		v.goes("/account/security/totp")
		a = v.addsApp(w)
		v.presses(v.says("codes.kept"))
		v.reaches(v.says("security.title"))
		v.presses(v.says("security.turn_off"))
		v.sees(v.says("notice.two_step_off"))
	case aPasskey:
		v.device()
		v.opens("/account/security/passkey", "newpasskey.title")
		v.createsPasskey()
	}
	return a
}

// createsPasskey adds a passkey on the page for that.
func (v *person) createsPasskey() {
	v.t.Helper()
	v.presses(v.says("newpasskey.create"))
	v.until(`location.pathname !== "/account/security/passkey" && document.readyState === "complete"`)
}

// returns signs out, and in with the password only.
func (v *person) returns() {
	v.t.Helper()
	v.withoutAutofill()
	v.signsOut()
	v.entersPassword()
	v.reaches(v.says("account.title"))
	v.holds("one_factor")
}

// proves shows a factor, or adds one if the account has none, on the pages to which something that needs more led.
func (v *person) proves(w *frontendtest.World, has string, a authenticatorApp, adds string) {
	v.t.Helper()
	switch has {
	case anApp:
		v.at(v.says("reauthenticate.title"), "step-up-app")
		v.types(v.says("field.code"), a.next())
		v.presses(v.says("code.confirm"))
		return
	case aPasskey:
		v.at(v.says("reauthenticate.title"), "step-up-passkey")
		v.presses(v.says("passkey.use"))
		return
	}
	v.at(v.says("required.title"), "step-up-required")
	if adds == aPasskey {
		v.presses(v.says("security.add_passkey"))
		v.reaches(v.says("newpasskey.title"))
		v.createsPasskey()
		return
	}
	v.presses(v.says("security.add_app"))
	v.addsApp(w)
	v.presses(v.says("codes.kept"))
}

// A user switches to an organization that requires more of a sign-in: after showing or adding a factor, the user is
// back on the page and switches. Until then, the place is unchanged.
func TestSwitchToAnOrganizationThatRequiresMore(t *testing.T) {
	for n, tt := range []struct {
		name, language string
		scripts        bool
		level          assurance.Level
		has, adds      string
		// from is the page on which the user switches.
		from string
	}{
		{"an app", "en", true, assurance.TwoFactors, anApp, "", "/organizations"},
		{"an app, without scripts", "de", false, assurance.TwoFactors, anApp, "", "/organizations/second"},
		{"a passkey as second factor", "de", true, assurance.TwoFactors, aPasskey, "", "/organizations/second"},
		{"a passkey, which is required", "en", true, assurance.PhishingResistant, aPasskey, "", "/organizations"},
		{"an app that is added, without scripts", "en", false, assurance.TwoFactors, noFactor, anApp, "/organizations"},
		{"a passkey that is added", "de", true, assurance.PhishingResistant, noFactor, aPasskey, "/organizations/second"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, strong)
			v := arrivesReading(t, tt.language, localhost(w.Server), w, everyLook[n%len(everyLook)], tt.scripts)
			if tt.adds == aPasskey {
				v.device()
			}
			v.becomesUser("ada@example.com")
			v.belongs(w, tt.level)
			a := v.adds(w, tt.has)
			if tt.has != noFactor {
				w.Clock.Advance(time.Minute)
				v.returns()
			}
			v.opens("/organizations", "organizations.title")
			v.presses(v.says("organizations.switch_to", "name", "First"))
			v.sees(v.says("notice.switched"))

			v.opensSwitch(tt.from)
			v.proves(w, tt.has, a, tt.adds)
			v.until(`location.pathname === ` + quoted(tt.from) + ` && document.readyState === "complete"`)
			v.isIn("First")
			v.switchesThere(tt.from)
			v.sees(v.says("notice.switched"))
			v.isIn("Second")
		})
	}
}

// opensSwitch tries to switch to Second on a page. The page of the organization itself opens only after the proof.
func (v *person) opensSwitch(from string) {
	v.t.Helper()
	v.goes(from)
	if from == "/organizations" {
		v.reaches(v.says("organizations.title"))
		v.switchesThere(from)
	}
}

// switchesThere presses the button that switches to Second.
func (v *person) switchesThere(from string) {
	v.t.Helper()
	if from == "/organizations" {
		v.presses(v.says("organizations.switch_to", "name", "Second"))
		return
	}
	v.reaches("Second")
	v.presses(v.says("organization.switch"))
}

// isIn fails the test if an organization is not the active one. The page on which the person is stays open.
func (v *person) isIn(name string) {
	v.t.Helper()
	here := eval[string](v.tab, `location.pathname`)
	v.opens("/organizations", "organizations.title")
	if got := eval[string](v.tab, `document.querySelector(".rows .tag")?.closest("li").querySelector("a").innerText.trim() ?? ""`); got != name {
		v.t.Errorf("the active organization is %q, want %s", got, name)
	}
	v.goes(here)
	v.whole()
}
