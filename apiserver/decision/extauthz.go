package decision

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/limiter"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/route"
)

// ExtAuthz serves Envoy's external authorization, version 3, over gRPC: what Envoy, Envoy Gateway, Istio, Contour and the Gateway
// API's ExternalAuth ask. A policy's refusal is always an answer, with its HTTP status in it; a fault of the server's own is
// answered as one, so that the proxy's failure mode decides.
type ExtAuthz struct {
	authv3.UnimplementedAuthorizationServer
	api *API
}

// ExtAuthz returns the gRPC service.
func (a *API) ExtAuthz() *ExtAuthz { return &ExtAuthz{api: a} }

// contextPermission is the route's context extension that names required permissions, divided by commas.
const contextPermission = "permission"

// Check implements authv3.AuthorizationServer.
func (e *ExtAuthz) Check(ctx context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	received := e.api.Clock()
	id := route.NewRequestID()
	q, err := e.question(ctx, in)
	if err == nil {
		v := e.api.verdicts.Get().(*verdict)
		defer e.api.verdicts.Put(v)
		if err = e.api.judge(ctx, &q, v); err == nil {
			e.api.Journal.note(received, id, &q, v)
			return answerEnvoy(v, id), nil
		}
	}
	refused := apierror.Of(err)
	if refused.Status >= 500 {
		e.api.Log.V(1).Info("A decision for Envoy was not possible", "request_id", id, "reason", refused.Error())
		return &authv3.CheckResponse{
			Status:       &status.Status{Code: int32(codes.Unavailable), Message: refused.Text()},
			HttpResponse: &authv3.CheckResponse_ErrorResponse{ErrorResponse: deniedEnvoy(refused, id, nil)},
		}, nil
	}
	return refuseEnvoy(refused, id, nil), nil
}

// question reads which request Envoy asks about.
func (e *ExtAuthz) question(ctx context.Context, in *authv3.CheckRequest) (q question, err error) {
	request := in.GetAttributes().GetRequest().GetHttp()
	if request == nil || request.GetPath() == "" || !validMethod(request.GetMethod()) {
		return q, apierror.New(http.StatusBadRequest, "the proxy must send the request's method and path")
	}
	q.method, q.path = request.GetMethod(), request.GetPath()
	header := http.Header{}
	for name, value := range request.GetHeaders() { // lower-case, and joined by commas where a header came twice
		switch name {
		case "authorization", "x-api-key", "x-forwarded-for":
			header.Set(name, value)
		}
	}
	for _, h := range request.GetHeaderMap().GetHeaders() { // with encode_raw_headers, each as it came
		switch h.GetKey() {
		case "authorization", "x-api-key", "x-forwarded-for":
			header.Add(h.GetKey(), string(h.GetRawValue())+h.GetValue())
		}
	}
	q.client = e.clientAddress(ctx, in, header)
	if required := in.GetAttributes().GetContextExtensions()[contextPermission]; required != "" {
		q.permissions = splitList(required)
	}
	q.credential, q.session, err = credential(header)
	return q, err
}

// clientAddress is the address that Envoy names where Envoy is a trusted proxy, and behind further trusted proxies the one that these
// vouch for; else Envoy's own.
func (e *ExtAuthz) clientAddress(ctx context.Context, in *authv3.CheckRequest, header http.Header) netip.Addr {
	proxies := e.api.Authenticator.Proxies
	asker := &http.Request{Header: http.Header{}}
	if from, known := peer.FromContext(ctx); known {
		asker.RemoteAddr = from.Addr.String()
	}
	if !proxies.TrustPeer(asker) {
		return proxies.ClientAddress(asker)
	}
	source := in.GetAttributes().GetSource().GetAddress().GetSocketAddress()
	address, err := netip.ParseAddr(source.GetAddress())
	if err != nil {
		return proxies.ClientAddress(asker)
	}
	behind := &http.Request{Header: header, RemoteAddr: netip.AddrPortFrom(address, uint16(source.GetPortValue())).String()}
	return proxies.ClientAddress(behind)
}

// answerEnvoy writes a verdict.
func answerEnvoy(v *verdict, id string) *authv3.CheckResponse {
	limits := http.Header{}
	limiter.WriteFields(limits, &v.limits)
	if !v.allowed {
		return refuseEnvoy(apierror.New(v.status(), "%s", v.message()), id, limits)
	}
	return &authv3.CheckResponse{
		Status: &status.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
			Headers: v.subject.envoy, ResponseHeadersToAdd: headersOf(limits),
		}},
	}
}

func refuseEnvoy(refused *apierror.Error, id string, limits http.Header) *authv3.CheckResponse {
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
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: deniedEnvoy(refused, id, limits)},
	}
}

// deniedEnvoy is what Envoy answers its client with.
func deniedEnvoy(refused *apierror.Error, id string, limits http.Header) *authv3.DeniedHttpResponse {
	header := http.Header{"Content-Type": contentTypeJSON, "X-Request-Id": {id}}
	for _, more := range []http.Header{refused.Header, limits} {
		for name, values := range more {
			header[name] = values
		}
	}
	if refused.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64((refused.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if refused.Status == http.StatusTooManyRequests {
		header.Set("X-Envoy-Ratelimited", "true") // an outer Envoy must not try again
	}
	raw, _ := json.Marshal(openapi.NewError(refused, id)) // strings and integers: cannot fail
	return &authv3.DeniedHttpResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode(refused.Status)}, Headers: headersOf(header), Body: string(raw),
	}
}

// headersOf writes headers as Envoy sets them: in place of what a client sent, also where the value is empty.
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

// splitList reads a list divided by commas.
func splitList(text string) []string {
	var all []string
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}
