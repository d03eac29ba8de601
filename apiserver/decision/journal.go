package decision

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
)

// Journal writes a sample of the decisions as JSON Lines. It never delays a decision: entries that the writer cannot
// keep up with are dropped and counted.
type Journal struct {
	to      io.Writer
	share   float64
	waiting chan entry
	dropped atomic.Uint64
}

// journalRoom is how many decisions may wait for the writer.
const journalRoom = 1024

// entry is one line of the journal.
type entry struct {
	Time       time.Time `json:"time"`
	RequestID  string    `json:"request_id"`
	Allowed    bool      `json:"allowed"`
	Reason     string    `json:"reason,omitempty"`
	Rule       string    `json:"blocked_rule,omitempty"`
	Deployment string    `json:"deployment_id"`
	App        string    `json:"app_slug,omitempty"`
	Key        string    `json:"key_id,omitempty"`
	Method     string    `json:"method"`
	Path       string    `json:"path"`
	Client     string    `json:"client_ip,omitempty"`
	Dropped    uint64    `json:"dropped,omitempty"`
}

// NewJournal returns a journal that records a share of the decisions, 0 to 1. Run writes it.
func NewJournal(to io.Writer, share float64) *Journal {
	return &Journal{to: to, share: share, waiting: make(chan entry, journalRoom)}
}

// note records a decision if it is in the sample. A nil journal records none.
func (j *Journal) note(at time.Time, requestID string, q *question, v *decision) {
	if j == nil || rand.Float64() >= j.share {
		return
	}
	line := entry{
		Time: at.UTC(), RequestID: requestID, Allowed: v.allowed, Reason: string(v.reason), Method: q.method, Path: pathOnly(q.path),
		Deployment: ids.Format(v.subject.principal.Deployment.ID), App: v.subject.app[0], Key: v.subject.keyID[0],
	}
	if v.reason == rateLimited {
		line.Rule = v.limits.Rules[v.limits.Blocked].Rule.Text
	}
	if q.client.IsValid() {
		line.Client = q.client.String()
	}
	select {
	case j.waiting <- line:
	default:
		j.dropped.Add(1)
	}
}

// pathOnly removes the query, because clients put secrets there.
func pathOnly(path string) string {
	for i := range len(path) {
		if path[i] == '?' || path[i] == '#' {
			return path[:i]
		}
	}
	return path
}

// Run writes until ctx ends, then writes the waiting entries. A write error ends the server, because an operator that
// enabled the journal relies on it.
func (j *Journal) Run(ctx context.Context) error {
	lines := json.NewEncoder(j.to)
	write := func(line entry) error {
		line.Dropped = j.dropped.Swap(0)
		if err := lines.Encode(line); err != nil {
			return fmt.Errorf("write the decision log: %w", err)
		}
		return nil
	}
	for {
		select {
		case line := <-j.waiting:
			if err := write(line); err != nil {
				return err
			}
		case <-ctx.Done():
			for {
				select {
				case line := <-j.waiting:
					if err := write(line); err != nil {
						return err
					}
				default:
					return nil
				}
			}
		}
	}
}
