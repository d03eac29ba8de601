package pages

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"github.com/cardea-iam/cardea/internal/seal"
)

// keys make the tokens of forms and seal the pages' cookie. The first makes and seals, all are accepted: root keys
// rotate.
type keys struct {
	forms   [][]byte
	cookies []cipher.AEAD
}

// errNotOurs: the value was not made here, or not for this.
var errNotOurs = errors.New("not made here")

func newKeys(ring *seal.Keyring, random io.Reader) (*keys, error) {
	forms, cookies := ring.Subkeys("cardea pages forms v1"), ring.Subkeys("cardea pages cookie v1")
	if len(forms) == 0 {
		for _, list := range []*[]seal.Subkey{&forms, &cookies} {
			key := make([]byte, sha256.Size)
			if _, err := io.ReadFull(random, key); err != nil {
				return nil, err
			}
			*list = []seal.Subkey{{Key: key}}
		}
	}
	k := &keys{}
	for i := range forms {
		block, err := aes.NewCipher(cookies[i].Key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		k.forms, k.cookies = append(k.forms, forms[i].Key), append(k.cookies, aead)
	}
	return k, nil
}

// token returns the token of a form: bound to the deployment, to the nonce in the browser's cookie, and to the current
// user ("" for none).
func (k *keys) token(deployment, nonce, user string) string {
	return base64.RawURLEncoding.EncodeToString(mac(k.forms[0], deployment, nonce, user))
}

// accepts reports whether a token is what token makes, by any key.
func (k *keys) accepts(token, deployment, nonce, user string) bool {
	sent, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || nonce == "" {
		return false
	}
	for _, key := range k.forms {
		if hmac.Equal(sent, mac(key, deployment, nonce, user)) {
			return true
		}
	}
	return false
}

// mac binds parts, none of which contains NUL.
func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(strings.Join(parts, "\x00")))
	return h.Sum(nil)
}

// seal encrypts what the cookie of a deployment's pages says.
func (k *keys) seal(deployment string, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(k.cookies[0].Seal(nil, nil, text, []byte(deployment)))
}

// open decrypts it, or returns errNotOurs.
func (k *keys) open(deployment, sealed string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return nil, errNotOurs
	}
	for _, key := range k.cookies {
		if text, err := key.Open(nil, nil, raw, []byte(deployment)); err == nil {
			return text, nil
		}
	}
	return nil, errNotOurs
}
