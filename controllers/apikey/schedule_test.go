package apikey

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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
			if got := rotationDue(tc.key, issued, tc.now); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
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
