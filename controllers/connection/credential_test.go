package connection

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
)

// block returns DER as PEM of a type.
func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// pkcs8 returns a private key as PEM of the form PKCS #8.
func pkcs8(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return block("PRIVATE KEY", der)
}

// keys are private keys of every form that users have.
type keys struct {
	p256, p384 *ecdsa.PrivateKey
	rsa, small *rsa.PrivateKey
	sec1       []byte
}

func newKeys(t *testing.T) (k keys) {
	t.Helper()
	var err error
	fail := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	k.p256, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fail()
	k.p384, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	fail()
	k.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	fail()
	k.small, err = rsa.GenerateKey(rand.Reader, 1024)
	fail()
	k.sec1, err = x509.MarshalECPrivateKey(k.p256)
	fail()
	return k
}

func TestPrivateKeysOfEveryFormBecomePKCS8(t *testing.T) {
	k := newKeys(t)
	p256, rsa := pkcs8(t, k.p256), pkcs8(t, k.rsa)
	for name, tc := range map[string]struct {
		text  []byte
		apple bool
		want  []byte
	}{
		"P-256":                     {text: p256, want: p256},
		"P-256 for Apple":           {text: p256, apple: true, want: p256},
		"RSA":                       {text: rsa, want: rsa},
		"PKCS #1":                   {text: block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k.rsa)), want: rsa},
		"SEC 1":                     {text: block("EC PRIVATE KEY", k.sec1), want: p256},
		"SEC 1 after its curve":     {text: append(block("EC PARAMETERS", []byte{6, 1, 1}), block("EC PRIVATE KEY", k.sec1)...), want: p256},
		"without a newline":         {text: bytes.TrimSpace(p256), want: p256},
		"text before and after it":  {text: append(append([]byte("Bag Attributes\n"), p256...), "\n\n"...), want: p256},
		"line ends of Windows":      {text: bytes.ReplaceAll(p256, []byte("\n"), []byte("\r\n")), want: p256},
		"a certificate comes first": {text: append(block("CERTIFICATE", []byte("x")), p256...), want: p256},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := privateKey(tc.text, tc.apple)
			if err != nil || !bytes.Equal(got, tc.want) {
				t.Errorf("error %v, %d bytes, want %d", err, len(got), len(tc.want))
			}
		})
	}
}

func TestUnusablePrivateKeysAreRefusedWithoutShowingThem(t *testing.T) {
	k := newKeys(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		text  []byte
		apple bool
		want  string
	}{
		"a secret":             {text: []byte("s3cret-s3cret"), want: "has no private key in PEM"},
		"a certificate alone":  {text: block("CERTIFICATE", []byte("s3cret-s3cret")), want: "has no private key in PEM"},
		"broken PKCS #8":       {text: block("PRIVATE KEY", []byte("s3cret-s3cret")), want: "is a private key that cannot be read"},
		"broken SEC 1":         {text: block("EC PRIVATE KEY", []byte("s3cret-s3cret")), want: "is a private key that cannot be read"},
		"broken PKCS #1":       {text: block("RSA PRIVATE KEY", []byte("s3cret-s3cret")), want: "is a private key that cannot be read"},
		"a passphrase":         {text: block("ENCRYPTED PRIVATE KEY", []byte("s3cret-s3cret")), want: "is a private key with a passphrase"},
		"P-384":                {text: pkcs8(t, k.p384), want: "is a key of another curve than P-256"},
		"RSA of 1024 bits":     {text: pkcs8(t, k.small), want: "is an RSA key of less than 2048 bits"},
		"RSA for Apple":        {text: pkcs8(t, k.rsa), apple: true, want: "Apple's keys are P-256"},
		"Ed25519":              {text: pkcs8(t, ed), want: "is neither a P-256 key nor an RSA key"},
		"a public key":         {text: block("PUBLIC KEY", []byte("s3cret-s3cret")), want: "has no private key in PEM"},
		"PEM that ends early":  {text: pkcs8(t, k.p256)[:60], want: "has no private key in PEM"},
		"the middle of PEM":    {text: pkcs8(t, k.p256)[30:], want: "has no private key in PEM"},
		"PKCS #8 of SEC 1 DER": {text: block("PRIVATE KEY", k.sec1), want: "is a private key that cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := privateKey(tc.text, tc.apple)
			if err == nil || got != nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %d bytes and %v, want an error with %q", len(got), err, tc.want)
			}
		})
	}
}
