package management

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/openapi"
)

// fields returns where a problem's faults are, "" if err is none.
func fields(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var p *apierror.Error
	if !errors.As(err, &p) || p.Status != 400 {
		t.Fatalf("got %v, want a 400", err)
	}
	var at []string
	for _, item := range p.Faults {
		at = append(at, item.Pointer)
	}
	return strings.Join(at, " ")
}

func TestPage(t *testing.T) {
	for _, tc := range []struct {
		name          string
		limit, offset *int64
		size, skip    int
		faults        string
	}{
		{"absent", nil, nil, 50, 0, ""},
		{"given", ptr.To[int64](7), ptr.To[int64](3), 7, 3, ""},
		{"least", ptr.To[int64](1), ptr.To[int64](0), 1, 0, ""},
		{"largest", ptr.To[int64](100), nil, 100, 0, ""},
		{"clamped", ptr.To[int64](101), nil, 100, 0, ""},
		{"far over", ptr.To[int64](1<<63 - 1), ptr.To[int64](1<<63 - 1), 100, 1<<63 - 1, ""},
		{"zero", ptr.To[int64](0), nil, 0, 0, "?limit"},
		{"both", ptr.To[int64](-1), ptr.To[int64](-1), 0, 0, "?limit ?offset"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			size, skip, err := page(tc.limit, tc.offset)
			if got := fields(t, err); size != tc.size || skip != tc.skip || got != tc.faults {
				t.Errorf("page: %d, %d, faults at %q; want %d, %d, %q", size, skip, got, tc.size, tc.skip, tc.faults)
			}
		})
	}
}

func TestPageFaultsAreToldAtOnce(t *testing.T) {
	for query, want := range map[string]string{
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
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if faults := pageFaults(values); faults != nil {
			got = apierror.Invalid(faults...).Text()
		}
		if got != want && (want == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}

func TestParameterProblem(t *testing.T) {
	for _, tc := range []struct {
		query, want string
		err         error
	}{
		{"limit=x", "?limit", &openapi.InvalidParamFormatError{ParamName: "limit"}},
		{"limit=x&offset=y", "?limit ?offset", &openapi.InvalidParamFormatError{ParamName: "limit"}},
		{"", "?from", &openapi.InvalidParamFormatError{ParamName: "from"}},
		{"", "", errors.New("anything else")},
	} {
		values, _ := url.ParseQuery(tc.query)
		if got := fields(t, parameterProblem(values, tc.err)); got != tc.want {
			t.Errorf("%q: faults at %q, want %q", tc.query, got, tc.want)
		}
	}
}
