package apiserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/apiserver/credential"
)

func TestForwardedRequestFromUntrustedPeerIsLogged(t *testing.T) {
	proxies, err := credential.ParseProxies([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var lines []string
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	counters := newUntrusted(prometheus.NewRegistry())
	g := &guard{
		next: http.NotFoundHandler(), proxies: proxies, clock: func() time.Time { return now }, untrusted: counters.WithLabelValues("backend"),
		log: funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, args)
		}, funcr.Options{}),
	}
	send := func(peer, forwarded string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = peer
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		g.ServeHTTP(httptest.NewRecorder(), r)
	}
	expect := func(counted float64, warned int) {
		t.Helper()
		if got := testutil.ToFloat64(counters.WithLabelValues("backend")); got != counted {
			t.Errorf("counted %v, want %v", got, counted)
		}
		if len(lines) != warned {
			t.Errorf("%d lines, want %d: %v", len(lines), warned, lines)
		}
	}
	send("192.0.2.1:1", "")
	send("10.1.2.3:1", "192.0.2.7")
	expect(0, 0)
	for range 3 {
		send("192.0.2.1:1", "198.51.100.7")
	}
	expect(3, 1)
	if !strings.Contains(lines[0], "192.0.2.1") || !strings.Contains(lines[0], "--trusted-proxies") || strings.Contains(lines[0], "198.51.100.7") {
		t.Errorf("the line is %s", lines[0])
	}
	now = now.Add(warnEvery)
	send("192.0.2.1:1", "198.51.100.7")
	expect(4, 2)
}

func TestResponsesAreNotCached(t *testing.T) {
	g := &guard{next: http.NotFoundHandler(), clock: time.Now}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/users", nil))
	if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", w.Header())
	}
}
