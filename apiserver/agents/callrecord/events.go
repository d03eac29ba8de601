package callrecord

import (
	"errors"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// errPartly means that some records of a transaction were there already, or had their results: it is not known which.
var errPartly = errors.New("some records were written before")

// completes reports whether a call has ended. A call that was accepted ends with its result.
func completes(c *people.ToolCall) bool {
	return c.Outcome != people.CallStarted && c.Outcome != people.CallAccepted
}

// actorOf returns the actor of a call's event. The record of a deleted user names none.
func actorOf(c *people.ToolCaller) string {
	switch {
	case c.ID == "":
		return "anonymous"
	case c.Kind == people.CallerSession:
		return "user:" + ids.Format(c.User)
	}
	return c.Kind + ":" + c.ID
}

// LogCompleted records the events of the calls that have ended. It is called in the transaction that writes how they
// ended.
func LogCompleted(tx people.Tx, calls ...people.ToolCall) error {
	var list []people.LoggedEvent
	for i := range calls {
		c := &calls[i]
		if !completes(c) {
			continue
		}
		e, err := events.OfCall(*c).Log(c.At.Add(c.Latency).Truncate(time.Microsecond), actorOf(&c.Caller))
		if err != nil {
			return err
		}
		list = append(list, e)
	}
	if len(list) == 0 {
		return nil
	}
	return tx.Records().LogEvents(list)
}

// record writes records of calls, with the events of those that have ended, and returns how many there were not before.
// Unless each is written alone, it fails with errPartly if there were some.
func record(tx people.Tx, calls []people.ToolCall, alone bool) (int64, error) {
	return each(tx, calls, alone, tx.Records().RecordToolCalls)
}

// settleAll writes the results of calls that have started, with their events. Unless each is written alone, it fails
// with errPartly if some had results.
func settleAll(tx people.Tx, calls []people.ToolCall, alone bool) error {
	_, err := each(tx, calls, alone, tx.Records().SettleToolCalls)
	return err
}

// each writes calls together or alone, with the events of those that write changed.
func each(tx people.Tx, calls []people.ToolCall, alone bool, write func([]people.ToolCall) (int64, error)) (written int64, err error) {
	size := max(len(calls), 1)
	if alone {
		size = 1
	}
	for len(calls) > 0 {
		part := calls[:size]
		n, err := write(part)
		if err != nil {
			return written, err
		}
		if n > 0 && n < int64(len(part)) {
			return written, errPartly
		}
		if n > 0 {
			if err := LogCompleted(tx, part...); err != nil {
				return written, err
			}
		}
		written += n
		calls = calls[size:]
	}
	return written, nil
}
