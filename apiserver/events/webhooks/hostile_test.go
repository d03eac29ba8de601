package webhooks_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/users/tokensigner"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/dnsserver"
	"github.com/cardea-iam/cardea/internal/testing/webhookreceiver"
	"github.com/cardea-iam/cardea/store/people"
)

// The failures that records of deliveries have.
const (
	timedOut    = "no complete response within the timeout"
	refusedDial = "the servers may not connect to the address: --egress-allowed-cidrs does not name it"
	unreachable = "the receiver could not be reached"
	noTLS       = "the receiver does not respond with TLS: correct the scheme or the port of spec.url"
)

// servesUnder runs a server that sends webhooks under a policy, and looks names up at a name server.
func (w *world) servesUnder(names *dnsserver.Server, allowed, denied string) {
	d := webhooks.New(webhooks.Options{
		Store: w.Store, Snapshots: w.follower, Keyring: w.Keyring, Signer: tokensigner.New(w.Keyring), Clock: w.Clock.Now, Log: logr.Discard(), Server: "one", Version: "test",
		Egress: egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix(allowed)}, []netip.Prefix{netip.MustParsePrefix(denied)}),
	})
	d.ResolveWith(names.Resolver())
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	w.t.Cleanup(func() { cancel(); running.Wait() })
}

func newNameServer(t *testing.T) *dnsserver.Server {
	t.Helper()
	names, err := dnsserver.Start(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = names.Close() })
	return names
}

// tries waits until the only delivery of an endpoint had a number of requests, and returns them.
func (w *world) tries(id, least int64) (all []webhooks.Try) {
	w.Eventually("the event was sent", func() bool {
		list := w.deliveries(id, people.DeliveryFilter{})
		if len(list) != 1 || list[0].Attempts < least {
			return false
		}
		all = webhooks.TriesOf(list[0].Tries)
		return true
	})
	return all
}

// countingListener counts the bytes that a server wrote to its connections.
type countingListener struct {
	net.Listener
	written *atomic.Int64
}

type countingConn struct {
	net.Conn
	written *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countingConn{conn, l.written}, err
}

func (c countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// neverReads returns the URL of a receiver that accepts connections and reads nothing.
func neverReads(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	var conns []net.Conn
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return "http://" + listener.Addr().String()
}

// hostileServer returns the receiver with its URL, and the bytes that it wrote.
func hostileServer(t *testing.T) (*webhookreceiver.Receiver, string, *atomic.Int64) {
	t.Helper()
	r := webhookreceiver.New(webhookreceiver.Options{Keys: webhookreceiver.Static(secrets[0])})
	server, written := httptest.NewUnstartedServer(r), &atomic.Int64{}
	server.Listener = countingListener{server.Listener, written}
	server.Start()
	t.Cleanup(server.Close)
	return r, server.URL, written
}

func TestHostileResponsesAreReadWithinBounds(t *testing.T) {
	t.Parallel()
	w, live := newWorld(t, ""), newReceiver(t)
	hostile, url, written := hostileServer(t)
	w.serves("one")
	w.follows(w.endpoint("live", live.URL, nil))
	type want struct {
		status  int
		failure string
		excerpt int
	}
	cases := map[string]want{
		url + "?fault=hang": {0, timedOut, 0}, url + "?fault=trickle": {200, "", -1}, url + "?fault=endless": {200, "", 512}, url + "?fault=gzip": {200, "", -1},
		url + "?fault=header": {0, unreachable, 0}, url + "?fault=hang_up": {0, unreachable, 0}, url + "?fault=500": {500, "HTTP status 500", 0},
		neverReads(t): {0, timedOut, 0}, "https" + strings.TrimPrefix(url, "http"): {0, noTLS, 0},
	}
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		cases[fmt.Sprintf("%s?fault=%d", url, status)] = want{status, fmt.Sprintf("HTTP status %d", status), 0}
	}
	endpoints := map[int64]string{}
	for at, want := range cases {
		id := w.endpoint(fmt.Sprintf("hostile%d", len(endpoints)), at, func(c *document.WebhookEndpoint) {
			if c.TimeoutSeconds = 30; want.failure == timedOut || strings.HasSuffix(at, "trickle") {
				c.TimeoutSeconds = 1
			}
		})
		endpoints[id] = at
		w.follows(id)
	}
	w.happens(events.UserCreated, 1)
	w.Eventually("the live receiver gets the event", func() bool { return len(live.all()) == 1 })
	for id, at := range endpoints {
		tries, want := w.tries(id, 1), cases[at]
		one := tries[0]
		if n := utf8.RuneCountInString(one.Excerpt); len(tries) != 1 || one.Status != want.status || one.Error != want.failure || n != want.excerpt && (want.excerpt >= 0 || n > 512) {
			t.Errorf("%s: %d requests, the first one %+v, want %+v", at, len(tries), one, want)
		}
		if strings.HasSuffix(at, "=gzip") && strings.Contains(one.Excerpt, "xxx") {
			t.Error("a response is decompressed")
		}
	}
	w.Eventually("the sender has ended every request", func() bool { return hostile.Open() == 0 })
	for _, one := range hostile.Requests() {
		if one.Query == "" || !one.Verified {
			t.Errorf("a redirect was followed, or a request does not verify: %+v", one)
		}
	}
	if n := written.Load(); n > 64<<20 { // what fits into the buffers of sockets is written, although it is not read
		t.Errorf("the receiver could send %d bytes", n)
	}
}

