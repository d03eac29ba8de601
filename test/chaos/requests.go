package chaos

import (
	"fmt"
	"net/http"

	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	schemesPath = "/api-auth/rate-limit-schemes"
	keysPath    = "/api-auth/apps/customers/keys"
)

// rules is the member of a scheme's body whose number is its state.
func rules(limit int) string {
	return fmt.Sprintf(`{"rules": [{"unit": "hour", "duration": 1, "max_requests": %d}]}`, limit)
}

func schemeBody(slug string, limit int) string {
	return fmt.Sprintf(`{"slug": %q, "name": %q, %s`, slug, slug, rules(limit)[1:])
}

// limitOf is the state of a scheme in an answer. Nothing is known from an answer that is neither it nor 404.
func limitOf(answer testkit.Answer, err error) (state string, known bool) {
	if err != nil || answer.Status != http.StatusOK {
		return absent, err == nil && answer.Status == http.StatusNotFound
	}
	list, _ := answer.JSON["rules"].([]any)
	if len(list) != 1 {
		return string(answer.Raw), true
	}
	rule, _ := list[0].(map[string]any)
	return fmt.Sprint(rule["max_requests"]), true
}

// keyOf is the id and the secret of a key that was made.
func keyOf(answer testkit.Answer) (id, secret string) {
	key, _ := answer.JSON["key"].(map[string]any)
	id, _ = key["id"].(string)
	secret, _ = answer.JSON["secret"].(string)
	return id, secret
}

// accepted asks a server, from an address that asks about no other, whether it accepts a key: who tries many that are
// none is put off.
func accepted(server *testkit.Cardea, key, from string) (state string, known bool) {
	answer, err := testkit.Do("POST", server.Decision+"/v1/authz/check", "", fmt.Sprintf(`{"principal": {"type": "api_key", "value": %q}, "method": "GET", "resource": "/"}`, key), [2]string{"X-Forwarded-For", from})
	allowed, known := answer.JSON["allowed"].(bool) // with 200, or 401 where the key is none
	if allowed {
		state = "accepted"
	}
	return state, known && err == nil
}
