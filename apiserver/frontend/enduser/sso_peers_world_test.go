package enduser_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// The published providers of these tests, which make test-connections installs.
const (
	upstreamPeers  = "../../../test/upstreampeers"
	upstreamDex    = "../../../bin/upstream-peers/dex"
	missingPeers   = "the published providers are missing: make test-connections installs them"
	peerConnection = "peer"
)

// host returns the deployment's host with the server's port, where providers reach the server.
func (w *world) host() string {
	address := w.Server.Listener.Addr().String()
	return "localhost" + address[strings.LastIndex(address, ":"):]
}

// atHost returns a browser that names the server's port, as a real browser does.
func (w *world) atHost() *browser {
	b := w.browser()
	b.host = w.host()
	return b
}

// peerURL returns a URL below the connection "peer", whose id is known before it is declared.
func (w *world) peerURL(path string) string {
	return "http://" + w.host() + "/sso/" + ids.Format(ids.Derive(v1alpha1.KindConnection, "acme", peerConnection)) + path
}

// keepTime moves the world's clock to the time of the machine, which other programs have.
func (w *world) keepTime() {
	if ahead := time.Since(w.Clock.Now()); ahead > 0 {
		w.Clock.Advance(ahead)
	}
}

// toPeer declares the connection "peer" to the provider at an issuer, with a secret.
func (w *world) toPeer(issuer, client, secret string, change func(*document.Connection)) string {
	w.T.Helper()
	w.keepTime()
	return w.connection(peerConnection, &identityprovider.Provider{URL: issuer}, func(c *document.Connection) {
		globexDomain(c)
		c.Client.ID = client
		c.Client.Sealed = w.Keyring.Seal(document.SealedConnectionSecret, ids.Format(ids.Derive(v1alpha1.KindConnection, "acme", peerConnection)), []byte(secret))
		c.Provider.Algs = []string{"RS256", "PS256", "ES256", "EdDSA"}
		if change != nil {
			change(c)
		}
	})
}

// peerProcess is oidc-provider in a process of its own.
type peerProcess struct {
	issuer string
	lines  *bufio.Scanner
	in     io.Writer
	w      *world
}

// startPeer starts oidc-provider with one client.
func (w *world) startPeer(client map[string]any) *peerProcess {
	w.T.Helper()
	node, err := exec.LookPath("node")
	if _, statErr := os.Stat(filepath.Join(upstreamPeers, "node_modules", ".installed")); err != nil || statErr != nil {
		w.T.Skip(missingPeers)
	}
	raw, err := json.Marshal(client)
	w.Must(err)
	cmd := exec.CommandContext(w.T.Context(), node, "provider.js")
	cmd.Dir, cmd.Env = upstreamPeers, []string{"PATH=" + os.Getenv("PATH"), "CLIENT=" + string(raw)}
	var problems bytes.Buffer
	cmd.Stderr = &problems
	in, err := cmd.StdinPipe()
	w.Must(err)
	out, err := cmd.StdoutPipe()
	w.Must(err)
	w.Must(cmd.Start())
	p := &peerProcess{lines: bufio.NewScanner(out), in: in, w: w}
	w.T.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // killed if the test ended
		if text := problems.String(); strings.Contains(text, "server_error") || strings.Contains(text, "backchannel.error") {
			w.T.Errorf("the provider failed: %s", text)
		}
	})
	p.issuer, _, _ = strings.Cut(p.line(), " ")
	return p
}

func (p *peerProcess) line() string {
	p.w.T.Helper()
	if !p.lines.Scan() {
		p.w.T.Fatal("the provider ended")
	}
	return p.lines.Text()
}

// rotate replaces the provider's signing keys.
func (p *peerProcess) rotate() {
	p.w.T.Helper()
	_, err := io.WriteString(p.in, "\n")
	p.w.Must(err)
	p.line()
}

// upstreamBrowser is the same browser at pages of a provider. It follows redirects and forms until one leads back.
type upstreamBrowser struct {
	t      testing.TB
	client *http.Client
	back   string
}

// upstream returns a browser that stops at addresses of the server.
func (w *world) upstream() *upstreamBrowser {
	jar, err := cookiejar.New(nil)
	w.Must(err)
	return &upstreamBrowser{t: w.T, back: "http://" + w.host() + "/", client: &http.Client{
		Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

var (
	formPattern  = regexp.MustCompile(`<form[^>]* action="([^"]*)"`)
	inputPattern = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
)

// visit opens an address and goes on until the provider leads back: it returns the address, and the form that the page
// posts there, nil for a redirect. fill are further fields of forms of the provider.
func (u *upstreamBrowser) visit(address string, fill url.Values) (string, url.Values) {
	u.t.Helper()
	r, err := http.NewRequest(http.MethodGet, address, nil)
	for range 12 {
		if err != nil {
			u.t.Fatal(err)
		}
		response, sendErr := u.client.Do(r)
		if sendErr != nil {
			u.t.Fatal(sendErr)
		}
		raw, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		to, form := response.Header.Get("Location"), url.Values(nil)
		if action := formPattern.FindStringSubmatch(string(raw)); to == "" && action != nil {
			to, form = html.UnescapeString(action[1]), url.Values{}
			for _, input := range inputPattern.FindAllStringSubmatch(string(raw), -1) {
				form.Set(html.UnescapeString(input[1]), html.UnescapeString(input[2]))
			}
		}
		next, parseErr := r.URL.Parse(to)
		if to == "" || parseErr != nil {
			u.t.Fatalf("%s: %d %s", r.URL, response.StatusCode, raw)
		}
		if strings.HasPrefix(next.String(), u.back) {
			return next.String(), form
		}
		if form == nil {
			r, err = http.NewRequest(http.MethodGet, next.String(), nil)
			continue
		}
		for name, values := range fill {
			form[name] = values
		}
		r, err = http.NewRequest(http.MethodPost, next.String(), strings.NewReader(form.Encode()))
		if err == nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
	u.t.Fatalf("the provider does not lead back from %s", address)
	return "", nil
}

// byPeer signs in by a connection through the pages of its provider, and returns the response to the callback.
func (b *browser) byPeer(u *upstreamBrowser, connection, more string) answer {
	b.w.T.Helper()
	b.w.keepTime()
	at, form := u.visit(b.begin(connection, more), nil)
	path := strings.TrimPrefix(at, "http://"+b.host)
	if form != nil {
		r, err := http.NewRequest(http.MethodPost, at, strings.NewReader(form.Encode()))
		b.w.Must(err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Origin", "null")
		posted, err := u.client.Do(r) // without the cookie, which is SameSite=Lax
		b.w.Must(err)
		raw, _ := io.ReadAll(posted.Body)
		_ = posted.Body.Close()
		if path = posted.Header.Get("Location"); posted.StatusCode != http.StatusSeeOther {
			b.w.T.Fatalf("the form: %d %s", posted.StatusCode, raw)
		}
	}
	b.w.keepTime()
	return b.do(http.MethodGet, path, "", "Sec-Fetch-Site", "cross-site")
}