// Addresses of the machine, of its networks and of clouds are refused before a connection is opened. The record of a
// delivery has one text for all of them.
func TestEndpointsAtInternalAddressesAreRefused(t *testing.T) {
	t.Parallel()
	w, names := newWorld(t, ""), newNameServer(t)
	names.Point("internal.example", []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	names.Point("metadata.example", []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("::ffff:169.254.169.254")})
	w.servesUnder(names, "10.9.0.0/16", "10.9.9.0/24")
	endpoints := map[int64]string{}
	for _, host := range []string{
		"169.254.169.254", "[fd00:ec2::254]", "168.63.129.16", "127.0.0.1", "127.1.2.3", "[::1]", "internal.example", "metadata.example", "0.0.0.0", "[::]", "0.1.2.3",
		"10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "[fd00::1]", "[fe80::1]", "[fe80::1%25lo]", "224.0.0.1", "255.255.255.255",
		"[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::ffff:127.0.0.1]", "[::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::7f00:1]", "[64:ff9b:1::a9fe:a9fe]",
		"[2002:a9fe:a9fe::1]", "[2002:7f00:1::]", "[2001:0:a9fe:a9fe::1]", "10.9.9.1", "[::ffff:10.9.9.1]",
	} {
		for _, scheme := range []string{"http", "https"} {
			at := scheme + "://" + host + ":9/latest/meta-data/"
			endpoints[w.endpoint(fmt.Sprintf("e%d", len(endpoints)), at, nil)] = at
		}
	}
	public := "http://1.1.1.1:9/" // without TLS, the request would leave the operator's network
	endpoints[w.endpoint("public", public, nil)] = public
	for id := range endpoints {
		w.follows(id)
	}
	w.happens(events.UserCreated, 1)
	for id, at := range endpoints {
		if one := w.tries(id, 1)[0]; one.Status != 0 || one.Error != refusedDial || one.Excerpt != "" {
			t.Errorf("%s: %+v", at, one)
		}
	}
}

// counting is a server that counts its requests. It fails, and keeps no connection, so that each request looks the name
// up.
type counting struct {
	*httptest.Server
	reached atomic.Int64
	status  atomic.Int64
}

func newCounting(listener net.Listener) *counting {
	c := &counting{}
	c.status.Store(http.StatusInternalServerError)
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		c.reached.Add(1)
		rw.WriteHeader(int(c.status.Load()))
	}))
	_ = c.Listener.Close()
	c.Listener = listener
	c.Config.SetKeepAlivesEnabled(false)
	c.Start()
	return c
}

// twoServers returns servers on 127.0.0.1 and 127.0.0.2 with the same port.
func twoServers(t *testing.T) (first, second *counting, port string) {
	t.Helper()
	for range 20 {
		one, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(one.Addr().String())
		other, err := net.Listen("tcp", "127.0.0.2:"+port)
		if err != nil { // another program has the port there
			_ = one.Close()
			continue
		}
		first, second = newCounting(one), newCounting(other)
		t.Cleanup(first.Close)
		t.Cleanup(second.Close)
		return first, second, port
	}
	t.Fatal("no port is free on both addresses")
	return nil, nil, ""
}

func TestNamesThatMoveBetweenTriesReachNoInternalServer(t *testing.T) {
	t.Parallel()
	w, names := newWorld(t, ""), newNameServer(t)
	permitted, internal, port := twoServers(t)
	w.servesUnder(names, "127.0.0.1/32", "203.0.113.0/24")
	point := func(name string, texts ...string) {
		var addresses []netip.Addr
		for _, text := range texts {
			addresses = append(addresses, netip.MustParseAddr(text))
		}
		names.Point(name, addresses)
	}
	moves := map[string][]string{
		"a.example": {"127.0.0.2"}, "b.example": {"169.254.169.254"}, "c.example": {"::1"}, "d.example": {"::ffff:127.0.0.2"}, "e.example": {"64:ff9b::7f00:2"},
		"f.example": {"127.0.0.2", "169.254.169.254"},
	}
	plain, all := map[string]int64{}, map[string]int64{}
	for name := range moves {
		point(name, "127.0.0.1")
		for _, scheme := range []string{"http", "https"} {
			at := scheme + "://" + name + ":" + port + "/"
			all[at] = w.endpoint(scheme+"-"+name, at, nil)
			w.follows(all[at])
		}
		plain[name] = all["http://"+name+":"+port+"/"]
	}
	w.happens(events.UserCreated, 1)
	for at, id := range all {
		want := "HTTP status 500"
		if strings.HasPrefix(at, "https") {
			want = noTLS
		}
		if one := w.tries(id, 1)[0]; one.Error != want {
			t.Errorf("%s at the permitted address: %+v", at, one)
		}
	}
	for name, moved := range moves {
		point(name, moved...)
	}
	w.Clock.Advance(7 * time.Second)
	for at, id := range all {
		if second := w.tries(id, 2)[1]; second.Status != 0 || second.Error != refusedDial {
			t.Errorf("%s after its name moved: %+v", at, second)
		}
	}
	if n, m := internal.reached.Load(), permitted.reached.Load(); n != 0 || m != int64(len(moves)) {
		t.Errorf("%d requests reached the internal server, %d the permitted one", n, m)
	}
	permitted.status.Store(http.StatusNoContent)
	for name := range moves {
		point(name, "127.0.0.1")
	}
	w.Clock.Advance(40 * time.Second)
	for name, id := range plain {
		w.Eventually(name+" gets the event when it is back", func() bool {
			return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 1
		})
	}
}
