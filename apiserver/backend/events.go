package backend

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/sequencer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// scannedAtOnce is how many events one query reads, and scannedMost how many one request reads.
	scannedAtOnce, scannedMost = 1000, 10_000
	// eventWait is the largest wait in seconds, and waitRetry when a request that may not wait tries again.
	eventWait, waitRetry = 30, time.Second
	// rereadAfter is the least time between two reads of a request that found nothing, and respondWithin bounds the read
	// and the response after a wait.
	rereadAfter, respondWithin = time.Second, 10 * time.Second
	// readsUsers is the permission that personal data of events need in addition.
	readsUsers = "users:read"
)

// eventReads bound the requests that read events at once on one server.
var eventReads = egress.Bounds{AtOnce: 8, DeploymentAtOnce: 2}

// eventQuery are the parameters of listEvents.
type eventQuery struct {
	filter events.Filter
	// after is the place where the list begins; nil: at since, or now if that is the zero time.
	after *events.Cursor
	since time.Time
	limit int
	wait  time.Duration
	// personal adds personal data.
	personal bool
}

func (q *parameters) events() eventQuery {
	e := eventQuery{limit: q.Limit(defaultLimit, maxLimit), since: q.Time("since")}
	if text, sent := q.Text("after"); sent {
		after, valid := events.ParseCursor(text)
		if e.after = &after; !valid {
			q.Fault("after", "must be next_cursor of a page before")
		}
		if !e.since.IsZero() {
			q.Fault("since", "cannot be used with after: send one of them")
		}
	}
	if types, sent := q.Text("types"); sent {
		var err error
		if e.filter.Types, err = events.ParseTypes(strings.Split(types, ",")); err != nil {
			q.Fault("types", "has %s", err)
		}
	}
	e.filter.SubjectType, _ = q.Text("subject_type")
	e.filter.SubjectID, _ = q.Text("subject_id")
	if q.Has("organization_id") {
		e.filter.Organization = q.ID("organization_id")
	}
	wait := q.Integer("wait", 0, 0)
	if wait > eventWait {
		q.Fault("wait", "must be at most %d", eventWait)
	}
	e.wait = time.Duration(wait) * time.Second
	if personal := q.Flag("personal"); personal != nil {
		e.personal = *personal
	}
	return e
}

// listEvents serves the events after a place. An empty page waits as long as the request asks for.
func listEvents(c *call) (reply, error) {
	q := c.query()
	asked := q.events()
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	if asked.personal && !c.principal.Allows(readsUsers) {
		return reply{}, lacking(readsUsers)
	}
	p := c.people()
	page := eventPage{query: asked}
	if err := readEvents(c, p, &page); err != nil {
		return reply{}, err
	}
	if asked.wait > 0 && c.api.Events != nil {
		if err := awaitEvents(c, p, &page); err != nil {
			return reply{}, err
		}
	}
	if asked.personal {
		if err := p.view(func(u *account.Unit) error { return events.AddPersonal(u.EventLog(), page.found) }); err != nil {
			return reply{}, err
		}
	}
	list := backendapi.EventList{Data: make([]backendapi.Event, len(page.found)), HasMore: page.more, NextCursor: page.at.String()}
	for i, e := range page.found {
		list.Data[i] = p.event(e)
	}
	return object(list), nil
}

// readEvents reads a page in its turn: a request can read thousands of events.
func readEvents(c *call, p *peopleRequest, page *eventPage) error {
	done, err := c.api.reads.Begin(c.r.Context(), egress.Asker{Deployment: c.tenant()})
	if err != nil {
		busy := apierror.Unavailable(err, "too many requests of the deployment read events: try again")
		busy.RetryAfter = waitRetry
		return busy
	}
	defer done()
	return p.view(page.read)
}

// awaitEvents reads an empty page again when there are events, until the request's wait ends. Reads that find nothing
// are at least rereadAfter apart.
func awaitEvents(c *call, p *peopleRequest, page *eventPage) error {
	if err := c.AllowTime(page.query.wait + respondWithin); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), page.query.wait)
	defer cancel()
	for len(page.found) == 0 && !page.more {
		found, err := c.api.Events.Wait(ctx, c.tenant(), page.at.Sequence)
		if errors.Is(err, sequencer.ErrTooManyWaiting) {
			return &apierror.Error{Status: http.StatusTooManyRequests, RetryAfter: waitRetry, Message: "too many requests of the deployment wait for events: wait for fewer at once"}
		}
		if err != nil || !found {
			return err
		}
		if err := readEvents(c, p, page); err != nil {
			return err
		}
		if len(page.found) == 0 && pause.For(ctx, rereadAfter) != nil {
			return nil
		}
	}
	return nil
}

// eventPage reads a page of events. Each read continues where the one before it ended.
type eventPage struct {
	query eventQuery
	// began reports whether at is a place where a read ended.
	began bool
	at    events.Cursor
	found []people.LoggedEvent
	more  bool
}

