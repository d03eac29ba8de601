package decision

import (
	"errors"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Envoy sends all headers of a request, and a decision needs three. So this file parses the message field by field and
// keeps only the needed fields. It also encodes allowed responses. The field numbers are those of envoy/service/auth/v3
// and envoy/config/core/v3.

// envoyHeaders are the headers that a decision needs, with the names that Envoy sends.
var envoyHeaders = [...]string{"authorization", "x-api-key", "x-forwarded-for"}

// envoyRequest is the part of a CheckRequest that a decision needs.
type envoyRequest struct {
	method, path string
	// source is the address of Envoy's client, "" if it is not a socket address.
	source string
	// headers has the values of envoyHeaders, in the same order.
	headers [len(envoyHeaders)]envoyHeader
	// The context extensions of these names.
	permission, deployment, app, principal, acr, maxAge string
}

// envoyHeader is a header's value from the map of headers and, with encode_raw_headers, its lines.
type envoyHeader struct {
	value  string
	mapped bool
	lines  []string
}

func (h *envoyHeader) all() []string {
	if h.mapped {
		return append([]string{h.value}, h.lines...)
	}
	return h.lines
}

var errText = errors.New("a text is not valid UTF-8")

// read parses a CheckRequest. It skips the fields that it does not need, so it accepts messages that are malformed only
// there.
func (m *envoyRequest) read(raw []byte) error {
	return inside(raw, 1, func(attributes []byte) error {
		return fields(attributes, func(number protowire.Number, value []byte) error {
			switch number {
			case 1: // source
				return inside(value, 1, m.readAddress)
			case 4: // request
				return inside(value, 2, m.readHTTP)
			case 10: // context_extensions
				return m.readExtension(value)
			}
			return nil
		})
	})
}

func (m *envoyRequest) readAddress(address []byte) error {
	return fields(address, func(number protowire.Number, value []byte) error {
		switch number {
		case 1: // socket_address
			return inside(value, 2, func(text []byte) error { return textInto(&m.source, text) })
		case 2, 3: // another kind of address replaces it
			m.source = ""
		}
		return nil
	})
}

func (m *envoyRequest) readHTTP(http []byte) error {
	return fields(http, func(number protowire.Number, value []byte) error {
		switch number {
		case 2:
			return textInto(&m.method, value)
		case 3: // an entry of the map of headers
			return m.readHeader(value)
		case 4:
			return textInto(&m.path, value)
		case 13: // header_map
			return inside(value, 1, m.readLine)
		}
		return nil
	})
}

func (m *envoyRequest) readHeader(entry []byte) error {
	key, value, _, err := pair(entry)
	if at := headerNumber(key); err == nil && at >= 0 {
		m.headers[at].mapped = true
		return textInto(&m.headers[at].value, value)
	}
	return err
}

func (m *envoyRequest) readLine(line []byte) error {
	key, value, raw, err := pair(line)
	if at := headerNumber(key); err == nil && at >= 0 {
		if !utf8.Valid(value) {
			return errText
		}
		m.headers[at].lines = append(m.headers[at].lines, string(raw)+string(value))
	}
	return err
}

func (m *envoyRequest) readExtension(entry []byte) error {
	key, value, _, err := pair(entry)
	if err != nil {
		return err
	}
	switch string(key) {
	case contextPermission:
		return textInto(&m.permission, value)
	case contextDeployment:
		return textInto(&m.deployment, value)
	case contextApp:
		return textInto(&m.app, value)
	case contextPrincipal:
		return textInto(&m.principal, value)
	case contextACR:
		return textInto(&m.acr, value)
	case contextMaxAge:
		return textInto(&m.maxAge, value)
	}
	return nil
}

func headerNumber(key []byte) int {
	for i, name := range envoyHeaders {
		if string(key) == name {
			return i
		}
	}
	return -1
}

// pair reads the fields 1 to 3 of a map entry or of a HeaderValue.
func pair(raw []byte) (key, value, bytes []byte, err error) {
	err = fields(raw, func(number protowire.Number, of []byte) error {
		switch number {
		case 1:
			key = of
		case 2:
			value = of
		case 3:
			bytes = of
		}
		return nil
	})
	return key, value, bytes, err
}

// inside calls do with every length-delimited value of one field.
func inside(raw []byte, field protowire.Number, do func(value []byte) error) error {
	return fields(raw, func(number protowire.Number, value []byte) error {
		if number != field {
			return nil
		}
		return do(value)
	})
}

// fields calls do with every length-delimited field, and skips the others.
func fields(raw []byte, do func(number protowire.Number, value []byte) error) error {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		raw = raw[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, raw); n < 0 {
				return protowire.ParseError(n)
			}
			raw = raw[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		raw = raw[n:]
		if err := do(number, value); err != nil {
			return err
		}
	}
	return nil
}

func textInto(to *string, raw []byte) error {
	if !utf8.Valid(raw) {
		return errText
	}
	*to = string(raw)
	return nil
}

// appendHeaderOption appends a HeaderValueOption as a field. Envoy replaces the client's header of that name, even if
// the value is empty.
func appendHeaderOption[T string | []byte](out []byte, field protowire.Number, name string, value T) []byte {
	header := protowire.SizeTag(1) + protowire.SizeBytes(len(name))
	if len(value) > 0 {
		header += protowire.SizeTag(2) + protowire.SizeBytes(len(value))
	}
	out = protowire.AppendTag(out, field, protowire.BytesType)
	out = protowire.AppendVarint(out, uint64(protowire.SizeTag(1)+protowire.SizeBytes(header)+4))
	out = protowire.AppendTag(out, 1, protowire.BytesType)
	out = protowire.AppendVarint(out, uint64(header))
	out = protowire.AppendTag(out, 1, protowire.BytesType)
	out = protowire.AppendString(out, name)
	if len(value) > 0 {
		out = protowire.AppendTag(out, 2, protowire.BytesType)
		out = append(protowire.AppendVarint(out, uint64(len(value))), value...)
	}
	out = protowire.AppendTag(out, 3, protowire.VarintType)
	out = protowire.AppendVarint(out, uint64(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
	out = protowire.AppendTag(out, 4, protowire.VarintType)
	return protowire.AppendVarint(out, 1)
}

// envoyAnswer is a CheckResponse in wire format.
type envoyAnswer struct{ raw []byte }

// envoyCodec encodes the messages of the ext_authz service, and leaves those of other services to another codec.
type envoyCodec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c envoyCodec) Unmarshal(data mem.BufferSlice, v any) error {
	request, ours := v.(*envoyRequest)
	if !ours {
		return c.CodecV2.Unmarshal(data, v)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	return request.read(buffer.ReadOnlyData())
}

// Marshal implements encoding.CodecV2.
func (c envoyCodec) Marshal(v any) (mem.BufferSlice, error) {
	if answer, ours := v.(*envoyAnswer); ours {
		return mem.BufferSlice{mem.SliceBuffer(answer.raw)}, nil
	}
	return c.CodecV2.Marshal(v)
}
