package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

func TestProviderIsDiscoveredOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	a, b, c := w.server(), w.server(), w.connection(nil)
	for _, server := range []*Providers{a, a, b, b} {
		m, err := server.Metadata(t.Context(), c)
		want := Metadata{
			Issuer: w.provider.URL, AuthorizationURL: w.provider.URL + "/authorize", TokenURL: w.provider.URL + "/token", UserinfoURL: w.provider.URL + "/userinfo",
			JWKSURL: w.provider.URL + "/jwks", EndSessionURL: w.provider.URL + "/end", IssInResponse: true,
		}
		if err != nil || m != want {
			t.Fatalf("%+v, %v", m, err)
		}
		key, err := server.Key(t.Context(), c, w.provider.URL, "k1")
		if err != nil || key == nil || key.KeyID != "k1" {
			t.Fatalf("%v, %v", key, err)
		}
	}
	if w.provider.hit(discoveryPath) != 1 || w.provider.hit("/jwks") != 1 {
		t.Errorf("%v", w.provider.hits)
	}
	if n := testutil.ToFloat64(a.metrics.fetches.WithLabelValues("jwks", "fetched")); n != 1 {
		t.Errorf("%v fetches were counted", n)
	}
}

// The lease of the store lets one of two servers fetch; each server fetches once for all its sign-ins.
func TestServersFetchOneAtATime(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		c, slow := w.connection(nil), make(chan struct{})
		answer := w.provider.pages[discoveryPath]
		w.provider.serve(discoveryPath, func(rw http.ResponseWriter, r *http.Request) { <-slow; answer(rw, r) })
		var group sync.WaitGroup
		for _, server := range []*Providers{w.server(), w.server()} {
			for range 20 {
				group.Go(func() {
					if _, err := server.Metadata(t.Context(), c); err != nil {
						t.Error(err)
					}
				})
			}
		}
		w.Eventually("the provider is asked", func() bool { return w.provider.hit(discoveryPath) > 0 })
		close(slow)
		group.Wait()
		if n := w.provider.hit(discoveryPath); n != 1 {
			t.Errorf("%d fetches", n)
		}
	})
}

// A server that found a document due, and then waited, takes the one that another server fetched meanwhile.
func TestServerTakesTheDocumentThatAnotherOneFetchedMeanwhile(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		c, first, second := w.connection(nil), w.server(), w.server()
		for fetches := 1; fetches <= 2; fetches++ { // the first fetch, and one that is due
			before, err := second.documents.load(t.Context(), c, discovery(c.Connection))
			w.Must(err)
			if _, err := first.documents.refreshNow(t.Context(), c, discovery(c.Connection), wish{periodic: true}); err != nil {
				t.Fatal(err)
			}
			if _, leased, err := second.documents.fetch(t.Context(), c, discovery(c.Connection), before); leased || err != nil {
				t.Errorf("the second server fetches too: %t, %v", leased, err)
			}
			v, err := second.documents.refreshNow(t.Context(), c, discovery(c.Connection), wish{periodic: true})
			if err != nil || !v.fetchedAt.Equal(w.row(c, people.UpstreamDiscovery).FetchedAt) || w.provider.hit(discoveryPath) != fetches {
				t.Errorf("it has %v, %v after %d fetches, want %d", v.fetchedAt, err, w.provider.hit(discoveryPath), fetches)
			}
			w.Clock.Advance(freshFor)
		}
	})
}

