package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/test/testkit"
)

// patience bounds one write to the Kubernetes API.
const patience = 20 * time.Second

// newPerson returns a visitor with a unique email and network.
func newPerson(n int) *testkit.Visitor {
	return testkit.NewVisitor(host, fmt.Sprintf("person-%d@example.com", n), network(n))
}

// network returns an address in a unique network, because requests of one network are limited.
func network(n int) string { return fmt.Sprintf("10.%d.%d.1", n%250, n/250%250) }

// signUps signs users up, each step at any server. It passes users with an acknowledged sign-up to sessions.
func (l *load) signUps(n int) {
	p := newPerson(n)
	object := "person/" + p.Email
	attempt, begun, err := p.BeginSignUp(l.server())
	if attempt == "" {
		l.began(object, begun, err)
		return
	}
	code := p.AwaitCode(l.Inbox)
	if code == "" {
		l.refused(object, "no code came")
		return
	}
	done, err := p.EndSignUp(l.server(), attempt, code)
	if l.outcome(object, "there", done, err) {
		l.acknowledge("session/"+p.Email, "alive")
		select {
		case l.people <- p:
		default: // sessions has enough users
		}
	}
}

// began records an unsuccessful first step of a sign-up. The first step creates no account, whatever its outcome.
func (l *load) began(object string, answer testkit.Answer, err error) {
	switch {
	case err == nil && answer.Status >= 500 && answer.Status != http.StatusServiceUnavailable && answer.Status != http.StatusGatewayTimeout:
		l.fault("%s: %d %s", object, answer.Status, answer.Raw)
	case err == nil:
		l.refused(object, fmt.Sprint(answer.Status))
	}
}

// sessions signs users out and in again, and checks their sessions in between.
func (l *load) sessions(ctx context.Context) func(int) {
	return func(int) {
		var p *testkit.Visitor
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

// visits sends requests for a person's session, and reports whether the session's state is known afterwards.
func (l *load) visits(p *testkit.Visitor) bool {
	session, server := "session/"+p.Email, l.server()
	switch rand.IntN(3) {
	case 0:
		answer, err := p.Send(server, "POST", "/session/sign-out", `{}`)
		if !l.outcome(session, "dead", answer, err) {
			return l.settled(session)
		}
		answer, err = p.SignIn(l.server())
		l.outcome(session, "alive", answer, err)
	default:
		answer, err := p.Send(server, "GET", "/me", "")
		if found := sessionOf(answer, err); found == "dead" && l.compare(session, found, "") != "" {
			l.fault("%s is dead: %d %s", session, answer.Status, answer.Raw)
		}
	}
	return l.settled(session)
}

// sessionOf returns the state of a session from a response to GET /me, or "" if the response does not show it.
func sessionOf(answer testkit.Answer, err error) string {
	switch {
	case err == nil && answer.Status == http.StatusOK:
		return "alive"
	case err == nil && answer.Status == http.StatusUnauthorized:
		return "dead"
	}
	return ""
}
