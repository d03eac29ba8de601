package backend

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/store/people"
)

func at(t interface {
	Helper()
	Fatal(args ...any)
}, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestParsePeriod(t *testing.T) {
	const from, to = "from=2026-11-01T00:00:00Z", "to=2026-11-02T00:00:00Z"
	for _, tc := range []struct {
		name, query string
		// from and to are the parsed times. If the query is refused, faults are the fields with faults, joined by
		// blanks.
		from, to, faults string
	}{
		{"whole days", from + "&" + to, "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", ""},
		{"other parameters", from + "&" + to + "&limit=x&from_=1", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", ""},
		{"an offset", "from=2026-11-01T00:00:00-05:30&to=2026-11-02T00:00:00%2B14:00", "2026-11-01T05:30:00Z", "2026-11-01T10:00:00Z", ""},
		{"a raw plus", "from=2026-11-01T00:00:00+02:00&to=2026-11-02T00:00:00.5+02:00", "2026-10-31T22:00:00Z", "2026-11-01T22:00:00.5Z", ""},
		{"lower case", "from=2026-11-01t00:00:00z&to=2026-11-02t00:00:00-00:00", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", ""},
		{"one microsecond", "from=2026-11-01T00:00:00Z&to=2026-11-01T00:00:00.000001Z", "2026-11-01T00:00:00Z", "2026-11-01T00:00:00.000001Z", ""},
		{"parts of a microsecond", "from=2026-11-01T00:00:00.0000019Z&to=2026-11-01T00:00:00.000002999Z", "2026-11-01T00:00:00.000001Z", "2026-11-01T00:00:00.000002Z", ""},
		{"1,100 days", "from=2024-02-29T12:00:00Z&to=2027-03-05T12:00:00Z", "2024-02-29T12:00:00Z", "2027-03-05T12:00:00Z", ""},
		{"the first year", "from=1970-01-01T00:00:00Z&to=1970-01-02T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z", ""},
		{"the last year", "from=9999-12-31T00:00:00Z&to=9999-12-31T23:59:59.999999Z", "9999-12-31T00:00:00Z", "9999-12-31T23:59:59.999999Z", ""},

		{"nothing", "", "", "", "?from ?to"},
		{"no to", from, "", "", "?to"},
		{"no from", to, "", "", "?from"},
		{"empty", "from=&to", "", "", "?from ?to"},
		{"twice", from + "&" + from + "&" + to + "&to=x", "", "", "?from ?to"},
		{"dates", "from=2026-11-01&to=2026-11-02", "", "", "?from ?to"},
		{"no offset", "from=2026-11-01T00:00:00&to=2026-11-02T00:00:00", "", "", "?from ?to"},
		{"a blank for T", "from=2026-11-01%2000:00:00Z&" + to, "", "", "?from"},
		{"a blank for a minus", "from=2026-11-01T00:00:00%20%2001:00&" + to, "", "", "?from"},
		{"a comma", "from=2026-11-01T00:00:00,5Z&" + to, "", "", "?from"},
		{"single digits", "from=2026-11-01T1:00:00Z&" + to, "", "", "?from"},
		{"no such day", "from=2026-02-29T00:00:00Z&to=2026-11-31T00:00:00Z", "", "", "?from ?to"},
		{"no such hour or offset", "from=2026-11-01T24:00:00Z&to=2026-11-02T00:00:00%2B24:00", "", "", "?from ?to"},
		{"seconds since 1970", "from=1761955200&to=1762041600", "", "", "?from ?to"},
		{"blanks around", "from=%202026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z%20", "", "", "?from ?to"},
		{"before 1970", "from=1969-12-31T23:59:59.999999Z&" + to, "", "", "?from"},
		{"before 1970 by the offset", "from=1970-01-01T00:00:00%2B00:01&to=1970-01-02T00:00:00Z", "", "", "?from"},
		{"after 9999 by the offset", "from=9999-12-31T00:00:00Z&to=9999-12-31T23:59:59-00:01", "", "", "?to"},
		{"the year 0", "from=0000-01-01T00:00:00Z&to=10000-01-01T00:00:00Z", "", "", "?from ?to"},
		{"equal", from + "&to=2026-11-01T01:00:00%2B01:00", "", "", "?to"},
		{"equal but for parts of a microsecond", from + "&to=2026-11-01T00:00:00.000000999Z", "", "", "?to"},
		{"backwards", "from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z", "", "", "?to"},
		{"1,100 days and a microsecond", "from=2024-02-29T12:00:00Z&to=2027-03-05T12:00:00.000001Z", "", "", "?to"},
		{"longer than a duration can be", "from=1970-01-01T00:00:00Z&to=9999-12-31T00:00:00Z", "", "", "?to"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			query, _ := url.ParseQuery(tc.query) // as for a request, parameters that cannot be parsed are omitted
			got, items := parsePeriod(query)
			var faults []string
			for _, item := range items {
				faults = append(faults, item.Pointer)
			}
			if strings.Join(faults, " ") != tc.faults {
				t.Fatalf("faults %+v, want at %q", items, tc.faults)
			}
			if tc.faults != "" {
				if got != (people.Period{}) {
					t.Errorf("refused, and yet %v", got)
				}
				return
			}
			if want := (people.Period{From: at(t, tc.from), To: at(t, tc.to)}); !got.From.Equal(want.From) || !got.To.Equal(want.To) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestBefore(t *testing.T) {
	for _, tc := range []struct{ from, to, before string }{
		{"2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "2026-10-31T00:00:00Z"},
		{"2024-03-01T00:00:00Z", "2024-04-01T00:00:00Z", "2024-01-30T00:00:00Z"},
		{"2026-11-01T00:00:00Z", "2026-11-01T00:00:00.000001Z", "2026-10-31T23:59:59.999999Z"},
		{"1970-01-02T00:00:00Z", "1970-01-08T00:00:00Z", "1969-12-27T00:00:00Z"},
	} {
		got := periodBefore(people.Period{From: at(t, tc.from), To: at(t, tc.to)})
		if !got.From.Equal(at(t, tc.before)) || !got.To.Equal(at(t, tc.from)) {
			t.Errorf("before %s to %s: %v", tc.from, tc.to, got)
		}
	}
}

func TestChange(t *testing.T) {
	for _, tc := range []struct {
		now, before int64
		want        float64 // NaN: none
	}{
		{0, 0, math.NaN()}, {7, 0, math.NaN()}, {0, 7, -100}, {7, 7, 0}, {3, 2, 50}, {2, 3, -100.0 / 3}, {4, 3, 100.0 / 3}, {1000000, 1, 99999900},
		{1, 3, -200.0 / 3},
	} {
		got := percentChange(tc.now, tc.before)
		if math.IsNaN(tc.want) != (got == nil) || got != nil && *got != tc.want {
			t.Errorf("from %d to %d: %v, want %v", tc.before, tc.now, got, tc.want)
		}
	}
}

func TestDays(t *testing.T) {
	counted := func(days ...string) []people.Day {
		var all []people.Day
		for i, text := range days {
			all = append(all, people.Day{Start: at(t, text+"T00:00:00Z"), SignInUsers: int64(i + 1), SignUps: 10})
		}
		return all
	}
	for _, tc := range []struct {
		name, from, to string
		counted        []people.Day
		want           string
	}{
		{"one day", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", nil, "2026-11-01:0,0"},
		{"midnight is not touched, a microsecond after is", "2026-11-01T23:59:59.999999Z", "2026-11-02T00:00:00.000001Z", nil, "2026-11-01:0,0 2026-11-02:0,0"},
		{"a microsecond", "2026-11-01T23:59:59.999999Z", "2026-11-02T00:00:00Z", counted("2026-11-01"), "2026-11-01:1,10"},
		{"a leap day", "2024-02-28T12:00:00Z", "2024-03-01T12:00:00Z", counted("2024-02-29"), "2024-02-28:0,0 2024-02-29:1,10 2024-03-01:0,0"},
		{"UTC days, whatever the offset", "2026-11-01T00:00:00+02:00", "2026-11-02T00:00:00+02:00", counted("2026-10-31", "2026-11-01"), "2026-10-31:1,10 2026-11-01:2,10"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, d := range daysOf(people.Period{From: at(t, tc.from), To: at(t, tc.to)}, tc.counted, ofDay) {
				got = append(got, fmt.Sprintf("%s:%d,%d", d.Start.Format(time.DateOnly), d.SignInUsers, d.SignUps))
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}

// TestPeriodEqualsSumOfDays: the days of an accepted period are exactly the UTC days that it touches.
func TestPeriodEqualsSumOfDays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := time.UnixMicro(rapid.Int64Range(0, at(t, "2100-01-01T00:00:00Z").UnixMicro()).Draw(t, "from"))
		length := time.Duration(rapid.Int64Range(1, int64(maxDays*day/time.Microsecond)).Draw(t, "length")) * time.Microsecond
		zone := time.FixedZone("", rapid.IntRange(-23*60, 23*60).Draw(t, "offset")*60)
		query := url.Values{"from": {from.In(zone).Format(time.RFC3339Nano)}, "to": {from.Add(length).In(zone).Format(time.RFC3339Nano)}}
		p, faults := parsePeriod(query)
		if faults != nil || !p.From.Equal(from) || !p.To.Equal(from.Add(length)) {
			t.Fatalf("%v: %v, %v", query, p, faults)
		}
		days := daysOf(p, nil, ofDay)
		if !days[0].Start.Add(day).After(p.From) || days[0].Start.After(p.From) {
			t.Fatalf("the first of %v is %v", p, days[0])
		}
		if last := days[len(days)-1].Start; !last.Before(p.To) || last.Add(day).Before(p.To) {
			t.Fatalf("the last of %v is %v", p, last)
		}
		if !slices.IsSortedFunc(days, func(a, b people.Day) int { return a.Start.Compare(b.Start) }) {
			t.Fatal("the days are out of order")
		}
		for i := range days[1:] {
			if days[i].Start.Add(day) != days[i+1].Start {
				t.Fatalf("a gap after %v", days[i].Start)
			}
		}
		if before := periodBefore(p); before.To != p.From || before.To.Sub(before.From) != length {
			t.Fatalf("before: %v", before)
		}
	})
}
