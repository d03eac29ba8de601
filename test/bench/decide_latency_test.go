package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

// TestBenchDecisionLatency measures decisions by three rules at half of the maximum throughput of a server on one
// processor; the clients use the other processor. It measures a bare net/http server at the same rate, whose latency
// the machine itself causes.
func TestBenchDecisionLatency(t *testing.T) {
	w := newWorld(t)
	url := pgtest.ForTest(t)
	f, _, _ := w.fill(t, url)
	rule := func(unit string) scheme.Rule {
		return scheme.Rule{Unit: unit, Duration: 1, MaxRequests: unlimited}
	}
	key := f.limited(t, 1, "three", rule("second"), rule("hour"), rule("calendar_day"))
	server := w.start(t, testkit.Launch{Role: "server", Store: url, Env: []string{"GOMAXPROCS=1"}})
	const callers = 16
	bare := w.startBare(t, "bare net/http", &subject{path: "/", body: []byte("{}")})
	if runtime.NumCPU() < 2 {
		t.Skip("needs a processor for the server and one for the clients")
	}
	check(t, w.StopAPIServer()) // its periodic work would take the server's processor, tens of milliseconds each time
	pin(t, server.PID(), "0")
	pin(t, bare.pid, "0")
	pin(t, os.Getpid(), "1")
	// Two threads that run Go code would take turns on the one processor, for milliseconds each.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer pin(t, os.Getpid(), fmt.Sprintf("0-%d", runtime.NumCPU()-1))
	load := func(name string, pid int, rate float64, ask func(ctx context.Context, caller int) error) (p99, busy float64) {
		used := scheduled(t, pid)
		took := pace(t, callers, 5*time.Second, rate, ask)
		p99, busy = quantile(took, 0.99).Seconds(), (scheduled(t, pid)-used).Seconds()/5
		row("latency of "+name+", p50, p99 and p99.9", "p99 1 ms, p99.9 3 ms", "%s, %s, %s (%.0f a second; %.0f %% of a processor)",
			ms(quantile(took, 0.5)), ms(quantile(took, 0.99)), ms(quantile(took, 0.999)), float64(len(took))/5, 100*busy)
		return p99, busy
	}
	envoy := askEnvoy(authv3.NewAuthorizationClient(dial(t, server.Envoy)), key)
	for _, side := range []struct {
		name string
		asks func() func(ctx context.Context, caller int) error
	}{
		{"forward-auth over HTTP", func() func(context.Context, int) error { return askForward(t, server, key, callers) }},
		{"JSON check over HTTP", func() func(context.Context, int) error { return askCheck(t, server, key, callers) }},
		{"ext_authz over gRPC", func() func(context.Context, int) error {
			return func(ctx context.Context, _ int) error { return envoy(ctx, 1) }
		}},
	} {
		ask := side.asks()
		half := float64(len(pace(t, callers, 3*time.Second, 0, ask))) / 3 / 2
		bareAsk := askHTTP(t, "http://"+bare.address, "GET / HTTP/1.1\r\nHost: bare\r\n\r\n", callers)
		var often, busy []float64
		for range 3 {
			ours, used := load(side.name+" at half of the most", server.PID(), half, ask)
			same, usedBare := load("... a bare handler as often", bare.pid, half, bareAsk)
			alike, _ := load("... a bare handler that is as busy", bare.pid, half*used/usedBare, bareAsk)
			often, busy = append(often, ours/same), append(busy, ours/alike)
		}
		row("p99 of "+side.name+" to that of the bare handler as often, median of three", "<= 2", "%.2f: %.2f", median(often), often)
		row("... to that of the bare handler that is as busy", "reported", "%.2f: %.2f", median(busy), busy)
	}
	row("load average then", "-", "%s", loadAverage())
}

