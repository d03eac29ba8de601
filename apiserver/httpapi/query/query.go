// Package query reads the parameters of a request's query, by one rule for each type of value, and collects their
// faults.
package query

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/internal/ids"
)

// Query reads the parameters of a request. Parameters that no operation reads are ignored.
type Query struct {
	values url.Values
	faults []apierror.Fault
}

// New returns a reader of the parameters of a URL.
func New(values url.Values) *Query { return &Query{values: values} }

// Values returns the parameters as they were sent.
func (q *Query) Values() url.Values { return q.values }

// Fault records that a parameter is wrong: what is wrong with it, and how to fix it.
func (q *Query) Fault(name, format string, args ...any) {
	q.faults = append(q.faults, apierror.Fault{Pointer: "?" + name, Message: fmt.Sprintf(format, args...)})
}

// Add records faults that were found elsewhere.
func (q *Query) Add(faults ...apierror.Fault) { q.faults = append(q.faults, faults...) }

// Has reports whether a parameter was sent.
func (q *Query) Has(name string) bool { return len(q.values[name]) > 0 }

// Text returns a parameter, and reports whether it was sent.
func (q *Query) Text(name string) (string, bool) {
	sent := q.values[name]
	switch {
	case len(sent) == 0:
		return "", false
	case len(sent) > 1:
		q.Fault(name, "was sent more than once: send it once")
		return "", false
	case !utf8.ValidString(sent[0]) || strings.ContainsRune(sent[0], 0):
		q.Fault(name, "must be text in UTF-8 without NUL")
		return "", false
	}
	return sent[0], true
}

// Integer returns an integer parameter, or absent if it was not sent. A value below least is a fault.
func (q *Query) Integer(name string, least, absent int64) int64 {
	sent, ok := q.Text(name)
	if !ok {
		return absent
	}
	n, err := strconv.ParseInt(sent, 10, 64)
	switch {
	case err != nil:
		q.Fault(name, "must be an integer that fits 64 bits")
	case n < least:
		q.Fault(name, "must be at least %d", least)
	}
	return n
}

// Limit returns the parameter limit: absent if it was not sent, and never more than most. A limit below 1 is a fault.
func (q *Query) Limit(absent, most int64) int { return int(min(q.Integer("limit", 1, absent), most)) }

// Flag returns a parameter that is true or false, nil if it was not sent.
func (q *Query) Flag(name string) *bool {
	sent, ok := q.Text(name)
	if !ok {
		return nil
	}
	if sent != "true" && sent != "false" {
		q.Fault(name, "must be true or false")
		return nil
	}
	value := sent == "true"
	return &value
}

// OneOf returns a parameter that must be one of several values, or absent if it was not sent or is empty.
func (q *Query) OneOf(name, absent string, values ...string) string {
	sent, _ := q.Text(name)
	if sent == "" {
		return absent
	}
	if !slices.Contains(values, sent) {
		q.Fault(name, "must be %s", strings.Join(values, " or "))
	}
	return sent
}

// ID returns a parameter that is an id, 0 if it was not sent.
func (q *Query) ID(name string) int64 {
	sent, ok := q.Text(name)
	if !ok {
		return 0
	}
	id, err := ids.Parse(sent)
	if err != nil {
		q.Fault(name, "must be an id: a decimal integer from 1 to 9223372036854775807")
	}
	return id
}

// Time returns a parameter that is an RFC 3339 time in 1970 or later, the zero time if it was not sent.
func (q *Query) Time(name string) time.Time {
	sent, ok := q.Text(name)
	if !ok {
		return time.Time{}
	}
	// A "+" that the client did not escape arrives as a blank.
	at, err := time.Parse(time.RFC3339Nano, strings.ReplaceAll(sent, " ", "+"))
	if err != nil || at.Year() < 1970 {
		q.Fault(name, "must be a time with its offset, such as 2026-05-10T12:00:00Z, in 1970 or later")
		return time.Time{}
	}
	return at
}

// Err returns a 400 with every fault, nil if there is none.
func (q *Query) Err() error {
	if q.faults == nil {
		return nil
	}
	return apierror.Invalid(q.faults...)
}
