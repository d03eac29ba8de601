// Package examples runs the programs in pages of docs, unchanged, against a real server.
package examples

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/client"
	"github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// root is the repository's folder.
const root = "../.."

// world is a tenant with a customer's key, which may request /v1/orders five times an hour, and a signed-in person.
type world struct {
	*frontendtest.World
	backend, decision, frontend string
	manager, customer           string
	person                      *enduser.Client
	began                       time.Time
	group                       *process.Group
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: frontendtest.New(t, nil), began: time.Now()}
	deployment := w.Settings()
	key := w.OAuthKey(jose.ES256)
	der, err := w.Keyring.Open(document.SealedOAuthKey, key.ID, key.Sealed)
	w.Must(err)
	deployment.SigningKeys = []document.SigningKey{{ID: key.ID, Public: key.Public, Sealed: w.Keyring.Seal(document.SealedSigningKey, key.ID, der)}}
	w.Declare(deployment)
	w.Put(v1alpha1.KindRateLimitScheme, "few", frontendtest.Deployment, "few", document.RateLimitScheme{Slug: "few", Name: "Few", Rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 5, Endpoints: []string{"/v1/orders"}}}})
	for name, app := range map[string]document.APIAuthApp{
		"internal": {Permissions: []string{"*"}}, "shop": {Permissions: []string{"orders:read"}, Scheme: "few"},
	} {
		app.Slug, app.Name, app.Active = name, name, true
		w.Put(v1alpha1.KindAPIAuthApp, name, frontendtest.Deployment, name, app)
	}
	minted, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.manager = minted.Plain()
	w.Put(v1alpha1.KindAPIKey, "all", frontendtest.Deployment, "", document.APIKey{
		App: "internal", Name: "All", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Last4()}},
	})
	serve := func(handler http.Handler) string {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL
	}
	w.backend, w.decision = serve(w.Backend), serve(w.Decision)
	at, err := url.Parse(w.Server.URL)
	w.Must(err)
	w.frontend = "http://localhost:" + at.Port()
	w.group, err = process.NewGroup(t.TempDir())
	w.Must(err)
	t.Cleanup(func() { _ = w.group.Close() })
	w.people()
	return w
}

// people creates the customer's key and signs a person in.
func (w *world) people() {
	w.T.Helper()
	manager, err := backend.New(w.backend, client.WithToken(w.manager))
	w.Must(err)
	w.Eventually("the customer has a key", func() bool {
		made, err := manager.CreateApiKey(w.T.Context(), "shop", backend.ApiKeyCreate{Name: "Globex", Permissions: &[]string{"orders:read"}})
		if err == nil {
			w.customer = made.Secret
		}
		return err == nil
	})
	w.person, err = enduser.New(w.frontend)
	w.Must(err)
	begun, err := w.person.SignUp(w.T.Context(), enduser.SignUp{Email: "ada@example.com"})
	w.Must(err)
	_, err = w.person.AttemptVerification(w.T.Context(), enduser.AttemptCode{Code: w.CodeFor("ada@example.com", 1), SignupAttemptId: &begun.Session.SignupAttempts[0].Id})
	w.Must(err)
	_, err = w.person.CreateOrganization(w.T.Context(), enduser.OwnOrganizationCreate{Name: "Harbour"})
	w.Must(err)
}

// token returns a valid session token of the person. It first advances the server's clock, which stands still, to the
// real time.
func (w *world) token() string {
	w.T.Helper()
	w.Clock.Advance(time.Since(w.began))
	w.began = time.Now()
	issued, err := w.person.IssueToken(w.T.Context(), enduser.SessionTokenRequest{})
	w.Must(err)
	return issued.Data.Token
}

// block returns the nth program of a language in a page.
func block(t *testing.T, page, language string, nth int) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(content), -1)
	if len(found) <= nth {
		t.Fatalf("%s has %d programs in %s", page, len(found), language)
	}
	return found[nth][1]
}

// place replaces the addresses and names that the page leaves to the reader with those of the world.
func (w *world) place(text, own, application string) string {
	return strings.NewReplacer(
		"127.0.0.1:8000", own, "127.0.0.1:9000", application, `listen(9000, "127.0.0.1")`, "listen("+application[len("127.0.0.1:"):]+`, "127.0.0.1")`,
		"127.0.0.1:8082", strings.TrimPrefix(w.decision, "http://"), "https://app.acme.example", "https://localhost", "cardea:acme:acme", "cardea:acme:staging", `"acme/acme"`, `"acme/staging"`, "deployment=acme/acme", "deployment=acme/staging",
	).Replace(text)
}

// address returns an unused address of this machine.
func address(t testing.TB) string {
	t.Helper()
	port, err := controlplane.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// program finds a program, or skips the test.
func program(t *testing.T, name, why string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && name == "nginx" {
		path, err = exec.LookPath("/usr/sbin/nginx")
	}
	if err != nil {
		t.Skip(name + " is not here: " + why)
	}
	return path
}

// folder returns a temporary folder that other users of the machine may read, because nginx workers run as another
// user.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// nodeFolder returns a folder with files, in which programs find the packages of npm.
func nodeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(modules, ".installed")); err != nil {
		t.Skip("what the examples use from npm is not here: make examples brings it")
	}
	dir := folder(t, files)
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start runs a program until it is stopped or the test ends, and returns once it listens.
func (w *world) start(at string, spec process.Spec) (stop func()) {
	w.T.Helper()
	spec.Env = append(spec.Env, "PATH="+os.Getenv("PATH"), "HOME="+spec.Dir, "CARDEA_DECISION_URL="+w.decision, "CARDEA_FRONTEND_URL="+w.frontend)
	started, err := w.group.Start(spec)
	w.Must(err)
	stop = func() { _ = started.Stop(10 * time.Second) }
	w.T.Cleanup(stop)
	w.Eventually(spec.Name+" listens", func() bool {
		select {
		case <-started.Done():
			w.T.Fatal(started.ExitError())
		default:
		}
		conn, err := net.Dial("tcp", at)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return stop
}

// answer is a program's response.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a GET with header lines.
func (w *world) ask(at, path string, lines ...string) answer {
	w.T.Helper()
	request, err := http.NewRequestWithContext(w.T.Context(), http.MethodGet, "http://"+at+path, nil)
	w.Must(err)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Add(name, value)
	}
	got, err := http.DefaultClient.Do(request)
	w.Must(err)
	defer func() { _ = got.Body.Close() }()
	raw, err := io.ReadAll(got.Body)
	w.Must(err)
	return answer{got.StatusCode, got.Header, string(raw)}
}
