package isolation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// site holds the attacker's servers outside of Cardea: an HTTPS site that serves hostile documents, a mail server that
// accepts connections and never responds, a token issuer, and the APIs that agents call.
type site struct {
	server      *httptest.Server
	certificate string
	mail        net.Listener
	key         *ecdsa.PrivateKey
	tools       *tools
}

// newSite starts the site and writes its certificate to a file.
func newSite(certificate string) (*site, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	s := &site{certificate: certificate, key: key}
	if s.mail, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if s.tools, err = newTools(); err != nil {
		return nil, err
	}
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, smallKeys(256<<10)) // the client may have closed the connection
	}))
	block := pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw}
	return s, os.WriteFile(certificate, pem.EncodeToMemory(&block), 0o600)
}

func (s *site) close() {
	s.server.Close()
	s.tools.CloseClientConnections() // endless answers end
	s.tools.Close()
	_ = s.mail.Close() // it holds no data
}

// silentPort returns the port of the mail server that never responds.
func (s *site) silentPort() int { return s.mail.Addr().(*net.TCPAddr).Port }

// smallKeys returns a key set of many tiny RSA keys, with at most the given number of bytes.
func smallKeys(bytes int) string {
	const key = `{"kty":"RSA","n":"AQ","e":"Aw"},`
	return `{"keys":[` + strings.TrimSuffix(strings.Repeat(key, (bytes-12)/len(key)), ",") + `]}`
}

const issuerURL = "https://issuer.attacker.example"

// issuer returns the attacker's token issuer as an entry of jwtIssuers.
func (s *site) issuer() string {
	return `  - name: own
    issuer: ` + issuerURL + `
    audiences: [attacker]
    algorithms: [ES256]
    jwksConfigMapRef: {name: issuer, key: jwks}
    permissionsExpression: "claims.permissions"
`
}

// configMap returns a ConfigMap with the keys of the attacker's token issuer.
func (s *site) configMap(namespace string) string {
	set, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &s.key.PublicKey, KeyID: "1", Algorithm: "ES256", Use: "sig"}}}) // cannot fail
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: issuer, namespace: %s}\ndata: {jwks: '%s'}\n", namespace, set)
}

// sign returns a token of the attacker's issuer with a number of permissions.
func (s *site) sign(n, permissions int) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		return "", err
	}
	now := time.Now()
	names := make([]string, permissions)
	for i := range names {
		names[i] = fmt.Sprintf("orders-%d:read-%d", n, i)
	}
	return jwt.Signed(signer).Claims(map[string]any{
		"iss": issuerURL, "aud": "attacker", "sub": fmt.Sprint(n), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "permissions": names,
	}).Serialize()
}