// pace lets callers send requests for a time, and returns the latency of each. A positive rate is the total per second,
// however long responses take; at rate 0 each caller runs a closed loop. If the previous response delayed its caller,
// the latency counts from when the request was due.
func pace(t *testing.T, callers int, length time.Duration, rate float64, ask func(ctx context.Context, caller int) error) []time.Duration {
	t.Helper()
	took, faults := make([][]time.Duration, callers), make(chan error, callers)
	var group sync.WaitGroup
	began := time.Now()
	for caller := range callers {
		group.Go(func() {
			for i := caller; ; i += callers {
				start := time.Now()
				if rate > 0 {
					due := began.Add(time.Duration(float64(i) / rate * float64(time.Second)))
					if due.After(start) {
						time.Sleep(time.Until(due))
						due = time.Now() // the delay of this process's wake-up does not count
					}
					start = due
				}
				if start.Sub(began) > length {
					return
				}
				if err := ask(t.Context(), caller); err != nil {
					faults <- err
					return
				}
				took[caller] = append(took[caller], time.Since(start))
			}
		})
	}
	group.Wait()
	close(faults)
	check(t, <-faults)
	var all []time.Duration
	for _, of := range took {
		all = append(all, of...)
	}
	return all
}

// askHTTP sends a request over a separate connection for each caller, and expects 200.
func askHTTP(t *testing.T, url, request string, callers int) func(ctx context.Context, caller int) error {
	t.Helper()
	conns := dialHTTP(t, url, callers)
	return func(_ context.Context, caller int) error { return exchange(conns[caller], request) }
}

// dialHTTP opens connections that stay open until the test ends.
func dialHTTP(t *testing.T, url string, count int) []*bufio.ReadWriter {
	t.Helper()
	conns := make([]*bufio.ReadWriter, count)
	for i := range conns {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		check(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		conns[i] = bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	}
	return conns
}

// exchange sends one request over a connection, and expects 200.
func exchange(conn *bufio.ReadWriter, request string) error {
	_, _ = conn.WriteString(request) // Flush reports the error
	if err := conn.Flush(); err != nil {
		return err
	}
	return readAnswer(conn.Reader)
}

// readAnswer reads one response with as little work as possible, so that the clients do not distort the measurement. It
// expects 200.
func readAnswer(from *bufio.Reader) error {
	length, chunked := 0, false
	for first := true; ; first = false {
		line, err := from.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")):
			return fmt.Errorf("answered %s", line)
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len("Content-Length: "):]))); err != nil {
				return err
			}
		case bytes.Equal(line, []byte("Transfer-Encoding: chunked\r\n")):
			chunked = true
		case len(line) == 2 && chunked:
			return readChunks(from)
		case len(line) == 2:
			_, err = from.Discard(length)
			return err
		}
	}
}

// readChunks reads a body in chunks, without trailers.
func readChunks(from *bufio.Reader) error {
	for {
		line, err := from.ReadSlice('\n')
		if err != nil {
			return err
		}
		length, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return err
		}
		if _, err := from.Discard(int(length) + 2); err != nil || length == 0 {
			return err
		}
	}
}

func askForward(t *testing.T, server *testkit.Cardea, key string, callers int) func(ctx context.Context, caller int) error {
	return askHTTP(t, server.Decision, forwardRequest(key), callers)
}

func forwardRequest(key string) string {
	return "GET /v1/forward/nginx HTTP/1.1\r\nHost: cardea\r\nX-Original-Method: GET\r\nX-Original-URI: /v1/things?page=2\r\n" +
		"User-Agent: curl/8.5.0\r\nAccept: */*\r\nAuthorization: Bearer " + key + "\r\n\r\n"
}

func askCheck(t *testing.T, server *testkit.Cardea, key string, callers int) func(ctx context.Context, caller int) error {
	return askHTTP(t, server.Decision, checkRequest(checkBody(key, clientName(1))), callers)
}

func checkRequest(body string) string {
	return fmt.Sprintf("POST /v1/authz/check?status=http HTTP/1.1\r\nHost: cardea\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
}

func checkBody(key, client string) string {
	return `{"principal":{"type":"api_key","value":"` + key + `"},"method":"GET","resource":"/v1/things","client_ip":"` + client + `"}`
}
