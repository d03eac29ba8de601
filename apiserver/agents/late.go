package agents

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/agents/callrecord"
	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// resultPrefix is the path at which tools send results that come later, and resultPattern its route in metrics.
	resultPrefix, resultPattern = "/tool-results/", "/tool-results/{call}"
	// lookEvery is how often a call looks for its result, which another server may have received.
	lookEvery = 250 * time.Millisecond
	// The most results that arrive at the same time, of a deployment and at the server.
	resultsOfDeployment, resultsOfServer = 8, 64
	// aroundResult is the most that the body of a result has around the result itself, in bytes.
	aroundResult = 4 << 10
)

// errAnswered: the call has its result, or ended without one that can change.
var errAnswered = apierror.New(http.StatusConflict, "the call has ended and takes no result: send a result once")

// arrivals wakes the calls of this server whose results arrive here. It is safe for concurrent use.
type arrivals struct {
	mu      sync.Mutex
	waiting map[int64]chan struct{}
}

func newArrivals() *arrivals { return &arrivals{waiting: map[int64]chan struct{}{}} }

// expect returns a channel that is closed when the result of a call arrives here, and a function that ends the wait.
func (a *arrivals) expect(call int64) (arrived <-chan struct{}, end func()) {
	signal := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[call] = signal
	return signal, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, call)
	}
}

func (a *arrivals) arrived(call int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if signal, waits := a.waiting[call]; waits {
		delete(a.waiting, call)
		close(signal)
	}
}

// await returns the result of a call that a webhook accepted: the result that comes later, if it comes in time, else
// that the tool answers later. A tool may also have sent its result and then failed to respond.
func (r *recorded) await(ctx context.Context, of toolcall.Result, until time.Time) toolcall.Result {
	if r.tool.Content.Type != document.ToolTypeWebhook {
		return of
	}
	arrived, end := r.arrivals.expect(r.record.ID())
	defer end()
	limit := time.NewTimer(time.Until(until))
	defer limit.Stop()
	for {
		if late, found := r.late(); found {
			late.Status, late.BytesOut = of.Status, of.BytesOut
			return late
		}
		if !of.Later {
			return of
		}
		select {
		case <-ctx.Done():
			return of
		case <-limit.C:
			return of
		case <-arrived:
			arrived = nil
		case <-time.After(lookEvery):
		}
	}
}

// late returns the recorded result of the call, if it has come.
func (r *recorded) late() (toolcall.Result, bool) {
	var one people.ToolCall
	var found bool
	err := r.views(func(u *account.Unit) (err error) {
		outcome, err := u.Records().ToolCallOutcome(r.record.ID())
		if err != nil || outcome != people.CallSucceeded && outcome != people.CallFailed {
			return err
		}
		one, found, err = u.Records().ToolCall(r.record.ID())
		return err
	})
	if err != nil || !found {
		return toolcall.Result{}, false
	}
	return r.Records.Arrived(r.agent.Deployment, &one)
}

// arrival is a request with a result that comes later. It has no caller and no agent.
type arrival struct{ *call }

// serveResult receives a result that comes later.
func (s *Server) serveResult(w http.ResponseWriter, r *http.Request) {
	r.Pattern = resultPattern
	c := &arrival{call: &call{Server: s, r: r, snapshot: s.Snapshots.Current()}}
	c.Begin(w, r, s.Metrics, s.Clock)
	defer c.End(r, c)
	c.Header().Set("Cache-Control", "no-store")
	if err := c.receive(); err != nil {
		c.Refuse(err)
		return
	}
	c.WriteHeader(http.StatusNoContent)
}

// receive checks and records a result. Errors: 404 for an unknown host, 405, 401 for a token that is not that of the
// call, 410 after its end, 415, 413, 400, 409 for a call that has its result, and 503.
func (c *arrival) receive() error {
	deployment, found := c.snapshot.ByHost(site.Host(c.r))
	if !found {
		return apierror.New(http.StatusNotFound, "there is no such deployment: use result_url as the call gave it")
	}
	if c.r.Method != http.MethodPost {
		return apierror.MethodNotAllowed(c.r.Method, http.MethodPost)
	}
	id, state, err := c.openResultToken(deployment)
	if err != nil {
		return err
	}
	gone := apierror.New(http.StatusGone, "the result comes too late: the tool's resultSeconds are over, or the tool is gone")
	if !c.Clock().Before(state.Ends) {
		return gone
	}
	var record people.ToolCall
	request := c.transactionOf(deployment, "tool")
	if err := request.View(c.r.Context(), func(u *account.Unit) (err error) { record, found, err = u.Records().ToolCall(id); return err }); err != nil {
		return storeFault(err)
	}
	if !found {
		return gone
	}
	if !slices.Contains(people.Unanswered(), record.Outcome) {
		return errAnswered
	}
	entry, found := c.snapshot.ByID(v1alpha1.KindAITool, deployment.Deployment, record.Tool)
	if !found {
		return gone
	}
	content := snapshot.ContentOf[snapshot.Tool](entry)
	room := c.roomForResult(deployment, id, content)
	if c.slots.try(room) != nil {
		return apierror.Later(apierror.DefaultCode(http.StatusTooManyRequests), time.Second, "too many results arrive at once: try again")
	}
	defer c.slots.giveBack(room)
	output, err := toolset.Output(content)
	if err != nil {
		return gone
	}
	tool := &toolset.Tool{Entry: entry, Content: content, Output: output}
	late, err := c.readResult(tool)
	if err != nil {
		return err
	}
	secrets, err := c.secretsOf(tool, state)
	if err != nil {
		return err
	}
	record.Caller.User = state.User // the record of a deleted user has none, and gets no result
	return c.settleLate(request, &record, late.Read(&tool.Content.AITool, tool.Output, secrets))
}

