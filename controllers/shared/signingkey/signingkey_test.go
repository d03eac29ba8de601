package signingkey

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	currentPEM  = "current.pem"
	previousPEM = "previous.pem"
)

var sessions = Wanted{Slots: ForSessions, Kind: document.SealedSigningKey}

// signing returns a keeper with a root key.
func signing(t *testing.T) Keeper {
	t.Helper()
	file := filepath.Join(t.TempDir(), "root-key")
	if err := os.WriteFile(file, bytes.Repeat([]byte{1}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := seal.Load([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	return Keeper{Keyring: ring, Random: rand.Reader}
}

func newPEM(t *testing.T, curve elliptic.Curve) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func TestRenew(t *testing.T) {
	keys := signing(t)
	current, previous := newPEM(t, elliptic.P256()), newPEM(t, elliptic.P256())
	stamp := func(after time.Duration) string { return begin.Add(after).Format(time.RFC3339) }
	tests := map[string]struct {
		data, annotations map[string]string
		after             time.Duration
		changed           bool
		// current is "kept" or "new"; previous is "", "kept" or "the current before"; until is when the previous key
		// stops being accepted.
		current, previous string
		until             string
	}{
		"a fresh key stays": {data: map[string]string{currentPEM: string(current)}, annotations: map[string]string{v1alpha1.AnnotationRotatedAt: stamp(0)},
			after: time.Second, current: "kept"},
		"a key stays to the last second": {data: map[string]string{currentPEM: string(current)}, annotations: map[string]string{v1alpha1.AnnotationRotatedAt: stamp(0)},
			after: 90*24*time.Hour - time.Second, current: "kept"},
		"after 90 days it is replaced and accepted for a day more": {data: map[string]string{currentPEM: string(current)}, annotations: map[string]string{v1alpha1.AnnotationRotatedAt: stamp(0)},
			after: 90 * 24 * time.Hour, changed: true, current: "new", previous: "the current before", until: stamp(91 * 24 * time.Hour)},
		"a due key drives out an older one": {
			data:        map[string]string{currentPEM: string(current), previousPEM: string(previous)},
			annotations: map[string]string{v1alpha1.AnnotationRotatedAt: stamp(0), v1alpha1.AnnotationPreviousExpiresAt: stamp(24 * time.Hour)},
			after:       200 * 24 * time.Hour, changed: true, current: "new", previous: "the current before", until: stamp(201 * 24 * time.Hour)},
		"the previous key stays to the last second": {
			data:        map[string]string{currentPEM: string(current), previousPEM: string(previous)},
			annotations: map[string]string{v1alpha1.AnnotationRotatedAt: stamp(0), v1alpha1.AnnotationPreviousExpiresAt: stamp(24 * time.Hour)},
			after:       24*time.Hour - time.Second, current: "kept", previous: "kept", until: stamp(24 * time.Hour)},
		"the previous key is dropped when it is over": {
			data:        map[string]string{currentPEM: string(current), previousPEM: string(previous)},
			annotations: map[string]string{v1alpha1.AnnotationRotatedAt: stamp(0), v1alpha1.AnnotationPreviousExpiresAt: stamp(24 * time.Hour)},
			after:       24 * time.Hour, changed: true, current: "kept"},
		"an edited key is not kept":       {data: map[string]string{currentPEM: "by hand"}, annotations: map[string]string{v1alpha1.AnnotationRotatedAt: stamp(0)}, after: time.Hour, changed: true, current: "new"},
		"a key of another curve is none":  {data: map[string]string{currentPEM: string(newPEM(t, elliptic.P384()))}, annotations: map[string]string{v1alpha1.AnnotationRotatedAt: stamp(0)}, after: time.Hour, changed: true, current: "new"},
		"a removed key is issued":         {annotations: map[string]string{v1alpha1.AnnotationRotatedAt: stamp(0)}, after: time.Hour, changed: true, current: "new"},
		"a key of unknown age is renewed": {data: map[string]string{currentPEM: string(current)}, annotations: map[string]string{}, after: time.Hour, changed: true, current: "new"},
		"an edited key takes the previous with it": {
			data:        map[string]string{currentPEM: "by hand", previousPEM: string(previous)},
			annotations: map[string]string{v1alpha1.AnnotationRotatedAt: stamp(0), v1alpha1.AnnotationPreviousExpiresAt: stamp(24 * time.Hour)},
			after:       time.Hour, changed: true, current: "new"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}, Data: map[string][]byte{}}
			for key, value := range test.data {
				secret.Data[key] = []byte(value)
			}
			now := begin.Add(test.after)
			changed, err := keys.renew(secret, sessions, now)
			if err != nil || changed != test.changed {
				t.Fatalf("changed %v, want %v (%v)", changed, test.changed, err)
			}
			if kept := string(secret.Data[currentPEM]) == test.data[currentPEM]; kept != (test.current == "kept") {
				t.Errorf("current kept %v, want %s", kept, test.current)
			}
			if _, err := parse(secret.Data[currentPEM], jose.ES256); err != nil {
				t.Errorf("current: %v", err)
			}
			want := map[string]string{"": "", "kept": test.data[previousPEM], "the current before": test.data[currentPEM]}[test.previous]
			if got := string(secret.Data[previousPEM]); got != want {
				t.Errorf("previous %.40q, want %s", got, test.previous)
			}
			if got := secret.Annotations[v1alpha1.AnnotationPreviousExpiresAt]; got != test.until {
				t.Errorf("previous until %q, want %q", got, test.until)
			}
			if got := secret.Annotations[v1alpha1.AnnotationRotatedAt]; test.current == "new" && got != now.Format(time.RFC3339) {
				t.Errorf("rotated at %q, want %s", got, now)
			}
			if again, err := keys.renew(secret, sessions, now); again || err != nil {
				t.Errorf("renewing again changes it: %v", err)
			}
		})
	}
}

// TestOneKeysLife follows a deployment's keys over time: the keys that the store holds, and the time until the next
// change.
func TestOneKeysLife(t *testing.T) {
	keys, secret := signing(t), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Data: map[string][]byte{}}
	if err := keys.issue(secret, sessions, begin); err != nil {
		t.Fatal(err)
	}
	look := func(after time.Duration) ([]document.SigningKey, time.Duration) {
		t.Helper()
		if _, err := keys.renew(secret, sessions, begin.Add(after)); err != nil {
			t.Fatal(err)
		}
		held, wake, err := keys.sealAll(secret, sessions, begin.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return held, wake
	}
	const day = 24 * time.Hour
	first, wake := look(0)
	if len(first) != 1 || first[0].ExpiresAt != nil || wake != 90*day {
		t.Fatalf("%d keys, wake %s", len(first), wake)
	}
	if again, wake := look(30 * day); !reflect.DeepEqual(again, first) || wake != 60*day {
		t.Fatalf("sealing again differs, or wakes after %s", wake)
	}
	both, wake := look(90 * day)
	if len(both) != 2 || wake != day {
		t.Fatalf("%d keys, wake %s", len(both), wake)
	}
	if both[1].ID != first[0].ID || both[1].ExpiresAt == nil || !both[1].ExpiresAt.Equal(begin.Add(91*day)) || both[0].ID == first[0].ID || both[0].ExpiresAt != nil {
		t.Fatalf("%+v", both)
	}
	set, err := PublicSet(both)
	if err != nil {
		t.Fatal(err)
	}
	var public jose.JSONWebKeySet
	if err := json.Unmarshal(set, &public); err != nil || len(public.Keys) != 2 || !public.Keys[0].IsPublic() || !public.Keys[1].IsPublic() || strings.Contains(string(set), `"d"`) {
		t.Fatalf("%s: %v", set, err)
	}
	second, wake := look(91 * day)
	if len(second) != 1 || second[0].ID != both[0].ID || wake != 89*day {
		t.Fatalf("%d keys, wake %s", len(second), wake)
	}
	if _, found := secret.Data[previousPEM]; found {
		t.Fatal("the previous key is kept in the Secret")
	}
	opened, err := keys.Keyring.Open(document.SealedSigningKey, second[0].ID, second[0].Sealed)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data[currentPEM])
	if !bytes.Equal(opened, block.Bytes) {
		t.Fatal("what was sealed is not the key of the Secret")
	}
	if _, err := keys.Keyring.Open(document.SealedSigningKey, first[0].ID, second[0].Sealed); err == nil {
		t.Fatal("a sealed key opens under another id")
	}
}