// Each refused document is recorded with a reason that the operator reads, and leads to no sign-in.
func TestRefusedDiscoveryDocuments(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(w *world)
		allowed []netip.Prefix
		want    string
	}{
		"another issuer":        {func(w *world) { w.provider.discovery(map[string]any{"issuer": "https://evil.example"}) }, nil, "IssuerMismatch: "},
		"the issuer and a dash": {func(w *world) { w.provider.discovery(map[string]any{"issuer": w.provider.URL + "/"}) }, nil, "IssuerMismatch: "},
		"a token endpoint over http": {func(w *world) {
			w.provider.discovery(map[string]any{"token_endpoint": "http://127.0.0.1:1/token"})
		}, nil, "InvalidMetadata: token_endpoint"},
		"404 with a document": {func(w *world) {
			text := encoded(map[string]string{
				"issuer": w.provider.URL, "authorization_endpoint": w.provider.URL, "token_endpoint": w.provider.URL, "jwks_uri": w.provider.URL,
			})
			w.provider.serve(discoveryPath, says(404, text))
		}, nil, "InvalidMetadata: "},
		"404":    {func(w *world) { w.provider.serve(discoveryPath, nil) }, nil, "InvalidMetadata: "},
		"503":    {func(w *world) { w.provider.serve(discoveryPath, says(503, "{}")) }, nil, "Unreachable: "},
		"429":    {func(w *world) { w.provider.serve(discoveryPath, says(429, "{}")) }, nil, "Unreachable: "},
		"a page": {func(w *world) { w.provider.serve(discoveryPath, says(200, "<html>")) }, nil, "InvalidMetadata: "},
		"doubled members": {func(w *world) {
			text := `{"issuer":"https://evil.example",` + strings.TrimPrefix(encoded(map[string]string{
				"issuer": w.provider.URL, "authorization_endpoint": w.provider.URL, "token_endpoint": w.provider.URL, "jwks_uri": w.provider.URL,
			}), "{")
			w.provider.serve(discoveryPath, says(200, text))
		}, nil, "InvalidMetadata: "},
		"a redirect": {func(w *world) {
			w.provider.serve("/elsewhere", w.provider.pages[discoveryPath])
			w.provider.serve(discoveryPath, http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP)
		}, nil, "InvalidMetadata: "},
		"3 MiB": {func(w *world) {
			w.provider.serve(discoveryPath, says(200, `{"issuer":"`+w.provider.URL+`","x":"`+strings.Repeat("x", 3<<20)+`"}`))
		}, nil, "InvalidMetadata: "},
		"a closed port":                    {func(w *world) { w.provider.Close() }, nil, "Unreachable: "},
		"an address that is not permitted": {func(*world) {}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, "Refused: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			tc.change(w)
			c := w.connection(nil)
			_, err := w.server(tc.allowed...).Metadata(t.Context(), c)
			row := w.row(c, people.UpstreamDiscovery)
			if !errors.Is(err, ErrUnavailable) || !strings.HasPrefix(row.Error, tc.want) || row.Body != "" || row.Failures != 1 || !row.LeasedUntil.IsZero() {
				t.Errorf("%v; %+v", err, row)
			}
			if w.provider.hit("/elsewhere") != 0 || name == "a redirect" && !strings.Contains(row.Error, "302 Found: redirects are not followed") {
				t.Errorf("the redirect is followed, or not named: %s", row.Error)
			}
			w.silent(c, err.Error())
		})
	}
}

// CON-18: none of the requests reaches an address that the policy does not allow, also by a name.
func TestPrivateAddressesAreNotReached(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "localhost"} {
		w := newWorld(t, "")
		server := w.server(netip.MustParsePrefix("192.0.2.0/24"))
		c := w.connection(func(c *document.Connection) {
			w.direct(c)
			for _, url := range []*string{&c.Provider.TokenURL, &c.Provider.JWKSURL, &c.Provider.UserinfoURL} {
				*url = strings.Replace(*url, "127.0.0.1", host, 1)
			}
		})
		_, keys := server.Key(t.Context(), c, w.provider.URL, "k1")
		_, token := server.Redeem(t.Context(), c, Redemption{Code: testCode})
		_, userinfo := server.Userinfo(t.Context(), c, testAccess, "ann")
		for what, err := range map[string]error{"keys": keys, "token": token, "userinfo": userinfo} {
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "--egress-allowed-cidrs") {
				t.Errorf("%s at %s: %v", what, host, err)
			}
			w.silent(c, err.Error())
		}
		if len(w.provider.hits) != 0 {
			t.Errorf("%v were reached", w.provider.hits)
		}
	}
}

// Requests without TLS go to this machine alone, and only if the operator of the service allows that.
func TestPlainRequestsStayOnThisMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	server := w.server()
	for _, address := range []string{"http://idp.example/jwks", "http://127.0.0.1.evil.example/jwks", "ftp://127.0.0.1/jwks"} {
		_, err := server.Key(t.Context(), w.connection(func(c *document.Connection) { w.direct(c); c.Provider.JWKSURL = address }), w.provider.URL, "k1")
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "https alone") {
			t.Errorf("%s: %v", address, err)
		}
		w.Clock.Advance(2 * time.Second)
	}
}

