package samlkey

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func newRing(t *testing.T) *seal.Keyring {
	t.Helper()
	file := filepath.Join(t.TempDir(), "root-key")
	if err := os.WriteFile(file, bytes.Repeat([]byte{1}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := seal.Load([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// kept is a connection's Secret in a cluster, seen over time.
type kept struct {
	t      *testing.T
	keeper Keeper
	now    time.Time
	wanted Wanted
	// known are the certificates in the order in which they first signed or appeared.
	known []string
}

func newKept(t *testing.T) *kept {
	k := &kept{t: t, now: begin}
	cluster := fake.NewClientBuilder().Build()
	k.keeper = Keeper{Secrets: ownedsecret.Manager{Client: cluster}, Keyring: newRing(t), Clock: func() time.Time { return k.now }, Random: rand.Reader}
	c := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "globex", UID: "u"}}
	k.wanted = Wanted{
		Owner: ownedsecret.Owner{Object: c, Kind: v1alpha1.KindConnection, Marker: "iam.cardea.dev/saml-keys-of", Taken: "-"},
		Name:  "globex-saml-keys", Subject: "globex", ID: 7,
	}
	return k
}

// at advances the clock, keeps the keys, and returns which keys there are, as letters in the order of their creation,
// and the time until the next step.
func (k *kept) at(after time.Duration) (letters string, wake time.Duration) {
	k.t.Helper()
	k.now = begin.Add(after)
	keys, wake, err := k.keeper.Keep(k.t.Context(), k.wanted)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, key := range keys {
		letters += k.letter(key)
	}
	return letters, wake
}

// letter returns the letter of a key, whose private key must open and belong to its certificate.
func (k *kept) letter(key document.SAMLKey) string {
	k.t.Helper()
	private, err := k.keeper.Keyring.Open(document.SealedConnectionSecret, ids.Format(7), key.Sealed)
	if err != nil || !valid(pair{private, []byte(key.Certificate)}) {
		k.t.Fatalf("the key cannot be used: %v", err)
	}
	i := slices.Index(k.known, key.Certificate)
	if i < 0 {
		i, k.known = len(k.known), append(k.known, key.Certificate)
	}
	return string(rune('A' + i))
}

func (k *kept) secret() *corev1.Secret {
	k.t.Helper()
	secret, err := k.keeper.Secrets.Read(k.t.Context(), "acme", "globex-saml-keys")
	if err != nil || secret == nil {
		k.t.Fatal(err, secret)
	}
	return secret
}

func (k *kept) edit(change func(*corev1.Secret)) {
	k.t.Helper()
	secret := k.secret()
	change(secret)
	if err := k.keeper.Secrets.Client.Update(k.t.Context(), secret); err != nil {
		k.t.Fatal(err)
	}
}

func stamp(after time.Duration) string { return begin.Add(after).Format(time.RFC3339) }

func TestKeysChangeInStepsOfSevenDays(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	for _, step := range []struct {
		name     string
		at       time.Duration
		rotateAt string
		want     string
		wake     time.Duration
	}{
		{"the first key", 0, "", "A", 0},
		{"years later", 900 * day, "", "A", 0},
		{"a request of the past", 900 * day, stamp(-day), "A", 0},
		{"a request that is no time", 900 * day, "now", "A", 0},
		{"a request of the future", 1000*day - time.Hour, stamp(1000 * day), "A", time.Hour},
		{"the next key stands in the metadata", 1000 * day, stamp(1000 * day), "AB", 7 * day},
		{"to the last second", 1007*day - time.Second, stamp(1000 * day), "AB", time.Second},
		{"the next key signs", 1007 * day, stamp(1000 * day), "BA", 7 * day},
		{"the same request causes nothing more", 1008 * day, stamp(1000 * day), "BA", 6 * day},
		{"the former key decrypts to the last second", 1014*day - time.Second, stamp(1000 * day), "BA", time.Second},
		{"the former key goes", 1014 * day, stamp(1000 * day), "B", 0},
		{"an annotation that was removed", 1015 * day, "", "B", 0},
		{"another request", 1020 * day, stamp(1019 * day), "BC", 7 * day},
		{"a request meanwhile waits", 1022 * day, stamp(1021 * day), "BC", 5 * day},
		{"and follows: three keys", 1027 * day, stamp(1021 * day), "CDB", 7 * day},
		{"which go on together", 1034 * day, stamp(1021 * day), "DC", 7 * day},
		{"an operator that was off for long", 1100 * day, stamp(1021 * day), "D", 0},
	} {
		k.wanted.RotateAt = step.rotateAt
		got, wake := k.at(step.at)
		if got != step.want || wake != step.wake {
			t.Fatalf("%s: got keys %s and %s, want %s and %s", step.name, got, wake, step.want, step.wake)
		}
		before := k.secret()
		if again, _ := k.at(step.at); again != step.want || k.secret().ResourceVersion != before.ResourceVersion {
			t.Errorf("%s: a second pass changed the Secret", step.name)
		}
		if len(before.Data) != 2*len(step.want) {
			t.Errorf("%s: the Secret has %d values for %d keys", step.name, len(before.Data), len(step.want))
		}
	}
}

func TestMissingAndEditedKeysAreReplaced(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	k.at(0)
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(foreign)
	if err != nil {
		t.Fatal(err)
	}
	p256 := pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der})
	want := "A"
	for _, step := range []struct {
		name   string
		fresh  bool
		change func(*corev1.Secret)
	}{
		{"a lost annotation", false, func(s *corev1.Secret) { delete(s.Annotations, v1alpha1.AnnotationRotatedAt) }},
		{"an own value", false, func(s *corev1.Secret) { s.Data["note"] = []byte("mine") }},
		{"a key of another kind", true, func(s *corev1.Secret) { s.Data[current.key] = p256 }},
		{"no certificate", true, func(s *corev1.Secret) { delete(s.Data, current.certificate) }},
	} {
		k.edit(step.change)
		if step.fresh {
			want = string(rune(want[0] + 1))
		}
		if got, _ := k.at(day); got != want {
			t.Errorf("%s: got %s, want %s", step.name, got, want)
		}
	}
	if string(k.secret().Data["note"]) != "mine" {
		t.Error("the own value was deleted")
	}
	k.wanted.RotateAt = stamp(2 * day)
	if got, _ := k.at(2 * day); got != "CD" {
		t.Fatalf("got %s, want CD", got)
	}
	k.edit(func(s *corev1.Secret) { delete(s.Data, current.key) })
	if got, _ := k.at(3 * day); got != "D" {
		t.Errorf("without a current key the next one did not sign: %s", got)
	}
	if err := k.keeper.Remove(t.Context(), k.wanted); err != nil {
		t.Fatal(err)
	}
	if got, _ := k.at(4 * day); got != "E" {
		t.Errorf("after the Secret was deleted: %s", got)
	}
}

func TestGeneratedKeys(t *testing.T) {
	t.Parallel()
	p, err := generate(rand.Reader, "globex", begin)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(p.certificate)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	public, isRSA := certificate.PublicKey.(*rsa.PublicKey)
	if !isRSA || public.N.BitLen() != 3072 || certificate.Subject.CommonName != "globex" || certificate.IsCA || certificate.SerialNumber.Sign() <= 0 ||
		!certificate.NotBefore.Before(begin) || certificate.NotAfter != begin.Add(3650*day) {
		t.Errorf("got %+v", certificate)
	}
	if err := certificate.CheckSignature(certificate.SignatureAlgorithm, certificate.RawTBSCertificate, certificate.Signature); err != nil {
		t.Error(err)
	}
	other, err := generate(rand.Reader, "globex", begin)
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]pair{
		"nothing":                     {},
		"no certificate":              {key: p.key},
		"a certificate of other keys": {p.key, other.certificate},
		"swapped values":              {p.certificate, p.key},
		"a large value":               {p.key, append(p.certificate, strings.Repeat("\n", maxPEM)...)},
	} {
		if valid(of) {
			t.Errorf("%s is accepted", name)
		}
	}
}
