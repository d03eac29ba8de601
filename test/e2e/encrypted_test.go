package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// encrypted is a proxy in front of a server. The proxy terminates TLS at https://localhost.
type encrypted struct {
	port int
	// authority is the file with the certificate that clients trust.
	authority string
	client    *http.Client
	mux       *http.ServeMux
}

// serve forwards all requests to a server.
func (e *encrypted) serve(server string) {
	GinkgoHelper()
	to, err := url.Parse(server)
	Expect(err).NotTo(HaveOccurred())
	e.mux.Handle("/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}})
}

// document serves the metadata of a client, and returns their URL, which is the client_id.
func (e *encrypted) document(path string, metadata map[string]any) string {
	GinkgoHelper()
	address := fmt.Sprintf("https://localhost:%d%s", e.port, path)
	metadata["client_id"] = address
	raw, err := json.Marshal(metadata)
	Expect(err).NotTo(HaveOccurred())
	e.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(raw)
	})
	return address
}

// encrypt starts the proxy on a free port.
func encrypt() *encrypted {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	Expect(err).NotTo(HaveOccurred())
	e := &encrypted{authority: filepath.Join(GinkgoT().TempDir(), "authority.crt")}
	Expect(os.WriteFile(e.authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)).To(Succeed())
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	Expect(err).NotTo(HaveOccurred())
	e.port = listener.Addr().(*net.TCPAddr).Port
	e.mux = http.NewServeMux()
	server := &http.Server{Handler: e.mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	roots := x509.NewCertPool()
	certificate, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	roots.AddCert(certificate)
	e.client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	DeferCleanup(e.client.CloseIdleConnections)
	return e
}
