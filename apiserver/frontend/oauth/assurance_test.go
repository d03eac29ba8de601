package oauth_test

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/totp"
)

// strong enables second factors and passkeys, after change.
func (w *world) strong(change func(*document.Assurance)) {
	w.T.Helper()
	d := w.Settings()
	d.Assurance = &document.Assurance{Passkey: true, TOTP: true, RelyingParty: "localhost", TOTPIssuer: "Acme"}
	required := "one_factor"
	if change != nil {
		change(d.Assurance)
		required = d.Assurance.Required.Effective().Level.String()
	}
	w.Declare(d)
	w.Eventually("the settings are known", func() bool {
		second := w.anonymous().ask("GET", "/auth/config", nil)["data"].(map[string]any)["second_factor"].(map[string]any)
		return second["totp"] == true && (second["required"] == required || required == "none")
	})
}

// authenticator is a user's authenticator app.
type authenticator struct {
	w      *world
	secret []byte
}

func (a authenticator) next() string {
	a.w.Clock.Advance(31 * time.Second)
	parameters := totp.Default()
	return totp.Code(parameters, a.secret, parameters.Step(a.w.Clock.Now()))
}

// addApp adds an authenticator app to the account.
func (p *person) addApp() authenticator {
	p.w.T.Helper()
	begun := p.ask("POST", "/me/second-factors/totp", map[string]any{})["data"].(map[string]any)
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(begun["secret"].(string))
	p.w.Must(err)
	a := authenticator{p.w, secret}
	p.ask("POST", fmt.Sprintf("/me/second-factors/totp/%s/confirm", begun["id"]), map[string]any{"code": a.next()})
	return a
}

// addPasskey adds a passkey that verifies its user to the account. It returns a function that shows it again.
func (p *person) addPasskey() (show func()) {
	p.w.T.Helper()
	rp := virtualwebauthn.RelyingParty{ID: "localhost", Name: "Acme", Origin: "http://localhost"}
	key, auth := frontendtest.NewCredential(), virtualwebauthn.NewAuthenticator()
	options := func(path string) (map[string]any, string) {
		data := p.ask("POST", path, map[string]any{})["data"].(map[string]any)
		raw, err := json.Marshal(map[string]any{"publicKey": data["public_key"]})
		p.w.Must(err)
		return data["public_key"].(map[string]any), string(raw)
	}
	public, raw := options("/me/passkeys/options")
	creation, err := virtualwebauthn.ParseAttestationOptions(raw)
	p.w.Must(err)
	handle, err := base64.RawURLEncoding.DecodeString(public["user"].(map[string]any)["id"].(string))
	p.w.Must(err)
	auth.Options.UserHandle = handle
	auth.AddCredential(key)
	created := virtualwebauthn.CreateAttestationResponse(rp, auth, key, *creation)
	p.ask("POST", "/me/passkeys", map[string]any{"credential": json.RawMessage(created)})
	return func() {
		p.w.T.Helper()
		_, raw := options("/session/reauthentication-options")
		assertion, err := virtualwebauthn.ParseAssertionOptions(raw)
		p.w.Must(err)
		shown := virtualwebauthn.CreateAssertionResponse(rp, auth, key, *assertion)
		p.ask("POST", "/session/reauthenticate", map[string]any{"strategy": "passkey", "credential": json.RawMessage(shown)})
	}
}

func (p *person) prove(strategy, member, value string) {
	p.w.T.Helper()
	p.ask("POST", "/session/reauthenticate", map[string]any{"strategy": strategy, member: value})
}

// stating returns the claims of a token without verifying it.
func stating(w *world, token string) (claims struct {
	ACR      string   `json:"acr"`
	AMR      []string `json:"amr"`
	AuthTime int64    `json:"auth_time"`
}) {
	w.T.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	w.Must(err)
	w.Must(json.Unmarshal(raw, &claims))
	return claims
}

// adding adds parameters to a request.
func adding(request url.Values, pairs ...string) url.Values {
	for ; len(pairs) > 1; pairs = pairs[2:] {
		request.Set(pairs[0], pairs[1])
	}
	return request
}

