package domain

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// The times of lookups without a request.
const (
	// pendingEvery is the interval of lookups of a pending domain after pendingSteps, and pendingFor when it expires.
	pendingEvery = time.Hour
	pendingFor   = 14 * 24 * time.Hour
	// checkEvery is the mean interval of lookups of a domain that is or was verified, and checkJitter its spread.
	checkEvery, checkJitter = 24 * time.Hour, 2 * time.Hour
	// unavailableEvery is the interval if it is not known whether there is a record.
	unavailableEvery = time.Hour
	// failingFor and failingLookups are how long, and in how many lookups, the record of a verified domain must be missing
	// until the domain lapses.
	failingFor, failingLookups = 7 * 24 * time.Hour, 3
)

// pendingSteps are the first lookups of a pending domain after its beginning.
var pendingSteps = []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute}

// Event is a change of a domain's state.
type Event string

// The events, which are the actions of audit records after "domain.".
const (
	eventNone     Event = ""
	eventVerified Event = "verified"
	eventFailing  Event = "failing"
	eventLapsed   Event = "lapsed"
	eventExpired  Event = "expired"
)

// begin returns a domain that waits for its record from a time on.
func begin(d people.Domain, now time.Time) people.Domain {
	d.State, d.VerifiedBy, d.VerifiedAt = people.DomainPending, "", time.Time{}
	d.FailingSince, d.Failures = now, 0
	d.NextLookupAt = nextPending(now, now)
	return d
}

// nextPending returns the next lookup of a domain that is pending since a time, zero if it expires.
func nextPending(since, now time.Time) time.Time {
	waited := now.Sub(since)
	if waited >= pendingFor {
		return time.Time{}
	}
	if i := slices.IndexFunc(pendingSteps, func(step time.Duration) bool { return step > waited }); i >= 0 {
		return since.Add(pendingSteps[i])
	}
	return since.Add(min(waited.Truncate(pendingEvery)+pendingEvery, pendingFor))
}

// decide returns a domain after a lookup, and what changed. taken reports that another organization keeps the domain
// although the record was found. delay returns a random duration below another one.
//
//  1. A found record verifies the domain, whatever its state.
//  2. A pending domain waits for its next lookup, or expires. A lookup of an expired one begins anew.
//  3. An answer that does not show whether there is a record changes nothing.
//  4. A verified domain without its record is failing, and lapses after failingFor and failingLookups.
//
// A domain that a backend verified keeps its state.
func decide(d people.Domain, a Answer, taken bool, delay func(time.Duration) time.Duration) (people.Domain, Event) {
	before, outcome := d, a.outcome(d.Value)
	if taken && outcome == OutcomeFound {
		outcome = OutcomeTaken
	}
	d.LookedUpAt = a.At
	d.Seen = Seen{Outcome: outcome, Texts: shown(a.Texts), Displaced: SeenOf(before).Displaced}.encode()
	if d.Effective() && d.VerifiedBy == people.VerifiedByBackend {
		return d, eventNone
	}
	daily := a.At.Add(checkEvery - checkJitter/2 + delay(checkJitter))
	switch {
	case outcome == OutcomeFound:
		if !before.Effective() {
			d.VerifiedAt = a.At
		}
		d.State, d.VerifiedBy, d.FailingSince, d.Failures, d.NextLookupAt = people.DomainVerified, people.VerifiedByDNS, time.Time{}, 0, daily
		if before.State == people.DomainVerified {
			return d, eventNone
		}
		return d, eventVerified
	case d.State == people.DomainExpired:
		return begin(d, a.At), eventNone
	case d.State == people.DomainPending:
		return pending(d, a.At)
	case a.Failure != "":
		d.NextLookupAt = a.At.Add(unavailableEvery + delay(unavailableEvery/10))
		return d, eventNone
	}
	d.NextLookupAt = daily
	if d.State == people.DomainLapsed {
		return d, eventNone
	}
	return failing(d, a.At)
}

// pending returns a pending domain after a lookup that did not verify it.
func pending(d people.Domain, at time.Time) (people.Domain, Event) {
	d.Failures++
	if d.NextLookupAt = nextPending(d.FailingSince, at); d.NextLookupAt.IsZero() {
		d.State = people.DomainExpired
		return d, eventExpired
	}
	return d, eventNone
}

// failing returns an effective domain after a lookup that showed that its record is missing.
func failing(d people.Domain, at time.Time) (people.Domain, Event) {
	if d.State == people.DomainVerified {
		d.State, d.FailingSince, d.Failures = people.DomainFailing, at, 1
		return d, eventFailing
	}
	d.Failures++
	if at.Sub(d.FailingSince) < failingFor || d.Failures < failingLookups {
		return d, eventNone
	}
	d.State = people.DomainLapsed
	return d, eventLapsed
}
