package agents_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/store/people"
)

// bodyMarker is in every body of a tool that is refused: no part of such a body reaches a caller.
const bodyMarker = "bodyMarker-9c1f"

// responding returns an answer with a media type, whose size is not declared if it is long.
func responding(mediaType, text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", mediaType)
		_, _ = io.WriteString(rw, text)
	}
}

// respondingEncoded returns an answer whose body has a content encoding.
func respondingEncoded(encoding, mediaType string, raw []byte) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", mediaType)
		rw.Header().Set("Content-Encoding", encoding)
		_, _ = rw.Write(raw)
	}
}

// respondingRaw returns an answer that writes to the connection itself.
func respondingRaw(t *testing.T, write func(io.Writer)) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		connection, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = connection.Close() }()
		write(connection)
	}
}

// respondingSlowly returns an answer that sends its header and then a part every 20 ms until the client is gone.
func respondingSlowly(mediaType, part string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", mediaType)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for r.Context().Err() == nil {
			if _, err := io.WriteString(rw, part); err != nil {
				return
			}
			rw.(http.Flusher).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
			}
		}
	}
}

// respondingEndlessly returns an answer that writes the same bytes until the client is gone.
func respondingEndlessly(mediaType, part string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", mediaType)
		for {
			if _, err := io.WriteString(rw, part); err != nil {
				return
			}
		}
	}
}

// gzipped returns the gzip form of a text that is repeated.
func gzipped(t *testing.T, part string, times int) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	for range times {
		if _, err := io.WriteString(writer, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// jsonOfSize returns a JSON object of exactly n bytes with the bodyMarker.
func jsonOfSize(n int) string {
	const around = `{"x":"` + bodyMarker + `"}`
	return `{"x":"` + bodyMarker + strings.Repeat("y", n-len(around)) + `"}`
}

// nestedLists returns JSON lists that are nested to a depth.
func nestedLists(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// outOfBounds are answers beyond a bound, with the code that each has.
func outOfBounds(t *testing.T) map[string]struct {
	answer http.HandlerFunc
	code   string
} {
	type out = struct {
		answer http.HandlerFunc
		code   string
	}
	mebibyte := bodyMarker + strings.Repeat("y", 1<<20)
	return map[string]out{
		"JSON with a byte too many":     {responding("application/json", jsonOfSize(1025)), "response_too_large"},
		"a text with a byte too many":   {responding("text/plain", bodyMarker+strings.Repeat("y", 1025-len(bodyMarker))), "response_too_large"},
		"an image with a byte too many": {responding("image/png", bodyMarker+strings.Repeat("y", 1025-len(bodyMarker))), "response_too_large"},
		"an error with a byte too many": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(500)
			_, _ = io.WriteString(rw, jsonOfSize(1025))
		}, "response_too_large"},
		"a body of 1 MiB":                    {responding("application/json", `"`+mebibyte+`"`), "response_too_large"},
		"a gzip bomb":                        {respondingEncoded("gzip", "application/json", gzipped(t, mebibyte, 256)), "response_too_large"},
		"a gzip bomb of text":                {respondingEncoded("gzip", "text/plain", gzipped(t, mebibyte, 64)), "response_too_large"},
		"gzip that is one byte too long":     {respondingEncoded("gzip", "text/plain", gzipped(t, bodyMarker+strings.Repeat("y", 1025-len(bodyMarker)), 1)), "response_too_large"},
		"gzip that is broken":                {respondingEncoded("gzip", "text/plain", []byte(bodyMarker)), "unreachable"},
		"gzip that ends early":               {respondingEncoded("gzip", "text/plain", gzipped(t, bodyMarker, 1)[:20]), "unreachable"},
		"gzip twice":                         {respondingEncoded("gzip", "application/json", gzipped(t, string(gzipped(t, `"`+bodyMarker+`"`, 1)), 1)), "invalid_response"},
		"an encoding that was not asked for": {respondingEncoded("br", "application/json", []byte(bodyMarker)), "invalid_response"},
		"an endless body":                    {respondingEndlessly("application/json", `"`+bodyMarker), "response_too_large"},
		"an endless text":                    {respondingEndlessly("text/plain", bodyMarker), "response_too_large"},
		"an endless, slow body":              {respondingSlowly("text/plain", "a"), "timeout"},
		"no header":                          {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "timeout"},
		"a header without a body": {func(rw http.ResponseWriter, r *http.Request) {
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "timeout"},
		"half a body": {func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(rw, `{"x":"`+bodyMarker)
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "timeout"},
		"a header that is sent byte by byte": {respondingRaw(t, func(w io.Writer) {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for _, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nX-Slow: "); err == nil; _, err = io.WriteString(w, "y") {
				<-tick.C
			}
		}), "timeout"},
		"an endless header": {respondingRaw(t, func(w io.Writer) {
			for _, err := io.WriteString(w, "HTTP/1.1 200 OK\r\n"); err == nil; _, err = io.WriteString(w, "X-Marker: "+bodyMarker+"\r\n") {
				continue
			}
		}), "unreachable"},
		"a large header": {func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("X-Large", strings.Repeat("y", 80<<10)) }, "unreachable"},
		"endless informational answers": {respondingRaw(t, func(w io.Writer) {
			for _, err := io.WriteString(w, "HTTP/1.1 103 Early Hints\r\n\r\n"); err == nil; _, err = io.WriteString(w, "HTTP/1.1 103 Early Hints\r\n\r\n") {
				continue
			}
		}), "unreachable"},
		"a body that ends early": {respondingRaw(t, func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\n"+bodyMarker)
		}), "unreachable"},
		"a chunk that ends early": {respondingRaw(t, func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n"+bodyMarker)
		}), "unreachable"},
		"33 levels":               {responding("application/json", nestedLists(33)), "invalid_response"},
		"100 levels":              {responding("application/json", nestedLists(100)), "invalid_response"},
		"a level that stays open": {responding("application/json", `{"x":"`+bodyMarker+`"`), "invalid_response"},
		"two values":              {responding("application/json", `{"x":1}{"x":"`+bodyMarker+`"}`), "invalid_response"},
		"a body of another type":  {responding("application/octet-stream", bodyMarker), "unsupported_media_type"},
		"a stream of events":      {responding("text/event-stream", "data: "+bodyMarker+"\n\n"), "unsupported_media_type"},
	}
}

