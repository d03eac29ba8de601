package decision

import "net/netip"

// readFast parses the body of a usual check: well-formed, each member once, plain ASCII without escapes. It returns
// false for everything else, including every faulty body; readStrict parses that and returns the faults.
func readFast(raw []byte) (q question, ok bool) {
	r := scanner{text: string(raw)}
	seen := members(0)
	ok = r.object(func(name string) bool {
		switch name {
		case "principal":
			return seen.first(0) && r.principal(&q)
		case "resource":
			return seen.first(1) && r.stringInto(&q.path)
		case "method":
			return seen.first(2) && r.stringInto(&q.method) && validMethod(q.method)
		case "client_ip":
			return seen.first(3) && r.address(&q.client)
		case "user_agent":
			var ignored string
			return seen.first(4) && r.stringInto(&ignored)
		case "required_permissions":
			return seen.first(5) && r.strings(&q.permissions)
		case "deployment":
			return seen.first(6) && r.deployment(&q.scope.deployment)
		}
		return false
	})
	r.blanks()
	return q, ok && r.at == len(r.text) && q.credential != "" && q.path != "" && q.method != "" && len(q.permissions) <= maxPermissions
}

func (r *scanner) principal(q *question) bool {
	kind, seen := "", members(0)
	ok := r.object(func(name string) bool {
		switch name {
		case "type":
			return seen.first(0) && r.stringInto(&kind)
		case "value":
			return seen.first(1) && r.stringInto(&q.credential)
		}
		return false
	})
	if kind == typeSessionToken {
		q.kind = kindSession
	}
	return ok && (kind == typeSessionToken || kind == typeAPIKey)
}

func (r *scanner) deployment(to *deployment) bool {
	var text string
	if !r.stringInto(&text) {
		return false
	}
	var err error
	*to, err = parseDeployment(text)
	return err == nil
}

func (r *scanner) address(to *netip.Addr) bool {
	var text string
	if !r.stringInto(&text) {
		return false
	}
	address, err := netip.ParseAddr(text)
	*to = address.Unmap()
	return err == nil && address.Zone() == ""
}

// scanner reads a text from left to right. Its methods return false if the text does not match; the scanner must not be
// used afterwards.
type scanner struct {
	text string
	at   int
}

// members is the set of members that were already read from an object.
type members uint8

// first reports whether a member occurs for the first time.
func (m *members) first(number int) bool {
	before := *m
	*m |= 1 << number
	return *m != before
}

func (r *scanner) blanks() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// next skips blanks and reads the character sign.
func (r *scanner) next(sign byte) bool {
	r.blanks()
	if r.at == len(r.text) || r.text[r.at] != sign {
		return false
	}
	r.at++
	return true
}

// object reads a non-empty object. value reads the value of a member.
func (r *scanner) object(value func(name string) bool) bool {
	if !r.next('{') {
		return false
	}
	for {
		var name string
		if !r.stringInto(&name) || !r.next(':') || !value(name) {
			return false
		}
		if !r.next(',') {
			return r.next('}')
		}
	}
}

// stringInto reads a string of plain ASCII without escapes.
func (r *scanner) stringInto(to *string) bool {
	if !r.next('"') {
		return false
	}
	for from := r.at; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			*to = r.text[from:r.at]
			r.at++
			return true
		case c < ' ' || c > '~' || c == '\\':
			return false
		}
	}
	return false
}

// strings reads an array of strings.
func (r *scanner) strings(to *[]string) bool {
	if !r.next('[') {
		return false
	}
	if r.next(']') {
		return true
	}
	for {
		var element string
		if !r.stringInto(&element) {
			return false
		}
		*to = append(*to, element)
		if !r.next(',') {
			return r.next(']')
		}
	}
}
