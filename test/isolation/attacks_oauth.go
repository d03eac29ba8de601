package isolation

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/cardea-iam/cardea/test/testkit"
	"github.com/cardea-iam/cardea/test/traffic"
)

const callback = "https://attacker.example/callback"

// register registers a client of the attacker's app with additional metadata members.
func (a *attack) register(n int, members map[string]any) (testkit.Answer, error) {
	metadata := map[string]any{"client_name": fmt.Sprintf("Client %d", n), "redirect_uris": []string{callback}}
	for name, value := range members {
		metadata[name] = value
	}
	body, err := json.Marshal(metadata)
	if err != nil {
		return testkit.Answer{}, err
	}
	return a.Visit(a.Server(), http.MethodPost, "/oauth/portal/register", traffic.Address(3, n), "application/json", strings.NewReader(string(body)))
}

// forged returns a token of a client or an issuer with an invalid signature.
func forged(issuer, keyID string, n int) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(fmt.Sprintf(`{"alg":"ES256","kid":%q}`, keyID)) + "." +
		part(fmt.Sprintf(`{"iss":%q,"sub":%q,"aud":%q,"exp":4102444800,"jti":"%d"}`, issuer, issuer, issuer, n)) + "." + part(fmt.Sprintf("%064d", n))
}

// largeKeySets registers clients with remote key sets of the largest size, and has servers fetch each key set.
func (a *attack) largeKeySets() error {
	a.flood(20, func(n int) {
		made, err := a.register(n, map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": fmt.Sprintf("%s/%d", a.in.site.server.URL, n)})
		id, _ := made.JSON["client_id"].(string)
		if err != nil || id == "" {
			return
		}
		a.presentAssertion(id, n)
	})
	return nil
}

// presentAssertion requests a token with a forged assertion of a client.
func (a *attack) presentAssertion(client string, n int) {
	answer, err := a.Form(a.Server(), "/oauth/portal/token", traffic.Address(3, n), url.Values{
		"grant_type": {"client_credentials"}, "client_id": {client}, "client_assertion": {forged(client, "1", n)},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	})
	if err == nil && answer.Status == http.StatusOK {
		a.breached(fmt.Errorf("a forged assertion got a token: %s", answer.Raw))
	}
}

// inlineKeySets registers clients with as many small keys as a registration can hold, and sends authorization requests
// for them.
func (a *attack) inlineKeySets() error {
	clients := []string{"none"}
	for n, size := range []int{60 << 10, 30 << 10, 8 << 10, 1 << 10} {
		made, err := a.register(n, map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks": json.RawMessage(smallKeys(size))})
		if id, _ := made.JSON["client_id"].(string); err == nil && id != "" {
			clients = append(clients, id)
		}
	}
	a.flood(300, func(n int) {
		query := url.Values{"client_id": {clients[n%len(clients)]}, "redirect_uri": {"x"}}
		_, _ = a.Visit(a.Server(), http.MethodGet, "/oauth/portal/authorize?"+query.Encode(), traffic.Address(3, n), "", nil)
	})
	return nil
}

// registerAndDelete registers and deletes clients, which adds two audit rows per round unless a limit applies.
func (a *attack) registerAndDelete() error {
	a.flood(100, func(n int) {
		made, err := a.register(n, map[string]any{"token_endpoint_auth_method": "client_secret_basic"})
		id, _ := made.JSON["client_id"].(string)
		token, _ := made.JSON["registration_access_token"].(string)
		if err == nil && id != "" {
			_, _ = a.Visit(a.Server(), http.MethodDelete, "/oauth/portal/register/"+id, traffic.Address(3, n), "", nil, [2]string{"Authorization", "Bearer " + token})
		}
	})
	return nil
}

// fillRegistrations registers clients that are never used, up to their limit.
func (a *attack) fillRegistrations() error {
	a.flood(100, func(n int) { _, _ = a.register(n, map[string]any{"token_endpoint_auth_method": "none"}) })
	return nil
}

// authorizationRequests creates authorization requests with the longest allowed state, each from another /64 of one
// /48.
func (a *attack) authorizationRequests() error {
	query := url.Values{
		"response_type": {"code"}, "client_id": {a.ClientID}, "redirect_uri": {callback}, "code_challenge": {strings.Repeat("a", 43)}, "code_challenge_method": {"S256"},
		"scope": {"openid"}, "state": {strings.Repeat("s", 4000)},
	}
	made, err := a.register(0, map[string]any{"token_endpoint_auth_method": "none"})
	if id, _ := made.JSON["client_id"].(string); err == nil && id != "" {
		query.Set("client_id", id)
	}
	target := "/oauth/portal/authorize?" + query.Encode()
	a.flood(200, func(n int) {
		_, _ = a.Visit(a.Server(), http.MethodGet, target, fmt.Sprintf("2001:db8:1:%x::1", n%0xffff), "", nil)
	})
	return nil
}

// guessPasswords tries wrong passwords for the attacker's own accounts; each attempt costs a password hash.
func (a *attack) guessPasswords() error {
	a.flood(40, func(n int) {
		body := fmt.Sprintf(`{"strategy": "password", "email": %q, "password": "wrong %d"}`, a.People[n%len(a.People)].Email, n)
		_, _ = a.Visit(a.Server(), http.MethodPost, "/auth/signin", traffic.Address(4, n), "application/json", strings.NewReader(body))
	})
	return nil
}

// write is a kind of write of a signed-in user.
type write struct {
	name string
	send func(n int) (testkit.Answer, error)
	// daily is how many succeed in a day, 0 for no such bound.
	daily int
	done  int
}

// enoughRounds is how many rounds show that a kind of write never succeeds. On a busy machine, a few fail anyway.
const enoughRounds = 5

// writingUser changes an account, creates organizations and signs in, without a pause.
func (a *attack) writingUser() error {
	person := a.People[0]
	writes := []write{
		{name: "changes of the account", daily: 200, send: func(n int) (testkit.Answer, error) {
			return person.Send(a.Server(), http.MethodPatch, "/me", fmt.Sprintf(`{"first_name": "Name %d"}`, n))
		}},
		{name: "new organizations", daily: 40, send: func(n int) (testkit.Answer, error) {
			return person.Send(a.Server(), http.MethodPost, "/organizations", fmt.Sprintf(`{"name": "Organization %d"}`, n))
		}},
		{name: "sign-ins", send: func(int) (testkit.Answer, error) { return person.SignIn(a.Server()) }},
	}
	var refused error
	a.begin()
	rounds := 0
	for ; a.ctx.Err() == nil; rounds++ {
		for i := range writes {
			if err := testkit.Fault(writes[i].send(rounds)); err != nil {
				refused = fmt.Errorf("%s: %w", writes[i].name, err)
			} else {
				writes[i].done++
			}
			a.sent.Add(1)
		}
	}
	for _, w := range writes {
		a.note += fmt.Sprintf("%d %s, ", w.done, w.name)
		switch {
		case w.done == 0 && rounds >= enoughRounds:
			a.breached(fmt.Errorf("none of %d %s succeeds: the attack does less than its name says; the last refusal is of %w", rounds, w.name, refused))
		case w.daily > 0 && w.done > 2*w.daily: // midnight may fall into the attack
			a.breached(fmt.Errorf("%d %s succeed; a day has %d", w.done, w.name, w.daily))
		}
	}
	a.note += fmt.Sprintf("in %d rounds", rounds)
	return nil
}

// silentMailServers declares four deployments whose mail servers accept connections and never respond, and has each
// send mails.
func (a *attack) silentMailServers() error {
	manifests := ""
	for i := range 4 {
		manifests += fmt.Sprintf(`---
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: silent-%[1]d, namespace: %[2]s}
spec:
  mode: Staging
  frontendHosts: [silent-%[1]d.localhost]
  email: {from: no-reply@example.com, smtp: {host: 127.0.0.1, port: %[3]d, security: None}}
`, i, a.Namespace, a.in.site.silentPort())
	}
	if err := a.Apply(a.ctx, manifests); err != nil {
		return err
	}
	a.flood(20, func(n int) {
		silent := *a.Tenant.Tenant
		silent.Host = fmt.Sprintf("silent-%d.localhost", n%4)
		body := fmt.Sprintf(`{"email": "waits-%d@example.com", "password": %q}`, n, testkit.VisitorPassword)
		_, _ = silent.Visit(a.Server(), http.MethodPost, "/auth/signup", traffic.Address(5, n), "application/json", strings.NewReader(body))
	})
	return nil
}
