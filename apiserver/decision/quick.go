package decision

import "net/netip"

// readQuickly reads the body of a check as nearly all are: well-formed, each member once, plain ASCII without escapes. It answers false
// for everything else, also for all that is to be refused: readStrictly reads that, and says what is wrong.
func readQuickly(raw []byte) (q question, ok bool) {
	r := quick{text: string(raw)}
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

func (r *quick) principal(q *question) bool {
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

func (r *quick) deployment(to *deployment) bool {
	var text string
	if !r.stringInto(&text) {
		return false
	}
	var err error
	*to, err = parseDeployment(text)
	return err == nil
}

func (r *quick) address(to *netip.Addr) bool {
	var text string
	if !r.stringInto(&text) {
		return false
	}
	address, err := netip.ParseAddr(text)
	*to = address.Unmap()
	return err == nil && address.Zone() == ""
}

// quick is a text that is read from left to right. Its methods answer false where the text is not what they read; nothing is read
// afterwards.
type quick struct {
	text string
	at   int
}

// members are those that an object had already.
type members uint8

// first reports whether a member comes for the first time.
func (m *members) first(number int) bool {
	before := *m
	*m |= 1 << number
	return *m != before
}

func (r *quick) blanks() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// next reads one sign after blanks.
func (r *quick) next(sign byte) bool {
	r.blanks()
	if r.at == len(r.text) || r.text[r.at] != sign {
		return false
	}
	r.at++
	return true
}

// object reads an object with a member or more, whose values are read by value.
func (r *quick) object(value func(name string) bool) bool {
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
func (r *quick) stringInto(to *string) bool {
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
func (r *quick) strings(to *[]string) bool {
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
