package storetest

import (
	"errors"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// failedOf returns a delivery that failed.
func failedOf(d people.WebhookDelivery) people.WebhookDelivery {
	d.Status, d.SettledAt, d.NextAt = people.DeliveryFailed, after(2*time.Hour), time.Time{}
	return d
}

// replayStories are those of replays, and of the deliveries that they select.
var replayStories = []story{
	{name: "an endpoint has one replay at a time, and one of each key", run: func(e *env) {
		e.begin()
		insert := func(r people.WebhookReplay) (fresh bool) {
			e.change(home, func(tx people.Tx) (err error) { fresh, err = tx.Webhooks().InsertReplay(r); return err })
			return fresh
		}
		update := func(r people.WebhookReplay) (open bool) {
			e.change(home, func(tx people.Tx) (err error) { open, err = tx.Webhooks().UpdateReplay(r); return err })
			return open
		}
		first := webhookReplay(1, 1)
		e.Expect(insert(first)).To(gomega.BeTrue())
		e.Expect(insert(webhookReplay(2, 1))).To(gomega.BeFalse(), "one is open")
		e.Expect(insert(webhookReplay(3, 2))).To(gomega.BeTrue(), "another endpoint's")
		open, has := one(e, func(tx people.Tx) (people.WebhookReplay, bool, error) { return tx.Webhooks().OpenReplay(1) })
		e.Expect(has).To(gomega.BeTrue())
		e.Expect(open).To(gomega.Equal(first))
		behind := completed(first)
		behind.Place, behind.Skipped, behind.Failed, behind.StartedAt = 0, 0, 2, time.Time{} // larger numbers stay
		e.Expect(update(behind)).To(gomega.BeTrue())
		e.Expect(update(first)).To(gomega.BeFalse(), "it has ended")
		found, _ := one(e, func(tx people.Tx) (people.WebhookReplay, bool, error) { return tx.Webhooks().Replay(first.ID) })
		e.Expect(found).To(gomega.Equal(completed(first)))
		same := webhookReplay(4, 1)
		same.Key = first.Key
		e.Expect(insert(same)).To(gomega.BeFalse(), "the key is used")
		found, has = one(e, func(tx people.Tx) (people.WebhookReplay, bool, error) { return tx.Webhooks().ReplayByKey(1, first.Key) })
		e.Expect(has).To(gomega.BeTrue())
		e.Expect(found.ID).To(gomega.Equal(first.ID))
		_, has = one(e, func(tx people.Tx) (people.WebhookReplay, bool, error) { return tx.Webhooks().ReplayByKey(1, "") })
		e.Expect(has).To(gomega.BeFalse())
		for n := int64(5); n < 8; n++ {
			r := webhookReplay(n, 1)
			r.Key = "" // several replays may have none
			e.Expect(insert(r)).To(gomega.BeTrue())
			if n < 7 {
				e.Expect(update(completed(r))).To(gomega.BeTrue())
			}
		}
		list := func(before int64, limit int) (found []int64) {
			for _, r := range all(e, func(tx people.Tx) ([]people.WebhookReplay, error) { return tx.Webhooks().Replays(1, before, limit) }) {
				found = append(found, r.ID)
			}
			return found
		}
		e.Expect(list(0, 2)).To(gomega.Equal([]int64{deliveryID(7), deliveryID(6)}))
		e.Expect(list(deliveryID(6), 10)).To(gomega.Equal([]int64{deliveryID(5), first.ID}))
		e.view(home, func(tx people.Tx) error {
			replays, events, err := tx.Webhooks().ReplayedSince(after(5 * time.Minute))
			e.Expect([]int64{replays, events}).To(gomega.Equal([]int64{3, 18}))
			return err
		})
		e.change(home, func(tx people.Tx) error { return tx.Webhooks().ForgetReplays(1, 2, after(time.Minute)) })
		e.Expect(list(0, 10)).To(gomega.HaveLen(4), "those that were requested later")
		e.change(home, func(tx people.Tx) error { return tx.Webhooks().ForgetReplays(1, 2, after(time.Hour)) })
		e.Expect(list(0, 10)).To(gomega.Equal([]int64{deliveryID(7), deliveryID(6)}))
		e.change(home, func(tx people.Tx) error { return tx.Webhooks().ForgetReplays(1, 0, after(time.Hour)) })
		e.Expect(list(0, 10)).To(gomega.Equal([]int64{deliveryID(7)}), "one that has not ended stays")
	}},
	{name: "an endpoint is due with a replay", run: func(e *env) {
		e.begin()
		e.change(home, func(tx people.Tx) error {
			state := people.WebhookState{Endpoint: 1, NextAt: after(9 * time.Hour)}
			_, err := tx.Webhooks().InsertWebhookState(state)
			_, replayErr := tx.Webhooks().InsertReplay(webhookReplay(1, 1))
			return errors.Join(err, replayErr)
		})
		e.Expect(e.due(time.Hour - time.Minute)).To(gomega.BeEmpty())
		e.Expect(e.due(time.Hour)).To(gomega.Equal([]int64{1}))
		e.change(home, func(tx people.Tx) error {
			_, err := tx.Webhooks().UpdateReplay(completed(webhookReplay(1, 1)))
			return err
		})
		e.Expect(e.due(time.Hour)).To(gomega.BeEmpty())
	}},
	{name: "a replay selects failed deliveries until they are repeated", run: func(e *env) {
		e.begin()
		repeated := failedOf(delivery(5, 1))
		repeated.Replay, repeated.Source = 77, deliveryID(2)
		e.change(home, func(tx people.Tx) error {
			return tx.Webhooks().InsertDeliveries([]people.WebhookDelivery{
				delivery(1, 1), failedOf(delivery(2, 1)), failedOf(delivery(3, 1)), ended(delivery(4, 1)), repeated, failedOf(delivery(6, 2)),
			})
		})
		brief := all(e, func(tx people.Tx) ([]people.WebhookDelivery, error) {
			return tx.Webhooks().Deliveries(1, people.DeliveryFilter{Before: deliveryID(2), Brief: true}, 1)
		})
		want := delivery(1, 1)
		want.Tries = ""
		e.Expect(brief).To(gomega.Equal([]people.WebhookDelivery{want}))
		dead := func(after int64, limit int) (found []int64) {
			of := people.DeliveryFilter{Dead: true, After: after, OldestFirst: true}
			for _, d := range all(e, func(tx people.Tx) ([]people.WebhookDelivery, error) { return tx.Webhooks().Deliveries(1, of, limit) }) {
				found = append(found, d.ID)
			}
			return found
		}
		e.Expect(dead(0, 10)).To(gomega.Equal([]int64{deliveryID(2), deliveryID(3)}))
		e.Expect(dead(deliveryID(2), 10)).To(gomega.Equal([]int64{deliveryID(3)}))
		found := all(e, func(tx people.Tx) ([]people.WebhookDelivery, error) {
			return tx.Webhooks().DeliveriesAmong(1, []int64{deliveryID(6), deliveryID(5), deliveryID(2), 9})
		})
		e.Expect(found).To(gomega.HaveLen(2))
		repeated.Tries = ""
		e.Expect(found[1]).To(gomega.Equal(repeated))
		e.view(home, func(tx people.Tx) error {
			n, err := tx.Webhooks().CountDeliveries(1, people.DeliveryFilter{Status: people.DeliveryFailed}, 10)
			e.Expect(n).To(gomega.Equal(int64(3)))
			e.ok(err)
			n, err = tx.Webhooks().CountDeliveries(1, people.DeliveryFilter{Status: people.DeliveryFailed}, 2)
			e.Expect(n).To(gomega.Equal(int64(2)), "counted up to the bound")
			return err
		})
		e.change(home, func(tx people.Tx) error {
			return tx.Webhooks().MarkResent(1, []int64{delivery(2, 1).Event, delivery(4, 1).Event, 99})
		})
		e.Expect(dead(0, 10)).To(gomega.Equal([]int64{deliveryID(3)}))
		aged, err := e.store.AgedDeliveries(e.ctx, after(0), after(2*time.Minute))
		e.ok(err)
		e.Expect(aged).To(gomega.BeEmpty())
		aged, err = e.store.AgedDeliveries(e.ctx, after(0), after(3*time.Minute))
		e.ok(err)
		e.Expect(aged).To(gomega.Equal([]string{home}))
		e.change(home, func(tx people.Tx) error {
			n, err := tx.Webhooks().ForgetDeliveries(after(time.Hour), after(3*time.Minute), 10)
			e.Expect(n).To(gomega.Equal(int64(2)), "the one that succeeded, and the older one that failed")
			return err
		})
		e.Expect(dead(0, 10)).To(gomega.Equal([]int64{deliveryID(3)}))
	}},
	{name: "pending deliveries are skipped, of one replay or all", run: func(e *env) {
		e.begin()
		replayed := delivery(2, 1)
		replayed.Replay = 77
		e.change(home, func(tx people.Tx) error {
			return tx.Webhooks().InsertDeliveries([]people.WebhookDelivery{delivery(1, 1), replayed, ended(delivery(3, 1)), delivery(4, 2)})
		})
		e.change(home, func(tx people.Tx) error {
			n, err := tx.Webhooks().HastenDeliveries(1, after(time.Minute))
			e.Expect(n).To(gomega.Equal(int64(2)), "pending ones of the endpoint")
			return err
		})
		for _, d := range all(e, func(tx people.Tx) ([]people.WebhookDelivery, error) { return tx.Webhooks().OpenDeliveries(1, 10) }) {
			e.Expect(d.NextAt).To(gomega.Equal(after(time.Minute)))
		}
		for _, replay := range []int64{77, 0} {
			e.change(home, func(tx people.Tx) error {
				n, err := tx.Webhooks().SkipDeliveries(1, replay, after(time.Hour))
				e.Expect(n).To(gomega.Equal(int64(1)))
				return err
			})
		}
		found, _ := one(e, func(tx people.Tx) (people.WebhookDelivery, bool, error) { return tx.Webhooks().Delivery(deliveryID(2)) })
		replayed.Status, replayed.SettledAt, replayed.NextAt = people.DeliverySkipped, after(time.Hour), time.Time{}
		e.Expect(found).To(gomega.Equal(replayed))
		open := all(e, func(tx people.Tx) ([]people.WebhookDelivery, error) { return tx.Webhooks().OpenDeliveries(2, 10) })
		e.Expect(open).To(gomega.HaveLen(1), "another endpoint's")
	}},
}
