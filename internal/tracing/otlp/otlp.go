// Package otlp sends spans to a collector over OTLP, as OpenTelemetry's own environment variables say. Without them
// nothing is started.
package otlp

import (
	"context"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/cardea-iam/cardea/internal/tracing"
)

// flushWithin bounds the last sending when a process ends, well below the time that Kubernetes gives it.
const flushWithin = 2 * time.Second

// Options are what Start needs to know of the process.
type Options struct {
	// Service is the name of the process, unless OTEL_SERVICE_NAME sets another.
	Service string
	// Version is the version of the process.
	Version string
	// Log gets a line when the collector becomes unavailable, and when it is back.
	Log logr.Logger
}

// Start starts sending spans if the environment asks for it. It returns the tracer, nil if tracing is off, and a
// function that sends the remaining spans. Start does not wait for the collector. Its errors name the variable, and
// never its value, which may be a secret.
func Start(ctx context.Context, opts Options) (tracer *tracing.Tracer, stop func(), err error) {
	settings, err := read(os.LookupEnv)
	if err != nil || !settings.on {
		return nil, func() {}, err
	}
	exporter, err := settings.exporter(ctx)
	if err != nil {
		return nil, func() {}, err
	}
	identity, err := describe(ctx, opts)
	if err != nil {
		return nil, func() {}, err
	}
	watched := newWatched(exporter, settings.address(), settings.secrets, opts.Log, time.Now)
	// The libraries report other errors here, such as a collector that accepted only a part. They have one handler per
	// process.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(watched.failed))
	provider := trace.NewTracerProvider(trace.WithBatcher(watched), trace.WithResource(identity))
	return tracing.New(provider), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			watched.failed(err)
		}
	}, nil
}

// exporter returns an exporter that does not connect yet. The libraries read endpoint, headers, certificates,
// compression and timeouts from the environment, which function read has checked.
func (s settings) exporter(ctx context.Context) (trace.SpanExporter, error) {
	plain := s.endpoint == nil && !s.insecureSet // the standard's default endpoints have no TLS, the libraries' have
	if s.grpc {
		var options []otlptracegrpc.Option
		if plain {
			options = append(options, otlptracegrpc.WithInsecure())
		}
		return otlptracegrpc.New(ctx, options...)
	}
	var options []otlptracehttp.Option
	if plain {
		options = append(options, otlptracehttp.WithInsecure())
	}
	return otlptracehttp.New(ctx, options...)
}

// describe returns the resource by which spans identify the process. Values of the environment take precedence.
func describe(ctx context.Context, opts Options) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", opts.Service), attribute.String("service.version", opts.Version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
}
