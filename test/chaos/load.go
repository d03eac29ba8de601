package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/cardea-iam/cardea/test/testkit"
)

// load sends requests of all kinds to an install, and keeps the journal of the responses.
type load struct {
	*install
	*journal
	group sync.WaitGroup
	// people are users with an acknowledged sign-up, whose sessions the load uses.
	people chan *testkit.Visitor
	// answered counts the successful reads.
	answered atomic.Int64
}

// repeat calls do at a rate per second until the context ends. A call that has begun is finished.
func (l *load) repeat(ctx context.Context, perSecond rate.Limit, do func(n int)) {
	l.group.Go(func() {
		pace := rate.NewLimiter(perSecond, 1)
		for n := 0; pace.Wait(ctx) == nil; n++ {
			do(n)
		}
	})
}

// start starts all requests of the load, which end with the context. The caller then waits for the group.
func (l *load) start(ctx context.Context) {
	for worker := range 3 {
		l.repeat(ctx, 6, l.schemes(fmt.Sprintf("http-%d", worker)))
	}
	l.repeat(ctx, 4, l.declared())
	l.repeat(ctx, 3, l.keys())
	l.repeat(ctx, 1, l.signUps)
	for range 2 {
		l.repeat(ctx, 2, l.sessions(ctx))
	}
	for i := range 2 {
		l.repeat(ctx, 20, l.reads(i))
	}
}

// outcome records how a write that sets an object to a state ended, and reports whether it was acknowledged. A server
// that could not complete the write responds with 503. As without a response, it is then unknown whether the write took
// effect.
func (l *load) outcome(object, state string, answer testkit.Answer, err error) bool {
	switch {
	case err != nil:
		l.wonder(object, state, err.Error())
	case answer.Status < 300:
		l.acknowledge(object, state)
		return true
	case answer.Status == http.StatusServiceUnavailable || answer.Status == http.StatusGatewayTimeout:
		l.wonder(object, state, fmt.Sprint(answer.Status))
	case answer.Status >= 500:
		l.fault("%s: %d %s", object, answer.Status, answer.Raw)
		l.wonder(object, state, fmt.Sprint(answer.Status))
	default:
		l.refused(object, fmt.Sprint(answer.Status))
	}
	return false
}

// schemes creates, changes and deletes rate-limit schemes over HTTP, each on any server. An object in an unknown state
// is not touched again, because a request without a response may still take effect.
func (l *load) schemes(worker string) func(n int) {
	var living []string
	made := 0
	return func(n int) {
		server := l.server()
		if len(living) == 0 || len(living) < 8 && rand.IntN(3) == 0 {
			made++
			slug := fmt.Sprintf("%s-%d", worker, made)
			answer, err := testkit.Do("POST", server.Backend+schemesPath, l.key, schemeBody(slug, n+1))
			if l.outcome("scheme/"+slug, fmt.Sprint(n+1), answer, err) {
				living = append(living, slug)
				l.sees(server, answer, slug, fmt.Sprint(n+1))
			}
			return
		}
		at := rand.IntN(len(living))
		slug, state, method, body := living[at], fmt.Sprint(n+1), "PATCH", rules(n+1)
		if rand.IntN(4) == 0 {
			state, method, body = absent, "DELETE", ""
		}
		answer, err := testkit.Do(method, server.Backend+schemesPath+"/"+slug, l.key, body)
		switch {
		case l.outcome("scheme/"+slug, state, answer, err):
			l.sees(server, answer, slug, state)
		case err == nil && answer.Status == http.StatusNotFound:
			l.fault("scheme/%s: %s of what was acknowledged: 404", slug, method)
		}
		if state == absent || !l.settled("scheme/"+slug) {
			living = append(living[:at], living[at+1:]...)
		}
	}
}

// sees expects the server that acknowledged a write as synced to serve it.
func (l *load) sees(server *testkit.Cardea, written testkit.Answer, slug, state string) {
	if written.Header.Get("Cardea-Synced") != "true" {
		return
	}
	answer, err := testkit.Do("GET", server.Backend+schemesPath+"/"+slug, l.key, "")
	if found, known := limitOf(answer, err); known && found != state {
		l.fault("scheme/%s: the server that acknowledged %q shows %q", slug, state, found)
	}
}

// keys creates and revokes API keys over HTTP. A key that servers do not accept is absent.
func (l *load) keys() func(n int) {
	type key struct{ id, secret string }
	var living []key
	return func(n int) {
		server := l.server()
		if len(living) > 6 || len(living) > 0 && rand.IntN(3) == 0 {
			last := living[0]
			living = living[1:]
			answer, err := testkit.Do("POST", server.Backend+keysPath+"/"+last.id+"/revoke", l.key, `{"reason": "chaos"}`)
			l.outcome("key/"+last.secret, absent, answer, err)
			return
		}
		answer, err := testkit.Do("POST", server.Backend+keysPath, l.key, fmt.Sprintf(`{"name": "key %d", "permissions": ["orders:read"]}`, n))
		if err != nil || answer.Status != http.StatusOK {
			l.outcome(fmt.Sprintf("lost-key/%d", n), "made", answer, err) // its secret was never received
			return
		}
		id, secret := keyOf(answer)
		if secret == "" {
			l.fault("a key without a secret: %s", answer.Raw)
			return
		}
		living = append(living, key{id, secret})
		l.acknowledge("key/"+secret, "accepted")
	}
}

// reads sends reads to one server continuously. A running server that loaded its configuration once responds, whatever
// else is unavailable.
func (l *load) reads(i int) func(n int) {
	return func(int) {
		server, since := l.steadySince(i)
		if server == nil {
			return
		}
		answer, err := testkit.Do("GET", server.Backend+schemesPath+"?limit=1", l.key, "")
		if again, then := l.steadySince(i); again != server || then != since {
			return // a fault hit it meanwhile
		}
		if err != nil || answer.Status != http.StatusOK {
			l.fault("server-%d does not answer a read: status %d %s, %v", i, answer.Status, answer.Raw, err)
			return
		}
		l.answered.Add(1)
	}
}
