package limits

import (
	"net/http"
	"strconv"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
)

// The fields of draft-ietf-httpapi-ratelimit-headers, and Retry-After.
const (
	FieldLimit      = "Ratelimit"
	FieldPolicy     = "Ratelimit-Policy"
	FieldRetryAfter = "Retry-After"
)

// WriteFields writes the remaining quota of each matching rule, and when to try again, into a header. It writes nothing
// if no rule matched.
func WriteFields(header http.Header, r *engine.Result) {
	if len(r.Rules) == 0 {
		return
	}
	var buffer [512]byte
	out := AppendLimit(buffer[:0], r)
	if fields := r.Fields(); fields != nil {
		header[FieldLimit], header[FieldPolicy] = []string{string(out)}, fields.Policy
	} else {
		limit := len(out)
		both := string(AppendPolicy(out, r))
		values := &[2]string{both[:limit], both[limit:]}
		header[FieldLimit], header[FieldPolicy] = values[0:1:1], values[1:2:2]
	}
	if !r.Allowed {
		header[FieldRetryAfter] = []string{strconv.FormatInt(RetrySeconds(r), 10)}
	}
}

// AppendLimit appends the value of RateLimit: the remaining requests of each rule, and the seconds until used quota is
// returned.
func AppendLimit(out []byte, r *engine.Result) []byte {
	fields := r.Fields()
	for i := range r.Rules {
		state := &r.Rules[i]
		out = appendName(out, r, fields, i)
		out = append(out, ";r="...)
		out = strconv.AppendInt(out, state.Remaining, 10)
		if state.Returns > 0 {
			out = append(out, ";t="...)
			out = strconv.AppendInt(out, seconds(state.Returns), 10)
		}
	}
	return out
}

// AppendPolicy appends the value of RateLimit-Policy: for each rule its limit and its window in seconds.
func AppendPolicy(out []byte, r *engine.Result) []byte {
	fields := r.Fields()
	if fields != nil {
		return append(out, fields.Policy[0]...)
	}
	for i := range r.Rules {
		out = append(appendName(out, r, nil, i), r.Rules[i].Rule.Policy...)
	}
	return out
}

// appendName appends a rule's text as a unique name: of two matching rules with equal texts, the later has a number.
// fields are those of the result, nil for none.
func appendName(out []byte, r *engine.Result, fields *engine.Fields, i int) []byte {
	if i > 0 {
		out = append(out, ", "...)
	}
	if fields != nil {
		return append(out, fields.Names[i]...)
	}
	alike := 1
	for j := range i {
		if r.Rules[j].Rule.Text == r.Rules[i].Rule.Text {
			alike++
		}
	}
	out = append(append(out, '"'), r.Rules[i].Rule.Text...)
	if alike > 1 {
		out = append(out, '#')
		out = strconv.AppendInt(out, int64(alike), 10)
	}
	return append(out, '"')
}

// RetrySeconds returns when to try again, in whole seconds, never early.
func RetrySeconds(r *engine.Result) int64 { return seconds(r.RetryAfter) }

func seconds(microseconds int64) int64 { return (microseconds + 1e6 - 1) / 1e6 }
