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

// rules returns a request body with the rules of a scheme. The limit in it is the scheme's state in the journal.
func rules(limit int) string {
	return fmt.Sprintf(`{"rules": [{"unit": "hour", "duration": 1, "max_requests": %d}]}`, limit)
}

func schemeBody(slug string, limit int) string {
	return fmt.Sprintf(`{"slug": %q, "name": %q, %s`, slug, slug, rules(limit)[1:])
}

// limitOf returns the state of a scheme from a response: the limit of its rule, or absent for a 404. known is false for
// any other status, and without a response.
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

// keyOf returns the id and the secret of a created key.
func keyOf(answer testkit.Answer) (id, secret string) {
	key, _ := answer.JSON["key"].(map[string]any)
	id, _ = key["id"].(string)
	secret, _ = answer.JSON["secret"].(string)
	return id, secret
}

// accepted asks a server whether it accepts a key. Each key needs its own address from, because the server throttles an
// address that presents many invalid keys.
func accepted(server *testkit.Cardea, key, from string) (state string, known bool) {
	answer, err := testkit.Do("POST", server.Decision+"/v1/authz/check", "", fmt.Sprintf(`{"principal": {"type": "api_key", "value": %q}, "method": "GET", "resource": "/"}`, key), [2]string{"X-Forwarded-For", from})
	allowed, known := answer.JSON["allowed"].(bool) // the body has it with status 200, and with 401 for an invalid key
	if allowed {
		state = "accepted"
	}
	return state, known && err == nil
}
