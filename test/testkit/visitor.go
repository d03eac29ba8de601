package testkit

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
	"time"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
)

const (
	// VisitorPassword is the password of every Visitor.
	VisitorPassword = "a password of every visitor"
	// visitorPatience bounds one request of a visitor, and the time AwaitCode waits.
	visitorPatience = 20 * time.Second
)

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

// Visitor is an end user with a browser's cookie jar and a client address. Its methods return errors rather than fail a
// test, so that goroutines may use it, but only one goroutine at a time.
type Visitor struct {
	Host, Email, Address string
	jar                  http.CookieJar
}

// NewVisitor returns a visitor of a host without an account.
func NewVisitor(host, email, address string) *Visitor {
	jar, _ := cookiejar.New(nil) // cannot fail without options
	return &Visitor{Host: host, Email: email, Address: address, jar: jar}
}

// Send sends a request to a server. After an error it is unknown whether the server handled the request.
func (v *Visitor) Send(server *Cardea, method, path, body string) (answer Answer, err error) {
	at, err := url.Parse(server.Frontend)
	if err != nil {
		return answer, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", at.Host)
	}
	// Connections are not kept: the next request may go to another server.
	client := &http.Client{Jar: v.jar, Timeout: visitorPatience, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequest(method, "http://"+v.Host+path, bytes.NewBufferString(body))
	if err != nil {
		return answer, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", v.Address)
	resp, err := client.Do(req)
	if err != nil {
		return answer, err
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return answer, err
	}
	answer = Answer{Status: resp.StatusCode, Header: resp.Header, Raw: raw}
	return answer, json.Unmarshal(raw, &answer.JSON)
}

// BeginSignUp starts a sign-up and returns its id, "" if the response holds none.
func (v *Visitor) BeginSignUp(server *Cardea) (attempt string, answer Answer, err error) {
	answer, err = v.Send(server, http.MethodPost, "/auth/signup", fmt.Sprintf(`{"email": %q, "password": %q}`, v.Email, VisitorPassword))
	var begun struct {
		Session struct {
			SignUpAttempts []struct{ ID string } `json:"signup_attempts"`
		}
	}
	if err == nil && answer.Status == http.StatusOK && json.Unmarshal(answer.Raw, &begun) == nil && len(begun.Session.SignUpAttempts) == 1 {
		attempt = begun.Session.SignUpAttempts[0].ID
	}
	return attempt, answer, err
}

// EndSignUp verifies the email address with the code that was sent to it.
func (v *Visitor) EndSignUp(server *Cardea, attempt, code string) (Answer, error) {
	return v.Send(server, http.MethodPost, "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id": %q, "code": %q}`, attempt, code))
}

// AwaitCode returns the newest code that was sent to the visitor. It waits up to 20 seconds and returns "" if no code
// came.
func (v *Visitor) AwaitCode(inbox *messagegateway.Gateway) (code string) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(visitorPatience); code == "" && time.Now().Before(end); <-again.C {
		for _, m := range inbox.Messages(v.Email) {
			code = sixDigits.FindString(m.Body)
		}
	}
	return code
}

// SignIn signs the visitor in by password.
func (v *Visitor) SignIn(server *Cardea) (Answer, error) {
	return v.Send(server, http.MethodPost, "/auth/signin", fmt.Sprintf(`{"strategy": "password", "email": %q, "password": %q}`, v.Email, VisitorPassword))
}
