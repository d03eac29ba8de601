package isolation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/test/testkit"
)

// sample is one request of a tenant's normal traffic.
type sample struct {
	kind  string
	begun time.Time
	took  time.Duration
	fault error
}

// traffic is the normal traffic of tenants. It notes how each request ended.
type traffic struct {
	group   sync.WaitGroup
	mu      sync.Mutex
	samples []sample
}

// between returns the requests that began in a span.
func (tr *traffic) between(from, to time.Time) (found []sample) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, s := range tr.samples {
		if !s.begun.Before(from) && s.begun.Before(to) {
			found = append(found, s)
		}
	}
	return found
}

// repeat sends requests of a kind at a rate until the context ends. Those that have begun are awaited.
func (tr *traffic) repeat(ctx context.Context, kind string, perSecond rate.Limit, send func(n int) error) {
	tr.group.Go(func() {
		pace := rate.NewLimiter(perSecond, 1)
		for n := 0; pace.Wait(ctx) == nil; n++ {
			s := sample{kind: kind, begun: time.Now()}
			s.fault = send(n)
			s.took = time.Since(s.begun)
			tr.mu.Lock()
			tr.samples = append(tr.samples, s)
			tr.mu.Unlock()
		}
	})
}

// start begins everything that a tenant's people, applications and gateways do.
func (tr *traffic) start(ctx context.Context, t *tenant) error {
	account, err := t.serviceAccountToken(ctx)
	if err != nil {
		return err
	}
	made, err := testkit.Do(http.MethodPost, t.server().Backend+"/api-auth/rate-limit-schemes", t.key, scheme("changing", 1))
	if err := fault(made, err); err != nil {
		return err
	}
	stays, comes := t.people[0], t.people[1:]
	tr.repeat(ctx, "session", 10, func(int) error { return fault(stays.Send(t.server(), http.MethodGet, "/me", "")) })
	tr.repeat(ctx, "sign-in", 1, func(n int) error {
		person := comes[n%len(comes)]
		if err := fault(person.Send(t.server(), http.MethodPost, "/session/sign-out", `{}`)); err != nil {
			return fmt.Errorf("sign-out: %w", err)
		}
		return fault(person.SignIn(t.server()))
	})
	tr.repeat(ctx, "decision", 20, func(int) error { return t.decide(t.server()) })
	tr.repeat(ctx, "token", 5, func(int) error { return t.token(t.server()) })
	tr.repeat(ctx, "mail", 0.5, func(int) error { return t.signUp(newcomer(t)) })
	tr.repeat(ctx, "management", 2, func(n int) error {
		return fault(testkit.Do(http.MethodPatch, t.server().Backend+"/api-auth/rate-limit-schemes/changing", t.key, scheme("", n+2)))
	})
	tr.repeat(ctx, "key", 1, t.issueKey)
	tr.repeat(ctx, "service account", 2, func(int) error { return fault(testkit.Do(http.MethodGet, t.server().Backend+"/users", account, "")) })
	return nil
}

var newcomers atomic.Int64

// newcomer is a person of a tenant without an account, in a network of its own.
func newcomer(t *tenant) *testkit.Visitor {
	n := int(newcomers.Add(1))
	return testkit.NewVisitor(t.host, fmt.Sprintf("newcomer-%d@example.com", n), address(2, n))
}

// scheme is the body of a rate-limit scheme.
func scheme(slug string, limit int) string {
	named := ""
	if slug != "" {
		named = fmt.Sprintf(`"slug": %q, "name": %q, `, slug, slug)
	}
	return fmt.Sprintf(`{%s"rules": [{"unit": "day", "duration": 1, "max_requests": %d}]}`, named, limit)
}

// issueKey makes a key for a customer, uses it and revokes it.
func (t *tenant) issueKey(n int) error {
	keys := t.server().Backend + "/api-auth/apps/customers/keys"
	made, err := testkit.Do(http.MethodPost, keys, t.key, fmt.Sprintf(`{"name": "key %d", "permissions": ["orders:read"]}`, n))
	if err := fault(made, err); err != nil {
		return err
	}
	var issued struct {
		Key    struct{ ID string }
		Secret string
	}
	if err := json.Unmarshal(made.Raw, &issued); err != nil {
		return err
	}
	used, err := check(t.server(), t.deployment(), issued.Secret, "20.0.0.1")
	if err == nil && used.JSON["allowed"] != true {
		err = fmt.Errorf("a new key is refused: %d %s", used.Status, used.Raw)
	}
	return errors.Join(err, fault(testkit.Do(http.MethodPost, keys+"/"+issued.Key.ID+"/revoke", t.key, `{"reason": "used"}`)))
}

// serviceAccountToken returns a token of the namespace's ServiceAccount for the management of the tenant's deployment.
func (t *tenant) serviceAccountToken(ctx context.Context) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "default"}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"cardea:" + t.namespace + ":main"}}}
	err := until(ctx, "the ServiceAccount has no token", func() error {
		return t.cluster.Client.SubResource("token").Create(ctx, account, request)
	})
	return request.Status.Token, err
}

// form posts a form to a host's OAuth endpoint from an address.
func (t *tenant) form(server *testkit.Cardea, path, from string, values url.Values) (testkit.Answer, error) {
	return t.visit(server, http.MethodPost, path, from, "application/x-www-form-urlencoded", strings.NewReader(values.Encode()))
}

// visit sends a request to the tenant's host from an address. The answer is read in full; redirects are not followed.
func (t *tenant) visit(server *testkit.Cardea, method, path, from, contentType string, body io.Reader, header ...[2]string) (answer testkit.Answer, err error) {
	req, err := http.NewRequest(method, server.Frontend+path, body)
	if err != nil {
		return answer, err
	}
	req.Host = t.host
	req.Header.Set("X-Forwarded-For", from)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for _, line := range header {
		req.Header.Set(line[0], line[1])
	}
	resp, err := visits.Do(req)
	if err != nil {
		return answer, err
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return answer, err
	}
	answer = testkit.Answer{Status: resp.StatusCode, Header: resp.Header, Raw: raw}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		err = json.Unmarshal(raw, &answer.JSON)
	}
	return answer, err
}

var visits = &http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
