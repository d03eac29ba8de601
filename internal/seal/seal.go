// Package seal encrypts what servers need and nobody may read in the store: AES-256-GCM under a subkey of the install's root
// key. Sealing is deterministic, so that steady state writes nothing: the nonce is a keyed hash of everything that is sealed,
// and equal texts of one object are the only thing that equal ciphertexts tell.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
)

// keySize is the length of a root key, in bytes.
const keySize = 32

// version begins every sealed text.
const version = "v1"

// ErrOpen: the text was not sealed for this object by any key of the ring, or was changed since.
var ErrOpen = errors.New("the sealed value cannot be opened: it belongs to another object, another root key, or was changed")

// Keyring holds root keys. The first seals, all open: to rotate, put the new key first and keep the old one until everything
// was sealed again.
type Keyring struct{ keys []rootKey }

type rootKey struct {
	id    string // 8 hexadecimal digits, no secret
	aead  cipher.AEAD
	nonce []byte
	// derive is what Subkeys' keys are derived from, in place of the root key itself.
	derive []byte
}

// Subkey is a key of a process's own, derived from a root key.
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
				return nil, fmt.Errorf("root key %s is not %d bytes, as they are or in base64: make one with `head -c 32 /dev/urandom | base64`", file, keySize)
			}
		}
		key, err := newRootKey(root)
		if err != nil {
			return nil, err
		}
		clear(root) // what was derived is enough
		clear(raw)
		ring.keys = append(ring.keys, key)
	}
	return ring, nil
}

func newRootKey(root []byte) (rootKey, error) {
	encryption, err := hkdf.Key(sha256.New, root, nil, "cardea config document encryption v1", keySize)
	if err != nil {
		return rootKey{}, err
	}
	nonce, err := hkdf.Key(sha256.New, root, nil, "cardea config document nonce v1", keySize)
	if err != nil {
		return rootKey{}, err
	}
	block, err := aes.NewCipher(encryption)
	if err != nil {
		return rootKey{}, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return rootKey{}, err
	}
	derive, err := hkdf.Key(sha256.New, root, nil, "cardea subkeys v1", keySize)
	if err != nil {
		return rootKey{}, err
	}
	id, err := hkdf.Key(sha256.New, root, nil, "cardea root key id v1", 4)
	return rootKey{id: hex.EncodeToString(id), aead: aead, nonce: nonce, derive: derive}, err
}

// Empty tells that the ring has no key.
func (r *Keyring) Empty() bool { return r == nil || len(r.keys) == 0 }

// Subkeys returns the keys for a purpose, one of each root key (HKDF-SHA-256, RFC 5869), the current one first: none on an empty
// ring. The same purpose always gives the same keys; no purpose's keys tell anything of another's.
func (r *Keyring) Subkeys(purpose string) []Subkey {
	if r.Empty() {
		return nil
	}
	subkeys := make([]Subkey, len(r.keys))
	for i, key := range r.keys {
		derived, err := hkdf.Expand(sha256.New, key.derive, purpose, keySize)
		if err != nil {
			panic(err) // only on a longer key, or in FIPS mode on a shorter secret
		}
		subkeys[i] = Subkey{ID: key.id, Key: derived}
	}
	return subkeys
}

// Seal encrypts a text for one object, which kind and id name. It panics on an empty ring.
func (r *Keyring) Seal(kind, id string, text []byte) string {
	key := r.keys[0]
	bound := binding(kind, id)
	mac := hmac.New(sha256.New, key.nonce)
	mac.Write(bound)
	mac.Write(text)
	nonce := mac.Sum(nil)[:key.aead.NonceSize()]
	sealed := key.aead.Seal(nonce, nonce, text, bound)
	return version + "." + key.id + "." + base64.RawURLEncoding.EncodeToString(sealed)
}

// Open decrypts a text sealed for the object, or returns ErrOpen.
func (r *Keyring) Open(kind, id, sealed string) ([]byte, error) {
	parts := strings.Split(sealed, ".")
	if r.Empty() || len(parts) != 3 || parts[0] != version {
		return nil, ErrOpen
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return nil, ErrOpen
	}
	for _, key := range r.keys {
		if key.id != parts[1] || len(raw) < key.aead.NonceSize() {
			continue
		}
		text, err := key.aead.Open(nil, raw[:key.aead.NonceSize()], raw[key.aead.NonceSize():], binding(kind, id))
		if err == nil {
			return text, nil
		}
	}
	return nil, ErrOpen
}

func binding(kind, id string) []byte {
	return []byte(fmt.Sprintf("%d:%s%d:%s", len(kind), kind, len(id), id))
}
