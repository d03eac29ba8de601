package agents_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// An argument changes only its own segment, query value or header, whatever its characters are.
func TestArgumentsStayInTheirPlace(t *testing.T) {
	w := newWorld(t)
	text := func(name string, required bool) schemafield.Field {
		return schemafield.Field{Name: name, FieldType: "STRING", Required: required}
	}
	w.declareTool("place", document.AITool{
		Name: "Place", Method: "GET", Endpoint: w.up.URL + "/v1/{segment}/end?fixed=1&q={query}", URLParamsSchema: []schemafield.Field{text("segment", true), text("query", false)},
		Authorization: document.ToolAuthorization{CustomHeaders: []schemafield.Field{text("X-Note", false)}},
	})
	w.declareAgent("support", "place")
	for segment, want := range map[string]string{
		"../../admin": "..%2F..%2Fadmin", "..%2f..%2fadmin": "..%252f..%252fadmin", `..\..\admin`: "..%5C..%5Cadmin", "a/../b": "a%2F..%2Fb", "...": "...", "a?admin=1": "a%3Fadmin=1",
		"a#b": "a%23b", "@evil.example": "@evil.example", "//evil.example": "%2F%2Fevil.example", "{query}": "%7Bquery%7D", "a;b": "a%3Bb", "%00": "%2500", "a\nb": "a%0Ab", "é": "%C3%A9",
	} {
		w.callPlaced(map[string]string{"segment": segment, "query": segment})
		got, _ := w.up.last()
		path, query, _ := strings.Cut(got.url, "?")
		if path != "/v1/"+want+"/end" {
			t.Errorf("the segment %q is sent as %s", segment, got.url)
		}
		if values := strings.Split(query, "&"); len(values) != 2 || values[0] != "fixed=1" || !strings.HasPrefix(values[1], "q=") {
			t.Errorf("the query value %q is sent as %s", segment, query)
		}
	}
	_, before := w.up.last()
	for name, arguments := range map[string]map[string]string{
		"a parent": {"segment": ".."}, "the same folder": {"segment": "."}, "an empty segment": {"segment": ""},
		"a header with CR and LF": {"segment": "1", "X-Note": "a\r\nX-Admin: 1"}, "a header with LF": {"segment": "1", "X-Note": "a\nb"}, "a header with CR": {"segment": "1", "X-Note": "a\rb"},
		"a header with NUL": {"segment": "1", "X-Note": "a\x00b"}, "a header with DEL": {"segment": "1", "X-Note": "a\x7fb"}, "a header with a tab": {"segment": "1", "X-Note": "a\tb"},
		"a header with a line separator": {"segment": "1", "X-Note": "a\u2028b"}, "a header with other letters": {"segment": "1", "X-Note": "é"},
		"a header with an encoded LF in UTF-8": {"segment": "1", "X-Note": "\u560a"}, "a long header": {"segment": "1", "X-Note": strings.Repeat("a", 1025)},
		"another header": {"segment": "1", "X-Admin": "1"}, "the host": {"segment": "1", "Host": "evil.example"},
	} {
		if answer, code := w.callPlaced(arguments); code != "invalid_arguments" {
			t.Errorf("%s: %s %s", name, code, answer)
		}
	}
	if _, after := w.up.last(); after != before {
		t.Errorf("%d requests with refused arguments were sent", after-before)
	}
	w.callPlaced(map[string]string{"segment": "1", "X-Note": "a: b, c; d%0d%0aX-Admin: 1"})
	if got, _ := w.up.last(); got.header.Get("X-Note") != "a: b, c; d%0d%0aX-Admin: 1" || got.header.Get("X-Admin") != "" {
		t.Errorf("the headers are %v", got.header)
	}
}

// callPlaced calls the tool place with arguments.
func (w *world) callPlaced(arguments map[string]string) (text, code string) {
	w.T.Helper()
	raw, err := json.Marshal(arguments)
	w.Must(err)
	return w.call("place", string(raw))
}

// A client's idempotency key is sent as it is, or not at all: no key sets another header.
func TestIdempotencyKeySetsNoOtherHeader(t *testing.T) {
	w := newWorld(t)
	for key, good := range map[string]bool{
		"order-7": true, strings.Repeat("k", 128): true, `!"#$%&'()*+,-./:;<=>?@[\]^_{|}~`: true, strings.Repeat("k", 129): false, "": false, "a b": false, "a\tb": false,
		"a\r\nX-Admin: 1": false, "a\nb": false, "a\rb": false, "a\x00b": false, "a\x7fb": false, "é": false, "a\u2028b": false,
	} {
		quoted, err := json.Marshal(key)
		w.Must(err)
		_, before := w.up.last()
		a := w.post("support", w.key, strings.Replace(callBody("cancel-order", `{"number":"1"}`), `"params":{`, `"params":{"_meta":{"dev.cardea.iam/idempotency-key":`+string(quoted)+`},`, 1))
		status, _, raw := w.direct(w.key, "support", "cancel-order", `{"arguments":{"number":"1"},"idempotency_key":`+string(quoted)+`}`)
		got, after := w.up.last()
		switch {
		case good && (after-before != 2 || got.header.Get("Idempotency-Key") != key || got.header.Get("X-Admin") != ""):
			t.Errorf("the key %q: %s, %d %s, sent %v", key, a.raw, status, raw, got.header)
		case !good && key != "" && (after != before || !strings.Contains(a.raw, "-32602") || status != 400):
			t.Errorf("the key %q: %s, %d %s", key, a.raw, status, raw)
		case key == "" && !strings.Contains(a.raw, "-32602"):
			t.Errorf("an empty key: %s", a.raw)
		}
	}
}
