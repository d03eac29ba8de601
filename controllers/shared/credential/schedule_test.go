package credential

import (
	"crypto/rand"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/internal/apikey"
)

var issued = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func rotating(every, overlap int32) Wanted {
	w := Wanted{Form: Keys, Noun: "key", Name: "k", Current: "api-key", Previous: "previous-api-key", ID: "key-id", Digest: "digest", Prefix: "ck"}
	w.Owner = ownedsecret.Owner{Object: &v1alpha1.APIKey{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "k"}}, Kind: v1alpha1.KindAPIKey, Marker: "marker"}
	if every > 0 {
		w.Rotation = &v1alpha1.KeyRotation{EverySeconds: every}
	}
	if overlap > 0 {
		w.Rotation.OverlapSeconds = &overlap
	}
	return w
}

func asking(at string) Wanted {
	w := rotating(0, 0)
	w.RotateAt = at
	return w
}

func TestRotationDue(t *testing.T) {
	for name, tc := range map[string]struct {
		key  Wanted
		now  time.Time
		want bool
	}{
		"nothing declared":                  {rotating(0, 0), issued.AddDate(10, 0, 0), false},
		"before the interval ends":          {rotating(3600, 60), issued.Add(time.Hour - time.Second), false},
		"when the interval ends":            {rotating(3600, 60), issued.Add(time.Hour), true},
		"asked for later":                   {asking("2026-01-02T00:00:00Z"), issued.Add(time.Hour), false},
		"asked for now":                     {asking("2026-01-02T00:00:00Z"), issued.AddDate(0, 0, 1), true},
		"asked for before the key was made": {asking("2025-12-31T00:00:00Z"), issued.Add(time.Hour), false},
		"asked for at the issue itself":     {asking("2026-01-01T00:00:00Z"), issued.Add(time.Hour), false},
		"garbled":                           {asking("tomorrow"), issued.AddDate(10, 0, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.key.rotationDue(Delivered{IssuedAt: issued}, tc.now); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// keeper returns a keeper of Secrets in memory.
func keeper(now func() time.Time) Keeper {
	return Keeper{Secrets: ownedsecret.Manager{Client: fake.NewClientBuilder().Build()}, Clock: now, Random: rand.Reader}
}

// `toISOString()` writes fractions of a second. The time of issue has them too, so that each value causes one rotation.
func TestRotateAtWithAFractionRotatesOnce(t *testing.T) {
	now := issued
	clock := func() time.Time { return now }
	key, m := rotating(0, 0), keeper(clock)
	first, _, err := m.Generate(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	key.RotateAt = "2026-01-01T00:00:07.600Z"
	now = issued.Add(7*time.Second + 650*time.Millisecond)
	second, _, err := m.Generate(t.Context(), key)
	if err != nil || second.Current.ID() == first.Current.ID() {
		t.Fatalf("not rotated (%v)", err)
	}
	for _, later := range []time.Duration{0, time.Millisecond, time.Second, time.Hour} {
		now = now.Add(later)
		again, _, err := m.Generate(t.Context(), key)
		if err != nil || again.Current.ID() != second.Current.ID() {
			t.Fatalf("rotated again after %s (%v)", later, err)
		}
		if wake := key.NextWake(again, true, now); wake > 0 && wake < time.Minute {
			t.Errorf("wakes again after %s", wake)
		}
	}
	// After the clock is set back, the same value of the annotation causes no second rotation.
	now = issued.Add(7 * time.Second)
	if again, _, err := m.Generate(t.Context(), key); err != nil || again.Current.ID() != second.Current.ID() {
		t.Errorf("rotated again (%v)", err)
	}
}

// A rotation that was due by its interval does not replace a rotation that was requested for a later time.
func TestAnIntervalAnswersNoLaterRequest(t *testing.T) {
	now := issued
	key := rotating(3600, 60)
	key.RotateAt = "2026-01-01T01:30:00Z"
	m := keeper(func() time.Time { return now })
	var ids []string
	for _, at := range []time.Duration{0, time.Hour, 90 * time.Minute} {
		now = issued.Add(at)
		d, _, err := m.Generate(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.Current.ID())
	}
	if ids[0] == ids[1] || ids[1] == ids[2] {
		t.Errorf("keys %v: one for the interval and one for the request are missing", ids)
	}
}

func TestOverlap(t *testing.T) {
	if got := rotating(0, 0).overlap(); got != 24*time.Hour {
		t.Errorf("no rotation: %v", got)
	}
	if got := rotating(90000, 0).overlap(); got != 24*time.Hour {
		t.Errorf("absent: %v", got)
	}
	if got := rotating(90000, 60).overlap(); got != time.Minute {
		t.Errorf("declared: %v", got)
	}
}

func TestExpiryIsTheEarlier(t *testing.T) {
	limit, sooner, later := issued.Add(time.Hour), metav1.NewTime(issued), metav1.NewTime(issued.Add(2*time.Hour))
	key := rotating(0, 0)
	if key.expiry(time.Time{}) != nil || !key.expiry(limit).Equal(limit) {
		t.Error("no declared expiry")
	}
	key.ExpiresAt = &sooner
	if !key.expiry(limit).Equal(sooner.Time) || !key.expiry(time.Time{}).Equal(sooner.Time) {
		t.Error("declared sooner")
	}
	key.ExpiresAt = &later
	if !key.expiry(limit).Equal(limit) {
		t.Error("declared later")
	}
}

func TestNextWake(t *testing.T) {
	late := 10 * time.Millisecond
	previous := &apikey.Key{}
	key := rotating(3600, 60)
	now := issued.Add(time.Minute)
	if got := rotating(0, 0).NextWake(Delivered{IssuedAt: issued}, true, now); got != 0 {
		t.Errorf("nothing to wait for: %v", got)
	}
	if got := key.NextWake(Delivered{IssuedAt: issued}, true, now); got != 59*time.Minute+late {
		t.Errorf("rotation: %v", got)
	}
	if got := key.NextWake(Delivered{IssuedAt: issued, Previous: previous, PreviousUntil: now.Add(time.Second)}, true, now); got != time.Second+late {
		t.Errorf("end of the overlap: %v", got)
	}
	key.ExpiresAt = ptr.To(metav1.NewTime(now.Add(3 * time.Second)))
	if got := key.NextWake(Delivered{IssuedAt: issued}, true, now); got != 3*time.Second+late {
		t.Errorf("expiry: %v", got)
	}
	if got := key.NextWake(Delivered{IssuedAt: issued}, true, now.AddDate(1, 0, 0)); got != late {
		t.Errorf("overdue: %v", got)
	}
}

// TestARenamedDataKeyKeepsTheCredential: an issued credential stays valid when the template renames its data key.
func TestARenamedDataKeyKeepsTheCredential(t *testing.T) {
	w, m := rotating(0, 0), keeper(func() time.Time { return issued })
	w.Fixed = map[string]string{"client-id": "7"}
	first, done, err := m.Generate(t.Context(), w)
	if err != nil || done.Reason != v1alpha1.EventReasonKeyIssued {
		t.Fatal(done, err)
	}
	w.Current, w.Fixed = "clientSecret", map[string]string{"clientID": "7"}
	again, done, err := m.Generate(t.Context(), w)
	if err != nil || done.Reason != "" || again.Current.ID() != first.Current.ID() {
		t.Fatal(done, err)
	}
	secret, err := m.Secrets.Read(t.Context(), "ns", "k")
	if err != nil || string(secret.Data["clientID"]) != "7" || len(secret.Data) != 3 || string(secret.Data["clientSecret"]) != first.Current.Plain() {
		t.Fatal(secret, err)
	}
}
