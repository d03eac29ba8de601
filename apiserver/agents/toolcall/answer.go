package toolcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
)

// maxQuoted is how much of an error's text is quoted, in characters.
const maxQuoted = 500

// Codes of calls that failed.
const (
	CodeArguments   = "invalid_arguments"
	CodeTimeout     = "timeout"
	CodeUnreachable = "unreachable"
	CodeRedirected  = "redirected"
	CodeStatus      = "upstream_status"
	CodeTooLarge    = "response_too_large"
	CodeMediaType   = "unsupported_media_type"
	CodeInvalid     = "invalid_response"
	CodeCancelled   = "cancelled"
)

// Block is one part of an answer: a text, or an image or audio with its media type. Its JSON is a content block of the
// Model Context Protocol.
type Block struct {
	// Type is text, image or audio.
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	Data      []byte `json:"data,omitempty"`
	MediaType string `json:"mimeType,omitempty"`
}

// Result is what a call came to.
type Result struct {
	Content []Block
	// Structured is the answer's JSON, nil if it has none.
	Structured json.RawMessage
	// Code is the code of a failed call, "" for success; Content then says what to do.
	Code string
	// Later reports that the tool has accepted the call, and sends its result later.
	Later bool
	// Recorded reports that the result came later and has been recorded when it came.
	Recorded bool
	// RetryAfter is after how many seconds a refused call may be tried again, 0 if that is not known.
	RetryAfter int
	// Status is the status of the tool's response, 0 if there was none.
	Status int
	// BytesOut and BytesIn are the sizes of the bodies.
	BytesOut, BytesIn int
}

// Failed returns the result of a call that failed.
func Failed(code, format string, args ...any) Result {
	return Result{Code: code, Content: []Block{{Type: "text", Text: fmt.Sprintf(format, args...)}}}
}

// read returns the result of a response. A response that is larger than declared, after decompression, is refused and
// never cut.
func (r *reader) read(resp *http.Response) (Result, error) {
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		out := Failed(CodeRedirected, "The tool answered %d with another address, which is not followed: declare the address that it redirects to.", resp.StatusCode)
		out.Status = resp.StatusCode
		return out, nil
	}
	if r.later && resp.StatusCode == http.StatusAccepted {
		return Result{Later: true, Status: resp.StatusCode}, nil
	}
	raw, room, err := r.body(resp.Body)
	if err != nil {
		return Result{}, err
	}
	if !room {
		out := Failed(CodeTooLarge, "The tool's answer was not read, because too many large ones are being read. The call was performed: do not repeat it, unless it only reads.")
		out.Status = resp.StatusCode
		return out, nil
	}
	var out Result
	switch {
	case int64(len(raw)) > r.shape.declared.MostBytes():
		out = Failed(CodeTooLarge, "The tool's answer has more than %d bytes.", r.shape.declared.MostBytes())
	case resp.StatusCode >= 400:
		out = r.failure(resp, raw)
	default:
		out = r.success(resp, raw)
	}
	out.Status, out.BytesIn = resp.StatusCode, len(raw)
	return out, nil
}

// firstRoom is how much of a response is read before more room is taken, in bytes.
const firstRoom = 32 << 10

// body reads a response, and one byte more than is declared of a larger one. It takes room as the response grows, so
// that a tool that sends nothing holds little, and reports whether there was room.
func (r *reader) body(from io.Reader) (raw []byte, room bool, err error) {
	var read bytes.Buffer
	most := r.shape.declared.MostBytes() + 1
	for {
		step := min(max(firstRoom, int64(read.Len())), most-int64(read.Len()))
		if step == 0 {
			return read.Bytes(), true, nil
		}
		if r.room != nil && !r.room(step) {
			return nil, false, nil
		}
		if _, err := io.CopyN(&read, from, step); errors.Is(err, io.EOF) {
			return read.Bytes(), true, nil
		} else if err != nil {
			return nil, true, err
		}
	}
}

func (r *reader) success(resp *http.Response, raw []byte) Result {
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if r.shape.validator != nil && (len(raw) == 0 || err != nil || !isJSON(mediaType)) {
		return Failed(CodeInvalid, "The tool's answer is no JSON, which it declares. Say that the tool does not work as declared.")
	}
	if len(raw) == 0 || resp.StatusCode == http.StatusNoContent {
		return Result{Content: []Block{{Type: "text", Text: fmt.Sprintf("Done (%d).", resp.StatusCode)}}}
	}
	kind, _, _ := strings.Cut(mediaType, "/")
	switch {
	case err == nil && isJSON(mediaType):
		return r.structured(raw)
	case err == nil && kind == "text" && mediaType != "text/event-stream":
		return Result{Content: []Block{{Type: "text", Text: r.clean(string(raw))}}}
	case err == nil && (kind == "image" || kind == "audio") && !r.repeats(mediaType):
		return Result{Content: []Block{{Type: kind, Data: r.cleanData(raw), MediaType: mediaType}}}
	}
	return Failed(CodeMediaType, "The tool answered with a body that is neither JSON, text, image nor audio.")
}

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

// structured returns the result of a JSON answer: the value, and the same as a text.
func (r *reader) structured(raw []byte) Result {
	if err := body.Check(raw); err != nil {
		return Failed(CodeInvalid, "The tool's answer is no JSON within the bounds: %s.", r.clean(err.Error()))
	}
	var value any
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return Failed(CodeInvalid, "The tool's answer is no JSON.")
	}
	value, refused := r.shape.apply(value)
	if refused != nil {
		return *refused
	}
	clean, err := encode(r.cleaned(value))
	if err != nil {
		return Failed(CodeInvalid, "The tool's answer is no JSON.")
	}
	return Result{Content: []Block{{Type: "text", Text: clean}}, Structured: json.RawMessage(clean)}
}

// cleaned returns a JSON value whose texts and names are clean.
func (r *reader) cleaned(value any) any {
	switch v := value.(type) {
	case string:
		return r.clean(v)
	case json.Number:
		if r.repeats(v.String()) {
			return redacted
		}
	case []any:
		for i := range v {
			v[i] = r.cleaned(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[r.clean(name)] = r.cleaned(member)
		}
		return out
	}
	return value
}

// failure returns the result of a response with an error's status. It quotes the text of a JSON error.
func (r *reader) failure(resp *http.Response, raw []byte) Result {
	text := fmt.Sprintf("The tool answered %d %s.", resp.StatusCode, http.StatusText(resp.StatusCode))
	var said struct{ Message, Detail, Title, Error any }
	if json.Unmarshal(raw, &said) == nil {
		for _, one := range []any{said.Message, said.Detail, said.Title, said.Error} {
			if words, is := one.(string); is && words != "" {
				text += " " + r.quoted(words)
				break
			}
		}
	}
	return Failed(CodeStatus, "%s", text)
}

// quoted returns at most maxQuoted characters of a text.
func (r *reader) quoted(s string) string {
	s = r.clean(s)
	if utf8.RuneCountInString(s) > maxQuoted {
		s = string([]rune(s)[:maxQuoted]) + "..."
	}
	return s
}

// Clean removes from a text what could control a terminal or hide instructions from its reader: control characters but
// line feeds and tabs, bidirectional controls, and tag characters. Invalid UTF-8 becomes U+FFFD.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ' || r >= 0x7F && r <= 0x9F, r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200E || r == 0x200F || r == 0x061C,
			r >= 0xE0000 && r <= 0xE007F:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
