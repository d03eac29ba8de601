package decision

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// extAuthz serves Envoy's external authorization, version 3, over gRPC, for Envoy, Envoy Gateway, Istio, Contour and
// the Gateway API's ExternalAuth. A refusal by policy is a denied response with its HTTP status. A failure of the
// server is an error response, so that the proxy's failure mode decides.
type extAuthz struct{ api *API }

// envoyService is authv3.Authorization with the messages of this package (envoywire.go).
var envoyService = grpc.ServiceDesc{
	ServiceName: authv3.Authorization_ServiceDesc.ServiceName, HandlerType: (*any)(nil), Metadata: authv3.Authorization_ServiceDesc.Metadata,
	Methods: []grpc.MethodDesc{{MethodName: "Check", Handler: func(service any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var in envoyRequest
		if err := read(&in); err != nil {
			return nil, err
		}
		return service.(*extAuthz).check(ctx, &in)
	}}},
}

// EnvoyServer returns a gRPC server with the service, to which other services can be added.
func (a *API) EnvoyServer(options ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(options, grpc.ForceServerCodecV2(envoyCodec{encoding.GetCodecV2(proto.Name)}))...)
	server.RegisterService(&envoyService, &extAuthz{api: a})
	return server
}

// The context extensions of a route: the required permissions; the deployment whose credentials are accepted, by its id
// or as namespace/name; the apps and the kinds of credential; the level that the user
// must have proven, and how many seconds ago at most. Lists are separated by commas.
const (
	contextPermission = "permission"
	contextDeployment = "deployment"
	contextApp        = "app"
	contextPrincipal  = "principal"
	contextACR        = "acr"
	contextMaxAge     = "max_age"
)

func (e *extAuthz) check(ctx context.Context, in *envoyRequest) (*envoyAnswer, error) {
	if e.api.Tracer.On() {
		traced, span := e.traceEnvoy(ctx)
		defer span.End()
		return e.answer(traced, in)
	}
	return e.answer(ctx, in)
}

// answer is check without the span.
func (e *extAuthz) answer(ctx context.Context, in *envoyRequest) (*envoyAnswer, error) {
	received := e.api.Clock()
	id := httpapi.NewRequestID()
	q, err := e.question(ctx, in)
	if err == nil {
		v := e.api.decisions.Get().(*decision)
		defer e.api.decisions.Put(v)
		if err = e.api.decide(ctx, &q, v); err == nil {
			e.api.Journal.note(received, id, &q, v)
			return answerEnvoy(v, id)
		}
	}
	refused := apierror.Of(err)
	if refused.Status >= 500 {
		tracing.Logger(ctx, e.api.Log).V(1).Info("A decision for Envoy was not possible", "request_id", id, "reason", refused.Error())
		return written(&authv3.CheckResponse{
			Status:       &status.Status{Code: int32(codes.Unavailable), Message: refused.Text()},
			HttpResponse: &authv3.CheckResponse_ErrorResponse{ErrorResponse: deniedEnvoy(refused, id, nil)},
		})
	}
	return written(refuseEnvoy(refused, id, nil))
}

// question returns the question about Envoy's request.
func (e *extAuthz) question(ctx context.Context, in *envoyRequest) (q question, err error) {
	if in.path == "" || !validMethod(in.method) {
		return q, apierror.New(http.StatusBadRequest, "the proxy must send the request's method and path")
	}
	q.method, q.path = in.method, in.path
	q.client, q.peer = e.clientAddress(ctx, in), peerAddress(ctx)
	if in.permission != "" {
		q.permissions = splitList(in.permission)
	}
	if q.wanted, err = assurance.ParseWanted(in.acr, in.maxAge); err != nil {
		return q, apierror.New(http.StatusBadRequest, "the context extension %s or %s %s", contextACR, contextMaxAge, err.Error())
	}
	if q.scope, err = in.scope(); err != nil {
		return q, err
	}
	q.credential, q.kind, err = presented(in.headers[0].all(), in.headers[1].all())
	return q, err
}

// scope returns the scope of the route.
func (m *envoyRequest) scope() (s scope, err error) {
	if m.deployment != "" {
		if s.deployment, err = parseDeployment(m.deployment); err != nil {
			return s, apierror.New(http.StatusBadRequest, "the context extension %s %s", contextDeployment, err.Error())
		}
	}
	if m.app != "" {
		s.apps = splitList(m.app)
	}
	if m.principal != "" {
		if s.kinds, err = parseKinds(splitList(m.principal)); err != nil {
			return s, apierror.New(http.StatusBadRequest, "the context extension %s %s", contextPrincipal, err.Error())
		}
	}
	return s, nil
}

