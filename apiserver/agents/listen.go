package agents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

const (
	methodListen = "subscriptions/listen"
	// listenPattern is the route of streams in metrics: the time until a stream begins.
	listenPattern = "/mcp/{agent} " + methodListen
	// listenWithin is how long a stream lasts.
	listenWithin = time.Hour
	// aliveEvery is the time between the comments that keep a quiet stream open in proxies.
	aliveEvery = 15 * time.Second
	// checkEvery is the time between the checks of a stream: of its credential, and of what its caller may see. At most
	// checkSpread is added at random, so that streams that were opened together are not checked together.
	checkEvery, checkSpread = 800 * time.Millisecond, 100 * time.Millisecond
	// checkApart is the least time between two checks, for changes of the configuration that follow each other.
	checkApart = 250 * time.Millisecond
	// maxSubscription bounds the id of a stream's request, which every message of the stream repeats, in bytes.
	maxSubscription = 256
)

// listens reports whether a request opens a stream of notifications.
func (r *request) listens() bool {
	return r.revision == modern && r.Method == methodListen && !r.notification()
}

// filter names the notifications that a client wants, or gets. The server sends no others than these.
type filter struct {
	ToolsListChanged bool `json:"toolsListChanged,omitempty"`
}

// notification is a JSON-RPC notification of a stream.
type notification struct {
	Version string             `json:"jsonrpc"`
	Method  string             `json:"method"`
	Params  notificationParams `json:"params"`
}

type notificationParams struct {
	Meta          map[string]any `json:"_meta"`
	Notifications *filter        `json:"notifications,omitempty"`
}

// stream is an open stream of notifications. It keeps nothing of the request but its id.
type stream struct {
	*call
	share *streamShare
	until time.Time
	seen  seen
}

// seen is what a caller sees, as of a check.
type seen struct {
	// state is the deployment's, and tools has a 1 for each of the agent's tools that the caller may see.
	state *snapshot.State
	tools []byte
	// list is the digest of the caller's list.
	list [sha256.Size]byte
}

// listen answers a request with a stream of notifications, until the client, the credential, the right to the agent,
// the server or the time of streams ends. It returns an error only if no stream began.
func listen(c *call) error {
	wanted := c.request.params.Notifications
	switch {
	case wanted == nil:
		return faulty(codeParams, "params.notifications is missing: name the notifications to listen for")
	case len(c.request.ID) > maxSubscription:
		return badRequest(codeRequest, "the id is too long for a stream, whose messages repeat it: use at most 256 bytes")
	}
	share, giveBack, taken := c.streams.take(c.agent.Deployment, principalOf(c.agent.Deployment, c.caller))
	if !taken {
		refused := apierror.New(http.StatusTooManyRequests, "too many streams are open: close those that are not needed, or try again later")
		refused.RetryAfter = time.Minute
		return refused
	}
	defer giveBack()
	s := &stream{call: c, share: share, until: c.Received.Add(listenWithin)}
	c.request = &request{message: message{ID: bytes.Clone(c.request.ID)}, revision: modern}
	s.look()
	if err := http.NewResponseController(c).SetReadDeadline(time.Now().Add(listenWithin + respondWithin)); err != nil {
		return err
	}
	s.begin(wanted)
	return nil
}

// begin acknowledges the stream, follows what the caller sees if it wants that, and ends the stream with the result of
// its request.
func (s *stream) begin(wanted *filter) {
	s.r.Pattern = listenPattern
	header := s.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no")
	s.WriteHeader(http.StatusOK)
	acknowledged := notification{"2.0", "notifications/subscriptions/acknowledged", notificationParams{s.meta(), &filter{wanted.ToolsListChanged}}}
	if s.message(acknowledged) != nil {
		return
	}
	s.Answered(s.r)
	if wanted.ToolsListChanged {
		ctx, cancel := context.WithCancel(s.r.Context())
		defer cancel()
		defer context.AfterFunc(s.streams.ended, cancel)()
		if s.follow(ctx) != nil {
			return
		}
	}
	result := s.common()
	result.Meta[metaSubscription] = s.request.ID
	_ = s.message(response{Version: "2.0", ID: s.request.ID, Result: result}) // the client may have closed the connection
}

