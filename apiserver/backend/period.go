package backend

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	day = 24 * time.Hour
	// maxDays is the longest period.
	maxDays = 1100
	// minYear and maxYear bound times: from 1970, Unix time is not negative, and up to 9999, the year has four digits.
	minYear, maxYear = 1970, 9999
)

// rfc3339 is the syntax of the standard; time.Parse also takes commas, single digits and any offset.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[-+]([01]\d|2[0-3]):[0-5]\d)$`)

// parsePeriod reads the parameters from and to, and returns every fault in them. Parts finer than a microsecond are cut
// off.
func parsePeriod(query url.Values) (people.Period, []apierror.Fault) {
	from, faults := parseTime(query, "from")
	to, more := parseTime(query, "to")
	faults = append(faults, more...)
	switch {
	case faults != nil:
	case !from.Before(to):
		faults = []apierror.Fault{{Pointer: "?to", Message: "must be later than from, by a microsecond at least"}}
	case to.Sub(from) > maxDays*day:
		faults = []apierror.Fault{{Pointer: "?to", Message: fmt.Sprintf("must be at most %d days after from: ask for shorter periods", maxDays)}}
	}
	if faults != nil {
		return people.Period{}, faults
	}
	return people.Period{From: from, To: to}, nil
}

// parseDays is parsePeriod for the whole UTC days that a period touches.
func parseDays(query url.Values) (people.Period, []apierror.Fault) {
	period, faults := parsePeriod(query)
	if faults != nil {
		return period, faults
	}
	period.From = period.From.Truncate(day)
	period.To = period.To.Add(day - time.Microsecond).Truncate(day)
	if period.To.Sub(period.From) > maxDays*day {
		return people.Period{}, []apierror.Fault{{Pointer: "?to", Message: fmt.Sprintf("must be such that the period touches at most %d UTC days: request a shorter period", maxDays)}}
	}
	return period, nil
}

func parseTime(query url.Values, name string) (time.Time, []apierror.Fault) {
	fault := func(message string) (time.Time, []apierror.Fault) {
		return time.Time{}, []apierror.Fault{{Pointer: "?" + name, Message: message}}
	}
	const form = "an RFC 3339 time with its offset, such as 2026-11-01T00:00:00Z or 2026-11-01T00:00:00%2B01:00"
	switch sent := query[name]; {
	case len(sent) == 0:
		return fault("is missing: send " + form)
	case len(sent) > 1:
		return fault("was sent more than once: send it once")
	}
	text := withSign(strings.ToUpper(query.Get(name)))
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !rfc3339.MatchString(text) {
		return fault("must be " + form)
	}
	if at = at.UTC().Truncate(time.Microsecond); at.Year() < minYear || at.Year() > maxYear {
		return fault(fmt.Sprintf("must be in the years %d to %d, UTC", minYear, maxYear))
	}
	return at, nil
}

// withSign restores the plus of an offset, which arrives as a blank if it was not escaped.
func withSign(text string) string {
	if at := len(text) - len("+00:00"); at > 0 && text[at] == ' ' {
		return text[:at] + "+" + text[at+1:]
	}
	return text
}

// periodBefore returns the period of the same length directly before. There are no events before 1970.
func periodBefore(p people.Period) people.Period {
	return people.Period{From: p.From.Add(-p.To.Sub(p.From)), To: p.From}
}

// percentChange returns by how many percent a number changed, not rounded; nil if the earlier number is 0.
func percentChange(now, before int64) *float64 {
	if before == 0 {
		return nil
	}
	change := 100 * float64(now-before) / float64(before)
	return &change
}

// daysOf returns every UTC day that a period touches, in order. Days without events have zeros. start returns where a
// day has its midnight.
func daysOf[D any](p people.Period, counted []D, start func(*D) *time.Time) []D {
	first, last := p.From.UTC().Truncate(day), p.To.UTC().Add(-time.Microsecond).Truncate(day)
	days := make([]D, 0, last.Sub(first)/day+1)
	for midnight := first; !midnight.After(last); midnight = midnight.Add(day) {
		var one D
		*start(&one) = midnight
		if len(counted) > 0 && start(&counted[0]).Equal(midnight) {
			one, counted = counted[0], counted[1:]
		}
		days = append(days, one)
	}
	return days
}

// ofDay is daysOf's start of a day of the analytics.
func ofDay(d *people.Day) *time.Time { return &d.Start }
