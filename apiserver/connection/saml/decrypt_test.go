package saml

import (
	"bytes"
	"crypto"
	"io"
	"strings"
	"testing"

	"github.com/beevik/etree"
)

// encrypted is the shape of an encrypted assertion in a response without a signature.
func encrypted(how encryption) shape { return shape{"encrypted", true, false, true, how} }

func TestAcceptedEncryptions(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]encryption{
		"AES-128-GCM": {content: "aes128-gcm", key: 16}, "AES-192-GCM": {content: "aes192-gcm", key: 24}, "AES-256-GCM": {content: "aes256-gcm", key: 32},
		"AES-128-CBC": {content: "aes128-cbc", key: 16}, "AES-192-CBC": {content: "aes192-cbc", key: 24}, "AES-256-CBC": {content: "aes256-cbc", key: 32},
		"a key beside the data":         {content: "aes256-gcm", key: 32, beside: true},
		"a stated digest of SHA-1":      {content: "aes256-gcm", key: 32, hash: sha1Digest},
		"a digest of SHA-256":           {content: "aes256-gcm", key: 32, hash: sha256Digest},
		"RSA-OAEP 1.1":                  {content: "aes256-gcm", key: 32, transport: rsaOAEP},
		"RSA-OAEP 1.1 with SHA-256":     {content: "aes256-gcm", key: 32, transport: rsaOAEP, hash: sha256Digest, mask: ns11 + "mgf1sha256"},
		"RSA-OAEP 1.1, SHA-256 in part": {content: "aes256-gcm", key: 32, transport: rsaOAEP, hash: sha256Digest},
	} {
		if got, err := evaluate(answer{shape: encrypted(how)}.xml(), expected()); err != nil || got.Subject != testSubject {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestEachKeyOfARotationDecrypts(t *testing.T) {
	t.Parallel()
	k := keys()
	for name, tc := range map[string]struct {
		keys    []Key
		accepts bool
	}{
		"the first":             {[]Key{k.sp, k.spNext}, true},
		"the second":            {[]Key{k.spNext, k.sp}, true},
		"the third":             {[]Key{k.spNext, k.spNext, k.sp}, true},
		"the fourth is ignored": {[]Key{k.spNext, k.spNext, k.spNext, k.sp}, false},
		"another":               {[]Key{k.spNext}, false},
		"none":                  {nil, false},
	} {
		want := expected()
		want.Keys = tc.keys
		xml := answer{shape: encrypted(gcm)}.xml()
		if !tc.accepts {
			refused(t, name, xml, want, ReasonDecryption)
		} else if _, err := evaluate(xml, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// failedDecryptions returns responses whose encrypted assertion is refused, by what is wrong with it.
func failedDecryptions() map[string]answer {
	with := func(base encryption, change func(*encryption)) encryption {
		change(&base)
		return base
	}
	flip := func(i int) func([]byte) []byte {
		return func(text []byte) []byte {
			text[(i+len(text))%len(text)] ^= 1
			return text
		}
	}
	xml := func(old, by string) encryption {
		return with(gcm, func(e *encryption) {
			e.xml = func(x string) string {
				if !strings.Contains(x, old) {
					panic("the XML has no " + old)
				}
				return strings.ReplaceAll(x, old, by)
			}
		})
	}
	secondKey := func(x string) string {
		start, end := strings.Index(x, "<xenc:EncryptedKey"), strings.Index(x, "</xenc:EncryptedKey>")+len("</xenc:EncryptedKey>")
		return x[:end] + x[start:end] + x[end:]
	}
	return map[string]answer{
		"RSA 1.5": {shape: encrypted(with(gcm, func(e *encryption) { e.transport = nsEncryption + "rsa-1_5" }))},
		"RSA 1.5, stated as OAEP": {shape: encrypted(with(gcm, func(e *encryption) {
			e.transport = nsEncryption + "rsa-1_5"
			e.xml = func(x string) string { return strings.Replace(x, "rsa-1_5", "rsa-oaep-mgf1p", 1) }
		}))},
		"OAEP, stated as RSA 1.5":       {shape: encrypted(xml("rsa-oaep-mgf1p", "rsa-1_5"))},
		"Triple DES":                    {shape: encrypted(xml("http://www.w3.org/2009/xmlenc11#aes256-gcm", nsEncryption+"tripledes-cbc"))},
		"a key of another length":       {shape: encrypted(with(gcm, func(e *encryption) { e.key = 16 }))},
		"a digest of MD5":               {shape: encrypted(with(gcm, func(e *encryption) { e.hash = "http://www.w3.org/2001/04/xmldsig-more#md5" }))},
		"an unknown mask":               {shape: encrypted(with(gcm, func(e *encryption) { e.transport, e.mask = rsaOAEP, ns11+"mgf1md5" }))},
		"a mask of the older transport": {shape: encrypted(with(gcm, func(e *encryption) { e.mask = ns11 + "mgf1sha256" }))},
		"a label":                       {shape: encrypted(xml("</xenc:EncryptionMethod>", "<xenc:OAEPparams>AAAA</xenc:OAEPparams></xenc:EncryptionMethod>"))},
		"GCM: a flipped bit":            {shape: encrypted(with(gcm, func(e *encryption) { e.change = flip(40) }))},
		"GCM: a flipped tag":            {shape: encrypted(with(gcm, func(e *encryption) { e.change = flip(-1) }))},
		"GCM: a short text":             {shape: encrypted(with(gcm, func(e *encryption) { e.change = func([]byte) []byte { return []byte("short") } }))},
		"CBC: a flipped first block":    {shape: encrypted(with(cbc, func(e *encryption) { e.change = flip(0) }))},
		"CBC: a flipped middle":         {shape: encrypted(with(cbc, func(e *encryption) { e.change = flip(400) }))},
		"CBC: a flipped last block":     {shape: encrypted(with(cbc, func(e *encryption) { e.change = flip(-17) }))},
		"CBC: a padding of 0":           {shape: encrypted(with(cbc, func(e *encryption) { e.padding = func(byte) byte { return 0 } }))},
		"CBC: a padding of 17":          {shape: encrypted(with(cbc, func(e *encryption) { e.padding = func(byte) byte { return 17 } }))},
		"CBC: a padding of 255":         {shape: encrypted(with(cbc, func(e *encryption) { e.padding = func(byte) byte { return 255 } }))},
		"CBC: a padding of more than a block": {shape: encrypted(with(cbc, func(e *encryption) {
			e.plain = func(x []byte) []byte { return append(x, bytes.Repeat([]byte(" "), 16)...) }
			e.padding = func(length byte) byte { return length + 16 }
		}))},
		"CBC: a block without text":    {shape: encrypted(with(cbc, func(e *encryption) { e.change = func(text []byte) []byte { return text[:16] } }))},
		"CBC: no text":                 {shape: encrypted(with(cbc, func(e *encryption) { e.change = func([]byte) []byte { return nil } }))},
		"CBC: a part of a block":       {shape: encrypted(with(cbc, func(e *encryption) { e.change = func(text []byte) []byte { return text[:len(text)-3] } }))},
		"no XML in it":                 {shape: encrypted(with(cbc, func(e *encryption) { e.plain = func([]byte) []byte { return []byte("text") } }))},
		"a DOCTYPE in it":              {shape: encrypted(with(cbc, func(e *encryption) { e.plain = func(x []byte) []byte { return append([]byte("<!DOCTYPE x>"), x...) } }))},
		"another element in it":        {shape: encrypted(with(cbc, func(e *encryption) { e.plain = func([]byte) []byte { return []byte("<x/>") } }))},
		"a response in it":             {shape: encrypted(with(cbc, func(e *encryption) { e.plain = func([]byte) []byte { return answer{shape: shapes[0]}.xml() } }))},
		"another signer":               {shape: encrypted(cbc), by: &keys().attacker},
		"no signature":                 {shape: shape{"", false, false, true, cbc}},
		"a changed assertion in it":    {shape: encrypted(gcm), inside: setText("NameID", evilSubject)},
		"the ID of the response in it": {shape: encrypted(gcm), states: set("Assertion", "ID", "_response")},
		"an assertion in Advice of it": {shape: shapes[5], states: func(root *etree.Element) {
			at(root, "Assertion").AddChild(wrapped("saml:Advice", evil(at(root, "Assertion"))))
		}},
		"two keys":            {shape: encrypted(with(gcm, func(e *encryption) { e.xml = secondKey }))},
		"no data":             {shape: encrypted(xml("xenc:EncryptedData", "xenc:Other"))},
		"no text of the data": {shape: encrypted(xml("xenc:CipherValue", "xenc:CipherReference"))},
		"no method":           {shape: encrypted(xml("xenc:EncryptionMethod", "xenc:Other"))},
		"no base64":           {shape: encrypted(xml("<xenc:CipherValue>", "<xenc:CipherValue>%"))},
	}
}

// Whatever is wrong with an encrypted assertion, the fault is the same: no oracle of padding, content or signature.
func TestFailedDecryptionsAreOneFault(t *testing.T) {
	t.Parallel()
	for name, a := range failedDecryptions() {
		got, err := evaluate(a.xml(), expected())
		expectFault(t, name, got, err, ReasonDecryption)
		if err != nil && err.Error() != undecryptable().Error() {
			t.Errorf("%s: another fault: %v", name, err)
		}
	}
}

// The checks of the response come first, so that an attacker without an attempt has no decryption.
func TestNothingIsDecryptedWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		attack func(*etree.Element)
		reason string
	}{
		"another request":     {set("Response", "InResponseTo", "_other"), ReasonInResponseTo},
		"another destination": {set("Response", "Destination", "https://other.example"), ReasonDestination},
		"another issuer":      {setText("Issuer", "https://evil.example"), ReasonIssuer},
		"a failure":           {set("StatusCode", "Value", "x"), ReasonStatus},
	} {
		broken := cbc
		broken.change = func([]byte) []byte { return nil }
		refused(t, name, answer{shape: encrypted(broken), attack: tc.attack}.xml(), expected(), tc.reason)
	}
}

func TestRequiredEncryption(t *testing.T) {
	t.Parallel()
	want := expected()
	want.RequireEncryption = true
	for _, s := range shapes {
		if xml := (answer{shape: s}).xml(); !s.encrypts {
			refused(t, s.name, xml, want, ReasonEncryption)
		} else if _, err := evaluate(xml, want); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// countingKey counts its decryptions.
type countingKey struct {
	privateKey
	decryptions int
}

func (k *countingKey) Decrypt(random io.Reader, text []byte, opts crypto.DecrypterOpts) ([]byte, error) {
	k.decryptions++
	return k.privateKey.Decrypt(random, text, opts)
}

// The work with the private key is most of the time of a failure. It is done once, whatever fails.
func TestEachFailedDecryptionUsesTheKeyOnce(t *testing.T) {
	t.Parallel()
	for name, a := range failedDecryptions() {
		document := etree.NewDocument()
		if err := document.ReadFromBytes(a.xml()); err != nil {
			t.Fatal(err)
		}
		for _, encrypted := range document.Root().SelectElements("EncryptedAssertion") {
			key := &countingKey{privateKey: keys().sp.Private}
			decrypt(encrypted, []privateKey{key})
			if key.decryptions != 1 {
				t.Errorf("%s: %d decryptions", name, key.decryptions)
			}
		}
		if n := len(document.Root().SelectElements("EncryptedAssertion")); n != 1 {
			t.Errorf("%s: %d encrypted assertions", name, n)
		}
	}
}

// BenchmarkFailedDecryption compares how long failures of different causes take.
func BenchmarkFailedDecryption(b *testing.B) {
	failed := failedDecryptions()
	for _, name := range []string{"CBC: a padding of 0", "no XML in it", "another signer"} {
		field := encode(failed[name].xml())
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := ReadResponse(field)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.Evaluate(expected()); err == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}
