package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// served returns a server whose Router has a few routes.
func served(t *testing.T) *httptest.Server {
	t.Helper()
	router := New(func(w http.ResponseWriter, r *http.Request, allow string) {
		if allow == "" {
			http.Error(w, "no such path "+r.Pattern, http.StatusNotFound)
			return
		}
		w.Header().Set("Allow", allow)
		http.Error(w, "not that method "+r.Pattern, http.StatusMethodNotAllowed)
	})
	for _, pattern := range []string{"GET /things", "POST /things", "GET /things/{id}", "DELETE /things/{id}", "PATCH /things/{id}/parts"} {
		router.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s", r.Pattern, r.PathValue("id"))
		})
	}
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return server
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	server := served(t)
	for _, tc := range []struct {
		method, target string
		status         int
		// want is the body of a success, and the header Allow of a 405.
		want string
	}{
		{"GET", "/things", 200, "GET /things "},
		{"HEAD", "/things", 200, ""},
		{"POST", "/things?x=//", 200, "POST /things "},
		{"GET", "/things/7", 200, "GET /things/{id} 7"},
		{"GET", "/things/a%2Fb", 200, "GET /things/{id} a/b"},
		{"GET", "/things/%2e%2e", 200, "GET /things/{id} .."},
		{"PUT", "/things", 405, "GET, HEAD, POST"},
		{"POST", "/things/7", 405, "DELETE, GET, HEAD"},
		{"GET", "/things/7/parts", 405, "PATCH"},
		{"OPTIONS", "/things", 405, "GET, HEAD, POST"},
		{"NONSENSE", "/things/7", 405, "DELETE, GET, HEAD"},
		{"GET", "/", 404, ""},
		{"GET", "/nothing", 404, ""},
		{"GET", "/THINGS", 404, ""},
		{"POST", "/things/7/parts/8", 404, ""},
		{"GET", "//", 404, ""},
		{"POST", "//things", 404, ""},
		{"POST", "/things/", 404, ""},
		{"GET", "/things//7", 404, ""},
		{"GET", "/things/7/", 404, ""},
		{"GET", "/other/../things", 404, ""},
		{"GET", "/./things", 404, ""},
		{"GET", "/things/..", 404, ""},
		{"GET", "/things/7/%2e%2e", 404, ""},
		{"CONNECT", "/things", 404, ""},
		{"OPTIONS", "*", 404, ""},
	} {
		t.Run(tc.method+" "+tc.target, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(tc.method, "http://host/", nil)
			path, query, _ := strings.Cut(tc.target, "?")
			r.URL.Path, r.URL.RawQuery = path, query
			if unescaped, err := r.URL.Parse(path); err == nil && strings.Contains(path, "%") {
				r.URL.Path, r.URL.RawPath = unescaped.Path, path
				if strings.HasSuffix(path, "%2e%2e") {
					r.URL.Path = strings.TrimSuffix(path, "%2e%2e") + ".." // Parse resolves it
				}
			}
			w := httptest.NewRecorder()
			server.Config.Handler.ServeHTTP(w, r)
			if w.Code != tc.status || w.Header().Get("Location") != "" {
				t.Fatalf("status %d to %q: %s", w.Code, w.Header().Get("Location"), w.Body)
			}
			switch {
			case w.Code == 405 && w.Header().Get("Allow") != tc.want:
				t.Errorf("Allow: %s", w.Header().Get("Allow"))
			case w.Code == 404 && w.Header().Get("Allow") != "":
				t.Errorf("404 with Allow: %s", w.Header().Get("Allow"))
			case w.Code == 200 && tc.method != "HEAD" && w.Body.String() != tc.want:
				t.Errorf("%q, want %q", w.Body, tc.want)
			case w.Code >= 400 && strings.TrimSpace(w.Body.String()) != map[int]string{404: "no such path", 405: "not that method"}[w.Code]:
				t.Errorf("a request without a route has a pattern: %q", w.Body)
			}
		})
	}
}

