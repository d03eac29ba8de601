package domain

import (
	"crypto/rand"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/store/people"
)

var (
	born  = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	value = valuePrefix + strings.Repeat("A", valueLength)
)

// none is the shortest delay.
func none(time.Duration) time.Duration { return 0 }

func found(at time.Time) Answer   { return Answer{Texts: []string{"v=spf1 -all", value}, At: at} }
func missing(at time.Time) Answer { return Answer{At: at} }
func servfail(at time.Time) Answer {
	return Answer{Failure: OutcomeServerFailure, At: at}
}

func pendingDomain() people.Domain {
	return begin(people.Domain{ID: 1, Organization: 2, Name: "acme.example", Value: value, CreatedAt: born}, born)
}

func verifiedDomain() people.Domain {
	d, _ := decide(pendingDomain(), found(born), false, none)
	return d
}

func TestPendingDomainIsLookedUpOnScheduleAndExpires(t *testing.T) {
	t.Parallel()
	for _, answer := range []func(time.Time) Answer{missing, servfail} {
		d := pendingDomain()
		var at []time.Duration
		for d.State == people.DomainPending {
			next := d.NextLookupAt
			at = append(at, next.Sub(born))
			var event Event
			if d, event = decide(d, answer(next), false, none); (event == eventExpired) != (d.State == people.DomainExpired) {
				t.Fatalf("event %q in state %s", event, d.State)
			}
		}
		want := []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute}
		for hour := range 14 * 24 {
			want = append(want, time.Duration(hour+1)*time.Hour)
		}
		if len(at) != len(want) {
			t.Fatalf("%d lookups, want %d", len(at), len(want))
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("lookup %d after %s, want %s", i, at[i], want[i])
			}
		}
		if !d.NextLookupAt.IsZero() || d.Effective() {
			t.Errorf("an expired domain has the next lookup %s", d.NextLookupAt)
		}
	}
}

func TestLookupOfExpiredDomainBeginsAnewWithTheSameValue(t *testing.T) {
	t.Parallel()
	d := pendingDomain()
	d, _ = decide(d, missing(born.Add(pendingFor)), false, none)
	if d.State != people.DomainExpired {
		t.Fatal(d.State)
	}
	clicked := born.Add(pendingFor + 24*time.Hour)
	again, event := decide(d, servfail(clicked), false, none)
	if again.State != people.DomainPending || event != eventNone || again.Value != value || !again.NextLookupAt.Equal(clicked.Add(time.Minute)) {
		t.Errorf("%+v, event %q", again, event)
	}
	if verified, event := decide(d, found(clicked), false, none); verified.State != people.DomainVerified || event != eventVerified {
		t.Errorf("state %s, event %q", verified.State, event)
	}
}