// follow sends a notification for each change of the caller's list. It returns an error if the client is gone, and nil
// if the stream ends otherwise.
func (s *stream) follow(ctx context.Context) error {
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	checked := time.Now()
	due := time.NewTimer(untilNext())
	defer due.Stop()
	for current := s.snapshot; ; {
		select {
		case <-ctx.Done():
			return s.r.Context().Err()
		case <-alive.C:
			if err := s.write([]byte(":\n\n")); err != nil {
				return err
			}
		case <-current.Superseded():
			if current = s.Snapshots.Current(); current.StateOf(s.agent.Deployment) != s.seen.state {
				due.Reset(time.Until(checked.Add(checkApart)))
			}
		case <-due.C:
			changed, going := s.check(ctx)
			if !going {
				return s.r.Context().Err()
			}
			if changed {
				if err := s.message(notification{"2.0", "notifications/tools/list_changed", notificationParams{Meta: s.meta()}}); err != nil {
					return err
				}
			}
			checked = time.Now()
			due.Reset(untilNext())
		}
	}
}

func untilNext() time.Duration { return checkEvery + rand.N(checkSpread) }

// check reports whether the caller's list changed, and whether the stream goes on. While the store is unavailable, the
// stream goes on without notifications: the next check finds the changes.
func (s *stream) check(ctx context.Context) (changed, going bool) {
	select {
	case s.share.checks <- struct{}{}:
		defer func() { <-s.share.checks }()
	case <-ctx.Done():
		return false, false
	}
	now := s.Clock()
	if !now.Before(s.until) || !s.caller.ExpiresAt.IsZero() && !now.Before(s.caller.ExpiresAt) {
		return false, false
	}
	if err := s.identify(); err != nil {
		status := apierror.Of(err).Status
		return false, status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
	}
	return s.look(), true
}

// identify repeats the checks of the request for the present configuration: of the agent, the credential, and the right
// to the agent.
func (s *stream) identify() error {
	next := &call{Server: s.Server, Exchange: s.Exchange, r: s.r, snapshot: s.Snapshots.Current(), request: s.request}
	if err := credential.Fresh(s.Snapshots, s.MaxStaleness); err != nil {
		return err
	}
	if err := next.findAgent(nameIn(s.r)); err != nil {
		return err
	}
	if next.agent.Deployment != s.agent.Deployment {
		return apierror.New(http.StatusNotFound, "the host is another deployment's now")
	}
	if err := next.authenticate(); err != nil {
		return err
	}
	if err := next.checkAccess(); err != nil {
		return err
	}
	s.call = next
	return nil
}

// look determines what the caller sees, and reports whether its list changed. The tools are prepared only if the
// deployment's configuration or the caller's rights changed.
func (s *stream) look() bool {
	entries := s.snapshot.Tools(s.agent)
	next := seen{state: s.snapshot.StateOf(s.agent.Deployment), tools: make([]byte, len(entries))}
	for i, entry := range entries {
		if s.lists(snapshot.ContentOf[snapshot.Tool](entry)) {
			next.tools[i] = 1
		}
	}
	if next.state == s.seen.state && bytes.Equal(next.tools, s.seen.tools) {
		return false
	}
	digest := sha256.New()
	for _, one := range s.Tools.Of(s.snapshot, s.agent).Tools {
		if s.lists(one.Content) {
			_, _ = digest.Write(append(one.Listed[:len(one.Listed):len(one.Listed)], '\n')) // a hash never fails
		}
	}
	digest.Sum(next.list[:0])
	changed := next.list != s.seen.list
	s.seen = next
	return changed
}

// meta returns the metadata of a stream's notification.
func (s *stream) meta() map[string]any { return map[string]any{metaSubscription: s.request.ID} }

// message sends a message as an event.
func (s *stream) message(of any) error {
	var event bytes.Buffer
	event.WriteString("data: ")
	encoder := json.NewEncoder(&event)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(of); err != nil {
		return err
	}
	event.WriteByte('\n')
	return s.write(event.Bytes())
}

// write sends bytes at once. A client that reads nothing until after the next comment is gone.
func (s *stream) write(raw []byte) error {
	controller := http.NewResponseController(s)
	if err := controller.SetWriteDeadline(time.Now().Add(aliveEvery + respondWithin)); err != nil {
		return err
	}
	_, err := s.Write(raw)
	return errors.Join(err, controller.Flush())
}
