package saml

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"

	"github.com/beevik/etree"
)

// encryption is how an assertion is encrypted.
type encryption struct {
	// content is the algorithm without its namespace, and key the length of its key in bytes.
	content string
	key     int
	// transport is the algorithm of the key, "" for RSA-OAEP of XML Encryption 1.0; hash and mask are the names of its
	// parts.
	transport, hash, mask string
	// beside puts the key beside EncryptedData.
	beside bool
	// change changes the encrypted text, and plain the text before it is padded.
	change, plain func([]byte) []byte
	// padding changes the last byte of the padded text.
	padding func(byte) byte
	// xml changes the EncryptedAssertion.
	xml func(string) string
}

var (
	gcm = encryption{content: "aes256-gcm", key: 32}
	cbc = encryption{content: "aes128-cbc", key: 16}
)

// encrypt replaces an assertion.
func (e encryption) encrypt(assertion *etree.Element, to Key) {
	plain := render(detach(assertion))
	if e.plain != nil {
		plain = e.plain(plain)
	}
	key := random(e.key)
	text := e.seal(key, plain)
	if e.change != nil {
		text = e.change(text)
	}
	space := nsEncryption
	if strings.HasSuffix(e.content, "gcm") {
		space = ns11
	}
	encryptedKey := e.transportKey(key, to)
	inside, outside := "<ds:KeyInfo>"+encryptedKey+"</ds:KeyInfo>", ""
	if e.beside {
		inside, outside = "", encryptedKey
	}
	xml := fmt.Sprintf(`<saml:EncryptedAssertion xmlns:saml=%q xmlns:xenc=%q xmlns:ds=%q><xenc:EncryptedData Type="http://www.w3.org/2001/04/xmlenc#Element"><xenc:EncryptionMethod Algorithm=%q/>%s<xenc:CipherData><xenc:CipherValue>%s</xenc:CipherValue></xenc:CipherData></xenc:EncryptedData>%s</saml:EncryptedAssertion>`,
		nsAssertion, nsEncryption, nsSignature, space+e.content, inside, base64.StdEncoding.EncodeToString(text), outside)
	if e.xml != nil {
		xml = e.xml(xml)
	}
	parent, index := assertion.Parent(), assertion.Index()
	parent.RemoveChildAt(index)
	parent.InsertChildAt(index, element(xml))
}

func random(n int) []byte {
	raw := make([]byte, n)
	if _, err := rand.Read(raw); err != nil {
		panic(err)
	}
	return raw
}

func (e encryption) seal(key, plain []byte) []byte {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	if strings.HasSuffix(e.content, "gcm") {
		aead, err := cipher.NewGCM(block)
		if err != nil {
			panic(err)
		}
		nonce := random(aead.NonceSize())
		return aead.Seal(nonce, nonce, plain, nil)
	}
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	padded := append(append([]byte{}, plain...), random(padding)...)
	padded[len(padded)-1] = byte(padding)
	if e.padding != nil {
		padded[len(padded)-1] = e.padding(byte(padding))
	}
	text := append(random(aes.BlockSize), make([]byte, len(padded))...)
	cipher.NewCBCEncrypter(block, text[:aes.BlockSize]).CryptBlocks(text[aes.BlockSize:], padded)
	return text
}

// encrypt15 encrypts by RSA 1.5 (RFC 8017 7.2.1), which Go no longer offers without a warning.
func encrypt15(public *rsa.PublicKey, key []byte) []byte {
	padded := bytes.Repeat([]byte{0xff}, public.Size())
	padded[0], padded[1], padded[len(padded)-len(key)-1] = 0, 2, 0
	copy(padded[len(padded)-len(key):], key)
	return new(big.Int).Exp(new(big.Int).SetBytes(padded), big.NewInt(int64(public.E)), public.N).FillBytes(make([]byte, public.Size()))
}

// transportKey returns the EncryptedKey.
func (e encryption) transportKey(key []byte, to Key) string {
	hash, mask := crypto.SHA1, crypto.SHA1
	if strings.HasSuffix(e.hash, "256") {
		hash = crypto.SHA256
	}
	if strings.HasSuffix(e.mask, "256") {
		mask = crypto.SHA256
	}
	public := &to.Private.PublicKey
	var text []byte
	var err error
	transport := or(e.transport, rsaOAEPMGF1)
	if strings.HasSuffix(transport, "rsa-1_5") {
		text = encrypt15(public, key)
	} else {
		text, err = rsa.EncryptOAEPWithOptions(rand.Reader, public, key, &rsa.OAEPOptions{Hash: hash, MGFHash: mask})
	}
	if err != nil {
		panic(err)
	}
	parts := ""
	if e.hash != "" {
		parts += fmt.Sprintf(`<ds:DigestMethod Algorithm=%q/>`, e.hash)
	}
	if e.mask != "" {
		parts += fmt.Sprintf(`<xenc11:MGF xmlns:xenc11=%q Algorithm=%q/>`, ns11, e.mask)
	}
	return fmt.Sprintf(`<xenc:EncryptedKey xmlns:xenc=%q xmlns:ds=%q><xenc:EncryptionMethod Algorithm=%q>%s</xenc:EncryptionMethod><xenc:CipherData><xenc:CipherValue>%s</xenc:CipherValue></xenc:CipherData></xenc:EncryptedKey>`,
		nsEncryption, nsSignature, transport, parts, base64.StdEncoding.EncodeToString(text))
}
