package controllers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/cardea-iam/cardea/controllers/engine"
)

func newLease(identity string) *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "cardea-system", Name: "cardea-operator"}, Client: fake.NewClientset().CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

// The elector's lock caches the lease that it read. Another reader that used this lock would change its cache while the
// elector works, which the race detector reports.
func TestAskingForTheLeaderLeavesTheElectorsLockAlone(t *testing.T) {
	lock := newLease("me")
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "me", LeaseDurationSeconds: 7}
	if err := lock.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	ask := stillLeader(lock)
	var asking sync.WaitGroup
	asking.Go(func() {
		for range 100 {
			if leads, err := ask(t.Context()); err != nil || !leads {
				t.Errorf("leads %v, %v", leads, err)
				return
			}
		}
	})
	for range 100 {
		if _, _, err := lock.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := lock.Update(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	asking.Wait()
}

func TestALostLeaseIsToldApartFromAFault(t *testing.T) {
	now := time.Unix(1000, 0)
	lease := &renewedLock{LeaseLock: newLease("me"), clock: func() time.Time { return now }}
	operator, fault := &Operator{lease: lease}, errors.New("something")
	if err := operator.ended(t.Context(), fault); errors.Is(err, ErrLeaseLost) {
		t.Errorf("it never led: %v", err)
	}
	if err := lease.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(renewDeadline - time.Millisecond)
	if err := operator.ended(t.Context(), fault); errors.Is(err, ErrLeaseLost) || !errors.Is(err, fault) {
		t.Errorf("it leads: %v", err)
	}
	now = now.Add(time.Millisecond)
	if err := operator.ended(t.Context(), fault); !errors.Is(err, ErrLeaseLost) || !errors.Is(err, fault) {
		t.Errorf("it could not renew: %v", err)
	}
	if err := lease.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: ""}); err != nil {
		t.Fatal(err)
	}
	if !lease.lost() {
		t.Error("a release is no renewal")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := operator.ended(ended, fault); errors.Is(err, ErrLeaseLost) {
		t.Errorf("it was asked to end: %v", err)
	}
	if err := operator.ended(t.Context(), engine.ErrDeposed); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("another one leads: %v", err)
	}
	if err := operator.ended(t.Context(), nil); err != nil {
		t.Errorf("a clean end: %v", err)
	}
	if err := (&Operator{}).ended(t.Context(), fault); !errors.Is(err, fault) || errors.Is(err, ErrLeaseLost) {
		t.Errorf("it leads alone: %v", err)
	}
}