// A provider on this machine, over http, is accepted where the operator of the service permits this machine.
func TestProviderOnThisMachineNeedsNoTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	plain := httptest.NewServer(w.provider)
	t.Cleanup(plain.Close)
	origin := strings.Replace(plain.URL, "127.0.0.1", "localhost", 1)
	w.provider.discovery(map[string]any{
		"issuer": origin, "authorization_endpoint": origin + "/authorize", "token_endpoint": origin + "/token", "jwks_uri": origin + "/jwks", "userinfo_endpoint": nil, "end_session_endpoint": nil,
	})
	c := w.connection(func(c *document.Connection) { c.Provider.Issuer = origin })
	if _, err := w.server(netip.MustParsePrefix("10.0.0.0/8")).Metadata(t.Context(), c); !errors.Is(err, ErrUnavailable) || w.provider.hit(discoveryPath) != 0 {
		t.Errorf("%v", err)
	}
	w.Clock.Advance(2 * time.Second)
	if key, err := w.server().Key(t.Context(), c, origin, "k1"); err != nil || key == nil {
		t.Errorf("%v, %v", key, err)
	}
}

// The transport for http permits the operator's allowed ranges alone, whatever address localhost has.
func TestPlainRequestsHaveAPolicyOfTheirOwn(t *testing.T) {
	t.Parallel()
	secure, plain := &answers{fetched: map[string][]time.Time{}, answer: good}, &answers{fetched: map[string][]time.Time{}, answer: good}
	web := &exchanger{secure: secure, plain: plain}
	for _, address := range []string{"http://localhost/jwks", "http://[::1]/jwks", globexKeys} {
		if _, err := web.document(t.Context(), address, jsonMedia); err != nil {
			t.Error(err)
		}
	}
	if len(secure.fetched) != 1 || len(plain.fetched) != 2 {
		t.Errorf("over TLS %v, without %v", secure.fetched, plain.fetched)
	}
}

// An answer above the bound is not read to its end.
func TestLongAnswersAreNotRead(t *testing.T) {
	t.Parallel()
	read := &counting{}
	web := &exchanger{secure: &answers{fetched: map[string][]time.Time{}, answer: func(*http.Request) (int, io.ReadCloser, error) { return 200, io.NopCloser(read), nil }}}
	if _, err := web.document(t.Context(), globexFirst, jsonMedia); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") || read.bytes > 2*maxDocument {
		t.Errorf("%v; %d bytes were read", err, read.bytes)
	}
}

// counting is an endless body.
type counting struct{ bytes int }

func (c *counting) Read(into []byte) (int, error) {
	c.bytes += len(into)
	return len(into), nil
}

// A restart next to a dead host signs in, from the store, for 7 days after the last fetch.
func TestLastDocumentsServeSevenDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c, first := w.connection(nil), w.server()
	if key, err := first.Key(t.Context(), c, w.provider.URL, "k1"); err != nil || key == nil {
		t.Fatal(key, err)
	}
	w.provider.Close()
	for _, after := range []time.Duration{time.Minute, 3 * time.Hour, 6 * 24 * time.Hour} {
		w.Clock.Advance(after)
		restarted := w.server()
		if m, err := restarted.Metadata(t.Context(), c); err != nil || m.TokenURL == "" {
			t.Errorf("after %v: %v, %v", after, m, err)
		}
		if key, err := restarted.Key(t.Context(), c, w.provider.URL, "k1"); err != nil || key == nil {
			t.Errorf("after %v: %v, %v", after, key, err)
		}
	}
	w.Clock.Advance(24 * time.Hour)
	for name, server := range map[string]*Providers{"restarted": w.server(), "running": first} {
		if _, err := server.Metadata(t.Context(), c); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s, after more than 7 days: %v", name, err)
		}
	}
	if row := w.row(c, people.UpstreamDiscovery); !strings.HasPrefix(row.Error, "Unreachable: ") {
		t.Errorf("%+v", row)
	}
}