func (p *eventPage) read(u *account.Unit) error {
	log := u.EventLog()
	bounds, err := log.EventBounds()
	if err != nil {
		return err
	}
	at := p.at
	if !p.began {
		if at, err = p.query.begin(log, bounds); err != nil {
			return err
		}
	}
	found, more := p.found[:0], false
	atOnce := p.query.limit + 1
	for scanned := 0; scanned < scannedMost && !more; atOnce = min(4*atOnce, scannedAtOnce) {
		atOnce = min(atOnce, scannedMost-scanned)
		part, err := log.EventsAfter(at.Sequence, atOnce)
		if err != nil {
			return err
		}
		if len(part) > 0 && part[0].Sequence != at.Sequence+1 {
			return eventsGone(people.EventBounds{First: part[0].Sequence}) // deleted since the place was checked
		}
		for i := range part {
			if len(found) == p.query.limit {
				more = true
				break
			}
			if at = (events.Cursor{Sequence: part[i].Sequence, ID: part[i].ID}); p.query.filter.Takes(&part[i]) {
				found = append(found, part[i])
			}
		}
		if scanned += len(part); len(part) < atOnce {
			break
		}
	}
	p.began, p.at, p.found, p.more = true, at, found, more || at.Sequence < bounds.Last
	return nil
}

// begin returns the place where a list begins.
func (q eventQuery) begin(log people.EventLog, bounds people.EventBounds) (events.Cursor, error) {
	switch {
	case q.after != nil:
		return *q.after, requireEvents(log, bounds, *q.after)
	case q.since.IsZero():
		id, _, _, err := log.EventNumbered(bounds.Last)
		return events.Cursor{Sequence: bounds.Last, ID: id}, err
	case bounds.Last == 0:
		return events.Cursor{}, nil
	}
	first, err := events.FirstSince(log, bounds, q.since)
	if err != nil || first == bounds.First {
		return events.Cursor{Sequence: first - 1}, err
	}
	id, _, _, err := log.EventNumbered(first - 1)
	return events.Cursor{Sequence: first - 1, ID: id}, err
}

// requireEvents returns an Error if events after a place were deleted, or if the store has other events than the one
// from which the place is.
func requireEvents(log people.EventLog, bounds people.EventBounds, at events.Cursor) error {
	earliest := max(bounds.First-1, 0)
	known := at.Sequence >= earliest && at.Sequence <= bounds.Last
	if known && at.ID != 0 && at.Sequence > earliest {
		id, _, _, err := log.EventNumbered(at.Sequence)
		if err != nil {
			return err
		}
		known = id == at.ID
	}
	if known {
		return nil
	}
	return eventsGone(bounds)
}

// eventsGone refuses a place before the events that the log has.
func eventsGone(bounds people.EventBounds) error {
	return &apierror.Error{Status: http.StatusGone, Faults: []apierror.Fault{{
		Pointer: "?after", EarliestCursor: events.Cursor{Sequence: max(bounds.First-1, 0)}.String(),
		Message: "is the cursor of an event that the server no longer has: read what you need again, and continue with earliest_cursor",
	}}}
}

// getEvent serves an event.
func getEvent(c *call) (reply, error) {
	text, prefixed := strings.CutPrefix(c.r.PathValue("event_id"), events.IDPrefix)
	id, err := ids.Parse(text)
	unknown := &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":event_id", Message: "is the id of no event of the deployment, or of one that was deleted because of its age: list the events to see which there are",
	}}}
	if !prefixed || err != nil {
		return reply{}, unknown
	}
	p := c.people()
	var found bool
	var e people.LoggedEvent
	if err := p.view(func(u *account.Unit) (err error) { e, found, err = u.EventLog().LoggedEvent(id); return err }); err != nil {
		return reply{}, err
	}
	if !found {
		return reply{}, unknown
	}
	return object(p.event(e)), nil
}

// listEventTypes serves the catalogue.
func listEventTypes(c *call) (reply, error) {
	list := backendapi.EventTypeList{Data: make([]backendapi.EventType, len(events.Catalogue))}
	p := c.people()
	for i, entry := range events.Catalogue {
		list.Data[i] = p.eventType(entry)
	}
	return object(list), nil
}

// getEventType serves an entry of the catalogue.
func getEventType(c *call) (reply, error) {
	entry, found := events.Find(events.Type(c.r.PathValue("type")))
	if !found {
		return reply{}, &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{Pointer: ":type", Message: "is no type of events: GET /events/types lists the types"}}}
	}
	return object(c.people().eventType(entry)), nil
}

func (p *peopleRequest) eventType(entry events.Entry) backendapi.EventType {
	schema, _ := json.Marshal(entry.Schema()) // texts, lists and maps cannot fail
	return backendapi.EventType{
		OptIn: entry.Type.OptIn(), Personal: entry.Personal(),
		Type: string(entry.Type), Version: entry.Version, Description: entry.Description, Schema: schema, Example: p.event(entry.Example()),
	}
}

// event is the served form of an event.
func (p *peopleRequest) event(e people.LoggedEvent) backendapi.Event {
	return events.Served(&e, p.c.principal.Deployment.ID)
}
