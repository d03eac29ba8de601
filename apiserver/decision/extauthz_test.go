package decision

import (
	"net"
	"net/http"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// envoy returns a client of the gRPC service.
func (w *world) envoy() authv3.AuthorizationClient { return w.dial(w.api.EnvoyServer()) }

// dial starts a gRPC server and returns a client of it.
func (w *world) dial(server *grpc.Server) authv3.AuthorizationClient {
	w.T.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.Must(err)
	go func() { _ = server.Serve(listener) }()
	w.T.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	w.Must(err)
	w.T.Cleanup(func() { _ = conn.Close() })
	return authv3.NewAuthorizationClient(conn)
}

// asked returns a request as Envoy sends it.
func asked(method, path, source string, headers map[string]string, extensions map[string]string) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: source}}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: method, Path: path, Headers: headers,
		}},
		ContextExtensions: extensions,
	}}
}

func headerOf(options []*corev3.HeaderValueOption, name string) string {
	for _, option := range options {
		if http.CanonicalHeaderKey(option.Header.Key) == http.CanonicalHeaderKey(name) {
			return option.Header.Value
		}
	}
	return ""
}

// All responses that Envoy can get.
func TestExtAuthz(t *testing.T) {
	loopback, err := credential.ParseProxies([]string{"127.0.0.1/32", "192.0.2.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(o *Options) { o.Authenticator.Proxies = loopback })
	w.limit(scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: 1, Mode: "per_ip", Endpoints: []string{"POST /v1/*"}})
	client := w.envoy()
	key := map[string]string{"authorization": "Bearer " + w.plain}
	behind := func(hops string) map[string]string {
		return map[string]string{"x-api-key": w.plain, "x-forwarded-for": hops}
	}
	for _, step := range []struct {
		name string
		in   *authv3.CheckRequest
		code codes.Code
		http int32
	}{
		{"allowed", asked("POST", "/v1/orders?x", "203.0.113.1", key, nil), codes.OK, 0},
		{"limited", asked("POST", "/v1/../v1/orders", "203.0.113.1", key, nil), codes.ResourceExhausted, 429},
		{"another client", asked("POST", "/v1/orders", "203.0.113.2", key, nil), codes.OK, 0},
		{"behind a trusted proxy", asked("POST", "/v1/orders", "192.0.2.7", behind("203.0.113.3"), nil), codes.OK, 0},
		{"that proxy's client again", asked("POST", "/v1/orders", "203.0.113.3", key, nil), codes.ResourceExhausted, 429},
		{"a client that names another", asked("POST", "/v1/orders", "203.0.113.3", behind("203.0.113.4"), nil), codes.ResourceExhausted, 429},
		{"permission granted", asked("GET", "/", "203.0.113.1", key, map[string]string{"permission": "orders:read, orders:write"}), codes.OK, 0},
		{"permission missing", asked("GET", "/", "203.0.113.1", key, map[string]string{"permission": "orders:read,admin"}), codes.PermissionDenied, 403},
		{"no credential", asked("GET", "/", "203.0.113.1", nil, nil), codes.Unauthenticated, 401},
		{"joined credentials", asked("GET", "/", "203.0.113.1", map[string]string{"authorization": "Bearer " + w.plain + ",Bearer " + w.plain}, nil), codes.Unauthenticated, 401},
		{"both ways", asked("GET", "/", "203.0.113.1", map[string]string{"authorization": "Bearer " + w.plain, "x-api-key": w.plain}, nil), codes.Unauthenticated, 401},
		{"encoded slash", asked("GET", "/v1%2Forders", "203.0.113.1", key, nil), codes.InvalidArgument, 400},
		{"no path", asked("GET", "", "203.0.113.1", key, nil), codes.InvalidArgument, 400},
		{"nothing", &authv3.CheckRequest{}, codes.InvalidArgument, 400},
	} {
		out, err := client.Check(t.Context(), step.in)
		if err != nil || codes.Code(out.GetStatus().GetCode()) != step.code || int32(out.GetDeniedResponse().GetStatus().GetCode()) != step.http {
			t.Errorf("%s: %v %v", step.name, out, err)
			continue
		}
		switch step.http {
		case 0:
			headers := out.GetOkResponse().GetHeaders()
			if headerOf(headers, "X-Cardea-App") != "shop" || headerOf(headers, "X-Cardea-Key-Id") != w.plain[3:15] {
				t.Errorf("%s: identity headers %v", step.name, headers)
			}
			for _, option := range headers {
				if option.AppendAction != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
					t.Errorf("%s: Envoy would add %s to the client's header of that name", step.name, option.Header.Key)
				}
			}
		case 429:
			if headerOf(out.GetDeniedResponse().GetHeaders(), "Retry-After") != "60" || headerOf(out.GetDeniedResponse().GetHeaders(), "X-Envoy-Ratelimited") == "" {
				t.Errorf("%s: headers %v", step.name, out.GetDeniedResponse().GetHeaders())
			}
		case 401:
			if headerOf(out.GetDeniedResponse().GetHeaders(), "WWW-Authenticate") == "" {
				t.Errorf("%s: headers %v", step.name, out.GetDeniedResponse().GetHeaders())
			}
		}
	}
}

// A failure of the server is an error to Envoy, whose failure mode decides, and not a denial.
func TestExtAuthzUnavailable(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Snapshots = snapshot.NewFollower(nil, 0, o.Clock, o.Log) })
	out, err := w.envoy().Check(t.Context(), asked("GET", "/", "203.0.113.1", map[string]string{"x-api-key": w.plain}, nil))
	if err != nil || out.GetErrorResponse() == nil || codes.Code(out.GetStatus().GetCode()) != codes.Unavailable {
		t.Errorf("%v %v", out, err)
	}
}