// TestAnAppsKeys: an app has keys of both algorithms. They are renewed together, and on request once for each value of
// the annotation.
func TestAnAppsKeys(t *testing.T) {
	keys, secret := signing(t), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Data: map[string][]byte{}}
	app := Wanted{Slots: ForApps, Dated: true, Kind: document.SealedOAuthKey}
	if err := keys.issue(secret, app, begin); err != nil {
		t.Fatal(err)
	}
	look := func(after time.Duration) ([]document.SigningKey, time.Duration) {
		t.Helper()
		if _, err := keys.renew(secret, app, begin.Add(after)); err != nil {
			t.Fatal(err)
		}
		held, wake, err := keys.sealAll(secret, app, begin.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return held, wake
	}
	algorithms := func(held []document.SigningKey) (names []string) {
		t.Helper()
		for _, key := range held {
			var public jose.JSONWebKey
			if err := json.Unmarshal(key.Public, &public); err != nil || !public.IsPublic() || !public.Valid() || public.KeyID != key.ID || public.Use != "sig" {
				t.Fatalf("%s: %v", key.Public, err)
			}
			names = append(names, public.Algorithm)
		}
		return names
	}
	first, _ := look(0)
	if got := algorithms(first); !reflect.DeepEqual(got, []string{"ES256", "RS256"}) {
		t.Fatalf("keys %v", got)
	}
	app.RotateAt = begin.Add(2 * time.Hour).Format(time.RFC3339)
	if before, wake := look(time.Hour); !reflect.DeepEqual(before, first) || wake != time.Hour {
		t.Fatalf("rotated before the time, or wakes after %s", wake)
	}
	both, wake := look(2 * time.Hour)
	if got := algorithms(both); !reflect.DeepEqual(got, []string{"ES256", "RS256", "ES256", "RS256"}) || wake != 24*time.Hour || both[2].ID != first[0].ID || both[3].ID != first[1].ID {
		t.Fatalf("keys %v, wake %s", got, wake)
	}
	if made := both[0].CreatedAt; made == nil || !made.Equal(begin.Add(2*time.Hour)) || both[2].CreatedAt == nil || !both[2].CreatedAt.Equal(begin) {
		t.Errorf("made at %v and %v", made, both[2].CreatedAt)
	}
	if again, _ := look(3 * time.Hour); !reflect.DeepEqual(again, both) {
		t.Fatal("one value of the annotation caused two rotations")
	}
	// One edited key is reason to renew both: it is unknown what was done with the Secret.
	secret.Data["current-rs256.pem"] = secret.Data["current-es256.pem"]
	edited, _ := look(4 * time.Hour)
	if got := algorithms(edited); len(edited) < 2 || edited[1].ID == both[1].ID {
		t.Fatalf("keys %v", got)
	}
}
