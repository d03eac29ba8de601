package enduser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/notices"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store/people"
)

// noticesSent counts the notices of an organization's requirement in the outbox.
func (w *world) noticesSent() (count int) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	w.Must(db.QueryRowContext(w.T.Context(), "SELECT count(DISTINCT recipient) FROM outbox WHERE recipient LIKE 'member%'").Scan(&count))
	return count
}

// noticesWorker returns what mails members on a server.
func (w *world) noticesWorker() *notices.Worker {
	w.T.Helper()
	follower := snapshot.NewFollower(w.Store, 10*time.Millisecond, w.Clock.Now, logr.Discard())
	w.Follow(follower)
	return notices.New(notices.Options{Store: w.Store, Snapshots: follower, Keyring: w.Keyring, Clock: w.Clock.Now})
}

// The change itself mails a hundred members, and upkeep the others.
func TestEveryMemberIsNotifiedOfARequirementOnce(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		const members = 450
		owner := w.browser()
		owner.signUp("ada@example.com")
		owner.addApp()
		id := owner.organization("Harbour")
		w.tx(func(tx people.Tx) error {
			for n := range int64(members) {
				address := people.Email{ID: 5000 + n, Address: fmt.Sprintf("member%d@example.com", n), Primary: true, CreatedAt: w.Clock.Now(), VerifiedAt: w.Clock.Now()}
				if err := tx.Users().InsertUser(people.User{ID: 5000 + n, CreatedAt: w.Clock.Now()}, address); err != nil {
					return err
				}
				in := people.Member{ID: parseID(id) + 1 + n, User: 5000 + n, Organization: people.Organization{ID: parseID(id)}, CreatedAt: w.Clock.Now()}
				if err := tx.Organizations().InsertMember(in); err != nil {
					return err
				}
			}
			return tx.Factors().InsertAuthenticator(people.Authenticator{
				ID: 1, User: 5449, Name: "App", Sealed: "sealed", Algorithm: "SHA1", Digits: 6, Period: 30 * time.Second, ConfirmedAt: w.Clock.Now(), CreatedAt: w.Clock.Now(),
			})
		})
		owner.ok("PATCH", "/organizations/"+id, `{"required_assurance":"two_factors"}`)
		if sent := w.noticesSent(); sent != 100 {
			t.Errorf("the change notified %d members", sent)
		}

		one, two := w.noticesWorker(), w.noticesWorker()
		for pass := 0; w.noticesSent() < members-1; pass++ {
			if pass == 20 {
				t.Fatalf("%d members are notified after %d passes", w.noticesSent(), pass)
			}
			done := make(chan error)
			for _, worker := range []*notices.Worker{one, two} {
				go func() { done <- worker.Pass(t.Context()) }()
			}
			w.Must(<-done)
			w.Must(<-done)
		}
		w.Must(one.Pass(t.Context()))
		db := w.Open()
		defer func() { _ = db.Close() }()
		var mails int
		w.Must(db.QueryRowContext(t.Context(), "SELECT count(*) FROM outbox WHERE recipient LIKE 'member%'").Scan(&mails))
		if mails != members-1 {
			t.Errorf("%d mails to %d members, one of whom has a factor", mails, members)
		}
		pending, err := w.Store.PendingNotices(t.Context(), people.PendingNotice{}, 1)
		w.Must(err)
		if len(pending) != 0 {
			t.Errorf("notices are still pending: %v", pending)
		}
	})
}

func TestLiftedRequirementEndsNotices(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		owner := w.browser()
		owner.signUp("ada@example.com")
		id := owner.organization("Harbour")
		w.tx(func(tx people.Tx) error { return tx.Organizations().SetPendingNotices(parseID(id), 7) })
		w.Must(w.noticesWorker().Pass(t.Context()))
		pending, err := w.Store.PendingNotices(t.Context(), people.PendingNotice{}, 1)
		w.Must(err)
		if len(pending) != 0 {
			t.Errorf("notices are still pending: %v", pending)
		}
	})
}
