package isolation

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/test/testkit"
	"github.com/cardea-iam/cardea/test/traffic"
)

// unknownKeys presents well-formed keys that do not exist, so that servers have to look up each key.
func (a *attack) unknownKeys() error {
	a.flood(300, func(n int) {
		key, err := apikey.Mint(rand.Reader, apikey.DefaultPrefix)
		if err != nil {
			return
		}
		answer, err := testkit.Do(http.MethodGet, a.Server().Backend+"/users", key.Plain(), "", [2]string{"X-Forwarded-For", traffic.Address(6, n)})
		if err == nil && answer.Status == http.StatusOK {
			a.breached(errors.New("an unknown key was accepted"))
		}
	})
	return nil
}

// manyCounters requests decisions for a key whose scheme counts each client address by 64 rules, from ever new
// addresses.
func (a *attack) manyCounters() error {
	rules := make([]string, 64)
	for i := range rules {
		rules[i] = fmt.Sprintf(`{"unit": "day", "duration": 1, "max_requests": %d, "mode": "per_ip"}`, 1000+i)
	}
	body := fmt.Sprintf(`{"slug": "wide", "name": "wide", "rules": [%s]}`, strings.Join(rules, ","))
	if err := repeated(testkit.Do(http.MethodPost, a.Server().Backend+"/api-auth/rate-limit-schemes", a.Key, body)); err != nil {
		return err
	}
	app := `{"app_slug": "wide", "name": "wide", "permissions": ["*"], "rate_limit_scheme_slug": "wide"}`
	// A change that one server acknowledged may not be active at the other server yet.
	err := testkit.Until(a.ctx, "the app of the scheme is not created", func() error {
		return repeated(testkit.Do(http.MethodPost, a.Server().Backend+"/api-auth/apps", a.Key, app))
	})
	if err != nil {
		return err
	}
	secret := ""
	err = testkit.Until(a.ctx, "no key of the app is created", func() error {
		made, err := testkit.Do(http.MethodPost, a.Server().Backend+"/api-auth/apps/wide/keys", a.Key, `{"name": "wide", "permissions": ["*"]}`)
		secret, _ = made.JSON["secret"].(string)
		return testkit.Fault(made, err)
	})
	if err != nil {
		return err
	}
	a.flood(200, func(n int) { _, _ = testkit.Check(a.Server(), a.Deployment(), secret, traffic.Address(7, n)) })
	return nil
}

// repeated returns the error of a response, but nil if the object exists from an earlier run.
func repeated(answer testkit.Answer, err error) error {
	if err == nil && answer.Status == http.StatusConflict {
		return nil
	}
	return testkit.Fault(answer, err)
}

// churnSchemes creates rate-limit schemes with long windows, and deletes them.
func (a *attack) churnSchemes() error {
	a.flood(20, func(n int) {
		schemes := a.Server().Backend + "/api-auth/rate-limit-schemes"
		slug := fmt.Sprintf("churn-%d", n)
		if testkit.Fault(testkit.Do(http.MethodPost, schemes, a.Key, traffic.Scheme(slug, 1))) == nil {
			_, _ = testkit.Do(http.MethodDelete, schemes+"/"+slug, a.Key, "")
		}
	})
	return nil
}

// manyKeys creates keys and uses each, so that servers cache it.
func (a *attack) manyKeys() error {
	a.flood(100, func(n int) {
		made, err := testkit.Do(http.MethodPost, a.Server().Backend+"/api-auth/apps/customers/keys", a.Key, fmt.Sprintf(`{"name": "key %d", "permissions": ["orders:read"]}`, n))
		if secret, _ := made.JSON["secret"].(string); err == nil && secret != "" {
			_, _ = testkit.Check(a.Server(), a.Deployment(), secret, traffic.Address(8, n))
		}
	})
	return nil
}

