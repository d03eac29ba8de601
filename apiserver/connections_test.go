package apiserver

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// One address can take half of the connections, and a closed one is free again.
func TestOnePeerGetsHalfOfTheConnections(t *testing.T) {
	t.Parallel()
	opened, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener, unbind := newConnectionMetrics(prometheus.NewRegistry()).bounded(opened, "test", 4)
	defer unbind()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	defer func() { _ = listener.Close() }()
	dial := func(from string) (net.Conn, bool) {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", opened.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = conn.Write([]byte("x"))
		_, err = conn.Read(make([]byte, 1))
		return conn, err == nil
	}
	first, served := dial("127.0.0.1")
	if _, second := dial("127.0.0.1"); !served || !second {
		t.Fatal("the first connections are refused")
	}
	if _, third := dial("127.0.0.1"); third {
		t.Error("one peer has more than half of the connections")
	}
	for range 2 {
		if _, served := dial("127.0.0.2"); !served {
			t.Error("another peer is refused")
		}
	}
	if _, fifth := dial("127.0.0.3"); fifth {
		t.Error("there are more connections than the bound")
	}
	_ = first.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, served := dial("127.0.0.3"); served {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a closed connection's place is not free again")
		}
	}
}

// envoyWorld is a gRPC server with the bounds of Envoy's listener, and an HTTP/2 client that can send half of a
// message.
type envoyWorld struct {
	t      *testing.T
	client *http.Transport
	url    string
}

func newEnvoyWorld(t *testing.T, calls int, within time.Duration) *envoyWorld {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(envoyOptions(newPlaces(calls), within, func() {})...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client := &http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	return &envoyWorld{t: t, client: client, url: "http://" + listener.Addr().String() + healthpb.Health_Check_FullMethodName}
}

// call announces a message and sends part of it. It returns the call's gRPC status when the server ends the call. A
// call with an incomplete message ends with ctx.
func (w *envoyWorld) call(ctx context.Context, announced uint32, sent int) string {
	body, more := io.Pipe()
	go func() {
		prefix := binary.BigEndian.AppendUint32([]byte{0}, announced)
		_, _ = more.Write(append(prefix, strings.Repeat("x", sent)...))
		if announced > uint32(sent) {
			<-ctx.Done()
		}
		_ = more.Close()
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, body)
	if err != nil {
		w.t.Error(err)
		return ""
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	answer, err := w.client.RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body)
	if code := answer.Trailer.Get("Grpc-Status"); code != "" {
		return code
	}
	return answer.Header.Get("Grpc-Status")
}

const resourceExhausted, deadlineExceeded = "8", "4"

// Neither an incomplete message nor a large one keeps the server's memory.
func TestIncompleteEnvoyMessageEndsItsCall(t *testing.T) {
	t.Parallel()
	w := newEnvoyWorld(t, 64, 50*time.Millisecond)
	if code := w.call(t.Context(), 60<<10, 59<<10); code != deadlineExceeded {
		t.Errorf("a message that is not finished: %s", code)
	}
	if code := w.call(t.Context(), 1<<20, 1000); code != resourceExhausted {
		t.Errorf("a message of 1 MiB: %s", code)
	}
}

// Above the bound a call is refused immediately, and an ended call frees its place.
func TestUnfinishedEnvoyCallsAreBounded(t *testing.T) {
	t.Parallel()
	w := newEnvoyWorld(t, 4, time.Hour)
	held, end := context.WithCancel(t.Context())
	ended := make(chan string, 3)
	for range 3 {
		go func() { ended <- w.call(held, 60<<10, 100) }()
	}
	if code := <-ended; code != resourceExhausted {
		t.Errorf("a call beyond the peer's half of the places: %s", code)
	}
	end()
	<-ended
	<-ended
	for deadline := time.Now().Add(10 * time.Second); ; {
		if code := w.call(t.Context(), 0, 0); code != resourceExhausted {
			if code != "0" {
				t.Errorf("an empty message: %s", code)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("an ended call did not free its place")
		}
	}
}
