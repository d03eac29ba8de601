package decision

import (
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"
)

// byLibrary returns a message that the protobuf library parsed, in the form of envoyRequest.read.
func byLibrary(in *authv3.CheckRequest) envoyRequest {
	http := in.GetAttributes().GetRequest().GetHttp()
	want := envoyRequest{
		method: http.GetMethod(), path: http.GetPath(), permission: in.GetAttributes().GetContextExtensions()[contextPermission],
		source: in.GetAttributes().GetSource().GetAddress().GetSocketAddress().GetAddress(),
	}
	for i, name := range envoyHeaders {
		of := &want.headers[i]
		of.value, of.mapped = http.GetHeaders()[name]
		for _, h := range http.GetHeaderMap().GetHeaders() {
			if h.GetKey() == name {
				of.lines = append(of.lines, string(h.GetRawValue())+h.GetValue())
			}
		}
	}
	return want
}

// envoyMessages returns encoded requests: some as Envoy sends them, some concatenated, and one truncated.
func envoyMessages(t testing.TB) (all [][]byte) {
	plain := asked("POST", "/v1/orders?x=1", "203.0.113.1", map[string]string{"authorization": "Bearer k", "x-api-key": "k", ":path": "/", "x": "é"}, map[string]string{"permission": "a,b", "other": ""})
	plain.Attributes.Request.Http.Size, plain.Attributes.Destination = -1, plain.Attributes.Source
	listed := asked("GET", "/", "2001:db8::1", nil, nil)
	listed.Attributes.Request.Http.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: "authorization", RawValue: []byte("Bearer \xff")}, {Key: "x-forwarded-for", Value: "10.0.0.1"}, {Key: "x-forwarded-for", RawValue: []byte("10.0.0.2")}, {Key: "X-Api-Key", Value: "k"},
	}}
	piped := asked("GET", "/", "10.0.0.1", map[string]string{"x-api-key": ""}, nil)
	piped.Attributes.Source.Address.Address = &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/run/x"}}
	for _, in := range []*authv3.CheckRequest{plain, listed, piped, {}} {
		raw, err := proto.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw)
	}
	return append(all, slices.Concat(all[0], all[1]), slices.Concat(all[0], all[2]), slices.Concat(all[2], all[0]), all[0][:20])
}

// Messages are read as the library reads them, also with repeated parts.
func TestEnvoyRequests(t *testing.T) {
	for _, raw := range envoyMessages(t) {
		holdEnvoy(t, raw)
	}
	bad := asked("GET", "/", "10.0.0.1", map[string]string{"authorization": "Bearer k"}, nil)
	raw, err := proto.Marshal(bad)
	if err != nil {
		t.Fatal(err)
	}
	raw[slices.Index(raw, 'k')] = 0xff
	if err := new(envoyRequest).read(raw); err == nil {
		t.Error("read accepted a credential that is not valid UTF-8")
	}
}

// FuzzEnvoyRequest compares the reader of Envoy's messages with the library.
func FuzzEnvoyRequest(f *testing.F) {
	for _, raw := range envoyMessages(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { holdEnvoy(t, raw) })
}

func holdEnvoy(t *testing.T, raw []byte) {
	t.Helper()
	var got envoyRequest
	gotErr := got.read(raw)
	in := &authv3.CheckRequest{}
	if err := proto.Unmarshal(raw, in); err != nil {
		return // the reader may accept it, because it skips fields that it does not need
	}
	if gotErr != nil {
		t.Fatalf("%x: %v, but the library accepts it", raw, gotErr)
	}
	want := byLibrary(in)
	same := got.method == want.method && got.path == want.path && got.source == want.source && got.permission == want.permission
	for i := range want.headers {
		same = same && slices.Equal(got.headers[i].all(), want.headers[i].all())
	}
	if !same {
		t.Fatalf("%x: %+v, want %+v", raw, got, want)
	}
}

// Headers are written as the library writes them.
func TestHeaderOptions(t *testing.T) {
	raw, want := []byte(nil), &authv3.OkHttpResponse{}
	for name, value := range map[string]string{"X-Cardea-App": "shop", "X-Cardea-Owner-User-Id": "", "Ratelimit": string(make([]byte, 300))} {
		raw = appendHeaderOption(raw, 2, name, value)
		want.Headers = append(want.Headers, &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: name, Value: value}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD, KeepEmptyValue: true,
		})
	}
	got := &authv3.OkHttpResponse{}
	if err := proto.Unmarshal(raw, got); err != nil || !proto.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
}
