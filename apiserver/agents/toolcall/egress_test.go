package toolcall

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/dnsserver"
)

// nameServer is a name server that answers every question with the addresses that a test sets.
type nameServer struct{ *dnsserver.Server }

const internalName, reboundName = "internal.example", "rebound.example"

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	server, err := dnsserver.Start(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return &nameServer{server}
}

// point sets the addresses of both names: the n-th look-up gets the n-th list, and the lists repeat.
func (n *nameServer) point(turns ...[]string) {
	var parsed [][]netip.Addr
	for _, texts := range turns {
		var addresses []netip.Addr
		for _, text := range texts {
			addresses = append(addresses, netip.MustParseAddr(text))
		}
		parsed = append(parsed, addresses)
	}
	n.Point(internalName, parsed...)
	n.Point(reboundName, parsed...)
}

// client returns a client under a policy that resolves names at this name server.
func (n *nameServer) client(policy *egress.Policy) *Client {
	transport := func(p *egress.Policy) *http.Transport {
		dialer := p.Dialer(dialWithin)
		dialer.Resolver = n.Resolver()
		t := p.Transport(dialWithin)
		t.DialContext = dialer.DialContext
		return t
	}
	return &Client{secure: transport(policy), plain: transport(policy.Private())}
}

func callOf(endpoint string) *Call {
	return &Call{Tool: &document.AITool{Method: "GET", Endpoint: endpoint, TimeoutSeconds: 10}, ID: "7"}
}

// Addresses of the machine, of its networks and of clouds are refused before a connection is opened, also as IPv6
// addresses that embed an IPv4 address. A refused call has one text for all of them.
func TestCallsToInternalAddressesAreRefused(t *testing.T) {
	t.Parallel()
	names := newNameServer(t)
	names.point([]string{"127.0.0.1"})
	client := names.client(egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}, []netip.Prefix{netip.MustParsePrefix("10.9.9.0/24")}))
	for name, host := range map[string]string{
		"cloud metadata": "169.254.169.254", "cloud metadata over IPv6": "[fd00:ec2::254]", "the host of Azure": "168.63.129.16",
		"loopback": "127.0.0.1", "another loopback address": "127.1.2.3", "loopback over IPv6": "[::1]", "a name of loopback": "internal.example",
		"every address": "0.0.0.0", "every IPv6 address": "[::]", "this network": "0.1.2.3",
		"private 10/8": "10.0.0.1", "private 172.16/12": "172.16.0.1", "private 192.168/16": "192.168.0.1", "shared": "100.64.0.1", "unique local": "[fd00::1]",
		"link local": "[fe80::1]", "link local with a zone": "[fe80::1%25lo]", "multicast": "224.0.0.1", "broadcast": "255.255.255.255",
		"IPv4-mapped metadata": "[::ffff:169.254.169.254]", "IPv4-mapped metadata in hexadecimal": "[::ffff:a9fe:a9fe]", "IPv4-mapped loopback": "[::ffff:127.0.0.1]",
		"IPv4-compatible loopback": "[::7f00:1]", "NAT64 of metadata": "[64:ff9b::a9fe:a9fe]", "NAT64 of loopback": "[64:ff9b::7f00:1]", "local NAT64": "[64:ff9b:1::a9fe:a9fe]",
		"6to4 of metadata": "[2002:a9fe:a9fe::1]", "6to4 of loopback": "[2002:7f00:1::]", "Teredo of metadata": "[2001:0:a9fe:a9fe::1]",
		"a denied range": "10.9.9.1", "a denied range, IPv4-mapped": "[::ffff:10.9.9.1]",
	} {
		for _, scheme := range []string{"http", "https"} {
			call := callOf(scheme + "://" + host + ":9/latest/meta-data/")
			r, err := call.request(t.Context())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var refused *egress.RefusedError
			if _, err := client.send(r, newReader(nil)); !errors.As(err, &refused) {
				t.Errorf("%s over %s: %v", name, scheme, err)
			}
			if got := client.Do(t.Context(), call); got.Code != CodeUnreachable || got.Content[0].Text != unreachable {
				t.Errorf("%s over %s: %+v", name, scheme, got)
			}
		}
	}
}

