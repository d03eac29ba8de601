package query

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
)

// faultsOf returns the text of a 400, "" for a nil error.
func faultsOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var p *apierror.Error
	if !errors.As(err, &p) || p.Status != 400 {
		t.Fatalf("got %v, want a 400", err)
	}
	return p.Text()
}

func parseQuery(t *testing.T, raw string) *Query {
	t.Helper()
	values, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	return New(values)
}

func TestLimitAndOffset(t *testing.T) {
	for _, tc := range []struct {
		query      string
		size, skip int
	}{
		{"", 50, 0},
		{"limit=7&offset=3", 7, 3},
		{"limit=1&offset=0", 1, 0},
		{"limit=100", 100, 0},
		{"limit=101", 100, 0},
		{"limit=9223372036854775807&offset=9223372036854775807", 100, 1<<63 - 1},
	} {
		t.Run(tc.query, func(t *testing.T) {
			q := parseQuery(t, tc.query)
			size, skip := q.Limit(50, 100), int(q.Integer("offset", 0, 0))
			if got := faultsOf(t, q.Err()); size != tc.size || skip != tc.skip || got != "" {
				t.Errorf("page: %d, %d, faults %q; want %d, %d", size, skip, got, tc.size, tc.skip)
			}
		})
	}
}

func TestAllFaultsOfParametersAreReturnedAtOnce(t *testing.T) {
	for raw, want := range map[string]string{
		"":                            "",
		"other=x&limit=5":             "",
		"limit=abc":                   "?limit must be an integer",
		"limit=":                      "?limit must be an integer",
		"limit=1.0":                   "?limit must be an integer",
		"limit=9223372036854775808":   "?limit must be an integer that fits 64 bits",
		"limit=1&limit=2":             "?limit was sent more than once",
		"limit=0&offset=-1":           "?limit must be at least 1; ?offset must be at least 0",
		"offset=x&limit=abc":          "?limit must be an integer that fits 64 bits; ?offset must be an integer",
		"offset=1&offset=1&limit=abc": "?limit must be an integer that fits 64 bits; ?offset was sent more than once",
		"is_active=yes":               "?is_active must be true or false",
		"is_active=true":              "",
		"search=%00":                  "?search must be text",
		"search=%ff":                  "?search must be text",
		"limit=x&is_active=x":         "?limit must be an integer that fits 64 bits; ?is_active must be true or false",
	} {
		q := parseQuery(t, raw)
		q.Limit(50, 100)
		q.Integer("offset", 0, 0)
		q.Flag("is_active")
		q.Text("search")
		if got := faultsOf(t, q.Err()); got != want && (want == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

func TestOneOf(t *testing.T) {
	for raw, want := range map[string]struct{ value, faults string }{
		"":                       {"json", ""},
		"format=":                {"json", ""},
		"format=csv":             {"csv", ""},
		"format=xml":             {"xml", "?format must be json or csv"},
		"format=csv&format=json": {"json", "?format was sent more than once"},
	} {
		q := parseQuery(t, raw)
		value := q.OneOf("format", "json", "json", "csv")
		if got := faultsOf(t, q.Err()); value != want.value || !strings.HasPrefix(got, want.faults) || (got == "") != (want.faults == "") {
			t.Errorf("%q: %q, faults %q; want %q, %q", raw, value, got, want.value, want.faults)
		}
	}
}
