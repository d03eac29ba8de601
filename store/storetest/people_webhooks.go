package storetest

import (
	"errors"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// webhookState is the state of an endpoint that no server has.
func webhookState(endpoint int64) people.WebhookState {
	return people.WebhookState{
		Endpoint: endpoint, Position: 7, Target: "digest", EndedAt: after(time.Minute), LeasedUntil: after(0), Epoch: 3, NextAt: after(time.Hour), Failures: 2,
		FailingSince: after(2 * time.Minute), Status: 500, Error: "HTTP status 500", SucceededAt: after(3 * time.Minute), EnabledAt: after(4 * time.Minute), Reported: 1,
	}
}

// deliveryID is the id of a delivery: ids ascend with the time of creation.
func deliveryID(n int64) int64 { return ids.From(after(time.Duration(n) * time.Minute)) }

// delivery returns a pending delivery of an endpoint.
func delivery(n, endpoint int64) people.WebhookDelivery {
	return people.WebhookDelivery{
		ID: deliveryID(n), Endpoint: endpoint, Sequence: n, Event: n + 1, Type: "user.created", SubjectType: "user", SubjectID: "1", Status: people.DeliveryPending,
		CreatedAt: after(time.Duration(n) * time.Minute), NextAt: after(time.Hour), Attempts: 1, HTTPStatus: 500, Latency: 12 * time.Millisecond, Tries: `[{"ms":12}]`,
	}
}

// ended returns a delivery that succeeded.
func ended(d people.WebhookDelivery) people.WebhookDelivery {
	d.Status, d.SettledAt, d.NextAt, d.Attempts, d.HTTPStatus = people.DeliveryDelivered, after(2*time.Hour), time.Time{}, 2, 204
	return d
}

// furnishWebhooks writes the state of an endpoint, a pending and an ended delivery.
func furnishWebhooks(tx people.Tx, mark string) error {
	state := webhookState(1)
	state.Error = mark
	_, err := tx.Webhooks().InsertWebhookState(state)
	replay := webhookReplay(1, 1)
	replay.Selection = mark
	_, replayErr := tx.Webhooks().InsertReplay(replay)
	return errors.Join(err, replayErr, tx.Webhooks().InsertDeliveries([]people.WebhookDelivery{delivery(1, 1), ended(delivery(2, 1))}))
}

// webhookReplay returns a replay that has begun.
func webhookReplay(n, endpoint int64) people.WebhookReplay {
	return people.WebhookReplay{
		ID: deliveryID(n), Endpoint: endpoint, Status: people.ReplayRunning, Key: "key " + ids.Format(n), Selection: `{"events":["1"]}`, Place: 1, Total: 6, Skipped: 1, Replayed: 2, Failed: 3,
		NextAt: after(time.Hour), CreatedAt: after(time.Minute), StartedAt: after(2 * time.Minute),
	}
}

// completed returns a replay that has ended.
func completed(r people.WebhookReplay) people.WebhookReplay {
	r.Status, r.CompletedAt, r.Replayed = people.ReplayCompleted, after(time.Hour), 5
	return r
}

// webhookReads are the part of reads for webhooks.
var webhookReads = map[string]func(tx people.Tx) (any, error){
	"WebhookState": func(tx people.Tx) (any, error) {
		first, _, err := tx.Webhooks().WebhookState(1)
		second, found, secondErr := tx.Webhooks().WebhookState(9)
		return []any{first, second, found}, errors.Join(err, secondErr)
	},
	"LockWebhookState": func(tx people.Tx) (any, error) { return optional(tx.Webhooks().LockWebhookState(1)) },
	"DeliveryTries": func(tx people.Tx) (any, error) {
		return value(tx.Webhooks().DeliveryTries([]int64{deliveryID(1), deliveryID(2)}))
	},
	"OpenDeliveries": func(tx people.Tx) (any, error) { return value(tx.Webhooks().OpenDeliveries(1, 10)) },
	"Deliveries": func(tx people.Tx) (any, error) {
		return value(tx.Webhooks().Deliveries(1, people.DeliveryFilter{}, 10))
	},
	"Delivery": func(tx people.Tx) (any, error) { return optional(tx.Webhooks().Delivery(deliveryID(1))) },
	"DeliveriesAmong": func(tx people.Tx) (any, error) {
		return value(tx.Webhooks().DeliveriesAmong(1, []int64{deliveryID(1), deliveryID(9)}))
	},
	"CountDeliveries": func(tx people.Tx) (any, error) {
		return value(tx.Webhooks().CountDeliveries(1, people.DeliveryFilter{}, 10))
	},
	"Replay": func(tx people.Tx) (any, error) {
		first, _, err := tx.Webhooks().Replay(deliveryID(1))
		second, found, secondErr := tx.Webhooks().Replay(deliveryID(9))
		return []any{first, second, found}, errors.Join(err, secondErr)
	},
	"OpenReplay":   func(tx people.Tx) (any, error) { return optional(tx.Webhooks().OpenReplay(1)) },
	"OpenReplayID": func(tx people.Tx) (any, error) { return optional(tx.Webhooks().OpenReplayID(1)) },
	"ReplayedSince": func(tx people.Tx) (any, error) {
		replays, events, err := tx.Webhooks().ReplayedSince(after(0))
		return []int64{replays, events}, err
	},
	"ReplayByKey": func(tx people.Tx) (any, error) { return optional(tx.Webhooks().ReplayByKey(1, "key 1")) },
	"Replays":     func(tx people.Tx) (any, error) { return value(tx.Webhooks().Replays(1, 0, 10)) },
}

// webhookWrites are the part of writes for webhooks.
var webhookWrites = map[string]func(tx people.Tx) error{
	"InsertWebhookState": func(tx people.Tx) error { _, err := tx.Webhooks().InsertWebhookState(webhookState(9)); return err },
	"LeaseWebhook": func(tx people.Tx) error {
		_, _, err := tx.Webhooks().LeaseWebhook(1, "one", after(time.Hour), after(2*time.Hour))
		return err
	},
	"UpdateWebhookState": func(tx people.Tx) error {
		state := webhookState(1)
		state.Position = 8
		_, err := tx.Webhooks().UpdateWebhookState(state, state.Epoch)
		return err
	},
	"RemoveWebhook": func(tx people.Tx) error { _, err := tx.Webhooks().RemoveWebhook(1, after(time.Hour), 1); return err },
	"InsertDeliveries": func(tx people.Tx) error {
		return tx.Webhooks().InsertDeliveries([]people.WebhookDelivery{delivery(9, 1)})
	},
	"UpdateDeliveries": func(tx people.Tx) error {
		return tx.Webhooks().UpdateDeliveries([]people.WebhookDelivery{ended(delivery(1, 1))})
	},
	"SkipDeliveries": func(tx people.Tx) error { _, err := tx.Webhooks().SkipDeliveries(1, 0, after(time.Hour)); return err },
	"HastenDeliveries": func(tx people.Tx) error {
		_, err := tx.Webhooks().HastenDeliveries(1, after(2*time.Minute))
		return err
	},
	"MarkResent": func(tx people.Tx) error {
		return errors.Join(tx.Webhooks().UpdateDeliveries([]people.WebhookDelivery{failedOf(delivery(1, 1))}), tx.Webhooks().MarkResent(1, []int64{2}))
	},
	"InsertReplay": func(tx people.Tx) error { _, err := tx.Webhooks().InsertReplay(webhookReplay(9, 9)); return err },
	"UpdateReplay": func(tx people.Tx) error {
		_, err := tx.Webhooks().UpdateReplay(completed(webhookReplay(1, 1)))
		return err
	},
	"ForgetReplays": func(tx people.Tx) error {
		_, err := tx.Webhooks().UpdateReplay(completed(webhookReplay(1, 1)))
		return errors.Join(err, tx.Webhooks().ForgetReplays(1, 0, after(time.Hour)))
	},
	"ForgetDeliveries": func(tx people.Tx) error {
		_, err := tx.Webhooks().ForgetDeliveries(after(24*time.Hour), after(24*time.Hour), 10)
		return err
	},
}

// due returns the endpoints that are due at a time.
func (e *env) due(at time.Duration) (endpoints []int64) {
	refs, err := e.store.DueWebhooks(e.ctx, after(at), 10, 10)
	e.ok(err)
	for _, ref := range refs {
		e.Expect(ref.Deployment).To(gomega.Equal(home))
		endpoints = append(endpoints, ref.Endpoint)
	}
	return endpoints
}

var webhookStories = []story{
	{name: "one server has an endpoint until its lease ends, and a lease fences the server before", run: func(e *env) {
		e.begin()
		lease := func(owner string, at time.Duration) (state people.WebhookState, leased bool) {
			e.change(home, func(tx people.Tx) (err error) {
				state, leased, err = tx.Webhooks().LeaseWebhook(1, owner, after(at), after(at+time.Hour))
				return err
			})
			return state, leased
		}
		update := func(state people.WebhookState) (held bool) {
			e.change(home, func(tx people.Tx) (err error) {
				held, err = tx.Webhooks().UpdateWebhookState(state, state.Epoch)
				return err
			})
			return held
		}
		_, leased := lease("one", time.Hour)
		e.Expect(leased).To(gomega.BeFalse(), "an endpoint without a state")
		e.change(home, func(tx people.Tx) error {
			fresh, err := tx.Webhooks().InsertWebhookState(webhookState(1))
			e.Expect(fresh).To(gomega.BeTrue())
			e.ok(err)
			fresh, err = tx.Webhooks().InsertWebhookState(people.WebhookState{Endpoint: 1})
			e.Expect(fresh).To(gomega.BeFalse())
			return err
		})
		first, leased := lease("one", time.Hour)
		want := webhookState(1)
		want.Owner, want.LeasedUntil, want.Epoch = "one", after(2*time.Hour), 4
		e.Expect(leased).To(gomega.BeTrue())
		e.Expect(first).To(gomega.Equal(want))
		_, leased = lease("two", 2*time.Hour-time.Minute)
		e.Expect(leased).To(gomega.BeFalse(), "another server has it")
		first.Position = 8
		e.Expect(update(first)).To(gomega.BeTrue())
		second, leased := lease("two", 2*time.Hour)
		e.Expect(leased).To(gomega.BeTrue())
		e.Expect(second.Position).To(gomega.Equal(int64(8)))
		behind := second
		behind.Position = 5
		e.Expect(update(behind)).To(gomega.BeTrue())
		kept, _ := one(e, func(tx people.Tx) (people.WebhookState, bool, error) { return tx.Webhooks().WebhookState(1) })
		e.Expect(kept.Position).To(gomega.Equal(int64(8)), "a position never moves back")
		e.Expect(update(first)).To(gomega.BeFalse(), "the first server is fenced")
		second.Paused, second.LeasedUntil = true, time.Time{}
		e.Expect(update(second)).To(gomega.BeTrue())
		_, leased = lease("one", 5*time.Hour)
		e.Expect(leased).To(gomega.BeFalse(), "a paused endpoint")
	}},
	{name: "endpoints are due with a delivery, or with an event after their position", run: func(e *env) {
		e.begin()
		e.change(home, logEvents(1, 2, 3))
		e.change(home, numberEvents)
		for endpoint, state := range map[int64]people.WebhookState{
			1: {Position: 3}, 2: {Position: 2}, 3: {Position: 3, NextAt: after(time.Hour)}, 4: {Position: 2, Paused: true}, 5: {Position: 2, DisabledAt: after(0)},
			6: {Position: 2, LeasedUntil: after(time.Hour)}, 7: {Position: 2, Blocked: true, NextAt: after(time.Hour)},
		} {
			state.Endpoint = endpoint
			e.change(home, func(tx people.Tx) error { _, err := tx.Webhooks().InsertWebhookState(state); return err })
		}
		e.Expect(e.due(time.Minute)).To(gomega.ConsistOf(int64(2)))
		e.Expect(e.due(time.Hour)).To(gomega.ConsistOf(int64(2), int64(3), int64(6), int64(7)))
		refs, err := e.store.DueWebhooks(e.ctx, after(time.Hour), 1, 10)
		e.ok(err)
		e.Expect(refs).To(gomega.HaveLen(1), "the share of the deployment")
		listed, err := e.store.ListWebhooks(e.ctx, people.WebhookRef{Deployment: home, Endpoint: 3}, 2)
		e.ok(err)
		e.Expect(listed).To(gomega.Equal([]people.WebhookRef{{Deployment: home, Endpoint: 4, Paused: true}, {Deployment: home, Endpoint: 5, Disabled: true}}))
	}},
	{name: "deliveries are read as they were written, until they are deleted", run: func(e *env) {
		e.begin()
		e.change(home, func(tx people.Tx) error {
			_, err := tx.Webhooks().InsertWebhookState(webhookState(1))
			return errors.Join(err, tx.Webhooks().InsertDeliveries([]people.WebhookDelivery{delivery(1, 1), delivery(2, 1), delivery(3, 2), delivery(4, 1)}))
		})
		e.change(home, func(tx people.Tx) error {
			return tx.Webhooks().UpdateDeliveries([]people.WebhookDelivery{ended(delivery(2, 1)), ended(delivery(4, 1))})
		})
		list := func(of people.DeliveryFilter, limit int) (found []int64) {
			for _, d := range all(e, func(tx people.Tx) ([]people.WebhookDelivery, error) { return tx.Webhooks().Deliveries(1, of, limit) }) {
				found = append(found, d.Sequence)
			}
			return found
		}
		found, has := one(e, func(tx people.Tx) (people.WebhookDelivery, bool, error) { return tx.Webhooks().Delivery(deliveryID(2)) })
		e.Expect(has).To(gomega.BeTrue())
		e.Expect(found).To(gomega.Equal(ended(delivery(2, 1))))
		open := all(e, func(tx people.Tx) ([]people.WebhookDelivery, error) { return tx.Webhooks().OpenDeliveries(1, 10) })
		want := delivery(1, 1)
		want.Tries = ""
		e.Expect(open).To(gomega.Equal([]people.WebhookDelivery{want}))
		e.view(home, func(tx people.Tx) error {
			tries, err := tx.Webhooks().DeliveryTries([]int64{deliveryID(1), deliveryID(2), 9})
			e.Expect(tries).To(gomega.Equal(map[int64]string{deliveryID(1): delivery(1, 1).Tries, deliveryID(2): delivery(2, 1).Tries}))
			return err
		})
		e.Expect(list(people.DeliveryFilter{}, 2)).To(gomega.Equal([]int64{4, 2}))
		e.Expect(list(people.DeliveryFilter{Before: deliveryID(4)}, 10)).To(gomega.Equal([]int64{2, 1}))
		e.Expect(list(people.DeliveryFilter{Status: people.DeliveryPending, Type: "user.created"}, 10)).To(gomega.Equal([]int64{1}))
		e.Expect(list(people.DeliveryFilter{Type: "user.deleted"}, 10)).To(gomega.BeEmpty())
		e.Expect(list(people.DeliveryFilter{Since: after(2 * time.Minute), Until: after(4 * time.Minute)}, 10)).To(gomega.Equal([]int64{2}))
		aged, err := e.store.AgedDeliveries(e.ctx, after(2*time.Minute), after(24*time.Hour))
		e.ok(err)
		e.Expect(aged).To(gomega.BeEmpty(), "only a pending one began before")
		aged, err = e.store.AgedDeliveries(e.ctx, after(2*time.Minute+time.Millisecond), after(0))
		e.ok(err)
		e.Expect(aged).To(gomega.Equal([]string{home}))
		e.change(home, func(tx people.Tx) error {
			n, err := tx.Webhooks().ForgetDeliveries(after(time.Hour), after(time.Hour), 1)
			e.Expect(n).To(gomega.Equal(int64(1)))
			return err
		})
		e.Expect(list(people.DeliveryFilter{}, 10)).To(gomega.Equal([]int64{4, 1}))
		e.change(home, func(tx people.Tx) error {
			done, err := tx.Webhooks().RemoveWebhook(1, after(time.Minute), 2)
			e.Expect(done).To(gomega.BeTrue(), "it ended later")
			return err
		})
		e.Expect(list(people.DeliveryFilter{}, 10)).To(gomega.HaveLen(2))
		for _, want := range []bool{false, true} {
			e.change(home, func(tx people.Tx) error {
				done, err := tx.Webhooks().RemoveWebhook(1, after(time.Hour), 2)
				e.Expect(done).To(gomega.Equal(want))
				return err
			})
		}
		e.Expect(list(people.DeliveryFilter{}, 10)).To(gomega.BeEmpty())
		_, has = one(e, func(tx people.Tx) (people.WebhookState, bool, error) { return tx.Webhooks().WebhookState(1) })
		e.Expect(has).To(gomega.BeFalse())
		_, has = one(e, func(tx people.Tx) (people.WebhookDelivery, bool, error) { return tx.Webhooks().Delivery(deliveryID(3)) })
		e.Expect(has).To(gomega.BeTrue(), "another endpoint's")
	}},
}