// The client connects to the address that it checked: it looks a name up once for a connection, and checks every
// address of the name. A name that leads to an internal address at any look-up reaches no internal server.
func TestReboundNamesReachNoInternalServer(t *testing.T) {
	t.Parallel()
	names := newNameServer(t)
	permitted, internal := twoServers(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(permitted.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	client := names.client(egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, nil))
	call := callOf("http://rebound.example:" + port + "/")
	outcome := func() string {
		got := client.Do(t.Context(), call)
		return got.Content[0].Text
	}
	const open = `{"state":"open"}`
	good, bad, metadata := []string{"127.0.0.1"}, []string{"127.0.0.2"}, []string{"169.254.169.254"}

	names.point(good)
	if got := outcome(); got != open || names.LookUps(reboundName) != 1 {
		t.Fatalf("a permitted name: %s after %d look-ups", got, names.LookUps(reboundName))
	}
	for _, moved := range [][]string{bad, metadata, {"::1"}, {"::ffff:127.0.0.2"}, {"64:ff9b::7f00:2"}} {
		if names.point(moved); outcome() != unreachable {
			t.Errorf("the name leads to %s, and the call succeeds", moved)
		}
	}
	if names.point([]string{"127.0.0.2", "169.254.169.254", "127.0.0.1"}); outcome() != open {
		t.Error("a name with a permitted address beside refused ones is not reached")
	}
	names.point(good, bad)
	results := map[string]int{}
	for range 20 {
		results[outcome()]++
	}
	if results[open] == 0 || results[unreachable] == 0 || len(results) != 2 {
		t.Errorf("a name with another address at each look-up: %v", results)
	}
	if n := internal.reached.Load(); n != 0 {
		t.Errorf("%d requests reached the internal server", n)
	}
}

// countingServer counts its requests and keeps no connection, so that every call looks its name up.
type countingServer struct {
	*httptest.Server
	reached atomic.Int64
}

func newCountingServer(listener net.Listener) *countingServer {
	s := &countingServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		s.reached.Add(1)
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"state":"open"}`)
	}))
	_ = s.Listener.Close()
	s.Listener = listener
	s.Config.SetKeepAlivesEnabled(false)
	s.Start()
	return s
}

// twoServers returns servers on 127.0.0.1 and 127.0.0.2 with the same port.
func twoServers(t *testing.T) (first, second *countingServer) {
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
		first, second = newCountingServer(one), newCountingServer(other)
		t.Cleanup(first.Close)
		t.Cleanup(second.Close)
		return first, second
	}
	t.Fatal("no port is free on both addresses")
	return nil, nil
}

// A redirect is the result of the call, whatever its status and wherever it leads.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(target.Close)
	var status atomic.Int64
	var location atomic.Value
	from := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Location", location.Load().(string))
		rw.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(from.Close)
	client := NewClient(egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil))
	for _, code := range []int64{300, 301, 302, 303, 304, 305, 307, 308} {
		for _, method := range []string{"GET", "POST"} {
			for _, to := range []string{target.URL, "/elsewhere", "http://169.254.169.254/latest/", "file:///etc/passwd"} {
				status.Store(code)
				location.Store(to)
				call := callOf(from.URL)
				call.Tool.Method = method
				got := client.Do(t.Context(), call)
				if got.Code != CodeRedirected || got.Status != int(code) || strings.Contains(got.Content[0].Text, to) {
					t.Errorf("%s %d to %s: %+v", method, code, to, got)
				}
			}
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// A proxy of the environment would connect to addresses that the policy cannot check, and a server without a trusted
// certificate may be any server.
func TestCallsUseNoProxyAndVerifyCertificates(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	client := NewClient(egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil))
	for name, transport := range map[string]http.RoundTripper{"with TLS": client.secure, "without TLS": client.plain} {
		if transport.(*http.Transport).Proxy != nil {
			t.Errorf("requests %s go through a proxy", name)
		}
	}
	if got := client.Do(t.Context(), callOf(server.URL)); got.Code != CodeUnreachable || got.Content[0].Text != unreachable || reached.Load() != 0 {
		t.Errorf("a server without a trusted certificate: %+v, %d requests", got, reached.Load())
	}
}
