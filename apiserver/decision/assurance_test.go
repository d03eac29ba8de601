package decision

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc/codes"

	"github.com/cardea-iam/cardea/internal/assurance"
)

// A check that requires a level gets 200 and the challenge, or 401 if it asks for the status. It consumes no limit.
func TestInsufficientProofIsChallenged(t *testing.T) {
	w := newWorld(t)
	token := w.signing()
	stated := func(acr string, age time.Duration) string {
		w.stated = map[string]any{"acr": acr, "auth_time": w.Clock.Now().Add(-age).Unix()}
		defer func() { w.stated = nil }()
		return token(func(c *jwt.Claims) { c.ID = fmt.Sprint(acr, age) })
	}
	check := func(token, more string) answer {
		return w.ask("POST", "/v1/authz/check", `{"principal":{"type":"session_token","value":"`+token+`"},"method":"GET","resource":"/"`+more+`}`)
	}
	one, two, old := stated("1", 0), stated("2", 0), stated("phr", 10*time.Minute)
	const needs = `,"required_acr":"2","max_age":300`
	wanted, err := assurance.ParseWanted("2", "300")
	w.Must(err)
	for name, token := range map[string]string{"one factor": one, "an old proof": old, "a token without a level": token(func(c *jwt.Claims) { c.ID = "none" })} {
		a := check(token, needs)
		headers, _ := a.body["headers"].(map[string]any)
		if a.StatusCode != 200 || a.body["allowed"] != false || a.body["reason"] != "insufficient_user_authentication" || headers["WWW-Authenticate"] != wanted.Challenge() || a.body["message"] == nil {
			t.Errorf("%s: %d %v", name, a.StatusCode, a.body)
		}
	}
	if a := w.ask("POST", "/v1/authz/check?status=http", `{"principal":{"type":"session_token","value":"`+one+`"},"method":"GET","resource":"/"`+needs+`}`); a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") != wanted.Challenge() {
		t.Errorf("as a status: %d %v", a.StatusCode, a.Header)
	}
	if a := check(one, `,"required_acr":"2","required_permissions":["orders:write"]`); a.body["reason"] != "permission_denied" {
		t.Errorf("a permission that no proof gives: %v", a.body)
	}
	for range 2 { // the refusals consumed nothing of the limit of two
		if a := check(two, needs); a.body["allowed"] != true {
			t.Errorf("two factors: %v", a.body)
		}
	}
	w.Clock.Advance(time.Minute)
	key := w.ask("POST", "/v1/authz/check", `{"principal":{"type":"api_key","value":"`+w.plain+`"},"method":"GET","resource":"/","required_acr":"1"}`)
	if key.body["reason"] != "insufficient_user_authentication" {
		t.Errorf("an API key: %v", key.body)
	}
	for more, pointer := range map[string]string{
		`,"required_acr":"two_factors"`: "/required_acr", `,"required_acr":""`: "/required_acr", `,"required_acr":2`: "/required_acr",
		`,"max_age":-1`: "/max_age", `,"max_age":31536001`: "/max_age", `,"max_age":"300"`: "/max_age",
	} {
		if a := check(two, more); a.StatusCode != 400 || !strings.Contains(fmt.Sprint(a.body), pointer) {
			t.Errorf("%s: %d %v", more, a.StatusCode, a.body)
		}
	}
}

// Gateways get 401 with the challenge, whatever else their configuration says of refusals.
func TestGatewaysChallengeInsufficientProof(t *testing.T) {
	w := newWorld(t)
	token := w.signing()
	w.stated = map[string]any{"acr": "1", "auth_time": w.Clock.Now().Unix()}
	weak := token(func(*jwt.Claims) {})
	w.stated["acr"] = "phr"
	strong, another := token(func(*jwt.Claims) {}), token(func(c *jwt.Claims) { c.Subject = "43" }) // each user has a limit of two
	w.stated = nil
	wanted, err := assurance.ParseWanted("2", "300")
	w.Must(err)
	for _, path := range []string{"/v1/forward/caddy?acr=2&max_age=300", "/v1/forward/nginx?acr=2&max_age=300&deny=403"} {
		headers := []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "X-Original-Method: GET", "X-Original-URI: /"}
		a := w.ask("GET", path, "", append(headers, "Authorization: Bearer "+weak)...)
		if a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") != wanted.Challenge() {
			t.Errorf("%s: %d %v", path, a.StatusCode, a.Header)
		}
		if a = w.ask("GET", path, "", append(headers, "Authorization: Bearer "+strong)...); a.StatusCode != 200 {
			t.Errorf("%s with a passkey: %d", path, a.StatusCode)
		}
	}
	for _, query := range []string{"acr=two", "acr=", "acr=1&acr=2", "max_age=x", "max_age="} {
		a := w.ask("GET", "/v1/forward/caddy?"+query, "", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "Authorization: Bearer "+strong)
		if a.StatusCode != http.StatusBadRequest {
			t.Errorf("?%s: %d", query, a.StatusCode)
		}
	}
	client := w.envoy()
	for name, c := range map[string]struct {
		token, acr, age string
		code            codes.Code
	}{
		"weak": {weak, "2", "300", codes.Unauthenticated}, "strong": {another, "2", "300", codes.OK}, "no such level": {another, "3", "", codes.InvalidArgument},
	} {
		out, err := client.Check(t.Context(), asked("GET", "/", "203.0.113.1", map[string]string{"authorization": "Bearer " + c.token}, map[string]string{"acr": c.acr, "max_age": c.age}))
		w.Must(err)
		if codes.Code(out.GetStatus().GetCode()) != c.code {
			t.Errorf("%s: %v", name, out)
		}
		if name == "weak" && !strings.Contains(out.String(), "insufficient_user_authentication") {
			t.Errorf("the challenge is missing: %v", out)
		}
	}
}
