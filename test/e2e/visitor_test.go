package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/test/testkit"
)

// visitorPassword is the password of every visitor: a canary that no log may hold.
const visitorPassword = "canary visitors' password"

// visitor is an end user with a browser's cookie jar and a client address.
type visitor struct {
	host    string
	email   string
	address string
	client  *http.Client
	inbox   *messagegateway.Gateway
	// server receives the next request. All servers serve the same host, as behind a load balancer.
	server *testkit.Cardea
	// attempt is the id of the sign-up that the visitor began.
	attempt string
	// app is the visitor's authenticator app, nil for none.
	app *authenticatorApp
}

var visitors atomic.Int64

// newVisitor returns a visitor with a network of their own, because emails for unknown clients of one network are
// limited.
func newVisitor(host string, inbox *messagegateway.Gateway, server *testkit.Cardea) *visitor {
	GinkgoHelper()
	jar, err := cookiejar.New(nil)
	Expect(err).NotTo(HaveOccurred())
	n := visitors.Add(1)
	v := &visitor{host: host, email: fmt.Sprintf("visitor-%d@example.com", n), address: fmt.Sprintf("10.%d.%d.1", n%250, n/250), inbox: inbox, server: server}
	v.browse(jar)
	return v
}

// browse creates the visitor's browser with a cookie jar.
func (v *visitor) browse(jar http.CookieJar) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		at, err := url.Parse(v.server.Frontend)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", at.Host)
	}
	// Connections are not kept: the next request may go to another server.
	v.client = &http.Client{Jar: jar, Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// at returns the same visitor at another server, as in another tab of the browser.
func (v *visitor) at(server *testkit.Cardea) *visitor {
	tab := *v
	tab.server = server
	tab.browse(v.client.Jar)
	return &tab
}

// reply is a response in the envelope of the end-user API.
type reply struct {
	Status  int
	Data    map[string]any
	Session struct {
		SignUpAttempts []struct{ ID string } `json:"signup_attempts"`
		SignInAttempts []struct {
			ID          string
			CurrentStep string `json:"current_step"`
		} `json:"signin_attempts"`
	}
	Errors []struct{ Code string }
}

// code returns the code of the first error, "" for a success.
func (r reply) code() string {
	if len(r.Errors) == 0 {
		return ""
	}
	return r.Errors[0].Code
}

// send sends a request to the visitor's server. After an error it is unknown whether the server handled the request.
func (v *visitor) send(method, path, body string) (reply, error) {
	req, err := http.NewRequest(method, "http://"+v.host+path, bytes.NewBufferString(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", v.address)
	resp, err := v.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return reply{}, err
	}
	var envelope struct {
		reply
		Data json.RawMessage
	}
	if err := json.Unmarshal(raw, &envelope); err != nil {
		return reply{}, fmt.Errorf("%s: %w", resp.Status, err)
	}
	out := envelope.reply
	_ = json.Unmarshal(envelope.Data, &out.Data) // no caller here needs a list
	if out.Status != resp.StatusCode {
		return reply{}, fmt.Errorf("HTTP status %s, envelope %s", resp.Status, raw)
	}
	return out, nil
}

// do sends a request, expects success, and returns the response.
func (v *visitor) do(method, path, body string) reply {
	GinkgoHelper()
	r, err := v.send(method, path, body)
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Status).To(Equal(200), "%s %s: %+v", method, path, r)
	return r
}

// poll returns a function for Eventually that requests a path.
func (v *visitor) poll(path string) func() (reply, error) {
	return func() (reply, error) { return v.send("GET", path, "") }
}

// cookies returns the browser's cookies for the host.
func (v *visitor) cookies() []*http.Cookie {
	return v.client.Jar.Cookies(&url.URL{Scheme: "http", Host: v.host, Path: "/"})
}

// keep adds cookies to the browser.
func (v *visitor) keep(cookies []*http.Cookie) {
	v.client.Jar.SetCookies(&url.URL{Scheme: "http", Host: v.host, Path: "/"}, cookies)
}

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

// code waits for the newest code that was sent to a recipient.
func (v *visitor) code(to string) (code string) {
	GinkgoHelper()
	Eventually(func() string { code = sent(v.inbox, to); return code }).ShouldNot(BeEmpty(), "a code to "+to)
	return code
}

// await waits for a code like code, but returns an error: goroutines besides the spec may not fail it.
func (v *visitor) await() (code string, err error) {
	again := time.NewTicker(25 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-again.C {
		if code := sent(v.inbox, v.email); code != "" {
			return code, nil
		}
	}
	return "", errors.New("no code came for " + v.email)
}

// sent returns the newest code that was sent to a recipient, "" if there is none yet.
func sent(inbox *messagegateway.Gateway, to string) (code string) {
	for _, m := range inbox.Messages(to) {
		code = sixDigits.FindString(m.Body)
	}
	return code
}

// signUp creates the visitor's account and returns its id.
func (v *visitor) signUp() string {
	GinkgoHelper()
	r := v.do("POST", "/auth/signup", fmt.Sprintf(`{"email":%q,"password":%q,"first_name":"Vera"}`, v.email, visitorPassword))
	Expect(r.Session.SignUpAttempts).To(HaveLen(1))
	v.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id":%q,"code":%q}`, r.Session.SignUpAttempts[0].ID, v.code(v.email)))
	return v.do("GET", "/me", "").Data["id"].(string)
}

func (v *visitor) signIn() {
	GinkgoHelper()
	v.do("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%q,"password":%q}`, v.email, visitorPassword))
}

// verifyPhone adds a number and verifies it.
func (v *visitor) verifyPhone(number string) {
	GinkgoHelper()
	id := v.do("POST", "/me/phone-numbers", fmt.Sprintf(`{"phone_number":%q}`, number)).Data["id"].(string)
	v.do("POST", "/me/phone-numbers/"+id+"/prepare-verification", `{}`)
	verified := v.do("POST", "/me/phone-numbers/"+id+"/attempt-verification", fmt.Sprintf(`{"code":%q}`, v.code(number)))
	Expect(verified.Data).To(HaveKeyWithValue("verified", true))
}

// organization creates an organization and returns its id.
func (v *visitor) organization(name string) string {
	GinkgoHelper()
	id, _ := v.namedOrganization(name)
	return id
}

// namedOrganization creates an organization and returns its id and slug.
func (v *visitor) namedOrganization(name string) (id, slug string) {
	GinkgoHelper()
	made := v.do("POST", "/organizations", fmt.Sprintf(`{"name":%q}`, name)).Data["organization"].(map[string]any)
	return made["id"].(string), made["slug"].(string)
}

// switchTo returns the path and body of a request that switches the active organization.
func switchTo(organization string) (path, body string) {
	return "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, organization)
}

// active returns the id of the active organization in a response of GET /session.
func active(r reply) string {
	o, _ := r.Data["organization"].(map[string]any)
	id, _ := o["id"].(string)
	return id
}

// refuse matches a response by its status and the code of its first error.
func refuse(status int, code string) types.GomegaMatcher {
	return And(HaveField("Status", status), WithTransform(reply.code, Equal(code)))
}