// fatTokens presents tokens of the attacker's issuer, each different, with hundreds of permissions.
func (a *attack) fatTokens() error {
	a.flood(100, func(n int) {
		token, err := a.in.site.sign(n, 250+n%2*250)
		if err != nil {
			return
		}
		_, _ = testkit.Do(http.MethodGet, a.Server().Backend+"/users", token, "", [2]string{"X-Forwarded-For", traffic.Address(9, n)})
	})
	return nil
}

// forgedServiceAccounts presents tokens that look like the cluster's ServiceAccount tokens, with invalid signatures.
func (a *attack) forgedServiceAccounts() error {
	real, err := a.ServiceAccountToken(a.ctx)
	if err != nil {
		return err
	}
	header, claims, _ := strings.Cut(real, ".")
	claims, _, _ = strings.Cut(claims, ".")
	raw, err := base64.RawURLEncoding.DecodeString(claims)
	if err != nil {
		return err
	}
	a.flood(60, func(n int) {
		var changed map[string]any
		if json.Unmarshal(raw, &changed) != nil {
			return
		}
		changed["jti"] = fmt.Sprint(n)
		text, _ := json.Marshal(changed) // decoded JSON can be encoded
		token := header + "." + base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 256))
		answer, err := testkit.Do(http.MethodGet, a.Server().Backend+"/users", token, "", [2]string{"X-Forwarded-For", traffic.Address(10, n)})
		if err == nil && answer.Status == http.StatusOK {
			a.breached(errors.New("a forged token was accepted"))
		}
	})
	return nil
}

// credentialsElsewhere presents the attacker's credentials to the decision endpoints of the other deployments.
func (a *attack) credentialsElsewhere() error {
	token, err := a.in.site.sign(0, 1)
	if err != nil {
		return err
	}
	a.flood(50, func(n int) {
		other := a.in.others[n%len(a.in.others)]
		for _, credential := range []string{a.Key, a.CustomerKey, token} {
			if answer, err := testkit.Check(a.Server(), other.Deployment(), credential, traffic.Address(11, n)); err == nil && answer.JSON["allowed"] == true {
				a.breached(fmt.Errorf("a credential of another deployment was accepted: %s", answer.Raw))
			}
			address := a.Server().Decision + "/v1/forward/caddy?" + url.Values{"deployment": {other.Deployment()}}.Encode()
			answer, err := testkit.Do(http.MethodGet, address, credential, "", [2]string{"X-Forwarded-Method", "GET"}, [2]string{"X-Forwarded-Uri", "/"})
			if err == nil && answer.Status < 300 {
				a.breached(errors.New("a gateway of another deployment let a credential pass"))
			}
		}
	})
	return nil
}

// idleConnections opens connections from a separate address and never sends a whole request.
func (a *attack) idleConnections() error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}
	var mu sync.Mutex
	var held []net.Conn
	a.flood(500, func(n int) {
		server := a.Server()
		target := []string{server.Backend, server.Frontend, server.Decision}[n%3]
		conn, err := dialer.DialContext(a.ctx, "tcp", strings.TrimPrefix(target, "http://"))
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: ")) // the server closes connections that it refuses
		mu.Lock()
		held = append(held, conn)
		mu.Unlock()
	})
	for _, conn := range held {
		_ = conn.Close() // no request was sent in full
	}
	return nil
}

// expensiveBodies sends JSON bodies that were once the most expensive to read.
func (a *attack) expensiveBodies() error {
	fill := func(size int, head, unit, tail string) string {
		return head + strings.Repeat(unit, (size-len(head)-len(tail))/len(unit)) + tail
	}
	long := fill(1<<20, `{"email":[`, `{"":1},`, `1]}`)
	short := fill(16<<10, `{`, `"a":1,`, `"b":1}`)
	a.flood(40, func(n int) {
		_, _ = testkit.Do(http.MethodPost, a.Server().Backend+"/users", a.Key, long, [2]string{"X-Forwarded-For", traffic.Address(12, n)})
		_, _ = a.Visit(a.Server(), http.MethodPost, "/auth/signin", traffic.Address(12, n), "application/json", strings.NewReader(short))
	})
	return nil
}
