package saml

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rsa"
	_ "crypto/sha1" // the default of RSA-OAEP in XML Encryption
	"crypto/subtle"
	"encoding/base64"

	"github.com/beevik/etree"
)

const (
	rsaOAEPMGF1 = nsEncryption + "rsa-oaep-mgf1p"
	rsaOAEP     = ns11 + "rsa-oaep"
)

// ciphers are the content encryptions that are accepted, with the lengths of their keys in bytes. Entra has CBC alone.
var ciphers = map[string]struct {
	key int
	gcm bool
}{
	ns11 + "aes128-gcm": {16, true}, ns11 + "aes192-gcm": {24, true}, ns11 + "aes256-gcm": {32, true},
	nsEncryption + "aes128-cbc": {16, false}, nsEncryption + "aes192-cbc": {24, false}, nsEncryption + "aes256-cbc": {32, false},
}

// oaepHashes are the hashes of RSA-OAEP, and maskHashes those of its mask generation. OAEP does not depend on
// collisions, so that SHA-1 is accepted here.
var (
	oaepHashes = map[string]crypto.Hash{
		"": crypto.SHA1, nsSignature + "sha1": crypto.SHA1, nsEncryption + "sha256": crypto.SHA256,
		"http://www.w3.org/2001/04/xmldsig-more#sha384": crypto.SHA384, nsEncryption + "sha512": crypto.SHA512,
	}
	maskHashes = map[string]crypto.Hash{
		"": crypto.SHA1, ns11 + "mgf1sha1": crypto.SHA1, ns11 + "mgf1sha256": crypto.SHA256, ns11 + "mgf1sha384": crypto.SHA384, ns11 + "mgf1sha512": crypto.SHA512,
	}
)

// undecryptable is the fault of every encrypted assertion that is refused before its signature is verified. One fault,
// after the same work with the private key, is no oracle of the padding or of the content.
func undecryptable() error {
	return fault(ReasonDecryption, "not possible", "an assertion that is encrypted by AES-GCM or AES-CBC with RSA-OAEP to the certificate of this connection, and signed by a certificate of the metadata")
}

// decrypt returns the content of an EncryptedAssertion. It reports false if no key decrypts it.
//
// It does not use gosaml2, which ends with a panic at a short text, accepts RSA 1.5, cuts off zeros, and uses one
// hash for both parts of RSA-OAEP.
func decrypt(encrypted *etree.Element, keys []privateKey) ([]byte, bool) {
	sealed, ok := readSealed(encrypted)
	for _, key := range keys {
		content, whole := sealed.open(key)
		if ok && whole {
			return content, true
		}
	}
	return nil, false
}

// privateKey is an RSA key that decrypts.
type privateKey interface {
	crypto.Decrypter
	// Size is the length of a text that it decrypts, in bytes.
	Size() int
}

// sealed is an encrypted text with its encrypted key.
type sealed struct {
	key, text []byte
	hash      crypto.Hash
	mask      crypto.Hash
	size      int
	gcm       bool
}

// readSealed reads an EncryptedAssertion: exactly one EncryptedData, and exactly one EncryptedKey in it or beside it.
func readSealed(encrypted *etree.Element) (s sealed, ok bool) {
	s.hash, s.mask, s.size = crypto.SHA1, crypto.SHA1, 16 // for the work on what is not accepted
	data, err := required(encrypted, nsEncryption, "EncryptedData")
	if err != nil {
		return s, false
	}
	keys := children(encrypted, nsEncryption, "EncryptedKey")
	if info, err := only(data, nsSignature, "KeyInfo"); err != nil {
		return s, false
	} else if info != nil {
		keys = append(keys, children(info, nsEncryption, "EncryptedKey")...)
	}
	if len(keys) != 1 {
		return s, false
	}
	content, known := ciphers[algorithm(data, nsEncryption, "EncryptionMethod")]
	if !known {
		return s, false
	}
	s.size, s.gcm = content.key, content.gcm
	if s.text, ok = cipherValue(data); !ok {
		return s, false
	}
	if s.key, ok = cipherValue(keys[0]); !ok {
		return s, false
	}
	return s, s.readTransport(keys[0])
}

// readTransport reads how the key is encrypted (XML Encryption 1.1, 5.5.2). The mask generation of the older
// identifier is by SHA-1, whatever its digest is.
func (s *sealed) readTransport(key *etree.Element) bool {
	how, err := required(key, nsEncryption, "EncryptionMethod")
	if err != nil || len(children(how, nsEncryption, "OAEPparams")) > 0 {
		return false
	}
	hash, known := oaepHashes[algorithm(how, nsSignature, "DigestMethod")]
	if !known {
		return false
	}
	switch attribute(how, "Algorithm") {
	case rsaOAEPMGF1:
		s.hash = hash
		return len(children(how, ns11, "MGF")) == 0
	case rsaOAEP:
		mask, known := maskHashes[algorithm(how, ns11, "MGF")]
		if known {
			s.hash, s.mask = hash, mask
		}
		return known
	}
	return false
}

// algorithm returns the algorithm of the only child that has a name, "" if it is absent.
func algorithm(el *etree.Element, space, tag string) string {
	found, err := only(el, space, tag)
	switch {
	case err != nil:
		return "several"
	case found == nil:
		return ""
	}
	return attribute(found, "Algorithm")
}

func cipherValue(el *etree.Element) ([]byte, bool) {
	data, err := required(el, nsEncryption, "CipherData")
	if err != nil {
		return nil, false
	}
	value, err := required(data, nsEncryption, "CipherValue")
	if err != nil {
		return nil, false
	}
	raw, err := base64.StdEncoding.DecodeString(compact(value))
	return raw, err == nil
}

// open decrypts the text. The text is decrypted with zeros if the key cannot be decrypted, so that both take the same
// time.
func (s sealed) open(private privateKey) ([]byte, bool) {
	padded := s.key
	if len(padded) != private.Size() {
		padded = make([]byte, private.Size())
	}
	key, err := private.Decrypt(nil, padded, &rsa.OAEPOptions{Hash: s.hash, MGFHash: s.mask})
	ok := err == nil && len(key) == s.size && len(padded) == len(s.key)
	if !ok {
		key = make([]byte, s.size)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, false
	}
	var content []byte
	var whole bool
	if s.gcm {
		content, whole = openGCM(block, s.text)
	} else {
		content, whole = openCBC(block, s.text)
	}
	return content, ok && whole
}

func openGCM(block cipher.Block, text []byte) ([]byte, bool) {
	aead, err := cipher.NewGCM(block)
	if err != nil || len(text) < aead.NonceSize() {
		return nil, false
	}
	content, err := aead.Open(nil, text[:aead.NonceSize()], text[aead.NonceSize():], nil)
	return content, err == nil
}

// openCBC decrypts a text whose last byte is the length of the padding (XML Encryption 1.1, 5.2).
func openCBC(block cipher.Block, text []byte) ([]byte, bool) {
	size := block.BlockSize()
	if len(text) < 2*size || len(text)%size != 0 {
		return nil, false
	}
	content := make([]byte, len(text)-size)
	cipher.NewCBCDecrypter(block, text[:size]).CryptBlocks(content, text[size:])
	padding := int(content[len(content)-1])
	ok := subtle.ConstantTimeLessOrEq(1, padding) & subtle.ConstantTimeLessOrEq(padding, size)
	return content[:len(content)-padding*ok], ok == 1
}
