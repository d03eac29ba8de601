package webhook

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The example of Standard Webhooks 1.0.0 (libraries/go/webhook_test.go signs the same).
const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	id     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	body   = `{"test": 2432232314}`
	want   = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var at = time.Unix(1614265330, 0)

func TestSignatureIsThatOfThePublishedExample(t *testing.T) {
	key, err := ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	Sign(header, id, at, []byte(body), key)
	if header.Get("webhook-id") != id || header.Get("webhook-timestamp") != "1614265330" || header.Get("webhook-signature") != want {
		t.Errorf("%v", header)
	}
}

func TestEd25519KeySignsIDTimeAndBody(t *testing.T) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	public := private.Public().(ed25519.PublicKey)
	shared, err := ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	Sign(header, id, at, []byte(body), Private(private), shared)
	first, second, _ := strings.Cut(header.Get("webhook-signature"), " ")
	encoded, found := strings.CutPrefix(first, "v1a,")
	signature, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || !ed25519.Verify(public, []byte(id+".1614265330."+body), signature) || second != want {
		t.Errorf("%v", header)
	}
	if got := Public(public); got != "whpk_"+base64.StdEncoding.EncodeToString(public) {
		t.Error(got)
	}
}

func TestTextsThatAreNoSecrets(t *testing.T) {
	of := func(bytes int) string { return base64.StdEncoding.EncodeToString(make([]byte, bytes)) }
	for text, good := range map[string]bool{
		"whsec_" + of(24): true, "whsec_" + of(64): true, "whsec_" + of(23): false, "whsec_" + of(65): false, of(32): false, "whsk_" + of(32): false,
		"whsec_": false, "": false, "whsec_!" + of(32): false,
	} {
		if _, err := ParseSecret(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNewSecretsAreSecretsOf32Bytes(t *testing.T) {
	made, err := NewSecret(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadSecret(made.Plain())
	if err != nil || read != made || made.ID() != "" || len(made.Plain()) != len("whsec_")+44 {
		t.Errorf("%v %v", made, err)
	}
	if _, err := NewSecret(bytes.NewReader(nil)); err == nil {
		t.Error("a secret of no random bytes")
	}
	if _, err := ReadSecret("whsec_short"); err != ErrSecret {
		t.Errorf("%v", err)
	}
}
