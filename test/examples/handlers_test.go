package examples

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/process"
)

// handlers is the page with programs that protect a handler.
const handlers = "protect-my-handler.md"

// expectKeys sends requests to a program at /v1/orders, which accepts keys with orders:read, five times an hour.
func (w *world) expectKeys(at, who string) {
	w.T.Helper()
	key := "Authorization: Bearer " + w.customer
	for name, lines := range map[string][]string{
		"nobody": nil, "a wrong key": {key + "x"}, "two": {key, "X-API-Key: " + w.customer}, "two lines": {key, key}, "the manager's, in a cookie": {"Cookie: key=" + w.manager},
	} {
		got := w.ask(at, "/v1/orders?api_key="+w.customer, lines...)
		if got.status == 400 && name == "two lines" { // nginx refuses these itself
			continue
		}
		if got.status != 401 || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") && name == "nobody" {
			w.T.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	for n := range 5 {
		line := key
		if n == 0 {
			line = "X-API-Key: " + w.customer
		}
		got := w.ask(at, "/v1/orders", line, "X-Cardea-App: forged")
		if got.status != 200 || !strings.Contains(got.body, who) || !strings.HasPrefix(got.header.Get("RateLimit"), `"5/1h";r=`) {
			w.T.Fatalf("request %d: %d %q %v", n, got.status, got.body, got.header)
		}
	}
	if got := w.ask(at, "/v1/orders", key); got.status != 429 || got.header.Get("Retry-After") == "" {
		w.T.Errorf("beyond the limit: %d %v", got.status, got.header)
	}
}

// expectPeople sends requests to a program at /v1/mine, which accepts users with the permission billing:read.
func (w *world) expectPeople(at string) {
	w.T.Helper()
	me, err := w.person.GetMe(w.T.Context())
	w.Must(err)
	good := "Authorization: Bearer " + w.token()
	for range 2 {
		if got := w.ask(at, "/v1/mine", good); got.status != 200 || !strings.Contains(got.body, `person "`+me.Data.Id+`"`) {
			w.T.Errorf("%d %q", got.status, got.body)
		}
	}
	for name, lines := range map[string][]string{
		"nobody": nil, "a key": {"Authorization: Bearer " + w.customer}, "cut": {good[:len(good)-6]}, "two": {good, good}, "no algorithm": {"Authorization: Bearer eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.e30."},
	} {
		if got := w.ask(at, "/v1/mine?access_token="+strings.TrimPrefix(good, "Authorization: Bearer "), lines...); got.status != 401 {
			w.T.Errorf("%s: %d %q", name, got.status, got.body)
		}
	}
}

// expectProof sends a token that proves one factor to a program at /v1/payouts, which requires two.
func (w *world) expectProof(at string) {
	w.T.Helper()
	got := w.ask(at, "/v1/payouts", "Authorization: Bearer "+w.token())
	challenge := got.header.Get("WWW-Authenticate")
	for _, part := range []string{`Bearer error="insufficient_user_authentication"`, `acr_values="2"`, `max_age="300"`} {
		if got.status != 401 || !strings.Contains(challenge, part) {
			w.T.Errorf("one factor: %d, challenge %q", got.status, challenge)
		}
	}
	if got := w.ask(at, "/v1/payouts", "Authorization: Bearer "+w.customer); got.status != 401 {
		w.T.Errorf("a key: %d", got.status)
	}
}

// expectHandlers sends requests to a program that protects all paths, and repeats them while Cardea is stopped.
func (w *world) expectHandlers(at, who string, spec process.Spec) {
	w.T.Helper()
	stop := w.start(at, spec)
	w.expectKeys(at, who)
	w.expectPeople(at)
	w.expectProof(at)
	stop()
	token := w.token()
	w.decision, w.frontend = "http://"+address(w.T), "http://"+address(w.T)
	w.start(at, spec)
	for path, credential := range map[string]string{"/v1/orders": w.customer, "/v1/mine": token} {
		if got := w.ask(at, path, "Authorization: Bearer "+credential); got.status != 503 || got.header.Get("Retry-After") == "" {
			w.T.Errorf("%s while Cardea is away: %d %q", path, got.status, got.body)
		}
	}
}

func TestGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := address(t)
	dir := folder(t, map[string]string{"main.go": w.place(block(t, handlers, "go", 0), "", at)})
	application := filepath.Join(dir, "application")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", application, filepath.Join(dir, "main.go"))
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.expectHandlers(at, `key "Globex" of app "shop"`, process.Spec{Name: "application", Path: application, Dir: dir})
}

func TestExpress(t *testing.T) {
	t.Parallel()
	node := program(t, "node", "install nodejs 20 or newer")
	w := newWorld(t)
	at := address(t)
	dir := nodeFolder(t, map[string]string{"main.mjs": w.place(block(t, handlers, "js", 0)+block(t, handlers, "js", 1), "", at)})
	w.expectHandlers(at, `key "Globex" of app "shop"`, process.Spec{Name: "express", Path: node, Args: []string{"main.mjs"}, Dir: dir})
}

func TestNginx(t *testing.T) {
	t.Parallel()
	nginx := program(t, "nginx", "hack/install-deps.sh installs it")
	w := newWorld(t)
	application := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = rw.Write([]byte("app " + strings.Join(r.Header["X-Cardea-App"], ";") + ", person " + r.Header.Get("X-Cardea-Owner-User-Id")))
	}))
	t.Cleanup(application.Close)
	launch := func(name string) string {
		at := address(t)
		files := map[string]string{"nginx.conf": w.place(block(t, handlers, "nginx", 0), at, strings.TrimPrefix(application.URL, "http://"))}
		for _, included := range []string{"cardea_ask.conf", "cardea_allowed.conf"} {
			text, err := os.ReadFile(filepath.Join(root, "docs", "gateways", "nginx", included))
			w.Must(err)
			files[included] = string(text)
		}
		w.start(at, process.Spec{Name: name, Path: nginx, Args: []string{"-p", ".", "-c", "nginx.conf", "-g", "daemon off;"}, Dir: folder(t, files)})
		return at
	}
	w.expectKeys(launch("nginx"), "app shop, person ")
	w.decision = "http://" + address(t)
	if got := w.ask(launch("nginx-alone"), "/v1/orders", "X-API-Key: "+w.customer); got.status != 500 {
		t.Errorf("while Cardea is away: %d %q", got.status, got.body)
	}
}
