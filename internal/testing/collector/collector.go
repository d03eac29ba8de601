// Package collector is a stand-in for a collector of OpenTelemetry: it accepts spans as protobuf over OTLP, by gRPC and
// by HTTP, and keeps them for tests.
package collector

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // OTEL_EXPORTER_OTLP_COMPRESSION
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Path is where spans are posted to over HTTP.
const Path = "/v1/traces"

// Span is one span as it was received.
type Span struct {
	*tracepb.Span
	// Resource has the attributes of the process that sent the span.
	Resource map[string]string
}

// Trace returns the id of the span's trace in hexadecimal, as logs and headers write it.
func (s Span) Trace() string { return hex.EncodeToString(s.TraceId) }

// ID returns the id of the span in hexadecimal.
func (s Span) ID() string { return hex.EncodeToString(s.SpanId) }

// Parent returns the id of the parent span in hexadecimal, "" for the first span of a trace.
func (s Span) Parent() string { return hex.EncodeToString(s.ParentSpanId) }

// Attribute returns the value of an attribute as text, "" if the span does not have the attribute.
func (s Span) Attribute(key string) string { return texts(s.Attributes)[key] }

func texts(attributes []*commonpb.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		switch value := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			all[a.Key] = value.StringValue
		case *commonpb.AnyValue_IntValue:
			all[a.Key] = strconv.FormatInt(value.IntValue, 10)
		default:
			all[a.Key] = a.Value.String()
		}
	}
	return all
}

// Collector takes spans until it is closed.
type Collector struct {
	collectorpb.UnimplementedTraceServiceServer
	http *http.Server
	grpc *grpc.Server
	// url and address are the addresses of the HTTP and the gRPC listener.
	url, address string

	mu      sync.Mutex
	spans   []Span
	raw     []byte
	headers []string
	refuse  bool
	asked   int
}

// Start listens on loopback.
func Start() (*Collector, error) {
	overHTTP, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	overGRPC, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, overHTTP.Close())
	}
	c := &Collector{grpc: grpc.NewServer(), url: "http://" + overHTTP.Addr().String(), address: overGRPC.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, c.post)
	c.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	collectorpb.RegisterTraceServiceServer(c.grpc, c)
	go func() { _ = c.http.Serve(overHTTP) }()
	go func() { _ = c.grpc.Serve(overGRPC) }()
	return c, nil
}

// Close stops the collector and closes all connections.
func (c *Collector) Close() error {
	c.grpc.Stop()
	return c.http.Close()
}

// HTTP returns the URL of the OTLP endpoint over HTTP, as OTEL_EXPORTER_OTLP_ENDPOINT takes it.
func (c *Collector) HTTP() string { return c.url }

// GRPC returns the URL of the OTLP endpoint over gRPC, as OTEL_EXPORTER_OTLP_ENDPOINT takes it.
func (c *Collector) GRPC() string { return "http://" + c.address }

// Spans returns the spans that were received so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Named returns the received spans with a name.
func (c *Collector) Named(name string) []Span {
	return slices.DeleteFunc(c.Spans(), func(s Span) bool { return s.Name != name })
}

// Raw returns the bytes of all accepted requests, as uncompressed protobuf.
func (c *Collector) Raw() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.raw)
}

// Authorizations returns the received values of the header Authorization.
func (c *Collector) Authorizations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

// Refuse makes the collector refuse all spans with a permanent error, or accept spans again.
func (c *Collector) Refuse(refuse bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
}

// Asked returns how often spans were sent, refused ones included.
func (c *Collector) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// Export implements the gRPC service.
func (c *Collector) Export(ctx context.Context, in *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	raw, err := proto.Marshal(in)
	if err != nil {
		return nil, err
	}
	if !c.take(in, raw, sent.Get("authorization")) {
		return nil, status.Error(codes.InvalidArgument, "refused by a test: "+first(sent.Get("authorization")))
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// post serves http/protobuf.
func (c *Collector) post(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	var in collectorpb.ExportTraceServiceRequest
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(raw, &in) != nil {
		http.Error(w, "not OTLP in protobuf", http.StatusBadRequest)
		return
	}
	if !c.take(&in, raw, r.Header.Values("Authorization")) {
		http.Error(w, "refused by a test: "+r.Header.Get("Authorization"), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	answer, _ := proto.Marshal(&collectorpb.ExportTraceServiceResponse{}) // an empty message
	_, _ = w.Write(answer)
}

func (c *Collector) take(in *collectorpb.ExportTraceServiceRequest, raw []byte, authorization []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.refuse {
		return false
	}
	c.raw = append(c.raw, raw...)
	c.headers = append(c.headers, authorization...)
	for _, from := range in.ResourceSpans {
		resource := texts(from.GetResource().GetAttributes())
		for _, scope := range from.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans = append(c.spans, Span{span, resource})
			}
		}
	}
	return true
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
