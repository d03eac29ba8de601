package oauth_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

// refusals returns the audited refusals as "actor action object", oldest first.
func (w *world) refusals() (rows []string) {
	w.T.Helper()
	db := w.Open()
	defer db.Close() //nolint:errcheck // only read
	found, err := db.QueryContext(w.T.Context(), "SELECT actor, action, object FROM audit WHERE action LIKE 'oauth.refused%' ORDER BY id")
	w.Must(err)
	defer found.Close() //nolint:errcheck // read whole
	for found.Next() {
		var actor, action, object string
		w.Must(found.Scan(&actor, &action, &object))
		rows = append(rows, actor+" "+action+" "+object)
	}
	w.Must(found.Err())
	return rows
}

// recorded returns the one audit record that a request caused.
func (w *world) recorded(request func()) string {
	w.T.Helper()
	before := len(w.refusals())
	w.Clock.Advance(2 * time.Minute) // the bounds start again, and ids increase
	request()
	rows := w.refusals()[before:]
	if len(rows) > 1 {
		w.T.Errorf("the audit has %d rows of one refusal: %v", len(rows), rows)
	}
	return strings.Join(rows, "")
}

// A deleted registration leaves its place free, and registration needs no account.
func TestAuditedRegistrationsAreBoundedPerDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	rows := func() int {
		return w.count("SELECT count(*) FROM audit WHERE action LIKE 'oauth.client_%' OR action LIKE 'oauth.registrations%'")
	}
	round := func(from string, change bool) {
		send := func(method, path, token string, body any) answer { return w.askFrom(from, method, path, token, body) }
		made := send("POST", "/register", "", map[string]any{"redirect_uris": []string{callback}})
		if made.status != 201 {
			t.Fatalf("%d %s", made.status, made.raw)
		}
		path, token := "/register/"+made.text("client_id"), made.text("registration_access_token")
		if change {
			if a := send("PUT", path, token, map[string]any{"redirect_uris": []string{callback}, "client_name": "Other"}); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.raw)
			}
		}
		if a := send("DELETE", path, token, nil); a.status != 204 {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	for n := range 300 {
		round(fmt.Sprintf("203.0.113.%d", n%250), n%2 == 0)
	}
	if got := rows(); got != 501 {
		t.Errorf("%d rows of one network, want 500 and one that says so", got)
	}
	round("198.51.100.1", false)
	if got := rows(); got != 503 {
		t.Errorf("%d rows: the registrations of another network are not audited", got)
	}
	w.Clock.Advance(24*time.Hour + time.Second)
	round("203.0.113.1", false)
	if got := rows(); got != 505 {
		t.Errorf("%d rows a day later", got)
	}
}