// An answer beyond a bound fails with the code of the bound. No part of it reaches the caller, and its record says so.
func TestAnswersBeyondABoundAreRefusedWhole(t *testing.T) {
	w := newWorld(t)
	for tool, timeout := range map[string]int64{"bounded": 60, "hurry": 2} {
		w.declareTool(tool, document.AITool{Name: tool, Method: "POST", Endpoint: w.up.URL, TimeoutSeconds: timeout, Response: &document.ToolResponse{MaxBytes: 1024}})
	}
	w.declareAgent("support", "bounded", "hurry")
	n := 0
	for name, tc := range outOfBounds(t) {
		w.answering(tc.answer)
		w.Clock.Advance(time.Millisecond)
		_, before := w.up.last()
		a := w.post("support", w.key, callBody(map[bool]string{true: "hurry", false: "bounded"}[tc.code == "timeout"], `{}`))
		code, _, _ := failureOf(a)
		if code != tc.code || strings.Contains(a.raw, bodyMarker) || strings.Contains(a.raw, "structuredContent") || !strings.Contains(a.raw, `"isError":true`) {
			t.Errorf("%s: %.500s, want %s", name, a.raw, tc.code)
		}
		if _, after := w.up.last(); after != before+1 {
			t.Errorf("%s: %d requests were sent", name, after-before)
		}
		n++
		calls := w.recorded(n)
		record, want := calls[len(calls)-1], map[bool]string{true: people.CallTimeout, false: people.CallFailed}[code == "timeout"]
		if record.Code != code || record.Outcome != want || record.Result != "" {
			t.Errorf("%s: the record is %+v", name, record)
		}
	}
}

// An answer that is exactly as large, as deep or as slow as permitted is returned whole.
func TestAnswersWithinTheBoundsAreWhole(t *testing.T) {
	w := newWorld(t)
	declare := func(most int64) {
		w.declareTool("bounded", document.AITool{Name: "Bounded", Method: "GET", Endpoint: w.up.URL, TimeoutSeconds: 30, Response: &document.ToolResponse{MaxBytes: most}})
	}
	declare(1024)
	w.declareAgent("support", "bounded")
	text := bodyMarker + strings.Repeat("y", 1024-len(bodyMarker))
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"JSON":      {responding("application/json", jsonOfSize(1024)), jsonOfSize(1024)},
		"a text":    {responding("text/plain", text), text},
		"gzip":      {respondingEncoded("gzip", "text/plain", gzipped(t, text, 1)), text},
		"32 levels": {responding("application/json", nestedLists(32)), nestedLists(32)},
		"one chunk": {respondingRaw(t, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(text), text)
		}), text},
		"an endless time": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/plain")
			for _, part := range strings.SplitAfter(text, "y") {
				_, _ = io.WriteString(rw, part)
				rw.(http.Flusher).Flush()
			}
		}, text},
	} {
		w.answering(tc.answer)
		if got, code := w.call("bounded", `{}`); code != "" || got != tc.want {
			t.Errorf("%s: %q, %d bytes", name, code, len(got))
		}
	}
	declare(1 << 20)
	w.answering(responding("application/json", jsonOfSize(1<<20)))
	if got, code := w.call("bounded", `{}`); code != "" || got != jsonOfSize(1<<20) {
		t.Errorf("1 MiB: %q, %d bytes", code, len(got))
	}
}

