package agents_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// A hundred calls arrive at once at two servers, on both listeners, half of those over MCP with the requestState.
func TestConcurrentCallsOnTwoServersUseAnApprovalOnce(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newBoundWorld(t, url)
		first, backend := w.Server, w.Backend
		second, _ := w.Serve(w.Store, w.Store)
		worlds := [2]world{*w.world, *w.world}
		worlds[0].World, worlds[1].World = new(*w.World), new(*w.World)
		worlds[0].Server, worlds[0].Backend = first, backend
		worlds[1].Server, worlds[1].Backend = second, w.Backend
		own := boundCall{w.own, "support", "pay", `{"cents":1}`}
		id, state := w.approvedState(own)
		answers := make([]string, 100)
		var group sync.WaitGroup
		for i := range answers {
			at := &boundWorld{peopleWorld: &peopleWorld{world: &worlds[i%2]}}
			group.Go(func() {
				switch {
				case i%3 == 0:
					answers[i] = at.directAnswer(own.credential, "acme", "support", "pay", `{"arguments":{"cents":1}}`).Body.String()
				case i%3 == 1:
					a, _, _ := at.continues(own, state)
					answers[i] = a.raw
				default:
					answers[i] = at.try(own).raw
				}
			})
		}
		group.Wait()
		succeeded := 0
		for _, one := range answers {
			switch {
			case strings.Contains(one, `"open"`):
				succeeded++
			case !strings.Contains(one, "approval_required") && !strings.Contains(one, "approval_expired"):
				t.Errorf("a call answers %s", one)
			}
		}
		if sent := w.up.sentTo("/payments"); succeeded != 1 || sent != 1 || w.approvalOf(id).Status != people.ApprovalUsed {
			t.Errorf("%d calls succeeded, the tool got %d requests, and the approval is %s", succeeded, sent, w.approvalOf(id).Status)
		}
		started := 0
		for _, one := range w.records(w.Store) {
			if one.Outcome != "" && one.Approval == id {
				started++
			}
		}
		if started != 1 {
			t.Errorf("%d calls with the approval have an outcome", started)
		}
	})
}

// killedCalls are the approved calls of a story in which the server is killed.
type killedCalls struct {
	*boundWorld
	k *servertest.Killable
	// approvals are those of the calls, by the calls' numbers.
	approvals map[int]int64
}

func numbered(n int) string { return fmt.Sprintf(`{"cents":%d}`, n) }

// ask sends a call to the process. killAt is the statement before which the process kills itself, 0 for none.
func (c *killedCalls) ask(n, killAt int) (status string, err error) {
	c.T.Helper()
	r, err := http.NewRequestWithContext(c.T.Context(), "POST", c.k.URL+"/mcp/support", strings.NewReader(callBody("pay", numbered(n))))
	c.Must(err)
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.own)
	if killAt > 0 {
		r.Header.Set(servertest.KillAtHeader, strconv.Itoa(killAt))
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.Status, nil
}

// sent returns how often the tool got a call.
func (c *killedCalls) sent(n int) (count int) {
	c.up.mu.Lock()
	defer c.up.mu.Unlock()
	for _, one := range c.up.requests {
		if one.body == numbered(n) {
			count++
		}
	}
	return count
}

// state returns the state of the approval of a call, and the outcome of the record that names it. No process runs.
func (c *killedCalls) state(st store.Store, n int) (approval, outcome string) {
	c.T.Helper()
	c.Must(st.View(c.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		a, _, err := tx.Approvals().Approval(c.approvals[n])
		approval = a.Status
		return err
	}))
	for _, one := range c.records(st) {
		if one.Approval == c.approvals[n] && one.Outcome != "" {
			outcome = one.Outcome
		}
	}
	return approval, outcome
}

// expectOnce checks a call whose server was killed:
//  1. if the approval is not used, the call has no record and was not sent;
//  2. if the approval is used, the call has a record and was sent once.
func (c *killedCalls) expectOnce(n int, seen map[string]bool) {
	c.T.Helper()
	st := c.OpenStore()
	defer func() { c.Must(st.Close()) }()
	approval, outcome := c.state(st, n)
	sent := c.sent(n)
	switch {
	case approval == people.ApprovalApproved && outcome == "" && sent == 0:
	case approval == people.ApprovalUsed && (outcome == people.CallStarted || outcome == people.CallSucceeded) && sent == 1:
	default:
		c.T.Errorf("call %d: the approval is %s, the outcome %q, and the tool got %d requests", n, approval, outcome, sent)
	}
	seen[approval+" "+outcome] = true
}

// The server is killed before each statement of an approved call, while the tool works, and before the response. The
// call is sent once at most, also when the client tries it again.
func TestApprovedCallIsSentOnceWhenServerIsKilled(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		const most = 40
		c := &killedCalls{boundWorld: newBoundWorld(t, url), approvals: map[int]int64{}}
		for n := range most {
			c.approvals[n] = c.approved(boundCall{c.own, "support", "pay", numbered(n)})
		}
		c.k = c.Killable()
		seen, last := map[string]bool{}, 0
		for n, answered := 1, false; !answered; n++ {
			if n == most {
				t.Fatalf("a call has more than %d statements", most)
			}
			c.k.Start()
			if raw, err := c.ask(n, n); err == nil {
				t.Fatalf("the process, to be killed before statement %d, answered %s", n, raw)
			}
			answered = c.k.Killed()
			c.expectOnce(n, seen)
			last = n
		}
		c.k.Start()
		stopped := make(chan struct{})
		c.answering(func(http.ResponseWriter, *http.Request) {
			defer close(stopped)
			c.k.Stop()
		})
		if raw, err := c.ask(0, 0); err == nil {
			t.Fatalf("the process, to be killed while the tool works, answered %s", raw)
		}
		<-stopped
		c.expectOnce(0, seen)
		for _, state := range []string{people.ApprovalApproved + " ", people.ApprovalUsed + " " + people.CallStarted, people.ApprovalUsed + " " + people.CallSucceeded} {
			if !seen[state] {
				t.Errorf("no kill left an approval that is %q: %v", state, seen)
			}
		}
		c.answering(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) })
		c.expectNoneTwice(last)
	})
}

// expectNoneTwice tries all calls again. An approval that was not used is used now, and no other call is sent.
func (c *killedCalls) expectNoneTwice(last int) {
	c.T.Helper()
	st := c.OpenStore()
	unused := map[int]bool{}
	for n := range last + 1 {
		approval, _ := c.state(st, n)
		unused[n] = approval == people.ApprovalApproved
	}
	c.Must(st.Close())
	c.k.Start()
	for range 2 {
		for n := range last + 1 {
			if raw, err := c.ask(n, 0); err != nil || !strings.HasPrefix(raw, "200") {
				c.T.Errorf("call %d again: %s %v", n, raw, err)
			}
			if sent := c.sent(n); sent != 1 {
				c.T.Errorf("call %d again, its approval unused: %t, was sent %d times", n, unused[n], sent)
			}
		}
	}
	c.k.Stop()
}
