package backend

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// auditReadWithin bounds the search for records: a filter that matches few of many records reads its whole period.
	auditReadWithin = 10 * time.Second
	// auditSettled is the age from which the audit is complete: no record that is this old is added later. Transactions
	// that began before it have ended, and the clocks of other servers differ by less.
	auditSettled = time.Minute
)

// listAudit serves a page of the deployment's audit. With the oldest first it omits records younger than auditSettled,
// so that a client that continues after its last record misses none.
func listAudit(c *call) (reply, error) {
	q := c.query()
	limit := q.Limit(defaultLimit, maxLimit)
	filter := people.AuditFilter{Since: q.Time("since"), Until: q.Time("until"), After: q.auditPlace(), OldestFirst: q.oldestFirst()}
	filter.Actor, _ = q.Text("actor")
	filter.Action, _ = q.Text("action")
	filter.Object, _ = q.Text("object")
	key, _ := q.Text("key_id")
	q.ordered(filter.Since, filter.Until)
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	filter.Until = c.settled(filter.Until, filter.OldestFirst)
	ctx, cancel := context.WithTimeout(c.r.Context(), auditReadWithin)
	defer cancel()
	p := c.people()
	list := backendapi.AuditList{Data: []backendapi.AuditRecord{}}
	var found []people.Audit
	err := peopleError(p.View(ctx, func(u *account.Unit) (err error) {
		if key != "" {
			if filter.AnyActor, filter.AnyObject, err = c.keyNames(u, key); err != nil {
				return err
			}
		}
		found, err = u.Listings().ListAudit(filter, limit+1)
		return err
	}))
	if list.HasMore = len(found) > limit; list.HasMore {
		found = found[:limit]
		last := found[limit-1]
		list.NextCursor = optional(strconv.FormatInt(last.At.UnixMicro(), 10) + "-" + ids.Format(last.ID))
	}
	for _, record := range found {
		list.Data = append(list.Data, backendapi.AuditRecord{
			Id: ids.Format(record.ID), At: record.At, Actor: record.Actor, Action: record.Action, Object: record.Object,
			SessionId: optionalID(record.Session), IpAddress: record.Address, Detail: record.Detail,
		})
	}
	return object(list), err
}

// ordered checks the bounds of a period, each of which may be zero.
func (q *parameters) ordered(since, until time.Time) {
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		q.Fault("until", "must be later than since")
	}
}

// settled returns until, at most auditSettled ago for a list with the oldest first.
func (c *call) settled(until time.Time, oldestFirst bool) time.Time {
	if settled := c.api.Clock().Add(-auditSettled); oldestFirst && (until.IsZero() || until.After(settled)) {
		return settled
	}
	return until
}

// keyNames returns the actors and objects by which records name a key, from its public id or its id. For a deleted key
// it returns only the name in the request.
func (c *call) keyNames(u *account.Unit, id string) (actors, objects []string, err error) {
	actors, objects = []string{keyActor(id)}, []string{"api_key:" + id}
	if e, found := c.declaredKey(id); found {
		for _, verifier := range snapshot.ContentOf[document.APIKey](e).Verifiers {
			actors = append(actors, keyActor(verifier.ID))
		}
	}
	k, found, err := people.FindAPIKey(u.APIKeys(), id)
	if found {
		actors, objects = append(actors, keyActor(people.KeyID(k.PublicID, k.ID))), append(objects, "api_key:"+ids.Format(k.ID))
	}
	return actors, objects, err
}

// oldestFirst reads the parameter order.
func (q *parameters) oldestFirst() bool {
	order, sent := q.Text("order")
	if sent && order != string(backendapi.Asc) && order != string(backendapi.Desc) {
		q.Fault("order", "must be asc, the oldest first, or desc, the newest first")
	}
	return order == string(backendapi.Asc)
}

// auditPlace reads the parameter cursor of the audit.
func (q *parameters) auditPlace() people.AuditPlace {
	sent, ok := q.Text("cursor")
	if !ok || sent == "" {
		return people.AuditPlace{}
	}
	at, id, _ := strings.Cut(sent, "-")
	micros, err1 := ids.Parse(at)
	place, err2 := ids.Parse(id)
	if err1 != nil || err2 != nil {
		q.Fault("cursor", "must be next_cursor of the page before")
	}
	return people.AuditPlace{At: time.UnixMicro(micros), ID: place}
}
