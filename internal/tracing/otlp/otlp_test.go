package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/internal/testing/collector"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(raw []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(raw)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.FieldsFunc(l.text.String(), func(r rune) bool { return r == '\n' })
}

func (l *lines) logger() logr.Logger { return logr.FromSlogHandler(slog.NewJSONHandler(l, nil)) }

func collect(t *testing.T) *collector.Collector {
	t.Helper()
	c, err := collector.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// setenv sets the variables, and clears all others of OpenTelemetry. So these tests cannot run in parallel.
func setenv(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

func TestSpansGoWhereTheEnvironmentSays(t *testing.T) {
	c := collect(t)
	for name, variables := range map[string]map[string]string{
		"http by default":            {"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP()},
		"http, the traces' endpoint": {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.HTTP() + collector.Path, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1:4318"},
		"http, compressed":           {"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP() + "/", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
		"grpc":                       {"OTEL_EXPORTER_OTLP_ENDPOINT": c.GRPC(), "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		"grpc for traces":            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.GRPC(), "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", "OTEL_TRACES_EXPORTER": "otlp"},
	} {
		t.Run(name, func(t *testing.T) {
			variables["OTEL_EXPORTER_OTLP_HEADERS"] = "authorization=" + url.QueryEscape("Bearer") + "%20" + url.QueryEscape(t.Name())
			variables["OTEL_RESOURCE_ATTRIBUTES"] = "deployment.environment.name=test"
			setenv(t, variables)
			tracer, stop, err := Start(t.Context(), Options{Service: "cardea-test", Version: "v1.2.3", Log: (&lines{}).logger()})
			if err != nil || !tracer.On() {
				t.Fatal(tracer, err)
			}
			_, span := tracer.Begin(t.Context(), t.Name())
			span.End()
			stop() // sends the waiting spans
			got := c.Named(t.Name())
			if len(got) != 1 {
				t.Fatalf("%d spans came", len(got))
			}
			for key, want := range map[string]string{"service.name": "cardea-test", "service.version": "v1.2.3", "deployment.environment.name": "test"} {
				if got[0].Resource[key] != want {
					t.Errorf("%s is %q, want %q", key, got[0].Resource[key], want)
				}
			}
			if sent := c.Authorizations(); len(sent) == 0 || sent[len(sent)-1] != "Bearer "+t.Name() {
				t.Errorf("authorized by %q", sent)
			}
		})
	}
}

func TestTheEnvironmentsServiceNameCounts(t *testing.T) {
	c := collect(t)
	setenv(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP(), "OTEL_SERVICE_NAME": "iam", "OTEL_TRACES_SAMPLER": "always_on"})
	tracer, stop, err := Start(t.Context(), Options{Service: "cardea-test"})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Begin(t.Context(), "one")
	span.End()
	stop()
	if got := c.Spans(); len(got) != 1 || got[0].Resource["service.name"] != "iam" {
		t.Errorf("%v", got)
	}
}

func TestTracesAreOffUnlessAsked(t *testing.T) {
	for name, variables := range map[string]map[string]string{
		"nothing is set":               {},
		"disabled":                     {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		"no exporter":                  {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		"an empty endpoint":            {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
		"no endpoint":                  {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_SERVICE_NAME": "iam", "OTEL_TRACES_SAMPLER": "always_on"},
		"an endpoint for metrics only": {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1"},
		"disabled, and wrong":          {"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, variables)
			tracer, stop, err := Start(t.Context(), Options{})
			if err != nil || tracer != nil {
				t.Fatal(tracer, err)
			}
			stop()
		})
	}
	setenv(t, map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}) // the standard's default endpoint
	if s, err := read(os.LookupEnv); err != nil || !s.on || s.address() != "localhost:4318" {
		t.Error(s, err)
	}
}

func TestWhatCannotBeMeantIsNamed(t *testing.T) {
	const secret = "hunter2"
	file := filepath.Join(t.TempDir(), "no.pem")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, value, says string }{
		{"OTEL_SDK_DISABLED", secret, "false, true"},
		{"OTEL_TRACES_EXPORTER", "zipkin-" + secret, "give otlp, none"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector-" + secret + ":4317", "http://host:port"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://" + secret, "http://host:port"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:" + secret + "@collector", "HEADERS"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector?token=" + secret, "query"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json-" + secret, "http/protobuf, grpc"},
		{"OTEL_EXPORTER_OTLP_HEADERS", secret, "name=value"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=%zz" + secret, "name=value"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s" + secret, "at least 1"},
		{"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zstd" + secret, "none, gzip"},
		{"OTEL_EXPORTER_OTLP_INSECURE", "yes" + secret, "false, true"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", file, "PEM"},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", file, "PEM"},
		{"OTEL_RESOURCE_ATTRIBUTES", secret, "name=value"},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote" + secret, "parentbased_always_on"},
		{"OTEL_TRACES_SAMPLER_ARG", "1.5" + secret, "0 to 1"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "-1" + secret, "at least 1"},
		{"OTEL_SPAN_LINK_COUNT_LIMIT", "many" + secret, "at least 0"},
	} {
		t.Run(tc.name+" "+tc.says, func(t *testing.T) {
			variables := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", tc.name: tc.value}
			if tc.name == "OTEL_TRACES_SAMPLER_ARG" {
				variables["OTEL_TRACES_SAMPLER"] = "traceidratio"
			}
			setenv(t, variables)
			tracer, _, err := Start(t.Context(), Options{})
			if err == nil || tracer != nil {
				t.Fatal("the value is accepted")
			}
			if text := err.Error(); !strings.HasPrefix(text, tc.name+" ") || !strings.Contains(text, tc.says) || strings.Contains(text, secret) {
				t.Errorf("it says: %s", text)
			}
		})
	}
}

func TestACollectorThatIsAwayIsOneLineAndHoldsNobodyUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for name, endpoint := range map[string]string{"nothing listens": "http://127.0.0.1:1", "it never answers": "http://" + silent.Addr().String()} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				setenv(t, map[string]string{
					"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_BSP_SCHEDULE_DELAY": "1",
					"OTEL_EXPORTER_OTLP_TIMEOUT": "50", "OTEL_BSP_EXPORT_TIMEOUT": "50", "OTEL_BSP_MAX_QUEUE_SIZE": "64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8",
				})
				log := &lines{}
				tracer, stop, err := Start(t.Context(), Options{Log: log.logger()})
				if err != nil {
					t.Fatal(err)
				}
				for len(log.all()) == 0 {
					for range 1000 { // many times the queue
						_, span := tracer.Begin(t.Context(), "one")
						span.End()
					}
					if t.Context().Err() != nil {
						t.Fatal("nothing was logged")
					}
				}
				began := time.Now()
				stop()
				if took := time.Since(began); took > flushWithin+5*time.Second { // far above the bound, for a crowded machine
					t.Errorf("the end took %s", took)
				}
				if n := len(log.all()); n != 1 {
					t.Errorf("%d lines: %v", n, log.all())
				}
			})
		}
	}
}

// An outage is logged at most once a minute, and when it is over. The log never contains the credentials for the
// collector.
func TestTheLogHearsOfOutages(t *testing.T) {
	c := collect(t)
	const secret = "s3cr3t-token"
	setenv(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP(), "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20" + secret})
	settings, err := read(os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	exporter, err := settings.exporter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log, now := &lines{}, time.Unix(1_700_000_000, 0)
	w := newWatched(exporter, settings.address(), settings.secrets, log.logger(), func() time.Time { return now })
	spans := someSpans(t)
	export := func() {
		t.Helper()
		if err := w.ExportSpans(t.Context(), spans); err != nil {
			t.Fatalf("the error is returned to the SDK, which would log it too: %v", err)
		}
	}
	c.Refuse(true)
	for range 5 {
		export()
	}
	now = now.Add(lineEvery)
	export()
	c.Refuse(false)
	export()
	export()
	var told []string
	for _, line := range log.all() {
		var fields struct {
			Msg, Endpoint, Reason string
			Spans                 int
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		told = append(told, fmt.Sprint(strings.Fields(fields.Msg)[5], " ", fields.Spans))
		if strings.Contains(line, secret) || fields.Endpoint != c.HTTP() {
			t.Errorf("the line %s", line)
		}
		if fields.Spans > 0 && !strings.Contains(fields.Reason, "***") {
			t.Errorf("the line lacks the collector's error, so it cannot show that the secret was removed: %s", line)
		}
	}
	if want := "not 1,not 5,them 0"; strings.Join(told, ",") != want {
		t.Errorf("logged %q, want %q", strings.Join(told, ","), want)
	}
}

func TestASecondStopAndALateSpanDoNothing(t *testing.T) {
	c := collect(t)
	setenv(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP()})
	tracer, stop, err := Start(t.Context(), Options{Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	_, span := tracer.Begin(context.Background(), "late")
	span.End()
	stop()
	if n := len(c.Spans()); n != 0 {
		t.Errorf("%d spans came", n)
	}
	var none *tracing.Tracer
	if ctx, span := none.Begin(t.Context(), "none"); ctx != t.Context() || span.IsRecording() {
		t.Error("a nil tracer makes spans")
	}
}
