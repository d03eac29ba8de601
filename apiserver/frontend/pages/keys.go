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

// keys authenticate the tokens of forms and encrypt the pages' cookie. New tokens and cookies use the first key. Tokens
// and cookies of all keys are accepted, so that the root key can be rotated.
type keys struct {
	forms   [][]byte
	cookies []cipher.AEAD
}

// errNotOurs reports a cookie that none of the keys encrypted, or that was encrypted for another deployment.
var errNotOurs = errors.New("the cookie was not made with a key of this deployment")

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

// accepts reports whether a form's token is valid under any of the keys. It refuses an empty nonce.
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

// mac returns the HMAC-SHA-256 of the parts. No part may contain NUL, which separates them.
func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(strings.Join(parts, "\x00")))
	return h.Sum(nil)
}

// seal encrypts the content of the cookie of a deployment's pages.
func (k *keys) seal(deployment string, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(k.cookies[0].Seal(nil, nil, text, []byte(deployment)))
}

// open decrypts the content of a cookie that seal encrypted, or returns errNotOurs.
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