// roomForResult returns the bounds of a result that is read: of its call, of the deployment, of the server, and in
// bytes.
func (c *arrival) roomForResult(deployment *snapshot.Entry, id int64, tool *snapshot.Tool) []slot {
	size := tool.Response.MostBytes() + aroundResult
	if stated := c.r.ContentLength; stated >= 0 {
		size = min(size, stated)
	}
	own := "results of " + deployment.Deployment
	return append(responseRoom(deployment.Deployment, size),
		slot{name: "result " + deployment.Deployment + "/" + ids.Format(id), most: 1}, slot{name: own, most: resultsOfDeployment}, slot{name: "results", most: resultsOfServer, of: own})
}

// secretsOf returns what a result that comes later must not repeat.
func (c *arrival) secretsOf(tool *toolset.Tool, state resultState) ([]string, error) {
	token, err := credential.Bearer(c.r)
	if err != nil {
		return nil, err
	}
	values, refused := c.open(tool)
	if refused != nil {
		return nil, apierror.Unavailable(nil, "the server cannot open the tool's secrets")
	}
	secrets := slices.Concat([]string{token, state.Token}, slices.Collect(maps.Values(values)))
	if tool.Content.SigningSecret {
		secret, err := signingSecret(c.call, tool)
		if err != nil {
			return nil, apierror.Unavailable(nil, "the server cannot open the tool's secrets")
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

// openResultToken returns the call whose result the request has, and the content of its token. Addresses that present
// too many wrong tokens are refused, as with other credentials.
func (c *arrival) openResultToken(deployment *snapshot.Entry) (id int64, state resultState, err error) {
	address := c.Authenticator.Proxies.ClientAddress(c.r)
	text := c.r.URL.Path[len(resultPrefix):]
	raw, err := credential.Bearer(c.r)
	if err == nil {
		var content []byte
		id, err = ids.Parse(text)
		if err == nil {
			content, err = c.Keyring.Open(document.SealedResultToken, deployment.Deployment+"/"+text, raw)
		}
		if err == nil {
			err = json.Unmarshal(content, &state)
		}
	}
	if err == nil {
		return id, state, nil
	}
	if c.Authenticator.Attempts.TooMany(address, address) {
		return 0, state, credential.TooManyAttempts()
	}
	c.Authenticator.Attempts.Failed(address, address)
	return 0, state, apierror.InvalidToken()
}

// readResult reads the body of a result.
func (c *arrival) readResult(tool *toolset.Tool) (late toolcall.Late, err error) {
	if err := body.RequireJSON(c.r); err != nil {
		return late, err
	}
	raw, err := body.Read(c.r, tool.Content.Response.MostBytes()+aroundResult)
	if err != nil {
		return late, err
	}
	if err := body.Check(raw); err != nil {
		return late, apierror.New(http.StatusBadRequest, "the body is no JSON: %v", err)
	}
	if json.Unmarshal(raw, &late) != nil || (late.Result == nil) == (late.Error == "") {
		return late, apierror.New(http.StatusBadRequest, `the body is {"result": any JSON value} or {"error": "text"}`)
	}
	return late, nil
}

// settleLate records a result, once.
func (c *arrival) settleLate(request *account.Request, record *people.ToolCall, result toolcall.Result) error {
	if !c.Records.Arrive(request.Key(), record, result, c.Clock()) {
		return apierror.Later(apierror.DefaultCode(http.StatusTooManyRequests), time.Minute, "the results of the deployment take more room than they may: send the result again later")
	}
	settled := false
	err := request.Change(context.WithoutCancel(c.r.Context()), func(u *account.Unit) (err error) {
		if settled, err = u.Records().ReceiveToolResult(*record); err != nil || !settled {
			return err
		}
		return callrecord.LogCompleted(u.Tx, *record)
	})
	if err != nil {
		return storeFault(err)
	}
	if !settled {
		return errAnswered
	}
	c.arrivals.arrived(record.ID)
	return nil
}

// accepted is the member of _meta of a call whose tool answers later.
type accepted struct {
	CallID string `json:"call_id"`
}

// acceptedText is the text of such a call.
func acceptedText(id string) []toolcall.Block {
	return []toolcall.Block{{Type: "text", Text: "The tool has accepted the call " + id + " and answers later. Do not call it again for the same purpose."}}
}
