package apiserver

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
)

const (
	// httpConnections bounds the open connections of a listener that serves HTTP.
	httpConnections = 4096
	// envoyConnections bounds those of the listener for Envoy, and envoyCalls its calls in progress.
	envoyConnections = 1024
	envoyCalls       = 1024
	// envoyStreams bounds the calls of one connection.
	envoyStreams = 256
	// envoyMessage is the maximum size of a message from Envoy, in bytes. The message has the headers of the request to
	// decide about, and possibly its body, which is not used. It also bounds a call's own headers and its receive window.
	envoyMessage = 64 << 10
	// envoyWithin is the maximum duration of a call. It ends calls whose message stays incomplete.
	envoyWithin = 5 * time.Second
	// envoyWorkers is the number of goroutines that are reused for Envoy's calls, so that their stacks stay large. If all
	// are busy, a call gets its own goroutine.
	envoyWorkers = 64
)

// places bounds how many connections or calls are open at once. One peer, an IPv4 address or an IPv6 /64, can take at
// most half of the places.
type places struct {
	most int

	mu    sync.Mutex
	taken int
	peers map[uint64]int
}

func newPlaces(most int) *places { return &places{most: most, peers: map[uint64]int{}} }

// take reports whether the peer got a place. The caller returns it with free.
func (p *places) take(peer uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.most || p.peers[peer] >= p.most/2 {
		return false
	}
	p.taken++
	p.peers[peer]++
	return true
}

func (p *places) free(peer uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.peers[peer]--; p.peers[peer] == 0 {
		delete(p.peers, peer)
	}
}

func (p *places) inUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// peerOf returns the peer of an address with a port. All addresses of another form are one peer.
func peerOf(address net.Addr) uint64 {
	if address == nil {
		return 0
	}
	parsed, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return 0
	}
	return engine.AddressOf(parsed.Addr())
}

// boundedListener closes connections above its bound.
type boundedListener struct {
	net.Listener
	places  *places
	refused func()
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if from := peerOf(conn.RemoteAddr()); l.places.take(from) {
			return &boundedConn{Conn: conn, places: l.places, peer: from}, nil
		}
		l.refused()
		_ = conn.Close()
	}
}

// boundedConn returns its place once.
type boundedConn struct {
	net.Conn
	places *places
	peer   uint64
	once   sync.Once
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.places.free(c.peer) })
	return err
}

// connectionMetrics are the connection metrics of all listeners.
type connectionMetrics struct {
	registry prometheus.Registerer
	refused  *prometheus.CounterVec
	// exhausted counts refusals over all listeners.
	exhausted atomic.Uint64
}

// refuse returns the function that counts a refusal of a listener.
func (m *connectionMetrics) refuse(listener string) func() {
	counter := m.refused.WithLabelValues(listener)
	return func() {
		counter.Inc()
		m.exhausted.Add(1)
	}
}

func newConnectionMetrics(registry prometheus.Registerer) *connectionMetrics {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_connections_refused_total",
		Help: "Connections that were closed, and calls of Envoy that were refused, because the listener or one peer had too many.",
	}, []string{"listener"})
	registry.MustRegister(refused)
	return &connectionMetrics{registry: registry, refused: refused}
}

// bounded bounds the connections of a listener. The returned function ends the listener's gauge.
func (m *connectionMetrics) bounded(listener net.Listener, name string, most int) (*boundedListener, func()) {
	places := newPlaces(most)
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cardea_connections", Help: "Open connections of a listener.", ConstLabels: prometheus.Labels{"listener": name},
	}, func() float64 { return float64(places.inUse()) })
	_ = m.registry.Register(open) // fails if the name has a gauge already, which then remains
	return &boundedListener{Listener: listener, places: places, refused: m.refuse(name)}, func() { m.registry.Unregister(open) }
}

// envoyOptions are the bounds of the gRPC server for Envoy. A client without a credential must not be able to use much
// of the server's memory with incomplete messages.
func envoyOptions(calls *places, within time.Duration, refused func()) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(envoyMessage), grpc.MaxHeaderListSize(envoyMessage), grpc.MaxConcurrentStreams(envoyStreams),
		grpc.InitialWindowSize(envoyMessage), grpc.InitialConnWindowSize(16 * envoyMessage), // fixed windows: they do not grow with the load
		grpc.ConnectionTimeout(10 * time.Second), grpc.NumStreamWorkers(envoyWorkers),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 10 * time.Minute, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
			from := uint64(0)
			if p, known := peer.FromContext(ctx); known {
				from = peerOf(p.Addr)
			}
			if !calls.take(from) {
				refused()
				return ctx, status.Error(codes.ResourceExhausted, "too many calls at once: try again")
			}
			bounded, cancel := context.WithTimeout(ctx, within)
			context.AfterFunc(ctx, func() { cancel(); calls.free(from) }) // the stream has ended
			return bounded, nil
		}),
	}
}