func TestDecisionsByStateAndAnswer(t *testing.T) {
	t.Parallel()
	now := born.Add(30 * 24 * time.Hour)
	daily, hourly := now.Add(23*time.Hour), now.Add(time.Hour)
	since := func(state string, ago time.Duration, failures int) people.Domain {
		d := verifiedDomain()
		d.State, d.Failures, d.FailingSince = state, failures, now.Add(-ago)
		return d
	}
	backend := verifiedDomain()
	backend.VerifiedBy, backend.NextLookupAt = people.VerifiedByBackend, time.Time{}
	week := failingFor
	for _, tt := range []struct {
		name   string
		from   people.Domain
		answer Answer
		taken  bool
		state  string
		event  Event
		next   time.Time
	}{
		{"a record that is there keeps it verified", verifiedDomain(), found(now), false, people.DomainVerified, eventNone, daily},
		{"a missing record makes it failing", verifiedDomain(), missing(now), false, people.DomainFailing, eventFailing, daily},
		{"another value makes it failing", verifiedDomain(), Answer{Texts: []string{value + "A", strings.ToLower(value)}, At: now}, false, people.DomainFailing, eventFailing, daily},
		{"a server failure does not count", verifiedDomain(), servfail(now), false, people.DomainVerified, eventNone, hourly},
		{"a timeout does not count", verifiedDomain(), Answer{Failure: OutcomeTimeout, At: now}, false, people.DomainVerified, eventNone, hourly},
		{"failing for less than a week", since(people.DomainFailing, week-time.Second, 20), missing(now), false, people.DomainFailing, eventNone, daily},
		{"failing for a week, in two lookups", since(people.DomainFailing, week, 1), missing(now), false, people.DomainFailing, eventNone, daily},
		{"failing for a week, in three lookups", since(people.DomainFailing, week, 2), missing(now), false, people.DomainLapsed, eventLapsed, daily},
		{"a server failure after a failing week does not count", since(people.DomainFailing, 2*week, 20), servfail(now), false, people.DomainFailing, eventNone, hourly},
		{"a record that returns while failing", since(people.DomainFailing, week, 20), found(now), false, people.DomainVerified, eventVerified, daily},
		{"a record that returns after the lapse", since(people.DomainLapsed, 9*week, 20), found(now), false, people.DomainVerified, eventVerified, daily},
		{"a record that returns after the lapse, of a taken name", since(people.DomainLapsed, 9*week, 20), found(now), true, people.DomainLapsed, eventNone, daily},
		{"lapsed without a record", since(people.DomainLapsed, 9*week, 20), missing(now), false, people.DomainLapsed, eventNone, daily},
		{"verified by a backend without a record", backend, missing(now), false, people.DomainVerified, eventNone, time.Time{}},
		{"verified by a backend with its record", backend, found(now), false, people.DomainVerified, eventNone, time.Time{}},
		{"pending and found", pendingDomain(), found(now), false, people.DomainVerified, eventVerified, daily},
		{"pending and taken", pendingDomain(), found(born.Add(time.Minute)), true, people.DomainPending, eventNone, born.Add(2 * time.Minute)},
	} {
		got, event := decide(tt.from, tt.answer, tt.taken, none)
		if got.State != tt.state || event != tt.event || !got.NextLookupAt.Equal(tt.next) {
			t.Errorf("%s: state %s, event %q, next lookup %s; want %s, %q, %s", tt.name, got.State, event, got.NextLookupAt, tt.state, tt.event, tt.next)
		}
		if !got.LookedUpAt.Equal(tt.answer.At) || SeenOf(got).Outcome == "" {
			t.Errorf("%s: the lookup was not recorded: %+v", tt.name, got)
		}
		if got.State == people.DomainVerified && got.VerifiedBy == people.VerifiedByDNS && (got.Failures != 0 && tt.answer.Failure == "" || !got.FailingSince.IsZero()) {
			t.Errorf("%s: failures of a verified domain: %+v", tt.name, got)
		}
	}
}

func TestDomainThatNeverReturnsLapsesAfterSevenDailyLookups(t *testing.T) {
	t.Parallel()
	half := func(most time.Duration) time.Duration { return most / 2 }
	d, days := verifiedDomain(), 0
	for d.Effective() {
		days++
		d, _ = decide(d, missing(d.NextLookupAt), false, half)
	}
	if days != 8 { // the first one begins the week
		t.Errorf("lapsed in lookup %d", days)
	}
}

func TestWhatWasSeenIsClippedAndPrintable(t *testing.T) {
	t.Parallel()
	var texts []string
	for range 20 {
		texts = append(texts, "\x1b[2J\x00\xff\u202e<script>"+strings.Repeat("é", 1000))
	}
	d, _ := decide(pendingDomain(), Answer{Texts: texts, At: born}, false, none)
	seen := SeenOf(d)
	if len(seen.Texts) != maxSeenTexts || len(d.Seen) > 4096 || seen.Outcome != OutcomeOtherValue {
		t.Errorf("%d texts in %d bytes", len(seen.Texts), len(d.Seen))
	}
	for _, text := range seen.Texts {
		if utf8.RuneCountInString(text) != maxSeenText || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b\u202e") {
			t.Errorf("%q", text)
		}
	}
	// A record behind many others proves the domain too.
	if d, _ = decide(pendingDomain(), Answer{Texts: append(texts, " "+value+" "), At: born}, false, none); d.State != people.DomainVerified {
		t.Errorf("state %s", d.State)
	}
	if (SeenOf(people.Domain{Seen: "{"}).Outcome) != "" {
		t.Error("malformed JSON was read")
	}
}

func TestValuesAreRandom(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^cardea-domain-verification=[A-Z2-7]{26}$`)
	known := map[string]bool{}
	for range 100 {
		v, err := newValue(rand.Reader)
		if err != nil || !form.MatchString(v) || known[v] {
			t.Fatalf("%q, %v", v, err)
		}
		known[v] = true
	}
}
