package webhooks

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// openMost bounds the open deliveries of an endpoint. More events wait behind its position.
	openMost = 1000
	// loadedMost is how many open deliveries are read at the beginning of a lease: more than there are, with those of a
	// replay.
	loadedMost = openMost + replayLow + replayBatch
	// passAfter is how long a delivery that fails holds back the later events of its subject.
	passAfter = time.Hour
	// jitter is the part by which a pause is varied, up and down.
	jitter = 0.2
)

// schedule has the pauses before the second and the following requests. The last one repeats.
var schedule = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour,
}

// pauseBefore returns the pause before the next request of a delivery that had some. vary is between -1 and 1.
func pauseBefore(attempts int64, vary float64) time.Duration {
	pause := schedule[min(max(attempts, 1)-1, int64(len(schedule)-1))]
	return pause + time.Duration(vary*jitter*float64(pause))
}

// MaxAttempts is how many requests a delivery has at most, by the schedule: one of a replay or not, to an endpoint that
// retries for some seconds.
func MaxAttempts(replay bool, retrySeconds int64) int64 {
	n, since := int64(1), time.Duration(0)
	for ; n < 1000; n++ {
		if since += pauseBefore(n, 0); since >= time.Duration(retrySeconds)*time.Second {
			break
		}
	}
	if replay {
		return min(n, ReplayAttempts)
	}
	return n
}

// pending is a delivery that has not ended.
type pending struct {
	people.WebhookDelivery
	// event is the event, nil if it must be read, and held its size in bytes.
	event *people.LoggedEvent
	held  int
	// sending reports that a request of the delivery is open.
	sending bool
	// tries are the requests that are not recorded yet.
	tries []Try
	// readAt is when the event of a delivery was read that is written with its result. unsure reports that a transaction
	// with an unknown result may have written the delivery.
	readAt time.Time
	unsure bool
}

// recorded returns the row of the delivery. A request that is open counts once it has a result.
func (p *pending) recorded() people.WebhookDelivery {
	row := p.WebhookDelivery
	if p.sending {
		row.Attempts--
	}
	return row
}

// expired reports whether a delivery is too old for its next request. The time counts from since on, if that is later
// than its beginning.
func (p *pending) expired(since time.Time, content *document.WebhookEndpoint) bool {
	if p.CreatedAt.After(since) {
		since = p.CreatedAt
	}
	return p.NextAt.Sub(since) >= time.Duration(content.RetrySeconds)*time.Second
}

// retry sets when the next request of a delivery is due: after the pause of the schedule, but not before a time that
// the receiver asked for.
func (p *pending) retry(now, notBefore time.Time) {
	p.NextAt = now.Add(pauseBefore(p.Attempts, rand.Float64()*2-1))
	if p.NextAt.Before(notBefore) {
		p.NextAt = notBefore
	}
}

// queue has the open deliveries of an endpoint in the order of their events.
type queue []*pending

// subject is the entity that an event is about.
type subject struct{ kind, id string }

func (p *pending) subject() subject { return subject{p.SubjectType, p.SubjectID} }

// next returns the delivery whose request is to begin, nil if there is none, and when there is one otherwise; zero if
// that depends on a request that is open. With order, a delivery waits for an earlier one of its subject. It selects
// from deliveries of replays, or from the others; neither wait for the other ones, except for their open requests.
func (q queue) next(now time.Time, ordered, replays bool) (due *pending, at time.Time) {
	// held has the subjects whose later deliveries wait, and until when; zero: until a request ends.
	held := map[subject]time.Time{}
	earlier := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, p := range q {
		if ordered && p.sending {
			held[p.subject()] = time.Time{}
		}
	}
	for _, p := range q {
		if p.sending || replays != (p.Replay != 0) {
			continue
		}
		if until, waits := held[p.subject()]; ordered && waits {
			earlier(until)
			continue
		}
		if !p.NextAt.After(now) {
			return p, now
		}
		earlier(p.NextAt)
		// A delivery that waits for its next request holds back the later ones of its subject in its first hour.
		if passes := p.CreatedAt.Add(passAfter); ordered && now.Before(passes) {
			held[p.subject()] = passes
		}
	}
	return nil, at
}

// sending is how many requests are open.
func (q queue) sending() (n int) {
	for _, p := range q {
		if p.sending {
			n++
		}
	}
	return n
}

// replayed is how many deliveries of replays are open.
func (q queue) replayed() (n int) {
	for _, p := range q {
		if p.Replay != 0 {
			n++
		}
	}
	return n
}

// replaysSending is how many requests of replays are open.
func (q queue) replaysSending() (n int) {
	for _, p := range q {
		if p.Replay != 0 && p.sending {
			n++
		}
	}
	return n
}

// full reports whether there are too many open deliveries, without those of replays, to read further events. ended is
// how many results are not written yet: the store has their deliveries as open.
func (q queue) full(ended int) bool {
	const most = openMost - fillMost
	live := len(q) + ended
	return live > most && live-q.replayed() > most
}

// probes reports whether a delivery to probe a failing endpoint with is due, or its request is open. Those of replays
// do not count.
func (q queue) probes(now time.Time, ordered bool) bool {
	due, _ := q.next(now, ordered, false)
	return due != nil || q.sending() > q.replaysSending()
}

// without returns the queue without a delivery, if that ended. Deliveries usually end near the beginning of the queue.
func (q queue) without(p *pending) queue {
	if at := slices.Index(q, p); at >= 0 && p.Status != people.DeliveryPending && !p.sending {
		return slices.Delete(q, at, at+1)
	}
	return q
}

// earliest returns when the first open delivery is due, zero if there is none.
func (q queue) earliest() (at time.Time) {
	for _, p := range q {
		if p.Status == people.DeliveryPending && (at.IsZero() || p.NextAt.Before(at)) {
			at = p.NextAt
		}
	}
	return at
}
