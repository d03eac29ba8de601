// Package webhook signs the bodies of webhooks as Standard Webhooks 1.0.0 says, with shared secrets and
// with Ed25519 keys whose public part is published.
package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// secretPrefix begins a secret, and publicPrefix a public key.
	secretPrefix, publicPrefix = "whsec_", "whpk_"
	// leastSecret and mostSecret bound a secret, in bytes.
	leastSecret, mostSecret = 24, 64
)

// ErrSecret is the error of a text that is no secret. It does not quote the text.
var ErrSecret = errors.New("is not whsec_ and the base64 of 24 to 64 bytes")

// Key signs webhooks. It is safe for concurrent use.
type Key struct {
	version string
	sign    func(content []byte) []byte
}

// ParseSecret returns the key of a secret, which is whsec_ and the base64 of 24 to 64 bytes. Its signatures have the
// version v1 (HMAC-SHA256). Errors: ErrSecret.
func ParseSecret(text string) (Key, error) {
	encoded, found := strings.CutPrefix(text, secretPrefix)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || len(secret) < leastSecret || len(secret) > mostSecret {
		return Key{}, ErrSecret
	}
	return Key{"v1", func(content []byte) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write(content)
		return mac.Sum(nil)
	}}, nil
}

// Private returns the key of an Ed25519 key. Its signatures have the version v1a.
func Private(key ed25519.PrivateKey) Key {
	return Key{"v1a", func(content []byte) []byte { return ed25519.Sign(key, content) }}
}

// Public returns the text of a public key.
func Public(key ed25519.PublicKey) string {
	return publicPrefix + base64.StdEncoding.EncodeToString(key)
}

// PublicOf returns the text of a public key that is a JSON Web Key.
func PublicOf(key json.RawMessage) (string, error) {
	var read jose.JSONWebKey
	if err := read.UnmarshalJSON(key); err != nil {
		return "", err
	}
	public, is := read.Key.(ed25519.PublicKey)
	if !is {
		return "", errors.New("is no Ed25519 key")
	}
	return Public(public), nil
}

// Sign sets the three headers of a webhook with a body. The receiver recognizes repetitions by the id, which contains
// no dot. With several keys the header has a signature of each, in their order.
func Sign(header http.Header, id string, at time.Time, body []byte, keys ...Key) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	content := append([]byte(id+"."+timestamp+"."), body...)
	signatures := make([]string, 0, len(keys))
	for _, key := range keys {
		signatures = append(signatures, key.version+","+base64.StdEncoding.EncodeToString(key.sign(content)))
	}
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", timestamp)
	header.Set("Webhook-Signature", strings.Join(signatures, " "))
}

// Secret is a shared secret of Standard Webhooks.
type Secret struct{ plain string }

// NewSecret makes a secret of 32 bytes.
func NewSecret(random io.Reader) (Secret, error) {
	var raw [32]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return Secret{}, err
	}
	return Secret{secretPrefix + base64.StdEncoding.EncodeToString(raw[:])}, nil
}

// ReadSecret checks that a text is a secret. Errors: ErrSecret.
func ReadSecret(plain string) (Secret, error) {
	_, err := ParseSecret(plain)
	if err != nil {
		return Secret{}, err
	}
	return Secret{plain}, nil
}

// Plain is the secret itself.
func (s Secret) Plain() string { return s.plain }

// ID is "": secrets have no public id.
func (s Secret) ID() string { return "" }
