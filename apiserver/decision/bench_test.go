package decision

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// threeRules declares three rules that apply to the measured requests and refuse none of them.
func threeRules(w *world) {
	w.limit(
		scheme.Rule{Unit: "second", Duration: 1, MaxRequests: 1 << 30}, scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 1 << 30},
		scheme.Rule{Unit: "calendar_day", Duration: 1, MaxRequests: 1 << 30},
	)
}

// BenchmarkCachedCredential measures the lookup of a cached credential: the key's form and checksum, its digest, and
// the cache.
func BenchmarkCachedCredential(b *testing.B) {
	w := newWorld(b)
	threeRules(w)
	q := question{credential: w.plain, method: "GET", path: "/v1/things", client: netip.MustParseAddr("192.0.2.9")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.api.authenticate(b.Context(), w.api.Snapshots.Current(), &q); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWholeDecision measures a whole decision with three rules, without its transport: with one key, with one key
// and the values of the response headers, and with 50,000 keys.
func BenchmarkWholeDecision(b *testing.B) {
	w := newWorld(b)
	threeRules(w)
	ctx, v := b.Context(), &decision{}
	decide := func(b *testing.B, q *question) {
		if err := w.api.decide(ctx, q, v); err != nil || !v.allowed {
			b.Fatal(err, v.reason)
		}
	}
	q := question{credential: w.plain, method: "GET", path: "/v1/things", client: netip.MustParseAddr("192.0.2.9")}
	b.Run("one key", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.Clock.Advance(100)
			decide(b, &q)
		}
	})
	b.Run("one key, with its headers", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decide(b, &q)
			limits.WriteFields(http.Header{}, &v.limits)
		}
	})
	keys := fillCache(b, w, 50_000)
	b.Run("50,000 keys", func(b *testing.B) {
		for _, q.credential = range keys { // creates their counters
			decide(b, &q)
		}
		b.ReportAllocs()
		at := 0
		for b.Loop() {
			w.Clock.Advance(100)
			at = (at + 7919) % len(keys)
			q.credential = keys[at]
			decide(b, &q)
		}
	})
}

// fillCache adds many keys to the cache, and returns those that have room. Each is a copy of the declared key, with its
// own counters.
func fillCache(b *testing.B, w *world, count int) []string {
	b.Helper()
	known, err := w.api.authenticate(b.Context(), w.api.Snapshots.Current(), &question{credential: w.plain})
	w.Must(err)
	keys := make([]string, count)
	for i := range keys {
		key, err := apikey.Mint(rand.Reader, "ck")
		w.Must(err)
		keys[i] = key.Plain()
		entry := *known
		entry.binding.Key = uint64(i) << 20
		w.api.cache.put(key.Digest(), &entry)
	}
	// A part of the cache may be full before the others.
	return slices.DeleteFunc(keys, func(key string) bool {
		digest, _ := apikey.DigestOf(key)
		return w.api.cache.get(digest, w.api.Snapshots.Current()) == nil
	})
}

// served is a server on loopback with clients that repeat one request, each on a kept connection.
type served struct {
	b       *testing.B
	conns   []*bufio.ReadWriter
	request string
}

const clients = 8

func serve(b *testing.B, handler http.Handler, request string) *served {
	b.Helper()
	server := httptest.NewServer(handler)
	b.Cleanup(server.Close)
	s := &served{b: b, request: request}
	for range clients {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		s.conns = append(s.conns, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)))
	}
	return s
}

// ask sends a number of requests over each connection and reads the responses completely.
func (s *served) ask(each int) error {
	var group errgroup.Group
	for _, conn := range s.conns {
		group.Go(func() error {
			for range each {
				if err := askOnce(conn, s.request); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func askOnce(conn *bufio.ReadWriter, request string) error {
	_, _ = conn.WriteString(request) // Flush returns the error
	if err := conn.Flush(); err != nil {
		return err
	}
	first, length := true, 0
	for {
		line, err := conn.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case first && string(line) != "HTTP/1.1 200 OK\r\n":
			return fmt.Errorf("answered %s", line)
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len("Content-Length: "):]))); err != nil {
				return err
			}
		case len(line) == 2:
			_, err = conn.Discard(length)
			return err
		}
		first = false
	}
}

