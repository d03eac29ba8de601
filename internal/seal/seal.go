// Package seal encrypts secret values in the store: AES-SIV (RFC 5297) under a subkey of the install's root key.
// Sealing is deterministic, so that a steady state writes nothing. Equal ciphertexts reveal only that texts of one
// object are equal. Values of the older form (v1) can still be opened. Their owner writes them again in the new form,
// because sealing again gives a different text. Only what servers of the previous release must open is still written in
// the older form.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tink-crypto/tink-go/v2/daead/subtle"
)

// keySize is the length of a root key, in bytes.
const keySize = 32

// idDigits is the length of a root key's public id.
const idDigits = 8

// The version begins every sealed text.
const (
	// versionGCM is AES-256-GCM. In texts of the previous release, the nonce is a keyed hash of everything that is
	// sealed. SealOlder takes a random one.
	versionGCM = "v1"
	// versionSIV is AES-SIV.
	versionSIV = "v2"
)

// ErrOpen means that the text was not sealed for this object by any key of the ring, or was changed since.
var ErrOpen = errors.New("the sealed value cannot be opened: it belongs to another object, another root key, or was changed")

// Keyring holds root keys. The first seals, all open: to rotate, put the new key first and keep the old one until
// everything was sealed again.
type Keyring struct{ keys []rootKey }

type rootKey struct {
	id  string // 8 hexadecimal digits, no secret
	siv *subtle.AESSIV
	gcm cipher.AEAD
	// derive is the secret from which Subkeys derives keys, in place of the root key itself.
	derive []byte
}

// Subkey is a key that a process derives from a root key for a purpose.
type Subkey struct {
	// ID is the root key's public id, 8 hexadecimal digits, by which a stored value can name its key.
	ID string
	// Key is 32 bytes.
	Key []byte
}

// Load reads root keys from files: 32 bytes each, as they are or in base64.
func Load(files []string) (*Keyring, error) {
	ring := &Keyring{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("root key: %w", err)
		}
		root := raw
		if len(raw) != keySize {
			root, err = base64.StdEncoding.DecodeString(strings.TrimSpace(string(raw)))
			if err != nil || len(root) != keySize {
				return nil, fmt.Errorf("root key %s must have %d bytes, raw or in base64: make one with `head -c 32 /dev/urandom | base64`", file, keySize)
			}
		}
		key, err := newRootKey(root)
		if err != nil {
			return nil, err
		}
		clear(root) // only the derived keys are needed
		clear(raw)
		ring.keys = append(ring.keys, key)
	}
	return ring, nil
}

func newRootKey(root []byte) (rootKey, error) {
	derive := func(purpose string, size int) ([]byte, error) { return hkdf.Key(sha256.New, root, nil, purpose, size) }
	sivKey, err1 := derive("cardea config document encryption v2", subtle.AESSIVKeySize)
	gcmKey, err2 := derive("cardea config document encryption v1", keySize)
	subkeys, err3 := derive("cardea subkeys v1", keySize)
	id, err4 := derive("cardea root key id v1", idDigits/2)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return rootKey{}, err
	}
	siv, err := subtle.NewAESSIV(sivKey)
	if err != nil {
		return rootKey{}, err
	}
	block, err := aes.NewCipher(gcmKey)
	if err != nil {
		return rootKey{}, err
	}
	gcm, err := cipher.NewGCM(block)
	return rootKey{id: hex.EncodeToString(id), siv: siv, gcm: gcm, derive: subkeys}, err
}

// Empty reports whether the ring has no key.
func (r *Keyring) Empty() bool { return r == nil || len(r.keys) == 0 }

// IDs returns the public ids of the root keys, the id of the key that seals first: none on an empty ring.
func (r *Keyring) IDs() []string {
	if r.Empty() {
		return nil
	}
	all := make([]string, len(r.keys))
	for i, key := range r.keys {
		all[i] = key.id
	}
	return all
}

// KeyOf returns the public id of the root key that sealed a text, and reports whether the text has the form of sealed
// texts. The key need not be known.
func KeyOf(sealed string) (string, bool) {
	parts := strings.Split(sealed, ".")
	if len(parts) != 3 || len(parts[1]) != idDigits || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return "", false
	}
	return parts[1], true
}

// Current reports whether a text has the form and the key with which Seal seals now.
func (r *Keyring) Current(sealed string) bool {
	return !r.Empty() && strings.HasPrefix(sealed, versionSIV+"."+r.keys[0].id+".")
}

// Subkeys returns the keys for a purpose, one of each root key (HKDF-SHA-256, RFC 5869), the current one first: none on
// an empty ring. The same purpose always gives the same keys; the keys of a purpose reveal nothing about those of
// another.
func (r *Keyring) Subkeys(purpose string) []Subkey {
	if r.Empty() {
		return nil
	}
	subkeys := make([]Subkey, len(r.keys))
	for i, key := range r.keys {
		derived, err := hkdf.Expand(sha256.New, key.derive, purpose, keySize)
		if err != nil {
			panic(err) // fails only for a longer key, or in FIPS mode for a shorter secret
		}
		subkeys[i] = Subkey{ID: key.id, Key: derived}
	}
	return subkeys
}

// Seal encrypts a text for one object, which kind and id name. It panics on an empty ring.
func (r *Keyring) Seal(kind, id string, text []byte) string {
	key := r.keys[0]
	sealed, err := key.siv.EncryptDeterministically(text, binding(kind, id))
	if err != nil {
		panic(err) // fails only for a text larger than memory
	}
	return versionSIV + "." + key.id + "." + base64.RawURLEncoding.EncodeToString(sealed)
}

// SealOlder is Seal in the form that servers of the previous release can open: during an upgrade they may be the ones
// that read the value. Equal texts differ. It is for values of a short life, because random nonces bound how many a
// root key may seal: 2^32 (NIST SP 800-38D, 8.3).
func (r *Keyring) SealOlder(kind, id string, text []byte) string {
	key := r.keys[0]
	nonce := make([]byte, key.gcm.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return versionGCM + "." + key.id + "." + base64.RawURLEncoding.EncodeToString(key.gcm.Seal(nonce, nonce, text, binding(kind, id)))
}

// Open decrypts a text sealed for the object, or returns ErrOpen.
func (r *Keyring) Open(kind, id, sealed string) ([]byte, error) {
	parts := strings.Split(sealed, ".")
	if r.Empty() || len(parts) != 3 {
		return nil, ErrOpen
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != parts[2] { // the decoder ignores line breaks and spare bits
		return nil, ErrOpen
	}
	for _, key := range r.keys {
		if key.id != parts[1] {
			continue
		}
		if text, err := key.open(parts[0], raw, binding(kind, id)); err == nil {
			return text, nil
		}
	}
	return nil, ErrOpen
}

// open decrypts a text of a version.
func (k rootKey) open(version string, raw, bound []byte) ([]byte, error) {
	nonce := k.gcm.NonceSize()
	switch {
	case version == versionSIV:
		return k.siv.DecryptDeterministically(raw, bound)
	case version == versionGCM && len(raw) >= nonce:
		return k.gcm.Open(nil, raw[:nonce], raw[nonce:], bound)
	}
	return nil, ErrOpen
}

func binding(kind, id string) []byte {
	return []byte(fmt.Sprintf("%d:%s%d:%s", len(kind), kind, len(id), id))
}