// next returns the next step of a new authorization request, without a decision.
func (p *person) next(request url.Values) map[string]any {
	p.w.T.Helper()
	page := p.authorize(request)
	read := p.ask("GET", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), nil)["data"].(map[string]any)
	answer := p.decide(page, map[string]any{"decision": "continue"})
	if answer["step"] == "answer" {
		p.w.T.Errorf("%v was answered without the user", request)
	}
	for _, member := range []string{"step", "required_assurance", "strategies", "enroll"} {
		if fmt.Sprint(read[member]) != fmt.Sprint(answer[member]) {
			p.w.T.Errorf("%s: %v when read, %v when continued", member, read[member], answer[member])
		}
	}
	return answer
}

// tokens runs an authorization and redeems its code.
func (p *person) tokens(c *client, request url.Values) answer {
	p.w.T.Helper()
	a := c.post("/token", redeem(p.allow(request).Get("code")))
	if a.status != 200 {
		p.w.T.Fatalf("%v: %s", request, a.raw)
	}
	return a
}

func TestRequestedLevelIsProvenBeforeTheDecision(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.strong(nil)
		c := w.web("reports", nil)
		p := w.signUp("ada@example.com")
		expect := func(what string, got map[string]any, step, required string, ways ...string) {
			t.Helper()
			list := "strategies"
			if step == "enroll" {
				list = "enroll"
			}
			if got["step"] != step || fmt.Sprint(got["required_assurance"]) != required || fmt.Sprint(got[list]) != fmt.Sprint(ways) {
				t.Errorf("%s: %v", what, got)
			}
		}
		request := func(pairs ...string) url.Values { return adding(c.request("openid jobs:read"), pairs...) }

		expect("two factors without one", p.next(request("acr_values", "2")), "enroll", "two_factors", "passkey", "totp")
		expect("a passkey without one", p.next(request("acr_values", "phr")), "enroll", "phishing_resistant", "passkey")
		expect("an unknown value", p.next(request("acr_values", "gold 3")), "decide", "<nil>")
		expect("one of two values", p.next(request("acr_values", "phr 1")), "decide", "<nil>")
		if got := stating(w, p.tokens(c, request("acr_values", "gold")).text("id_token")); got.ACR != "1" || !slices.Equal(got.AMR, []string{"otp"}) {
			t.Errorf("after the sign-up: %+v", got)
		}

		w.Clock.Advance(time.Second)

		a := p.addApp()
		added := w.Clock.Now()
		for asked, want := range map[string]string{"2": "2", "1": "1", "phr 2": "2", "": "2", "http://schemas.openid.net/pape/policies/2007/06/multi-factor": "http://schemas.openid.net/pape/policies/2007/06/multi-factor"} {
			granted := p.tokens(c, request("acr_values", asked))
			for _, token := range []string{"id_token", "access_token"} {
				got := stating(w, granted.text(token))
				if got.ACR != want || !slices.Equal(got.AMR, []string{"mfa", "otp"}) || got.AuthTime != added.Unix() {
					t.Errorf("asked for %q: the %s states %+v", asked, token, got)
				}
			}
			seen := c.post("/introspect", url.Values{"token": {granted.text("access_token")}})
			if seen.text("acr") != want || fmt.Sprint(seen.body["amr"]) != "[mfa otp]" || seen.body["auth_time"] != float64(added.Unix()) {
				t.Errorf("asked for %q: introspected as %s", asked, seen.raw)
			}
		}
		w.Clock.Advance(time.Hour)
		expect("an old proof of two factors", p.next(request("acr_values", "2", "max_age", "300")), "reauthenticate", "<nil>")
		p.prove("totp", "code", a.next())
		expect("a recent one", p.next(request("acr_values", "2", "max_age", "300", "prompt", "consent")), "decide", "<nil>")
		w.Clock.Advance(time.Second)
		expect("a login is asked for", p.next(request("acr_values", "2", "prompt", "login")), "reauthenticate", "<nil>")

		show := p.addPasskey()
		if got := stating(w, p.tokens(c, request("acr_values", "phr")).text("id_token")); got.ACR != "phr" || !slices.Equal(got.AMR, []string{"mfa", "otp", "pop", "user"}) {
			t.Errorf("after the passkey was added: %+v", got)
		}
		proven := w.Clock.Now()
		w.Clock.Advance(time.Hour)
		p.prove("totp", "code", a.next())
		if got := stating(w, p.tokens(c, request("acr_values", "phr")).text("id_token")); got.ACR != "phr" || got.AuthTime != proven.Unix() {
			t.Errorf("the newest proof of the level is the passkey's: %+v", got)
		}
		if got := stating(w, p.tokens(c, request("max_age", "300")).text("id_token")); got.ACR != "2" || got.AuthTime != w.Clock.Now().Unix() {
			t.Errorf("what was proven within the age: %+v", got)
		}
		expect("an old proof by passkey", p.next(request("acr_values", "phr", "max_age", "300")), "step_up", "phishing_resistant", "passkey")
		page := p.authorize(request("acr_values", "phr", "max_age", "300"))
		if status, _, raw := p.send("POST", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), map[string]any{"decision": "allow"}); status != 403 || !strings.Contains(string(raw), "STEP_UP_REQUIRED") {
			t.Errorf("allowed before the proof: %d %s", status, raw)
		}
		show()
		if got := p.decide(page, map[string]any{"decision": "allow"}); got["redirect_to"] == nil {
			t.Errorf("allowed after the proof: %v", got)
		}
	})
}