func TestRefusalsOfKnownClientsAreAudited(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.openToAll()
		c, other, p := w.web("reports", nil), w.web("other", nil), w.signUp("ada@example.com")
		local := w.declarePublic("terminal", "http://127.0.0.1/callback")
		off := w.web("off", func(d *document.OAuthClient) { d.Active = false })
		wrong := &client{w: w, id: c.id, secret: c.secret[:len(c.secret)-4] + "AAAA"}
		anonymous, own := "anonymous oauth.refused.", "oauth_client:"+c.id+" oauth.refused."
		code := func() string { return p.allow(c.request("jobs:read")).Get("code") }
		form := func(path string, by *client, form url.Values) func() {
			return func() {
				if a := by.post(path, form); a.status < 400 {
					t.Errorf("%s: %d", path, a.status)
				}
			}
		}
		ask := func(change func(url.Values)) func() {
			return func() {
				query := c.request("jobs:read")
				change(query)
				p.send("GET", "/oauth/portal/authorize?"+query.Encode(), nil)
			}
		}
		registered := w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{"https://app.example/cb"}, "client_name": "App"})
		managed := func(token string) func() {
			return func() { w.ask("GET", "/register/"+registered.text("client_id"), token, nil) }
		}
		stolen := redeem(code())
		stolen.Set("code_verifier", strings.Repeat("a", 43))
		for _, tt := range []struct {
			what    string
			request func()
			want    string // the beginning of the row, "" if none is written
		}{
			{"a wrong secret", form("/token", wrong, url.Values{"grant_type": {"client_credentials"}}), anonymous + "invalid_client: "},
			{"a client out of use", form("/token", off, url.Values{"grant_type": {"client_credentials"}}), anonymous + "invalid_client: "},
			{"an unknown client", form("/token", &client{w: w, id: "1", secret: c.secret}, url.Values{"grant_type": {"client_credentials"}}), ""},
			{"no grant type", form("/token", c, url.Values{}), own + "invalid_request: grant_type is missing"},
			{"a grant type that is none", form("/token", c, url.Values{"grant_type": {"password"}}), own + "unsupported_grant_type: "},
			{"one that is not its own", form("/token", c, url.Values{"grant_type": {"client_credentials"}}), own + "unauthorized_client: "},
			{"a doubled parameter", form("/token", c, url.Values{"grant_type": {"x", "y"}}), anonymous + "invalid_request: a parameter is repeated"},
			{"a code that is none", form("/token", c, redeem(strings.Repeat("A", 43))), own + "invalid_grant: there is no such code"},
			{"another verifier", form("/token", c, stolen), own + "invalid_grant: the code was issued for another code_verifier"},
			{"another's code", form("/token", other, redeem(stolen.Get("code"))), "oauth_client:" + other.id + " oauth.refused.invalid_grant: the code was issued to another client"},
			{"a refresh token that is none", form("/token", c, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {strings.Repeat("A", 43)}}), own + "invalid_grant: there is no such refresh token"},
			{"introspection by a public client", form("/introspect", local, url.Values{"token": {"x"}}), "oauth_client:" + local.id + " oauth.refused.invalid_client: "},
			{"introspection of nothing", form("/introspect", c, url.Values{}), own + "invalid_request: token is missing"},
			{"revocation of nothing", form("/revoke", c, url.Values{}), own + "invalid_request: token is missing"},
			{"a pushed request", form("/par", c, url.Values{"redirect_uri": {callback}}), own + "invalid_request: response_type is missing"},
			{"a device", form("/device_authorization", c, url.Values{"scope": {"openid"}}), own + "unauthorized_client: "},
			{"a scope that there is not", ask(func(q url.Values) { q.Set("scope", "nothing") }), anonymous + "invalid_scope: "},
			{"another redirect URI", ask(func(q url.Values) { q.Set("redirect_uri", "https://evil.example") }), anonymous + "invalid_request: redirect_uri is missing"},
			{"a pushed request that is over", ask(func(q url.Values) { q.Set("request_uri", "urn:ietf:params:oauth:request_uri:x") }), anonymous + "invalid_request: "},
			{"a client that asks and is unknown", ask(func(q url.Values) { q.Set("client_id", "1") }), ""},
			{"a client that asks and is out of use", ask(func(q url.Values) { q.Set("client_id", off.id) }), anonymous + "invalid_client: "},
			{"a registration", func() {
				w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{"ftp://very-own.example"}})
			}, anonymous + "invalid_redirect_uri: redirect_uris "},
			{"a registration that is no JSON", func() { w.ask("POST", "/register", "", []string{"x"}) }, anonymous + "invalid_client_metadata: "},
			{"a registration's wrong token", managed("x"), anonymous + "invalid_token: "},
		} {
			row := w.recorded(tt.request)
			if !strings.HasPrefix(row, tt.want) || (row == "") != (tt.want == "") {
				t.Errorf("%s: %q, want %q", tt.what, row, tt.want)
			}
		}

		for what, request := range map[string]func(){
			"a redemption":    func() { c.post("/token", redeem(code())) },
			"an introspected": func() { c.post("/introspect", url.Values{"token": {"x"}}) },
			"a revocation":    func() { c.post("/revoke", url.Values{"token": {"x"}}) },
		} {
			if row := w.recorded(request); row != "" {
				t.Errorf("%s: %q", what, row)
			}
		}
		for _, row := range w.refusals() {
			for what, secret := range map[string]string{"a secret": c.secret, "a wrong one": wrong.secret, "a code": stolen.Get("code"), "text of the caller": "very-own"} {
				if strings.Contains(row, secret) {
					t.Errorf("the audit has %s: %s", what, row)
				}
			}
		}
	})
}

// A client's id is not secret, so any caller can have requests refused in its name.
func TestAuditedRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.web("reports", nil)
	from := func(network int) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", network)) }
	}
	refused := func(times, network int) {
		for range times {
			c.post("/token", url.Values{}, from(network))
		}
	}
	w.Clock.Advance(2 * time.Minute) // start a new minute: declaring the client had requests refused
	before := len(w.refusals())
	recorded := func(what string, want, wantOmitted int) {
		t.Helper()
		rows := w.refusals()[before:]
		omitted := 0
		for _, row := range rows {
			if strings.Contains(row, "oauth.refused: more were left out") {
				omitted++
			}
		}
		if len(rows) != want || omitted != wantOmitted {
			t.Errorf("%s: %d rows, want %d, of which %d say that more were left out, want %d", what, len(rows), want, omitted, wantOmitted)
		}
	}
	refused(40, 1)
	recorded("of one network", 11, 1)
	refused(1, 2)
	recorded("of another, which the first does not hide", 12, 1)
	for network := range 40 {
		refused(3, 10+network)
	}
	recorded("of many networks", 61, 2)
	w.Clock.Advance(time.Minute)
	refused(1, 1)
	recorded("a minute later", 62, 2)
	w.Clock.Advance(time.Minute)
	for network := range 60 {
		refused(11, 60+network)
	}
	recorded("of many networks that each go beyond their bound", 62+61, 2+6)
}