// An unknown key id makes a fetch at most every 30 s over all servers, and a new key is found as soon as it is used.
func TestUnknownKeysAreFetchedEvery30Seconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c, servers := w.connection(nil), []*Providers{w.server(), w.server()}
	find := func(kid string, want bool) {
		t.Helper()
		for _, server := range servers {
			if key, err := server.Key(t.Context(), c, w.provider.URL, kid); err != nil || (key != nil) != want {
				t.Errorf("%s: %v, %v", kid, key, err)
			}
		}
	}
	find("k1", true)
	for n := range 20 {
		find(fmt.Sprint("unknown ", n), false)
	}
	if n := w.provider.hit("/jwks"); n != 1 {
		t.Errorf("%d fetches within 30 s", n)
	}
	w.Clock.Advance(31 * time.Second)
	find("unknown", false)
	find("another", false)
	if n := w.provider.hit("/jwks"); n != 2 {
		t.Errorf("%d fetches after 31 s", n)
	}
	w.Clock.Advance(31 * time.Second)
	w.provider.keys("k2") // the old key is gone at once
	find("k2", true)
	if n := w.provider.hit("/jwks"); n != 3 {
		t.Errorf("%d fetches after the rollover", n)
	}
	find("k1", false)
}

// The provider may have published a key that is unknown while it does not answer: that is no refusal of the token.
func TestUnknownKeyOfAnUnreachableProviderIsNotRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c, server := w.connection(nil), w.server()
	if _, err := server.Key(t.Context(), c, w.provider.URL, "k1"); err != nil {
		t.Fatal(err)
	}
	w.provider.serve("/jwks", says(500, ""))
	w.Clock.Advance(31 * time.Second)
	for range 2 { // fetched, and within the 30 s
		if key, err := server.Key(t.Context(), c, w.provider.URL, "k2"); key != nil || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v, %v", key, err)
		}
	}
	if key, err := server.Key(t.Context(), c, w.provider.URL, "k1"); err != nil || key == nil {
		t.Errorf("%v, %v", key, err)
	}
}

// Another issuer's or another URL's documents are not used, although the row is the same.
func TestDocumentsOfTheFormerProviderAreNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c, server := w.connection(nil), w.server()
	if _, err := server.Key(t.Context(), c, w.provider.URL, "k1"); err != nil {
		t.Fatal(err)
	}
	moved := w.connection(func(c *document.Connection) { c.Provider.Issuer += "/" }) // the same discovery URL
	for name, server := range map[string]*Providers{"running": server, "restarted": w.server()} {
		w.Clock.Advance(2 * time.Second)
		if _, err := server.Metadata(t.Context(), moved); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "IssuerMismatch") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.provider.serve("/other", says(500, ""))
	other := w.connection(func(c *document.Connection) { w.direct(c); c.Provider.JWKSURL = w.provider.URL + "/other" })
	for name, server := range map[string]*Providers{"running": server, "restarted": w.server()} {
		w.Clock.Advance(2 * time.Second)
		if key, err := server.Key(t.Context(), other, w.provider.URL, "k1"); key != nil || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v, %v", name, key, err)
		}
	}
}

// A server whose lease ended without a result does not keep others from fetching.
func TestLeaseOfADeadServerEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c, server := w.connection(nil), w.server()
	w.Must(w.Store.Single(t.Context(), c.Deployment, func(tx people.Tx) error {
		leased, err := tx.Connections().LeaseUpstreamDocument(c.ID, people.UpstreamDiscovery, "dead", time.Time{}, w.Clock.Now(), w.Clock.Now().Add(leaseFor))
		if !leased {
			t.Error("no lease")
		}
		return err
	}))
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := server.Metadata(short, c); !errors.Is(err, ErrUnavailable) || w.provider.hit(discoveryPath) != 0 {
		t.Errorf("%v, %v", err, w.provider.hits)
	}
	w.Clock.Advance(leaseFor)
	w.Eventually("the provider is discovered", func() bool { _, err := server.Metadata(t.Context(), c); return err == nil })
}

// Sign-ins at a provider that fails do not become a request each.
func TestFailuresAreSharedForASecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c, server := w.connection(nil), w.server()
	w.provider.serve(discoveryPath, says(500, ""))
	for range 10 {
		if _, err := server.Metadata(t.Context(), c); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "Unreachable: ") {
			t.Fatal(err)
		}
	}
	if n := w.provider.hit(discoveryPath); n != 1 {
		t.Errorf("%d requests", n)
	}
	w.provider.discovery(nil)
	w.Clock.Advance(2 * time.Second)
	if _, err := server.Metadata(t.Context(), c); err != nil {
		t.Error(err)
	}
}
