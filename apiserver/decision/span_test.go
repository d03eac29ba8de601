package decision

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// deciding returns a function that decides about the world's key, within a span if the API makes spans.
func deciding(t testing.TB, w *world, decide func(context.Context, *question, *decision) error) func() {
	ctx, span := w.api.Tracer.Begin(context.Background(), "request")
	t.Cleanup(func() { span.End() })
	q, v := &question{credential: w.plain, method: "GET", path: "/v1/things", client: netip.MustParseAddr("192.0.2.9")}, &decision{}
	return func() {
		if err := decide(ctx, q, v); err != nil || !v.allowed {
			t.Fatal(err, v.reason)
		}
	}
}

// With tracing off, decide allocates as much as evaluate, which has no tracing code. The comparison with tracing on
// shows that this test can fail.
func TestDisabledTracingDoesNotAllocate(t *testing.T) {
	off := newWorld(t)
	decide, evaluate := testing.AllocsPerRun(1000, deciding(t, off, off.api.decide)), testing.AllocsPerRun(1000, deciding(t, off, off.api.evaluate))
	if decide != evaluate {
		t.Errorf("%v allocations with the code of traces, %v without", decide, evaluate)
	}
	_, tracer := servertest.Collect(t)
	on := newWorld(t, func(o *Options) { o.Tracer = tracer })
	if traced := testing.AllocsPerRun(3, deciding(t, on, on.api.decide)); traced <= evaluate {
		t.Errorf("%v allocations with traces on: nothing was compared", traced)
	}
}

// BenchmarkTracesOff compares decide with tracing off to evaluate, which has no tracing code.
func BenchmarkTracesOff(b *testing.B) {
	w := newWorld(b)
	threeRules(w)
	const round = 5_000
	rounds := func(decide func()) func() error {
		return func() error {
			for range round {
				decide()
			}
			return nil
		}
	}
	compareWith(b, rounds(deciding(b, w, w.api.decide)), rounds(deciding(b, w, w.api.evaluate)), round)
}

func TestEnvoyCallHasSpan(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for name, trusted := range map[string]bool{"trusted": true, "an untrusted client": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			collected, tracer := servertest.Collect(t)
			w := newWorld(t, func(o *Options) {
				o.Tracer = tracer
				o.Authenticator.Proxies = nil
				if trusted {
					o.Authenticator.Proxies = credential.Proxies{netip.MustParsePrefix("127.0.0.0/8")}
				}
			})
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			w.Must(err)
			server := w.api.EnvoyServer()
			go func() { _ = server.Serve(listener) }()
			t.Cleanup(server.Stop)
			conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			w.Must(err)
			t.Cleanup(func() { _ = conn.Close() })
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-"+parent+"-01"), 10*time.Second)
			defer cancel()
			_, err = authv3.NewAuthorizationClient(conn).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{
				Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/things/canary", Headers: map[string]string{"x-api-key": w.plain}},
			}}})
			w.Must(err)
			w.Eventually("the span of the call", func() bool { return len(collected.Named(methodEnvoy)) == 1 })
			call, decided := collected.Named(methodEnvoy)[0], collected.Named("decision")
			if len(decided) != 1 || decided[0].Parent() != call.ID() || decided[0].Attribute(string(tracing.Outcome)) != "allowed" {
				t.Errorf("the decision: %v", decided)
			}
			if trusted && (call.Trace() != trace || call.Parent() != parent) || !trusted && (call.Trace() == trace || call.Parent() != "" || len(call.Links) != 1) {
				t.Errorf("the call: %v", call)
			}
		})
	}
}
