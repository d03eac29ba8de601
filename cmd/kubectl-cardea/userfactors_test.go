package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// factorServer starts a server with two users and the operations on second factors. Every request is appended to
// asked, with its body.
func factorServer(t *testing.T) (env map[string]string, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	const user = `{"id":%q,"email":%q,"first_name":"","last_name":"","primary_phone_number":null,"disabled":false,"two_step":true,"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
		switch r.Method + " " + r.URL.Path {
		case "GET /users":
			// The first page has a user whose email only contains the searched text.
			id, email, more := "6", "Xada@acme.example", true
			if r.URL.Query().Get("offset") == "100" {
				id, email, more = "7", "Ada@acme.example", false
			}
			fmt.Fprintf(w, `{"data":[`+user+`],"has_more":%t,"limit":100,"offset":0,"total":2}`, id, email, more)
		case "GET /users/7/second-factors":
			_, _ = io.WriteString(w, `{"two_step":true,"required":"one_factor","totp":[{"id":"71","name":"Phone\u001b[2J","usable":true,"created_at":"2026-01-01T00:00:00Z","last_used_at":null}],
				"sms":[],"passkeys":[],"recovery_codes":{"left":9,"created_at":"2026-01-01T00:00:00Z"}}`)
		case "POST /users/7/temporary-code":
			_, _ = io.WriteString(w, `{"code":"k3pd-9x0m-7tqa","expires_at":"2026-01-01T01:00:00Z"}`)
		case "POST /users/7/second-factors/reset":
			_, _ = io.WriteString(w, `{"removed":2,"sessions_revoked":1}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"message":":user_id is the id of no user of the deployment"}`)
		}
	}))
	t.Cleanup(server.Close)
	return map[string]string{envServer: server.URL, envAPIKey: "the-key"}, asked
}

func TestFactorsOfAUserAreShown(t *testing.T) {
	env, asked := factorServer(t)
	out, problems, code := run(t, env, "users", "factors", "ada@acme.example")
	if code != 0 || !strings.Contains(out, "71") || !strings.Contains(out, "Two-step sign-in is on") || !strings.Contains(out, "left: 9") || strings.Contains(out, "\x1b") {
		t.Errorf("%d %q %s", code, problems, out)
	}
	if want := []string{"GET /users", "GET /users", "GET /users/7/second-factors"}; !slices.Equal(*asked, want) {
		t.Errorf("asked %q", *asked)
	}
	out, problems, code = run(t, env, "users", "factors", "7", "-o", "json")
	if code != 0 || !json.Valid([]byte(out)) {
		t.Errorf("%d %q %s", code, problems, out)
	}
	if last := (*asked)[len(*asked)-1]; len(*asked) != 4 || last != "GET /users/7/second-factors" {
		t.Errorf("asked %q", *asked)
	}
}

func TestTemporaryCodeIsTheOnlyOutput(t *testing.T) {
	env, asked := factorServer(t)
	out, problems, code := run(t, env, "users", "temporary-code", "ada@acme.example", "--lifetime", "30m")
	if code != 0 || out != "k3pd-9x0m-7tqa\n" || !strings.Contains(problems, "of Ada@acme.example works once, until 2026-01-01 01:00 UTC") {
		t.Errorf("%d %q %q", code, problems, out)
	}
	if last := (*asked)[len(*asked)-1]; last != `POST /users/7/temporary-code {"lifetime_seconds":1800}` {
		t.Errorf("asked %s", last)
	}
}

func TestResetOfFactorsIsConfirmed(t *testing.T) {
	env, asked := factorServer(t)
	out, problems, code := run(t, env, "users", "reset-factors", "7")
	if code != exitUsage || !strings.Contains(problems, "--yes") || len(*asked) != 0 {
		t.Errorf("%d %q %q, asked %q", code, problems, out, *asked)
	}
	out, problems, code = run(t, env, "users", "reset-factors", "7", "--yes", "--reason", "Ticket 4711")
	if code != 0 || out != "The second factors of 7 are reset. Factors removed: 2. Sign-ins ended: 1.\n" {
		t.Errorf("%d %q %q", code, problems, out)
	}
	if want := []string{`POST /users/7/second-factors/reset {"reason":"Ticket 4711"}`}; !slices.Equal(*asked, want) {
		t.Errorf("asked %q", *asked)
	}
}

func TestUserOfFactorsIsFoundExactly(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"factors", "da@acme.example"}, exitFault, "no user of the deployment has the primary email da@acme.example"},
		{[]string{"factors", "8"}, exitFault, "responded 404"},
		{[]string{"factors", "ada"}, exitUsage, "USER must be the id or the email"},
		{[]string{"factors", "../keys"}, exitUsage, "USER must be the id or the email"},
		{[]string{"factors"}, exitUsage, "accepts 1 arg"},
		{[]string{"temporary-code", "7", "--lifetime", "9m"}, exitUsage, "--lifetime must be 10m to 24h"},
		{[]string{"temporary-code", "7", "-o", "xml"}, exitUsage, "--output must be one of"},
	} {
		env, _ := factorServer(t)
		if _, problems, code := run(t, env, append([]string{"users"}, tc.args...)...); code != tc.code || !strings.Contains(problems, tc.says) {
			t.Errorf("%v: %d %q", tc.args, code, problems)
		}
	}
}

func TestRefusedHelpDeskHasNoAccess(t *testing.T) {
	server, _ := answering(t, http.StatusForbidden, `{"message":"the credential lacks the permission user_factors:write"}`)
	_, problems, code := run(t, map[string]string{envServer: server, envAPIKey: "the-key"}, "users", "reset-factors", "7", "--yes")
	if code != exitNoAccess || !strings.Contains(problems, "user_factors:write") {
		t.Errorf("%d %q", code, problems)
	}
}
