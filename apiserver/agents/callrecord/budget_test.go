package callrecord

import (
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

func TestRefusedCallsOfADeploymentAreRecordedAtABoundedRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	for range 60 {
		for range 2 * refusedRate {
			w.Clock.Advance(time.Second / (2 * refusedRate))
			c, err := w.Begin(w.Clock.Now(), findOrder("acme/main"), people.ToolCaller{Kind: people.CallerKey, ID: "key"}, "")
			w.Must(err)
			c.Refuse(people.CallRateLimited, "rate_limited")
		}
		w.Must(w.Flush(t.Context()))
	}
	const want = refusedCount + 60*refusedRate
	if n := len(w.stored("acme/main")); n < want-1 || n > want {
		t.Errorf("%d records are stored, want %d", n, want)
	}
}

// A deployment whose calls have large bodies fills the store no faster than it may, and others keep theirs.
func TestBodiesOfADeploymentAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	large := toolcall.Result{Content: []toolcall.Block{{Type: "text", Text: strings.Repeat("x", 1000)}}}
	run := func(deployment string) {
		w.Clock.Advance(time.Millisecond)
		of := findOrder(deployment)
		of.Keep = document.RecordAll
		c, err := w.Begin(w.Clock.Now(), of, people.ToolCaller{Kind: people.CallerKey, ID: "key"}, "")
		w.Must(err)
		c.Arguments([]byte(`{"text":"` + large.Content[0].Text + `"}`))
		_, err = c.Run(t.Context(), func() toolcall.Result { return large })
		w.Must(err)
	}
	if !w.keeps(&Tool{Deployment: "acme/main"}, keptBurst, w.Clock.Now()) {
		t.Fatal("the deployment cannot keep what it may")
	}
	run("acme/main")
	record := people.ToolCall{ID: 7, At: w.Clock.Now()}
	if w.Arrive("acme/main", &record, large, w.Clock.Now()) {
		t.Error("the result that came later is kept")
	}
	if n := w.NotKept(); n != 3 {
		t.Errorf("%d bodies are not kept, want arguments, result, and the result that came later", n)
	}
	run("acme/other")
	w.Clock.Advance(time.Second)
	run("acme/main")
	w.Must(w.Flush(t.Context()))
	if got := w.kept("acme/main"); len(got) != 2 || got[0] || !got[1] {
		t.Errorf("the bodies of the calls are kept: %v, want those of the second alone", got)
	}
	if got := w.kept("acme/other"); len(got) != 1 || !got[0] {
		t.Errorf("the bodies of another deployment are kept: %v", got)
	}
}

// kept reports of each stored call of a deployment, the oldest first, whether it has both bodies.
func (w *world) kept(deployment string) (kept []bool) {
	w.T.Helper()
	for _, call := range w.stored(deployment) {
		w.Must(w.World.Store.View(w.T.Context(), deployment, func(tx people.Tx) error {
			found, _, err := tx.Records().ToolCall(call.ID)
			kept = append(kept, found.Arguments != "" && found.Result != "")
			return err
		}))
	}
	return kept
}
