package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	certificateLife = 10 * 365 * 24 * time.Hour
	// A certificate is renewed a good while before its end, so that none ends during a run.
	certificateRenewal = 30 * 24 * time.Hour
)

// certificates are the certificates of the control plane, as files in dir: ca, apiserver, admin and controller-manager,
// each a .crt and a .key, and service-account.key, which signs the tokens of ServiceAccounts.
type certificates struct {
	dir               string
	ca                []byte // PEM
	admin             pair
	controllerManager pair
}

// pair is a client certificate with its key, both PEM.
type pair struct{ certificate, key []byte }

// ensureCertificates reads the certificates in dir and makes those that are missing, expire soon, or are not signed by
// the authority in dir.
func ensureCertificates(dir string, now time.Time) (certificates, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return certificates{}, err
	}
	authority, err := ensureAuthority(dir, now)
	if err != nil {
		return certificates{}, err
	}
	result := certificates{dir: dir, ca: authority.pem}
	if _, err := authority.ensure(dir, "apiserver", now, serving()); err != nil {
		return certificates{}, err
	}
	if result.admin, err = authority.ensure(dir, "admin", now, client("admin", "system:masters")); err != nil {
		return certificates{}, err
	}
	// All controllers share this identity. The role that Kubernetes binds to it suffices only if each controller runs
	// under an identity of its own.
	result.controllerManager, err = authority.ensure(dir, "controller-manager", now, client("system:kube-controller-manager", "system:masters"))
	if err != nil {
		return certificates{}, err
	}
	return result, ensureSigningKey(filepath.Join(dir, "service-account.key"))
}

func serving() x509.Certificate {
	return x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
	}
}

func client(user string, groups ...string) x509.Certificate {
	return x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func ensureAuthority(dir string, now time.Time) (*authority, error) {
	crt, key := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	if a, err := readAuthority(crt, key); err == nil && lasts(a.certificate, now) {
		return a, nil
	}
	privateKey, err := newKey(key)
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{
		Subject:               pkix.Name{CommonName: "cardea local control plane"},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	if err := sign(crt, template, nil, privateKey, privateKey, now); err != nil {
		return nil, err
	}
	return readAuthority(crt, key)
}

func readAuthority(crt, key string) (*authority, error) {
	certificate, content, err := readCertificate(crt)
	if err != nil {
		return nil, err
	}
	privateKey, err := readKey(key)
	if err != nil {
		return nil, err
	}
	if !privateKey.PublicKey.Equal(certificate.PublicKey) {
		return nil, errors.New("key and certificate do not belong together")
	}
	return &authority{certificate: certificate, key: privateKey, pem: content}, nil
}

// ensure returns the pair called name, made from template unless dir has a valid one.
func (a *authority) ensure(dir, name string, now time.Time, template x509.Certificate) (pair, error) {
	crt, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if !a.holds(crt, key, now) {
		privateKey, err := newKey(key)
		if err != nil {
			return pair{}, err
		}
		template.KeyUsage = x509.KeyUsageDigitalSignature
		if err := sign(crt, template, a.certificate, privateKey, a.key, now); err != nil {
			return pair{}, err
		}
	}
	certificate, err := os.ReadFile(crt)
	if err != nil {
		return pair{}, err
	}
	privateKey, err := os.ReadFile(key)
	return pair{certificate: certificate, key: privateKey}, err
}

// holds reports whether the files are a pair that this authority signed and that lasts.
func (a *authority) holds(crt, key string, now time.Time) bool {
	certificate, _, err := readCertificate(crt)
	if err != nil || !lasts(certificate, now) || certificate.CheckSignatureFrom(a.certificate) != nil {
		return false
	}
	privateKey, err := readKey(key)
	return err == nil && privateKey.PublicKey.Equal(certificate.PublicKey)
}

func lasts(certificate *x509.Certificate, now time.Time) bool {
	return now.After(certificate.NotBefore) && now.Add(certificateRenewal).Before(certificate.NotAfter)
}

// sign writes a certificate for key; with a nil parent, the certificate is self-signed.
func sign(file string, template x509.Certificate, parent *x509.Certificate, key, signer *ecdsa.PrivateKey, now time.Time) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	template.NotBefore = now.Add(-time.Hour) // for a clock that was set back a little
	template.NotAfter = now.Add(certificateLife)
	if parent == nil {
		parent = &template
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, &key.PublicKey, signer)
	if err != nil {
		return fmt.Errorf("sign %s: %w", file, err)
	}
	return writeFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func ensureSigningKey(file string) error {
	if _, err := readKey(file); err == nil {
		return nil
	}
	_, err := newKey(file)
	return err
}

func newKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func readKey(file string) (*ecdsa.PrivateKey, error) {
	block, _, err := readPEM(file)
	if err != nil {
		return nil, err
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

func readCertificate(file string) (*x509.Certificate, []byte, error) {
	block, content, err := readPEM(file)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	return certificate, content, err
}

func readPEM(file string) (*pem.Block, []byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, nil, fmt.Errorf("%s holds no PEM", file)
	}
	return block, content, nil
}