// Requests have bounds too: a body, its depth, its number of values, and the arguments of a call.
func TestRequestsBeyondABoundAreRefused(t *testing.T) {
	w := newWorld(t)
	w.declareTool("note", document.AITool{Name: "Note", Method: "POST", Endpoint: w.up.URL, RequestBodySchema: []schemafield.Field{{Name: "text", FieldType: "STRING"}, {Name: "any", FieldType: "ARRAY"}}})
	w.declareAgent("support", "note")
	sized := func(n int) string {
		const around = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""}}`
		return strings.Replace(around, `"x":"`, `"x":"`+strings.Repeat("y", n-len(around)), 1)
	}
	nested := func(depth int) string { // the request and its parameters are the first two levels
		return `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":` + nestedLists(depth-2) + `}}`
	}
	text := func(n int) string { return `{"text":"` + strings.Repeat("y", n-len(`{"text":""}`)) + `"}` }
	for name, tc := range map[string]struct {
		body, want string
		status     int
	}{
		"256 KiB":                        {sized(256 << 10), `"result":{}`, 200},
		"a byte more":                    {sized(256<<10 + 1), `"code":-32000`, 413},
		"1 MiB":                          {sized(1 << 20), `"code":-32000`, 413},
		"32 levels":                      {nested(32), `"result":{}`, 200},
		"33 levels":                      {nested(33), `"code":-32700`, 400},
		"100,000 levels":                 {nested(100_000), `"code":-32700`, 400},
		"10,001 values":                  {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[` + strings.Repeat("1,", 10_000) + `1]}}`, `"code":-32700`, 400},
		"arguments of 64 KiB":            {callBody("note", text(64<<10)), `"open"`, 200},
		"arguments with a byte more":     {callBody("note", text(64<<10+1)), `"code":"invalid_arguments"`, 200},
		"arguments that are nested":      {callBody("note", `{"any":`+nestedLists(28)+`}`), `"open"`, 200},
		"arguments that are nested more": {callBody("note", `{"any":`+nestedLists(40)+`}`), `"code":-32700`, 400},
	} {
		if a := w.post("support", w.key, tc.body); a.status != tc.status || !strings.Contains(a.raw, tc.want) {
			t.Errorf("%s: %d %.300s", name, a.status, a.raw)
		}
	}
	_, sent := w.up.last()
	for name, tc := range map[string]struct {
		body   string
		status []int
	}{
		"arguments with a byte more": {`{"arguments":` + text(64<<10+1) + `}`, []int{400, 413}}, "a body of 4 MiB": {`{"arguments":` + text(4<<20) + `}`, []int{413}},
		"33 levels": {`{"arguments":{"any":` + nestedLists(31) + `}}`, []int{400}}, "arguments that are no object": {`{"arguments":` + nestedLists(3) + `}`, []int{400}},
	} {
		if status, _, raw := w.direct(w.key, "support", "note", tc.body); !slices.Contains(tc.status, status) {
			t.Errorf("%s without MCP: %d %.300s", name, status, raw)
		}
	}
	if _, now := w.up.last(); now != sent {
		t.Errorf("%d refused calls were sent", now-sent)
	}
	// The size of a body is counted as it is read, because a client need not declare it.
	r, err := http.NewRequestWithContext(t.Context(), "POST", w.Server.URL+"/mcp/support", io.MultiReader(strings.NewReader(sized(256<<10+1))))
	w.Must(err)
	r.Host, r.ContentLength = "localhost", -1
	r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + w.key}}
	resp, err := http.DefaultClient.Do(r)
	w.Must(err)
	w.Must(resp.Body.Close())
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a chunked body: %d", resp.StatusCode)
	}
}
