package engine

import (
	"errors"
	"strings"
)

// MaxPath is the longest path, in bytes, that a decision accepts: as received, and after bytes beyond ASCII are
// escaped.
const MaxPath = 8192

// The errors of CanonicalPath.
var (
	ErrPathForm      = errors.New("the path must begin with a slash, be at most 8192 bytes, and have no blank or control character")
	ErrPathEscape    = errors.New("the path has a percent sign without two hexadecimal digits after it")
	ErrPathEncoded   = errors.New("the path has a backslash, or encodes a slash, a backslash or a control character: an application might read it as another path")
	ErrPathParameter = errors.New("the path has a segment `.` or `..` with matrix parameters (a semicolon after the dots), which some applications resolve as the segment alone")
	ErrPathAmbiguous = errors.New("the path has `..` after two slashes, which proxies and applications resolve differently")
)

// CanonicalPath returns the one spelling of a request's path that endpoint patterns are matched with. It removes
// query and fragment, decodes unreserved characters, writes other escapes in upper case and escapes bytes beyond
// ASCII; then it resolves dot segments, then merges slashes. In another order `%2e%2e` would bypass a rule. A path
// that applications and proxies read differently is an error: an encoded slash or backslash, a raw backslash, a
// control character, `//..`, a dot segment with matrix parameters (`/..;x`). A path that is canonical already is
// returned without a copy.
func CanonicalPath(path string) (string, error) {
	if cut := strings.IndexAny(path, "?#"); cut >= 0 {
		path = path[:cut]
	}
	if path == "" || path[0] != '/' || len(path) > MaxPath {
		return "", ErrPathForm
	}
	plain, special := true, false
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c <= ' ' || c == 0x7f:
			return "", ErrPathForm
		case c == '\\':
			return "", ErrPathEncoded
		case c == '%' || c > 0x7f:
			plain = false
		case c == '/' && i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.'):
			special = true
		}
	}
	if plain && !special {
		return path, nil
	}
	if !plain {
		decoded, err := decodeUnreserved(path)
		if err != nil {
			return "", err
		}
		path = decoded
	}
	if len(path) > MaxPath {
		return "", ErrPathForm
	}
	path, err := resolveDots(path)
	return mergeSlashes(path), err
}

// decodeUnreserved decodes the escapes of RFC 3986's unreserved characters, writes the others in upper case, and
// escapes what is not ASCII.
func decodeUnreserved(path string) (string, error) {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	out.Grow(len(path))
	for i := 0; i < len(path); i++ {
		if c := path[i]; c > 0x7f {
			out.Write([]byte{'%', digits[c>>4], digits[c&15]})
			continue
		} else if c != '%' {
			out.WriteByte(c)
			continue
		}
		if i+2 >= len(path) {
			return "", ErrPathEscape
		}
		high, low := unhex(path[i+1]), unhex(path[i+2])
		if high < 0 || low < 0 {
			return "", ErrPathEscape
		}
		switch c := byte(high<<4 | low); {
		case c == '/' || c == '\\' || c < ' ' || c == 0x7f:
			return "", ErrPathEncoded
		case unreserved(c):
			out.WriteByte(c)
		default:
			out.Write([]byte{'%', digits[high], digits[low]})
		}
		i += 2
	}
	return out.String(), nil
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// resolveDots removes the segments `.` and `..`, the latter with the segment before it. At the root, `..` stays at the
// root.
func resolveDots(path string) (string, error) {
	segments := strings.Split(path[1:], "/")
	out := segments[:0]
	for i, segment := range segments {
		last := i == len(segments)-1
		switch segment {
		case ".":
		case "..":
			if len(out) > 0 && out[len(out)-1] == "" {
				return "", ErrPathAmbiguous
			}
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		default:
			if dotsWithParameters(segment) {
				return "", ErrPathParameter
			}
			out = append(out, segment)
			continue
		}
		if last { // a directory was named: /a/. is /a/
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/"), nil
}

// dotsWithParameters reports whether a segment is `.` or `..` before a semicolon, escaped or not.
func dotsWithParameters(segment string) bool {
	dots := strings.TrimLeft(segment, ".")
	return len(segment)-len(dots) <= 2 && len(dots) < len(segment) && (strings.HasPrefix(dots, ";") || strings.HasPrefix(dots, "%3B"))
}

func mergeSlashes(path string) string {
	if !strings.Contains(path, "//") {
		return path
	}
	var out strings.Builder
	out.Grow(len(path))
	for i := 0; i < len(path); i++ {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			out.WriteByte(path[i])
		}
	}
	return out.String()
}