// compareWith measures rounds of the API and of a bare server alternately, and reports the median of their ratios: how
// many requests the API answers in the time in which the bare server answers one. Both times include the cost of the
// clients.
func compareWith(b *testing.B, ours, bare func() error, round int) {
	b.Helper()
	var ratios []float64
	var spent [2]time.Duration
	for b.Loop() {
		var took [2]time.Duration
		for i, ask := range []func() error{ours, bare} {
			began := time.Now()
			if err := ask(); err != nil {
				b.Fatal(err)
			}
			took[i] = time.Since(began)
			spent[i] += took[i]
		}
		ratios = append(ratios, float64(took[1])/float64(took[0]))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-bare")
	for i, name := range []string{"ours-ns", "bare-ns"} {
		b.ReportMetric(float64(spent[i].Nanoseconds())/float64(len(ratios)*round), name)
	}
}

// compareWithHTTP compares a response of the API with a bare handler that reads the body and writes the same bytes.
func compareWithHTTP(b *testing.B, w *world, request string) {
	b.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
	w.Must(err)
	r.RemoteAddr = "127.0.0.1:4000"
	recorder := httptest.NewRecorder()
	w.api.ServeHTTP(recorder, r)
	answer := recorder.Result()
	fixed := recorder.Body.Bytes()
	bare := http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		header := to.Header()
		for name, values := range answer.Header {
			header[name] = values
		}
		to.WriteHeader(http.StatusOK)
		_, _ = to.Write(fixed)
	})
	const each = 500
	a, z := serve(b, w.api, request), serve(b, bare, request)
	compareWith(b, func() error { return a.ask(each) }, func() error { return z.ask(each) }, clients*each)
}

// BenchmarkForward compares nginx's auth_request with a bare net/http handler that writes the same headers.
func BenchmarkForward(b *testing.B) { forwardAt(b, "") }

// BenchmarkForwardNamed is BenchmarkForward of a gateway that names its deployment and the kind of credential.
func BenchmarkForwardNamed(b *testing.B) { forwardAt(b, "/deployments/"+tenant) }

func forwardAt(b *testing.B, prefix string) {
	w := newWorld(b)
	threeRules(w)
	query := ""
	if prefix != "" {
		query = "?principal=api_key"
	}
	compareWithHTTP(b, w, "GET "+prefix+"/v1/forward/nginx"+query+" HTTP/1.1\r\nHost: cardea\r\nX-Original-Method: GET\r\nX-Original-URI: /v1/things?page=2\r\n"+
		"X-Forwarded-For: 198.51.100.7\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\nAuthorization: Bearer "+w.plain+"\r\n\r\n")
}

// BenchmarkCheck compares the JSON check with a bare net/http handler that reads the body and writes the same bytes.
func BenchmarkCheck(b *testing.B) { checkAt(b, "") }

// BenchmarkCheckNamed is BenchmarkCheck below the prefix of a deployment.
func BenchmarkCheckNamed(b *testing.B) { checkAt(b, "/deployments/"+tenant) }

func checkAt(b *testing.B, prefix string) {
	w := newWorld(b)
	threeRules(w)
	body := `{"principal":{"type":"api_key","value":"` + w.plain + `"},"method":"GET","resource":"/v1/things","client_ip":"198.51.100.7","required_permissions":["orders:read"]}`
	compareWithHTTP(b, w, "POST "+prefix+"/v1/authz/check HTTP/1.1\r\nHost: cardea\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
}

// echo responds to every check with the same message.
type echo struct {
	authv3.UnimplementedAuthorizationServer
	answer *authv3.CheckResponse
}

func (e *echo) Check(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	return e.answer, nil
}

// BenchmarkExtAuthz compares Envoy's check with a grpc-go server that returns the same message.
func BenchmarkExtAuthz(b *testing.B) {
	w := newWorld(b)
	threeRules(w)
	headers := map[string]string{"authorization": "Bearer " + w.plain}
	for i := range 20 {
		headers["x-header-of-a-client-"+strconv.Itoa(i)] = "a value of some length, as clients send them"
	}
	in := asked("GET", "/v1/things", "198.51.100.7", headers, nil)
	answer, err := w.envoy().Check(b.Context(), in)
	w.Must(err)
	bare := grpc.NewServer()
	authv3.RegisterAuthorizationServer(bare, &echo{answer: answer})
	ask := func(server *grpc.Server) func() error {
		client := w.dial(server)
		return func() error {
			var group errgroup.Group
			for range clients {
				group.Go(func() error {
					for range 250 {
						if got, err := client.Check(b.Context(), in); err != nil || got.GetOkResponse() == nil {
							return fmt.Errorf("%v: %w", got, err)
						}
					}
					return nil
				})
			}
			return group.Wait()
		}
	}
	compareWith(b, ask(w.api.EnvoyServer()), ask(bare), clients*250)
}
