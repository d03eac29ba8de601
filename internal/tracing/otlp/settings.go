package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The prefixes of variables that OpenTelemetry has in two forms. The form for traces takes precedence.
const (
	allSignals = "OTEL_EXPORTER_OTLP_"
	tracesOnly = "OTEL_EXPORTER_OTLP_TRACES_"
)

// settings are the settings from the environment.
type settings struct {
	on, grpc bool
	endpoint *url.URL // nil: the protocol's default
	// insecureSet reports that the environment says whether to use TLS.
	insecureSet bool
	secrets     []string // the values of headers
}

// environment reads variables and collects their errors.
type environment struct {
	lookup func(string) (string, bool)
	faults []error
}

// read reads and checks every variable that counts here. An empty variable counts as not set, as OpenTelemetry defines.
// An invalid value is an error, like for every setting of Cardea, because a warning in a log is easily overlooked.
func read(lookup func(string) (string, bool)) (settings, error) {
	env := &environment{lookup: lookup}
	s := settings{on: env.wanted()}
	if s.on {
		s.grpc = env.oneOf(env.either("PROTOCOL"), "http/protobuf", "grpc") == "grpc"
		s.endpoint = env.url(env.either("ENDPOINT"))
		s.secrets = env.headers(env.either("HEADERS"))
		env.oneOf(env.either("COMPRESSION"), "none", "gzip")
		env.oneOf(env.either("INSECURE"), "false", "true", "FALSE", "TRUE", "False", "True")
		s.insecureSet = env.get(env.either("INSECURE")) != ""
		env.whole(env.either("TIMEOUT"), 1)
		env.certificates()
		env.sampler()
		env.bounds()
		env.pairs("OTEL_RESOURCE_ATTRIBUTES")
	}
	return s, errors.Join(env.faults...)
}

// wanted reports whether tracing is on: an exporter or its endpoint is set, and the SDK is not disabled.
func (e *environment) wanted() bool {
	disabled := e.oneOf("OTEL_SDK_DISABLED", "false", "true", "FALSE", "TRUE", "False", "True")
	exporter := e.oneOf("OTEL_TRACES_EXPORTER", "", "otlp", "none")
	endpoint := e.get(e.either("ENDPOINT"))
	return !strings.EqualFold(disabled, "true") && (exporter == "otlp" || exporter == "" && endpoint != "")
}

func (e *environment) get(name string) string {
	value, _ := e.lookup(name)
	return strings.TrimSpace(value)
}

// either returns the name of the variable for a setting of the exporter: the form for traces if it is set, else the
// form for all signals.
func (e *environment) either(setting string) string {
	if e.get(tracesOnly+setting) != "" {
		return tracesOnly + setting
	}
	return allSignals + setting
}

func (e *environment) fault(name, format string, args ...any) {
	e.faults = append(e.faults, fmt.Errorf(name+" "+format, args...))
}

// oneOf reads a variable with few values, the first by default.
func (e *environment) oneOf(name string, values ...string) string {
	value := e.get(name)
	if value == "" {
		return values[0]
	}
	if !slices.Contains(values, value) {
		known := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" || v != strings.ToLower(v) })
		e.fault(name, "is none of the values that Cardea takes: give %s", strings.Join(known, ", "))
	}
	return value
}

func (e *environment) url(name string) *url.URL {
	value := e.get(name)
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		e.fault(name, "is no URL of the form http://host:port or https://host:port")
	case u.User != nil:
		e.fault(name, "holds a user name or password: authenticate by %sHEADERS", allSignals)
	case u.RawQuery != "" || u.Fragment != "":
		e.fault(name, "has a query or fragment: give only scheme, host, port and path")
	default:
		return u
	}
	return nil
}

// headers reads a list of name=value and returns the values.
func (e *environment) headers(name string) []string {
	var values []string
	for _, pair := range e.pairs(name) {
		values = append(values, pair[1])
		if _, credentials, found := strings.Cut(pair[1], " "); found { // Bearer and Basic
			values = append(values, credentials)
		}
	}
	return values
}

// pairs reads name=value, separated by commas, the values percent-encoded.
func (e *environment) pairs(name string) [][2]string {
	value := e.get(name)
	if value == "" {
		return nil
	}
	var pairs [][2]string
	for _, member := range strings.Split(value, ",") {
		key, encoded, found := strings.Cut(member, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(encoded))
		if key = strings.TrimSpace(key); !found || key == "" || err != nil {
			e.fault(name, "is no list of the form name=value,name=value with percent-encoded values")
			return nil
		}
		if decoded != "" {
			pairs = append(pairs, [2]string{key, decoded})
		}
	}
	return pairs
}

func (e *environment) whole(name string, least int) int {
	value := e.get(name)
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least {
		e.fault(name, "is no whole number of at least %d", least)
	}
	return n
}

// certificates reads the files once, because the libraries do not report missing files.
func (e *environment) certificates() {
	name := e.either("CERTIFICATE")
	if file := e.get(name); file != "" {
		if raw, err := os.ReadFile(file); err != nil || !x509.NewCertPool().AppendCertsFromPEM(raw) {
			e.fault(name, "names no readable file of certificates in PEM")
		}
	}
	name, keyName := e.either("CLIENT_CERTIFICATE"), e.either("CLIENT_KEY")
	certificate, key := e.get(name), e.get(keyName)
	if certificate == "" && key == "" {
		return
	}
	if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
		e.fault(name, "and %s must name a certificate and its key, each a readable file in PEM", keyName)
	}
}

func (e *environment) sampler() {
	const name, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	sampler := e.oneOf(name, "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio", "always_on", "always_off", "traceidratio")
	value := e.get(argument)
	if value == "" || !strings.HasSuffix(sampler, "traceidratio") {
		return
	}
	if ratio, err := strconv.ParseFloat(value, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
		e.fault(argument, "is not a ratio from 0 to 1")
	}
}

// bounds checks the variables that bound the queue and the spans.
func (e *environment) bounds() {
	const queue, batch = "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
	for _, name := range []string{queue, batch, "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT"} {
		e.whole(name, 1)
	}
	for _, name := range []string{
		"OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
	} {
		e.whole(name, 0)
	}
}

// address returns the address of the collector, without parts that must not be logged.
func (s settings) address() string {
	switch {
	case s.endpoint != nil:
		return s.endpoint.Scheme + "://" + s.endpoint.Host
	case s.grpc:
		return "localhost:4317"
	}
	return "localhost:4318"
}