// clientAddress returns the client's address. If Envoy is a trusted proxy, it is the source address in Envoy's message,
// resolved through further trusted proxies. Otherwise it is Envoy's own address.
func (e *extAuthz) clientAddress(ctx context.Context, in *envoyRequest) netip.Addr {
	proxies, envoy := e.api.Authenticator.Proxies, peerAddress(ctx)
	if !proxies.Trust(envoy) {
		return envoy
	}
	source, err := netip.ParseAddr(in.source)
	if err != nil {
		return envoy
	}
	return proxies.ClientBehind(source, in.headers[2].all())
}

// peerAddress returns the caller's address, the zero Addr if it is unknown.
func peerAddress(ctx context.Context) netip.Addr {
	from, known := peer.FromContext(ctx)
	if !known {
		return netip.Addr{}
	}
	if tcp, ok := from.Addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	address, err := netip.ParseAddrPort(from.Addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap().WithZone("")
}

// answerEnvoy encodes a decision.
func answerEnvoy(v *decision, id string) (*envoyAnswer, error) {
	if !v.allowed {
		fields := http.Header{}
		limits.WriteFields(fields, &v.limits)
		if v.reason == insufficientProof {
			fields["Www-Authenticate"] = []string{v.challenge}
		}
		return written(refuseEnvoy(apierror.New(v.status(), "%s", v.message()), id, fields))
	}
	var text [512]byte
	identity := v.subject.envoyFields()
	ok := append(make([]byte, 0, len(identity)+2*len(text)), identity...)
	if len(v.limits.Rules) > 0 {
		ok = appendHeaderOption(ok, 6, limits.FieldLimit, limits.AppendLimit(text[:0], &v.limits))
		ok = appendHeaderOption(ok, 6, limits.FieldPolicy, limits.AppendPolicy(text[:0], &v.limits))
	}
	raw := make([]byte, 0, len(ok)+16)
	raw = protowire.AppendTag(raw, 1, protowire.BytesType) // an empty status has the code OK
	raw = protowire.AppendVarint(raw, 0)
	raw = protowire.AppendTag(raw, 3, protowire.BytesType)
	return &envoyAnswer{append(protowire.AppendVarint(raw, uint64(len(ok))), ok...)}, nil
}

// written returns a response, encoded by the protobuf library.
func written(answer *authv3.CheckResponse) (*envoyAnswer, error) {
	raw, err := protobuf.Marshal(answer)
	return &envoyAnswer{raw}, err
}

func refuseEnvoy(refused *apierror.Error, id string, fields http.Header) *authv3.CheckResponse {
	code := codes.PermissionDenied
	switch refused.Status {
	case http.StatusUnauthorized:
		code = codes.Unauthenticated
	case http.StatusTooManyRequests:
		code = codes.ResourceExhausted
	case http.StatusBadRequest:
		code = codes.InvalidArgument
	}
	return &authv3.CheckResponse{
		Status:       &status.Status{Code: int32(code), Message: refused.Text()},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: deniedEnvoy(refused, id, fields)},
	}
}

// deniedEnvoy returns the response with which Envoy refuses its client.
func deniedEnvoy(refused *apierror.Error, id string, fields http.Header) *authv3.DeniedHttpResponse {
	header := http.Header{"Content-Type": contentTypeJSON, "X-Request-Id": {id}}
	for _, more := range []http.Header{refused.Header, fields} {
		for name, values := range more {
			header[name] = values
		}
	}
	if refused.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64((refused.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if refused.Status == http.StatusTooManyRequests {
		header.Set("X-Envoy-Ratelimited", "true") // prevents a retry by another Envoy in front
	}
	raw, _ := json.Marshal(openapi.NewError(refused, id)) // strings and integers: cannot fail
	return &authv3.DeniedHttpResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode(refused.Status)}, Headers: headersOf(header), Body: string(raw),
	}
}

// headersOf returns headers as Envoy's options. They replace existing headers of the same names, even if a value is
// empty.
func headersOf(header http.Header) []*corev3.HeaderValueOption {
	all := make([]*corev3.HeaderValueOption, 0, len(header))
	for name, values := range header {
		for _, value := range values {
			all = append(all, &corev3.HeaderValueOption{
				Header:       &corev3.HeaderValue{Key: name, Value: value},
				AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD, KeepEmptyValue: true,
			})
		}
	}
	return all
}

// splitList splits a comma-separated list.
func splitList(text string) []string {
	var all []string
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}
