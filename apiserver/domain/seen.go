package domain

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

// Outcome is the outcome of a lookup.
type Outcome string

// The outcomes.
const (
	// OutcomeFound: the record has the value.
	OutcomeFound Outcome = "found"
	// OutcomeTaken: the record has the value, and another organization has the domain.
	OutcomeTaken Outcome = "taken"
	// OutcomeOtherValue: there are TXT records of the name, and none has the value.
	OutcomeOtherValue Outcome = "other_value"
	// OutcomeNoRecord: there is no TXT record of the name, or no such name.
	OutcomeNoRecord Outcome = "no_record"
	// OutcomeTimeout: no DNS server answered in time.
	OutcomeTimeout Outcome = "timeout"
	// OutcomeServerFailure: the DNS server answered with a failure, such as SERVFAIL.
	OutcomeServerFailure Outcome = "server_failure"
)

var outcomes = []Outcome{OutcomeFound, OutcomeTaken, OutcomeOtherValue, OutcomeNoRecord, OutcomeTimeout, OutcomeServerFailure}

// Answer is the answer to a lookup.
type Answer struct {
	// Texts are the TXT records of the name, each with its strings joined. They are untrusted.
	Texts []string
	// Failure is OutcomeTimeout or OutcomeServerFailure if it is not known whether there is a record, else "".
	Failure Outcome
	// At is when the lookup ended.
	At time.Time
}

// Has reports whether one of the records has a value.
func (a Answer) Has(value string) bool {
	return slices.ContainsFunc(a.Texts, func(text string) bool { return strings.TrimSpace(text) == value })
}

// outcome returns the outcome for a value.
func (a Answer) outcome(value string) Outcome {
	switch {
	case a.Failure != "":
		return a.Failure
	case a.Has(value):
		return OutcomeFound
	case len(a.Texts) > 0:
		return OutcomeOtherValue
	}
	return OutcomeNoRecord
}

const (
	// maxSeenTexts bounds the records that are stored and shown of a lookup, and maxSeenText each, in characters.
	maxSeenTexts, maxSeenText = 5, 255
)

// Seen is what is stored of the last lookup of a domain.
type Seen struct {
	// Outcome is "" before the first lookup.
	Outcome Outcome `json:"outcome"`
	// Texts are the first TXT records, clipped and printable.
	Texts []string `json:"texts,omitempty"`
	// Displaced reports that the organization was notified that a declared domain displaces this one.
	Displaced bool `json:"displaced,omitempty"`
}

// SeenOf returns what the last lookup of a domain returned.
func SeenOf(d people.Domain) (s Seen) {
	if d.Seen == "" || json.Unmarshal([]byte(d.Seen), &s) != nil {
		return Seen{}
	}
	return s
}

// encode returns s as a row has it.
func (s Seen) encode() string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts are always marshaled
	}
	return string(raw)
}

// shown returns the records that are stored and shown.
func shown(texts []string) []string {
	var out []string
	for _, one := range texts[:min(len(texts), maxSeenTexts)] {
		runes := []rune(text.Printable(one))
		out = append(out, string(runes[:min(len(runes), maxSeenText)]))
	}
	return out
}