func TestClientRequirementAppliesWhateverItAsks(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.strong(nil)
		age := int64(600)
		c := w.web("payroll", func(c *document.OAuthClient) {
			c.Assurance, c.SkipsConsent = &document.ClientAssurance{Level: "two_factors", MaxAgeSeconds: &age}, true
			c.GrantTypes = append(c.GrantTypes, string(v1alpha1.GrantTypeDeviceCode))
		})
		p := w.signUp("ada@example.com")
		none := func() string {
			to, err := url.Parse(fmt.Sprint(p.decide(p.authorize(adding(c.request("openid"), "prompt", "none", "acr_values", "1")), map[string]any{"decision": "continue"})["redirect_to"]))
			w.Must(err)
			return to.Query().Get("error")
		}
		if got := p.next(adding(c.request("openid"), "acr_values", "1")); got["step"] != "enroll" {
			t.Errorf("without a factor: %v", got)
		}
		if got := none(); got != "interaction_required" {
			t.Errorf("prompt=none of a user without a factor: %s", got)
		}
		denied := p.decide(p.authorize(c.request("openid")), map[string]any{"decision": "deny"})
		if to := fmt.Sprint(denied["redirect_to"]); !strings.Contains(to, "error=unmet_authentication_requirements") {
			t.Errorf("a user who adds no factor: %s", to)
		}
		a := p.addApp()
		if got := p.decide(p.authorize(adding(c.request("openid"), "acr_values", "1")), map[string]any{"decision": "continue"}); got["step"] != "answer" {
			t.Errorf("with the factor: %v", got)
		}
		w.Clock.Advance(20 * time.Minute)
		if got := p.next(c.request("openid")); got["step"] != "reauthenticate" {
			t.Errorf("with an old proof: %v", got)
		}
		if got := none(); got != "login_required" {
			t.Errorf("prompt=none with an old proof: %s", got)
		}
		p.prove("totp", "code", a.next())

		// The device's browser decides at what level, and never the device.
		begun := c.post("/device_authorization", url.Values{"scope": {"openid"}, "acr_values": {"phr"}})
		handle := p.ask("POST", "/session/devices", map[string]any{"user_code": begun.text("user_code")})["data"].(map[string]any)["request"].(string)
		page := &url.URL{Path: "/authorize/" + handle}
		if got := p.decide(page, map[string]any{"decision": "continue"}); got["step"] != "enroll" || got["required_assurance"] != "phishing_resistant" {
			t.Errorf("a device that asks for a passkey: %v", got)
		}
		p.addPasskey()
		p.decide(page, map[string]any{"decision": "allow"})
		granted := c.post("/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {begun.text("device_code")}})
		if got := stating(w, granted.text("id_token")); got.ACR != "phr" {
			t.Errorf("the device's tokens state %+v", got)
		}
	})
}

