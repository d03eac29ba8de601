package samlkey

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"time"
)

const (
	// keyBits is the size of generated keys, in bits. Servers accept minBits to maxBits.
	keyBits, minBits, maxBits = 3072, 2048, 4096
	// lifetime is how long a certificate is valid. Identity providers trust the certificate itself.
	lifetime = 10 * 365 * 24 * time.Hour
	// maxPEM bounds each of the texts of a key, in bytes, as servers do.
	maxPEM = 16 << 10
)

// The types of PEM blocks.
const (
	blockKey         = "PRIVATE KEY"
	blockCertificate = "CERTIFICATE"
)

// pair is a private key (PKCS #8) and its certificate, both in PEM.
type pair struct{ key, certificate []byte }

// generate returns a new RSA key, with a certificate that it signs itself.
func generate(random io.Reader, subject string, now time.Time) (pair, error) {
	private, err := rsa.GenerateKey(random, keyBits)
	if err != nil {
		return pair{}, fmt.Errorf("generate a key: %w", err)
	}
	serial, err := rand.Int(random, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return pair{}, fmt.Errorf("random serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), Subject: pkix.Name{CommonName: subject},
		NotBefore: now.Add(-time.Hour).UTC().Truncate(time.Second), NotAfter: now.Add(lifetime).UTC().Truncate(time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, SignatureAlgorithm: x509.SHA256WithRSA,
		BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(random, template, template, &private.PublicKey, private)
	if err != nil {
		return pair{}, fmt.Errorf("create a certificate: %w", err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return pair{}, fmt.Errorf("encode a private key: %w", err)
	}
	return pair{
		key:         pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: key}),
		certificate: pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: certificate}),
	}, nil
}

// valid reports whether servers can use a key: RSA of an accepted size, with a certificate of this key.
func valid(p pair) bool {
	if len(p.key) > maxPEM || len(p.certificate) > maxPEM {
		return false
	}
	keyBlock, _ := pem.Decode(p.key)
	certificateBlock, _ := pem.Decode(p.certificate)
	if keyBlock == nil || keyBlock.Type != blockKey || certificateBlock == nil || certificateBlock.Type != blockCertificate {
		return false
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	private, isRSA := parsed.(*rsa.PrivateKey)
	if err != nil || !isRSA || private.N.BitLen() < minBits || private.N.BitLen() > maxBits {
		return false
	}
	certificate, err := x509.ParseCertificate(certificateBlock.Bytes)
	return err == nil && private.PublicKey.Equal(certificate.PublicKey)
}