func TestNothingIsRedirectedOverHTTP(t *testing.T) {
	t.Parallel()
	server := served(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, target := range []string{"//", "//things", "/things/", "/other/../things", "/things/%2e%2e/things", "/things//", "/%2F"} {
		for _, method := range []string{"GET", "POST"} {
			r, err := http.NewRequest(method, server.URL, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.URL.Opaque = "//" + r.URL.Host + target // sends the target unchanged
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := answer.Body.Close(); err != nil || answer.StatusCode != 404 {
				t.Errorf("%s %s: %s, %v", method, target, answer.Status, err)
			}
		}
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", 128)
	made := regexp.MustCompile(`^[0-9a-f]{32}$`)
	for name, tc := range map[string]struct {
		sent   []string
		echoed bool
	}{
		"none":              {nil, false},
		"a plain one":       {[]string{"abc-123"}, true},
		"every character":   {[]string{requestIDAlphabet}, true},
		"the longest":       {[]string{longest}, true},
		"too long":          {[]string{longest + "x"}, false},
		"empty":             {[]string{""}, false},
		"two":               {[]string{"a", "b"}, false},
		"a blank":           {[]string{"a b"}, false},
		"a line's end":      {[]string{"a\nb"}, false},
		"a quote":           {[]string{`a"b`}, false},
		"beyond ASCII":      {[]string{"ä"}, false},
		"an odd end":        {[]string{"abc<"}, false},
		"markup in between": {[]string{"abc<script>abc"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			if tc.sent != nil {
				r.Header["X-Request-Id"] = tc.sent
			}
			got := RequestID(r)
			if tc.echoed && got != tc.sent[0] || !tc.echoed && (!made.MatchString(got) || got == RequestID(r)) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestRequestsAreMeasuredUnderTheirPatterns(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry, "test", nil)
	metrics.Expect("GET /things/{id}")
	for _, seen := range []struct {
		pattern string
		status  int
	}{{"GET /things/{id}", 200}, {"GET /things/{id}", 200}, {"GET /things/{id}", 404}, {"", 404}, {"GET /unexpected", 200}} {
		metrics.Observe(&http.Request{Pattern: seen.pattern}, seen.status, 0)
	}
	durations, requests, _ := gathered(t, registry)
	if want := map[string]uint64{"test GET /things/{id} ": 3, "test none ": 2}; !maps.Equal(durations, want) {
		t.Errorf("durations %v, want %v", durations, want)
	}
	want := map[string]float64{"test GET /things/{id} 200": 2, "test GET /things/{id} 404": 1, "test none 404": 1, "test none 200": 1}
	if !maps.Equal(requests, want) {
		t.Errorf("requests %v, want %v", requests, want)
	}
}

// gathered returns how many durations and requests a registry has by listener, route and status, and the number of its
// series.
func gathered(t *testing.T, registry *prometheus.Registry) (durations map[string]uint64, requests map[string]float64, series int) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	durations, requests = map[string]uint64{}, map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			labels := map[string]string{}
			for _, label := range metric.Label {
				labels[label.GetName()] = label.GetValue()
			}
			name := labels["listener"] + " " + labels["route"] + " " + labels["status"]
			if h := metric.Histogram; h != nil {
				durations[name] = h.GetSampleCount()
				series += len(h.Bucket) + 3
			} else {
				requests[name] = metric.Counter.GetValue()
				series++
			}
		}
	}
	return durations, requests, series
}

// A route costs a bucket for each bound, an unbounded one, a sum, a count, and a counter of each status.
func TestRequestsHaveFewSeries(t *testing.T) {
	t.Parallel()
	const routes, used, statuses, perRoute = 200, 20, 8, 10
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry, "test", nil)
	for n := range routes {
		metrics.Expect(fmt.Sprintf("GET /things%d/{id}", n))
	}
	count := func() int {
		_, _, series := gathered(t, registry)
		return series
	}
	if n := count(); n != 0 {
		t.Errorf("routes without requests have %d series", n)
	}
	for n := range used {
		for status := range statuses {
			metrics.Observe(&http.Request{Pattern: fmt.Sprintf("GET /things%d/{id}", n)}, 200+status, 0)
		}
	}
	if n, most := count(), used*(perRoute+statuses); n > most {
		t.Errorf("%d routes that were used have %d series, want at most %d", used, n, most)
	}
	before := count()
	for n := range 1000 { // patterns that a tenant chose
		metrics.Observe(&http.Request{Pattern: fmt.Sprintf("GET /apps/tenant%d", n)}, 200, 0)
	}
	if n, most := count(), before+perRoute+1; n > most {
		t.Errorf("unknown routes have %d series, want at most %d", n-before, perRoute+1)
	}
}
