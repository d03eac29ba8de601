package tracing

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func recorded(t *testing.T) (*Tracer, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	return New(trace.NewTracerProvider(trace.WithSpanProcessor(recorder))), recorder
}

func TestWhatRunsByTheClockMakesNoTraces(t *testing.T) {
	t.Parallel()
	tracer, recorder := recorded(t)
	_, span := tracer.Child(t.Context(), "alone")
	span.End()
	ctx, around := tracer.Begin(t.Context(), "around")
	_, span = tracer.Child(ctx, "within")
	span.End()
	around.End()
	if got := recorder.Ended(); len(got) != 2 || got[0].Name() != "within" || got[0].Parent().SpanID() != got[1].SpanContext().SpanID() {
		t.Errorf("%v", got)
	}
}

func TestHeadersOfAnySpelling(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header Header
		want   bool
	}{
		"HTTP":           {Header{"Traceparent": {parent}}, true},
		"gRPC":           {Header{"traceparent": {parent}}, true},
		"none":           {nil, false},
		"two":            {Header{"Traceparent": {parent, parent}}, false},
		"an empty one":   {Header{"Traceparent": {""}}, false},
		"upper case":     {Header{"Traceparent": {"00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01"}}, false},
		"a trace of 0":   {Header{"Traceparent": {"00-00000000000000000000000000000000-b7ad6b7169203331-01"}}, false},
		"a wrong state":  {Header{"Traceparent": {parent}, "Tracestate": {"=;="}}, true},
		"several states": {Header{"Traceparent": {parent}, "Tracestate": {"a=1", "b=2"}}, true},
	} {
		ctx, _ := Incoming(t.Context(), tc.header, true)
		if got := api.SpanContextFromContext(ctx); got.IsValid() != tc.want || name == "several states" && got.TraceState().String() != "a=1,b=2" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestALinkIsMadeOfWhatTheStoreKept(t *testing.T) {
	t.Parallel()
	tracer, _ := recorded(t)
	ctx, span := tracer.Begin(t.Context(), "request")
	defer span.End()
	if kept := Parent(ctx); len(LinkTo(kept)) != 1 {
		t.Errorf("kept %q", kept)
	}
	if Parent(t.Context()) != "" || len(LinkTo("")) != 0 || len(LinkTo("nonsense")) != 0 {
		t.Error("a link to nothing")
	}
}

func TestRequestsThatLeaveNameTheirSpan(t *testing.T) {
	t.Parallel()
	var got []http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header) }))
	t.Cleanup(server.Close)
	tracer, recorder := recorded(t)
	client := http.Client{Transport: tracer.Transport(http.DefaultTransport, "somebody")}
	trusted, _ := Incoming(t.Context(), propagation.MapCarrier{"traceparent": parent, "tracestate": "vendor=ours"}, true)
	ctx, around := tracer.Begin(trusted, "around")
	for _, within := range []context.Context{ctx, t.Context()} {
		r, err := http.NewRequestWithContext(within, http.MethodPatch, server.URL+"/secret?token=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil || answer.Body.Close() != nil {
			t.Fatal(err)
		}
		if r.Header.Get("traceparent") != "" {
			t.Error("the caller's request was changed")
		}
	}
	around.End()
	ended := recorder.Ended()
	if len(ended) != 2 || ended[0].Name() != "PATCH somebody" || ended[0].Parent().SpanID() != around.SpanContext().SpanID() {
		t.Fatalf("%v", ended)
	}
	if sent := got[0].Get("traceparent"); sent != "00-"+ended[0].SpanContext().TraceID().String()+"-"+ended[0].SpanContext().SpanID().String()+"-01" || got[0].Get("tracestate") != "" {
		t.Errorf("sent %v", got[0])
	}
	if got[1].Get("traceparent") != "" {
		t.Errorf("sent without a span: %v", got[1])
	}
	if none := (*Tracer)(nil); none.Transport(http.DefaultTransport, "") != http.DefaultTransport {
		t.Error("a nil tracer wraps the transport")
	}
}
