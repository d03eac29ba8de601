package backend

import (
	"fmt"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
)

// Paging of lists.
const (
	defaultLimit = 50
	maxLimit     = 100
)

// query reads the parameters of a request and collects their faults. It ignores parameters that no operation reads.
type query struct {
	values url.Values
	faults []apierror.Fault
}

func (c *call) query() *query { return &query{values: c.r.URL.Query()} }

func (q *query) fault(name, format string, args ...any) {
	q.faults = append(q.faults, apierror.Fault{Pointer: "?" + name, Message: fmt.Sprintf(format, args...)})
}

// text returns a parameter, and whether it was sent.
func (q *query) text(name string) (string, bool) {
	sent := q.values[name]
	switch {
	case len(sent) == 0:
		return "", false
	case len(sent) > 1:
		q.fault(name, "was sent more than once: send it once")
		return "", false
	case !utf8.ValidString(sent[0]) || containsNUL(sent[0]):
		q.fault(name, "must be text in UTF-8 without NUL")
		return "", false
	}
	return sent[0], true
}

func containsNUL(s string) bool {
	for i := range len(s) {
		if s[i] == 0 {
			return true
		}
	}
	return false
}

// integer returns a parameter of at least least, absent if it was not sent.
func (q *query) integer(name string, least, absent int64) int64 {
	sent, ok := q.text(name)
	if !ok {
		return absent
	}
	n, err := strconv.ParseInt(sent, 10, 64)
	switch {
	case err != nil:
		q.fault(name, "must be an integer that fits 64 bits")
	case n < least:
		q.fault(name, "must be at least %d", least)
	}
	return n
}

// flag returns a parameter that is true or false, nil if it was not sent.
func (q *query) flag(name string) *bool {
	sent, ok := q.text(name)
	if !ok {
		return nil
	}
	if sent != "true" && sent != "false" {
		q.fault(name, "must be true or false")
		return nil
	}
	value := sent == "true"
	return &value
}

// page returns the limit and offset of a list: a limit over the largest is clamped, below 1 refused.
func (q *query) page() (limit, offset int) {
	limit = int(min(q.integer("limit", 1, defaultLimit), maxLimit))
	offset = int(q.integer("offset", 0, 0))
	return limit, offset
}

// has reports whether a parameter was sent.
func (q *query) has(name string) bool { return len(q.values[name]) > 0 }

// err returns a 400 with every fault.
func (q *query) err() error {
	if q.faults == nil {
		return nil
	}
	return apierror.Invalid(q.faults...)
}
