package saml

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	// keyBits is the size of the keys that are generated.
	keyBits = 3072
	// maxKeys bounds how many keys of a connection decrypt: the current one, the next one and the one before.
	maxKeys = 3
	// KeyLifetime is how long the certificate of a key is valid. Identity providers trust the certificate itself.
	KeyLifetime = 10 * 365 * 24 * time.Hour
	// maxPEM bounds each of the texts of a key, in bytes.
	maxPEM = 16 << 10
)

// Key is a key of a connection, which signs requests and decrypts assertions.
type Key struct {
	Private     *rsa.PrivateKey
	Certificate *x509.Certificate
}

// GenerateKey returns a new RSA key of 3072 bits, with a certificate for a name that it signs itself.
func GenerateKey(name string, now time.Time) (Key, error) {
	private, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return Key{}, fmt.Errorf("generate a key: %w", err)
	}
	return certify(private, name, now)
}

func certify(private *rsa.PrivateKey, name string, now time.Time) (Key, error) {
	var serial [16]byte
	if _, err := rand.Read(serial[:]); err != nil {
		return Key{}, fmt.Errorf("random serial number: %w", err)
	}
	serial[0] &= 0x7f
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:]), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour).UTC().Truncate(time.Second), NotAfter: now.Add(KeyLifetime).UTC().Truncate(time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, SignatureAlgorithm: x509.SHA256WithRSA,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return Key{}, fmt.Errorf("create a certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	return Key{Private: private, Certificate: certificate}, err
}

// PEM returns the private key (PKCS #8) and the certificate.
func (k Key) PEM() (private, certificate []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.Private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate.Raw}), nil
}

// ParseKey reads what Key.PEM returns. The private key is RSA of 2048 to 4096 bits, and the certificate is of this
// key.
func ParseKey(private, certificate []byte) (Key, error) {
	if len(private) > maxPEM || len(certificate) > maxPEM {
		return Key{}, fmt.Errorf("a key or certificate has more than %d bytes", maxPEM)
	}
	block, _ := pem.Decode(private)
	if block == nil || block.Type != "PRIVATE KEY" {
		return Key{}, errors.New("the private key is not PEM of the type PRIVATE KEY (PKCS #8)")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok || key.N.BitLen() < 2048 || key.N.BitLen() > 4096 {
		return Key{}, errors.New("the private key is not an RSA key of 2048 to 4096 bits in PKCS #8")
	}
	of, err := ParseCertificate(certificate)
	if err != nil {
		return Key{}, err
	}
	if !key.PublicKey.Equal(of.Certificate.PublicKey) {
		return Key{}, errors.New("the certificate is of another private key")
	}
	of.Private = key
	return of, nil
}

// ParseCertificate reads the certificate of a key, for metadata. The key that it returns has no private part.
func ParseCertificate(certificate []byte) (Key, error) {
	if len(certificate) > maxPEM {
		return Key{}, fmt.Errorf("the certificate has more than %d bytes", maxPEM)
	}
	block, _ := pem.Decode(certificate)
	if block == nil || block.Type != "CERTIFICATE" {
		return Key{}, errors.New("the certificate is not PEM of the type CERTIFICATE")
	}
	stated, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Key{}, errors.New("the certificate is not an X.509 certificate")
	}
	return Key{Certificate: stated}, nil
}

// Fingerprint returns the SHA-256 of a certificate, in hexadecimal digits.
func Fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return hex.EncodeToString(sum[:])
}