func TestWithheldOrganizationIsGrantedAfterTheProof(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.strong(nil)
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		own := p.ask("POST", "/organizations", map[string]any{"name": "Own"})["data"].(map[string]any)["organization"].(map[string]any)["id"].(string)
		choose := map[string]any{"decision": "allow", "organization_id": own}
		request := func(pairs ...string) url.Values { return adding(c.request("openid orders:read"), pairs...) }
		p.decide(p.authorize(request()), choose) // a grant to remember
		w.DeclareB2B(document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5, OwnerAssurance: &document.Requirement{Level: "two_factors"}})
		places := func() (string, any) {
			page := p.authorize(request())
			read := p.ask("GET", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), nil)["data"].(map[string]any)
			return fmt.Sprint(read["places"].([]any)[0].(map[string]any)["missing"]), read["step"]
		}
		w.Eventually("the organization is withheld", func() bool { missing, _ := places(); return missing == "[assurance]" })
		if _, step := places(); step != "decide" {
			t.Errorf("the remembered grant is answered: %v", step)
		}
		page := p.authorize(request())
		status, _, raw := p.send("POST", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), choose)
		if status != 403 || !strings.Contains(string(raw), "ENROLLMENT_REQUIRED") {
			t.Errorf("chosen without a factor: %d %s", status, raw)
		}
		silent := p.decide(p.authorize(request("prompt", "none")), map[string]any{"decision": "continue"})
		if to := fmt.Sprint(silent["redirect_to"]); !strings.Contains(to, "error=interaction_required") {
			t.Errorf("prompt=none: %s", to)
		}
		p.addApp()
		if got := p.decide(page, choose); got["redirect_to"] == nil {
			t.Errorf("the request did not wait for the proof: %v", got)
		}
		if got := p.decide(p.authorize(request("prompt", "none")), map[string]any{"decision": "continue"}); got["step"] != "answer" {
			t.Errorf("the remembered grant after the proof: %v", got)
		}
	})
}

func TestTightenedPolicySuspendsTokensUntilItIsLifted(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.strong(nil)
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		strongest := w.signUp("grace@example.com")
		strongest.addPasskey()
		weak, held := p.tokens(c, c.request("openid jobs:read")), strongest.tokens(c, adding(c.request("openid"), "acr_values", "1"))
		refresh := func(of answer) answer {
			return c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {of.text("refresh_token")}})
		}
		active := func(token string) any { return c.post("/introspect", url.Values{"token": {token}}).body["active"] }
		w.strong(func(a *document.Assurance) { a.Required = &document.Requirement{Level: "two_factors"} })
		if a := refresh(weak); a.text("error") != "invalid_grant" || a.text("acr_values") != "2" {
			t.Errorf("refreshed below the requirement: %s", a.raw)
		}
		for _, token := range []string{"access_token", "refresh_token"} {
			if active(weak.text(token)) != false {
				t.Errorf("the %s below the requirement is active", token)
			}
		}
		if active(held.text("access_token")) != true { // it states 1, as was asked for, and the passkey was shown
			t.Error("the token of a user who showed a passkey is not active")
		}
		if a := refresh(held); a.status != 200 || stating(w, a.text("id_token")).ACR != "1" {
			t.Errorf("a family above the requirement: %s", a.raw)
		}
		w.strong(nil)
		if active(weak.text("access_token")) != true {
			t.Error("the token stays inactive after the requirement was lifted")
		}
		if a := refresh(weak); a.status != 200 {
			t.Errorf("the same refresh token after the requirement was lifted: %s", a.raw)
		}
	})
}

// An account's own second step leaves the apps connected that it connected before.
func TestOwnSecondStepLeavesConnectedAppsAlone(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.strong(nil)
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		before := p.tokens(c, c.request("openid"))
		p.addApp()
		if a := c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {before.text("refresh_token")}}); a.status != 200 || stating(w, a.text("id_token")).ACR != "1" {
			t.Errorf("the app connected before: %s", a.raw)
		}
	})
}
