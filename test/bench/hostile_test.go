package bench

import (
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hostileConnections unknown clients send the costliest known bodies concurrently, for hostileLength.
const (
	hostileConnections = 64
	hostileLength      = 5 * time.Second
)

// hostileBodies returns the bodies that once cost the most: many small objects, unknown members, deep nesting with long
// names. The first three have about the maximum length of a backend body; the end-user listener refuses them by their
// length.
func hostileBodies() []string {
	const size = 1 << 20
	fill := func(head, unit, tail string) string {
		return head + strings.Repeat(unit, (size-len(head)-len(tail))/len(unit)) + tail
	}
	short := func(head, unit, tail string) string {
		return head + strings.Repeat(unit, (16<<10-len(head)-len(tail))/len(unit)) + tail
	}
	return []string{
		fill(`{"email":[`, `{"":1},`, `1]}`), fill(`{`, `"a":1,`, `"b":1}`), strings.Repeat(`{"`+strings.Repeat("n", 30_000)+`":`, 30) + "1" + strings.Repeat("}", 30),
		short(`{"email":[`, `{"":1},`, `1]}`), short(`{`, `"a":1,`, `"b":1}`), short(`{"email":[`, `1,`, `1]}`),
	}
}

// TestBenchHostileBodies measures the heap that bodies of unknown clients cost a server, and how long other clients
// wait meanwhile.
func TestBenchHostileBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for seconds")
	}
	w := newPeopleWorld(t, "SQLite")
	server := httptest.NewServer(w.handler)
	defer server.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: hostileConnections + 8, DialContext: (&net.Dialer{}).DialContext}
	client := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	post := func(body string) (int, error) {
		req, err := http.NewRequest("POST", server.URL+"/auth/signin", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		req.Host = benchHost
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	runtime.GC()
	bodies, begin := hostileBodies(), time.Now()
	var sent, peak atomic.Int64
	var all sync.WaitGroup
	for i := range hostileConnections {
		all.Go(func() {
			for n := i; time.Since(begin) < hostileLength; n++ {
				// The server may close the connection before it has read a refused body whole.
				if status, err := post(bodies[n%len(bodies)]); err == nil && (status < 400 || status >= 500) {
					t.Errorf("a hostile body was answered %d", status)
				}
				sent.Add(1)
			}
		})
	}
	var took []time.Duration
	all.Go(func() {
		for time.Since(begin) < hostileLength {
			start := time.Now()
			w.getSession(t, w.persons[0])
			took = append(took, time.Since(start))
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			peak.Store(max(peak.Load(), int64(memory.HeapInuse)))
		}
	})
	all.Wait()
	row("64 connections with the costliest bodies: heap in use at most, generator included", "300 MiB", "%d MiB", peak.Load()>>20)
	row("... p99 of GET /session meanwhile", "100 ms", "%s", ms(quantile(took, 0.99)))
	row("... hostile bodies answered a second", "-", "%.0f", float64(sent.Load())/hostileLength.Seconds())
}
