package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"time"

	"github.com/cardea-iam/cardea/test/testkit"
)

// everybodysPassword is that of all people.
const everybodysPassword = "a password for a day of chaos"

// patience is how long somebody waits for a code.
const patience = 20 * time.Second

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

// person is somebody at a browser with a cookie jar, behind an address of their own.
type person struct {
	email, address string
	jar            http.CookieJar
}

func newPerson(n int) *person {
	jar, _ := cookiejar.New(nil) // which fails for no options
	return &person{email: fmt.Sprintf("person-%d@example.com", n), address: network(n), jar: jar}
}

// network is an address in a network of its own: what comes from one network is bounded.
func network(n int) string { return fmt.Sprintf("10.%d.%d.1", n%250, n/250%250) }

// send sends a request to a server. An error means that nobody knows whether it was served.
func (p *person) send(server *testkit.Cardea, method, path, body string) (answer testkit.Answer, err error) {
	at, err := url.Parse(server.Frontend)
	if err != nil {
		return answer, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", at.Host)
	}
	client := &http.Client{Jar: p.jar, Timeout: patience, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequest(method, "http://"+host+path, bytes.NewBufferString(body))
	if err != nil {
		return answer, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", p.address)
	resp, err := client.Do(req)
	if err != nil {
		return answer, err
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return answer, err
	}
	answer = testkit.Answer{Status: resp.StatusCode, Header: resp.Header, Raw: raw}
	return answer, json.Unmarshal(raw, &answer.JSON)
}

// signUps signs people up, each step at any server. Whoever's sign-up was acknowledged is at hand for sessions.
func (l *load) signUps(n int) {
	p := newPerson(n)
	object := "person/" + p.email
	begun, err := p.send(l.server(), "POST", "/auth/signup", fmt.Sprintf(`{"email": %q, "password": %q}`, p.email, everybodysPassword))
	var attempt struct {
		Session struct {
			SignUpAttempts []struct{ ID string } `json:"signup_attempts"`
		}
	}
	if err != nil || begun.Status != http.StatusOK || json.Unmarshal(begun.Raw, &attempt) != nil || len(attempt.Session.SignUpAttempts) != 1 {
		l.began(object, begun, err)
		return
	}
	code := ""
	for end := time.Now().Add(patience); code == "" && time.Now().Before(end); {
		for _, m := range l.inbox.Messages(p.email) {
			code = sixDigits.FindString(m.Body)
		}
		<-time.After(50 * time.Millisecond)
	}
	if code == "" {
		l.refused(object, "no code came")
		return
	}
	done, err := p.send(l.server(), "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id": %q, "code": %q}`, attempt.Session.SignUpAttempts[0].ID, code))
	if l.outcome(object, "there", done, err) {
		l.acknowledge("session/"+p.email, "alive")
		select {
		case l.people <- p:
		default: // enough are at hand
		}
	}
}

// began writes down a first step that was not answered well. It makes no account, whatever became of it.
func (l *load) began(object string, answer testkit.Answer, err error) {
	switch {
	case err == nil && answer.Status >= 500 && answer.Status != http.StatusServiceUnavailable && answer.Status != http.StatusGatewayTimeout:
		l.fault("%s: %d %s", object, answer.Status, answer.Raw)
	case err == nil:
		l.refused(object, fmt.Sprint(answer.Status))
	}
}

// sessions signs people out and in again, and looks at their sessions in between.
func (l *load) sessions(ctx context.Context) func(int) {
	return func(int) {
		var p *person
		select {
		case p = <-l.people:
		case <-ctx.Done():
			return
		}
		if l.visits(p) {
			l.people <- p
		}
	}
}

// visits does one thing with a person's session, and tells whether it is known how it stands.
func (l *load) visits(p *person) bool {
	session, server := "session/"+p.email, l.server()
	switch rand.IntN(3) {
	case 0:
		answer, err := p.send(server, "POST", "/session/sign-out", `{}`)
		if !l.outcome(session, "dead", answer, err) {
			return l.settled(session)
		}
		answer, err = p.send(l.server(), "POST", "/auth/signin", fmt.Sprintf(`{"strategy": "password", "email": %q, "password": %q}`, p.email, everybodysPassword))
		l.outcome(session, "alive", answer, err)
	default:
		answer, err := p.send(server, "GET", "/me", "")
		if found := sessionOf(answer, err); found == "dead" && l.judge(session, found, "") != "" {
			l.fault("%s is dead: %d %s", session, answer.Status, answer.Raw)
		}
	}
	return l.settled(session)
}

// sessionOf is the state of a session in an answer to GET /me, "" where it tells nothing.
func sessionOf(answer testkit.Answer, err error) string {
	switch {
	case err == nil && answer.Status == http.StatusOK:
		return "alive"
	case err == nil && answer.Status == http.StatusUnauthorized:
		return "dead"
	}
	return ""
}
