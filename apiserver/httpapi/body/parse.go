package body

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/internal/text"
)

// Parse reads a body that must be one JSON object, of at most 32 levels and 10,000 values. The error is an
// apierror.Error with status 400.
func Parse(raw []byte) (*Object, error) {
	if at, err := scan(raw); err != nil {
		return nil, apierror.New(400, "the body is not valid JSON: %s at byte %d: send one JSON object", reason(err), at)
	}
	whole := jsontext.Value(bytes.TrimSpace(raw))
	if whole.Kind() != '{' {
		return nil, apierror.New(400, "the body is %s: send one JSON object", describe(whole))
	}
	return newObject(whole, "", &faults{}), nil
}

// scan reads a whole body without keeping any of it. It returns the offset in bytes at which it stopped.
func scan(raw []byte) (int64, error) {
	dec := decoder(raw)
	defer decoders.Put(dec)
	for values := 0; ; {
		token, err := dec.ReadToken()
		if err != nil {
			return dec.InputOffset(), err
		}
		if isValue(dec, token.Kind()) {
			values++
		}
		switch {
		case dec.StackDepth() > maxDepth:
			return dec.InputOffset(), fmt.Errorf("it nests deeper than %d levels", maxDepth)
		case values > maxValues:
			return dec.InputOffset(), fmt.Errorf("it has more than %d values", maxValues)
		case dec.StackDepth() > 0:
			continue
		}
		if _, err := dec.ReadToken(); err == nil {
			return dec.InputOffset(), errors.New("there is more after the object")
		} else if err != io.EOF {
			return dec.InputOffset(), err
		}
		return 0, nil
	}
}

// isValue reports whether the token just read begins a value. Other tokens end a value, or are a member's name.
func isValue(dec *jsontext.Decoder, kind jsontext.Kind) bool {
	switch kind {
	case '}', ']':
		return false
	case '{', '[':
		return true
	}
	parent, read := dec.StackIndex(dec.StackDepth())
	return parent != '{' || read%2 == 0
}

// decoders are reused, because making one costs as much as reading a small body.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(bytes.NewBuffer(nil), jsontext.AllowDuplicateNames(true)) }}

// decoder returns a decoder of raw. The caller puts it back into decoders.
func decoder(raw []byte) *jsontext.Decoder {
	dec := decoders.Get().(*jsontext.Decoder)
	dec.Reset(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
	return dec
}

// newObject reads the members of a scanned object.
func newObject(raw jsontext.Value, pointer string, found *faults) *Object {
	o := &Object{faults: found, pointer: pointer, members: make([]member, 0, 8)}
	dec := decoder(raw)
	defer decoders.Put(dec)
	_, _ = dec.ReadToken() // scan has read all of it before, so this cannot fail
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			break
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			break
		}
		if o.find(name) >= 0 {
			o.Fault(escape(name), "appears more than once: send it once")
			continue
		}
		o.add(member{name: name, value: partOf(raw, dec, value)})
	}
	return o
}

// partOf returns the part of raw that contains the value just read. The decoder overwrites the value's own memory at
// the next read.
func partOf(raw []byte, dec *jsontext.Decoder, value jsontext.Value) jsontext.Value {
	end := dec.InputOffset()
	return jsontext.Value(raw[end-int64(len(value)) : end : end])
}

// elementsOf reads the elements of a scanned array.
func elementsOf(raw jsontext.Value) []jsontext.Value {
	var out []jsontext.Value
	dec := decoder(raw)
	defer decoders.Put(dec)
	_, _ = dec.ReadToken()
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			break
		}
		out = append(out, partOf(raw, dec, value))
	}
	return out
}

// textOf returns the text of a scanned string.
func textOf(raw jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text)
}

func reason(err error) string {
	var syntactic *jsontext.SyntacticError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	if errors.As(err, &syntactic) {
		// The caller adds the position. The error must not contain the value, which may be a secret.
		return syntactic.Err.Error()
	}
	return err.Error()
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// escape returns a member's name as a part of a JSON pointer (RFC 6901). The response contains the name, and a terminal
// may show it. So a name is cut after 100 bytes, and unprintable characters are replaced.
func escape(name string) string {
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:100], "") + "…"
	}
	return pointerEscapes.Replace(text.Printable(name))
}

func describe(v jsontext.Value) string {
	switch v.Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	}
	return "an object"
}

// Check returns an error if a text is not one JSON value within the bounds of bodies: at most 32 levels and 10,000
// values.
func Check(raw []byte) error {
	if at, err := scan(raw); err != nil {
		return fmt.Errorf("%s at byte %d", reason(err), at)
	}
	return nil
}
