package apikey

import (
	"crypto/rand"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
)

var issued = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func rotating(every, overlap int32) *v1alpha1.APIKey {
	key := &v1alpha1.APIKey{Spec: v1alpha1.APIKeySpec{SecretTemplate: &v1alpha1.SecretTemplate{}}}
	if every > 0 {
		key.Spec.Rotation = &v1alpha1.KeyRotation{EverySeconds: every}
	}
	if overlap > 0 {
		key.Spec.Rotation.OverlapSeconds = &overlap
	}
	return key
}

func asking(at string) *v1alpha1.APIKey {
	key := rotating(0, 0)
	key.Annotations = map[string]string{v1alpha1.AnnotationRotateAt: at}
	return key
}

func TestRotationDue(t *testing.T) {
	for name, tc := range map[string]struct {
		key  *v1alpha1.APIKey
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
			if got := rotationDue(tc.key, delivered{issuedAt: issued}, tc.now); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

type silent struct{ recorder.EventRecorder }

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// issuedSecret returns a manager with a Secret of a key that was just issued.
func issuedSecret(t *testing.T, now func() time.Time, key *v1alpha1.APIKey) *manager {
	t.Helper()
	m := newManager(Options{Client: fake.NewClientBuilder().Build(), Events: silent{}, Clock: now, Random: rand.Reader})
	if _, err := m.generate(t.Context(), key, &v1alpha1.APIAuthApp{}, false); err != nil {
		t.Fatal(err)
	}
	return m
}

// `toISOString()` writes fractions of a second; the time of the issue has them too, and one value is answered once.
func TestCHAOS2RotateAtWithAFractionRotatesOnce(t *testing.T) {
	now := issued
	clock := func() time.Time { return now }
	key := rotating(0, 0)
	key.Namespace, key.Name = "ns", "k"
	m := issuedSecret(t, clock, key)
	first, err := m.generate(t.Context(), key, &v1alpha1.APIAuthApp{}, true)
	if err != nil {
		t.Fatal(err)
	}
	key.Annotations = map[string]string{v1alpha1.AnnotationRotateAt: "2026-01-01T00:00:07.600Z"}
	now = issued.Add(7*time.Second + 650*time.Millisecond)
	second, err := m.generate(t.Context(), key, &v1alpha1.APIAuthApp{}, true)
	if err != nil || second.keys.current.ID() == first.keys.current.ID() {
		t.Fatalf("not rotated (%v)", err)
	}
	for _, later := range []time.Duration{0, time.Millisecond, time.Second, time.Hour} {
		now = now.Add(later)
		again, err := m.generate(t.Context(), key, &v1alpha1.APIAuthApp{}, true)
		if err != nil || again.keys.current.ID() != second.keys.current.ID() {
			t.Fatalf("rotated again after %s (%v)", later, err)
		}
		if wake := nextWake(key, again, now); wake > 0 && wake < time.Minute {
			t.Errorf("wakes again after %s", wake)
		}
	}
	// A clock that goes back makes the issue look earlier than the request: the value was answered all the same.
	now = issued.Add(7 * time.Second)
	if again, err := m.generate(t.Context(), key, &v1alpha1.APIAuthApp{}, true); err != nil || again.keys.current.ID() != second.keys.current.ID() {
		t.Errorf("rotated again (%v)", err)
	}
}

// A rotation that was due by its interval does not answer a request for a later time.
func TestCHAOS2AnIntervalAnswersNoLaterRequest(t *testing.T) {
	now := issued
	key := rotating(3600, 60)
	key.Namespace, key.Name = "ns", "k"
	key.Annotations = map[string]string{v1alpha1.AnnotationRotateAt: "2026-01-01T01:30:00Z"}
	m := issuedSecret(t, func() time.Time { return now }, key)
	var ids []string
	for _, at := range []time.Duration{0, time.Hour, 90 * time.Minute} {
		now = issued.Add(at)
		d, err := m.generate(t.Context(), key, &v1alpha1.APIAuthApp{}, true)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.keys.current.ID())
	}
	if ids[0] == ids[1] || ids[1] == ids[2] {
		t.Errorf("keys %v: one for the interval and one for the request are missing", ids)
	}
}

func TestOverlap(t *testing.T) {
	if got := overlap(rotating(0, 0)); got != 24*time.Hour {
		t.Errorf("no rotation: %v", got)
	}
	if got := overlap(rotating(90000, 0)); got != 24*time.Hour {
		t.Errorf("absent: %v", got)
	}
	if got := overlap(rotating(90000, 60)); got != time.Minute {
		t.Errorf("declared: %v", got)
	}
}

func TestExpiryIsTheEarlier(t *testing.T) {
	limit, sooner, later := issued.Add(time.Hour), metav1.NewTime(issued), metav1.NewTime(issued.Add(2*time.Hour))
	key := rotating(0, 0)
	if expiry(key, time.Time{}) != nil || !expiry(key, limit).Equal(limit) {
		t.Error("no declared expiry")
	}
	key.Spec.ExpiresAt = &sooner
	if !expiry(key, limit).Equal(sooner.Time) || !expiry(key, time.Time{}).Equal(sooner.Time) {
		t.Error("declared sooner")
	}
	key.Spec.ExpiresAt = &later
	if !expiry(key, limit).Equal(limit) {
		t.Error("declared later")
	}
}

func TestNextWake(t *testing.T) {
	late := 10 * time.Millisecond
	previous := &apikey.Key{}
	key := rotating(3600, 60)
	now := issued.Add(time.Minute)
	if got := nextWake(rotating(0, 0), delivered{issuedAt: issued}, now); got != 0 {
		t.Errorf("nothing to wait for: %v", got)
	}
	if got := nextWake(key, delivered{issuedAt: issued}, now); got != 59*time.Minute+late {
		t.Errorf("rotation: %v", got)
	}
	if got := nextWake(key, delivered{issuedAt: issued, keys: keys{previous: previous}, previousUntil: now.Add(time.Second)}, now); got != time.Second+late {
		t.Errorf("end of the overlap: %v", got)
	}
	key.Spec.ExpiresAt = ptr.To(metav1.NewTime(now.Add(3 * time.Second)))
	if got := nextWake(key, delivered{issuedAt: issued}, now); got != 3*time.Second+late {
		t.Errorf("expiry: %v", got)
	}
	if got := nextWake(key, delivered{issuedAt: issued}, now.AddDate(1, 0, 0)); got != late {
		t.Errorf("overdue: %v", got)
	}
}
