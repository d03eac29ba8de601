package saml

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"
)

func TestGeneratedKeys(t *testing.T) {
	t.Parallel()
	key, err := GenerateKey("acme.example", now)
	if err != nil {
		t.Fatal(err)
	}
	c := key.Certificate
	if key.Private.N.BitLen() != 3072 || c.Subject.CommonName != "acme.example" || c.IsCA || c.SignatureAlgorithm != x509.SHA256WithRSA || c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) != nil {
		t.Errorf("%+v", c)
	}
	if c.NotBefore.After(now) || !c.NotAfter.Equal(now.Add(10*365*24*time.Hour)) {
		t.Errorf("valid from %v to %v", c.NotBefore, c.NotAfter)
	}
	private, certificate, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseKey(private, certificate)
	if err != nil || !again.Private.Equal(key.Private) || !again.Certificate.Equal(c) {
		t.Errorf("another key is read: %v", err)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	k := keys()
	private, certificate, err := k.sp.PEM()
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := k.spNext.PEM()
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	pkcs8 := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return block("PRIVATE KEY", der)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ private, certificate []byte }{
		"nothing":                          {nil, nil},
		"no private key":                   {certificate, certificate},
		"no certificate":                   {private, private},
		"no PEM":                           {private, []byte("x")},
		"another certificate":              {private, other},
		"PKCS #1":                          {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k.sp.Private)), certificate},
		"a broken key":                     {block("PRIVATE KEY", []byte("x")), certificate},
		"a broken certificate":             {private, block("CERTIFICATE", []byte("x"))},
		"P-256":                            {pkcs8(ec), certificate},
		"RSA of 1024 bits":                 {pkcs8(k.weak.key), certificate},
		"a key of more than 16 KiB":        {append(private, strings.Repeat("\n", 16<<10)...), certificate},
		"a certificate of more than 16KiB": {private, append(certificate, strings.Repeat("\n", 16<<10)...)},
	} {
		if _, err := ParseKey(tc.private, tc.certificate); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: the error has a key: %v", name, err)
		}
	}
}
