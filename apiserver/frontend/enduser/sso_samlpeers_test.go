package enduser_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/samlprovider"
)

const (
	simpleSAML       = "/usr/share/simplesamlphp/www"
	simpleSAMLConfig = "../../../test/samlpeers/simplesamlphp"
)

// startSimpleSAML starts SimpleSAMLphp with the connection "peer" as its service provider, and returns its URL. It
// demands signed requests. environment is added to that of the process.
func (w *world) startSimpleSAML(environment ...string) string {
	w.T.Helper()
	php, err := exec.LookPath("php")
	if _, statErr := os.Stat(simpleSAML); err != nil || statErr != nil {
		w.T.Skip("SimpleSAMLphp is missing: make test-connections installs it")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.Must(err)
	address := listener.Addr().String()
	w.Must(listener.Close())
	folder, idp := w.T.TempDir(), "http://"+address
	w.Must(os.Mkdir(filepath.Join(folder, "tmp"), 0o700))
	writeProviderKey(w, folder)
	config, err := filepath.Abs(simpleSAMLConfig)
	w.Must(err)
	cmd := exec.CommandContext(w.T.Context(), php, "-d", "session.save_path="+folder, "-d", "error_log="+filepath.Join(folder, "log"), "-d", "error_reporting=0", "-S", address, "-t", simpleSAML)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "SIMPLESAMLPHP_CONFIG_DIR=" + config, "IDP_CONFIG=" + config, "IDP_DIR=" + folder, "IDP_URL=" + idp,
		"SP_ENTITY=" + frontendtest.SAMLEntityID, "SP_URL=" + w.peerURL(""), "SP_CERTIFICATE=" + base64.StdEncoding.EncodeToString(frontendtest.SAMLKeys()[0].Parsed.Raw),
	}, environment...)
	var output bytes.Buffer
	cmd.Stderr = &output
	w.Must(cmd.Start())
	w.T.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if w.T.Failed() {
			log, _ := os.ReadFile(filepath.Join(folder, "log")) //nolint:gosec // a file of this test
			w.T.Logf("SimpleSAMLphp: %s\n%s", output.String(), log)
		}
	})
	w.Eventually("SimpleSAMLphp serves its metadata", func() bool {
		response, err := http.Get(idp + "/saml2/idp/metadata.php?output=xml") //nolint:gosec // on loopback
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return idp
}

// writeProviderKey writes a key with a certificate into a folder.
func writeProviderKey(w *world, folder string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	w.Must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "idp"}, NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	w.Must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	w.Must(err)
	w.Must(os.WriteFile(filepath.Join(folder, "idp.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	w.Must(os.WriteFile(filepath.Join(folder, "idp.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
}

// toSimpleSAML declares the connection "peer" to SimpleSAMLphp.
func (w *world) toSimpleSAML(idp string, change func(*document.Connection)) string {
	w.keepTime()
	return w.DeclareSAML(peerConnection, &samlprovider.Provider{URL: idp}, func(c *document.Connection) {
		globexSAML(c)
		c.SAML.MetadataURL = idp + "/saml2/idp/metadata.php?output=xml"
		c.SAML.NameIDFormat = samlprovider.PersistentFormat
		if change != nil {
			change(c)
		}
	})
}

func TestPublishedSAMLProviderSignsUsersIn(t *testing.T) {
	for name, environment := range map[string][]string{
		"signed assertions": {"IDP_SIGNS=assertion"}, "signed responses": {"IDP_SIGNS=response"},
	} {
		t.Run(name, func(t *testing.T) {
			onOneEngine(t, func(t *testing.T, w *world) {
				idp := w.startSimpleSAML(environment...)
				conn := w.toSimpleSAML(idp, nil)
				a := w.atHost().byPeer(w.upstream(), conn, "")
				if a.user() == "" {
					t.Fatalf("%s: %+v", a.Raw, w.failures(conn))
				}
				again := w.atHost()
				if second := again.byPeer(w.upstream(), conn, ""); second.user() != a.user() {
					t.Errorf("another account: %s", second.Raw)
				}
				if me := again.ok("GET", "/me", ""); me["email"] != "lee@globex.example" || me["last_name"] != "Ng" {
					t.Errorf("the account is %v", me)
				}
			})
		})
	}
}

func TestPublishedSAMLProviderReauthenticatesAndSignsOut(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		idp := w.startSimpleSAML()
		conn := w.toSimpleSAML(idp, func(c *document.Connection) { c.SignOutUpstream = true })
		b, u := w.atHost(), w.upstream()
		b.byPeer(u, conn, "")
		if a := b.byPeer(u, conn, `,"intent":"reauthenticate"`); a.data()["completed"] != true {
			t.Fatalf("%s: %+v", a.Raw, w.failures(conn))
		}
		to, _ := b.ok("POST", "/session/sign-out", `{}`)["end_session_url"].(string)
		if !strings.HasPrefix(to, idp+"/") {
			t.Fatalf("the sign-out continues at %q", to)
		}
		back, form := u.visit(to, nil)
		at, err := url.Parse(back)
		w.Must(err)
		if form.Get("SAMLResponse") == "" || at.Path != "/sso/"+conn+"/slo" {
			t.Fatalf("the provider leads back to %s with %v", back, form)
		}
		if resp := w.post(at.Path, form, "Accept", "text/html"); resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/sign-in" {
			t.Errorf("%d %s", resp.StatusCode, resp.Header.Get("Location"))
		}
	})
}
