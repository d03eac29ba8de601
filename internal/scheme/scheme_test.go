package scheme

import (
	"strings"
	"testing"
)

func TestValidEndpoint(t *testing.T) {
	for in, want := range map[string]bool{
		"*": true, "/": true, "/*": true, "/v1/things": true, "/v1/*": true, "/v1/things/": true, "POST /v1/*": true,
		"GET *": true, "/a%2Fb": true, "/v1/read:users": true, "/a+b": true,
		"": false, "v1": false, "/v1*": false, "/v1/*/x": false, "**": false, "/**": false, "//": false, "/a//b": false,
		"post /v1": false, "FETCH /v1": false, "POST  /v1": false, "POST": false, " /v1": false, "/v1 ": false, "/a b": false,
		"/a?b": false, "/a#b": false, "/ä": false, "/a\n": false, "POST/v1": false,
		"/" + strings.Repeat("a", 255): true, "/" + strings.Repeat("a", 256): false,
	} {
		if got := ValidEndpoint(in); got != want {
			t.Errorf("ValidEndpoint(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	ok := Rule{Unit: "minute", Duration: 1, MaxRequests: 100}
	with := func(change func(*Rule)) []Rule {
		rule := ok
		change(&rule)
		return []Rule{rule}
	}
	many := func(n int, endpoints int) []Rule {
		rules := make([]Rule, n)
		for i := range rules {
			rules[i] = ok
			for range endpoints {
				rules[i].Endpoints = append(rules[i].Endpoints, "/x")
			}
		}
		return rules
	}
	priority := int64(1 << 31)
	for _, tc := range []struct {
		name  string
		rules []Rule
		want  []string
	}{
		{"one", []Rule{ok}, nil},
		{"none", nil, []string{""}},
		{"64", many(64, 0), nil},
		{"65", many(65, 0), []string{""}},
		{"512 endpoints", many(64, 8), nil},
		{"520 endpoints", many(65, 8)[:64:64], nil},
		{"576 endpoints", many(64, 9), []string{""}},
		{"unknown unit", with(func(r *Rule) { r.Unit = "week" }), []string{"/0/unit"}},
		{"absent unit", with(func(r *Rule) { r.Unit = "" }), []string{"/0/unit"}},
		{"1440 minutes", with(func(r *Rule) { r.Duration = 1440 }), nil},
		{"1441 minutes", with(func(r *Rule) { r.Duration = 1441 }), []string{"/0/duration"}},
		{"0 minutes", with(func(r *Rule) { r.Duration = 0 }), []string{"/0/duration"}},
		{"60000 ms", with(func(r *Rule) { r.Unit, r.Duration = "millisecond", 60000 }), nil},
		{"60001 ms", with(func(r *Rule) { r.Unit, r.Duration = "millisecond", 60001 }), []string{"/0/duration"}},
		{"2 months", with(func(r *Rule) { r.Unit, r.Duration = "month", 2 }), []string{"/0/duration"}},
		{"1 calendar month", with(func(r *Rule) { r.Unit = "calendar_month" }), nil},
		{"2 calendar days", with(func(r *Rule) { r.Unit, r.Duration = "calendar_day", 2 }), []string{"/0/duration"}},
		{"0 requests", with(func(r *Rule) { r.MaxRequests = 0 }), []string{"/0/max_requests"}},
		{"too many requests", with(func(r *Rule) { r.MaxRequests = 1 << 31 }), []string{"/0/max_requests"}},
		{"unknown mode", with(func(r *Rule) { r.Mode = "per_user" }), []string{"/0/mode"}},
		{"bad endpoint", with(func(r *Rule) { r.Endpoints = []string{"*", "nope"} }), []string{"/0/endpoints/1"}},
		{"101 endpoints", many(1, 101), []string{"/0/endpoints"}},
		{"priority too large", with(func(r *Rule) { r.Priority = &priority }), []string{"/0/priority"}},
		{"all at once", []Rule{{Unit: "x", Mode: "y"}}, []string{"/0/unit", "/0/max_requests", "/0/mode"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, fault := range Validate(tc.rules) {
				got = append(got, fault.Pointer)
			}
			if strings.Join(got, " ") != strings.Join(tc.want, " ") || len(got) != len(tc.want) {
				t.Errorf("faults at %q, want %q", got, tc.want)
			}
		})
	}
}

func TestEqualEffective(t *testing.T) {
	zero := int64(0)
	sent := []Rule{{Unit: "minute", Duration: 1, MaxRequests: 5}}
	full := []Rule{{Unit: "minute", Duration: 1, MaxRequests: 5, Mode: "per_key", Endpoints: []string{"*"}, Priority: &zero}}
	if !EqualEffective(sent, full) || !EqualEffective(full, sent) {
		t.Error("absent and default values must be equal")
	}
	other := []Rule{{Unit: "minute", Duration: 1, MaxRequests: 5, Mode: "per_app"}}
	if EqualEffective(sent, other) || EqualEffective(sent, nil) || EqualEffective(sent, append(full, full...)) {
		t.Error("different rules must differ")
	}
}

// FuzzRule: a rule without a fault is within every bound, and its effective form has no fault either.
func FuzzRule(f *testing.F) {
	f.Add("minute", int64(1), int64(60), "per_key", "POST /v1/*", int64(0))
	f.Add("calendar_month", int64(2), int64(0), "", "*", int64(-1))
	f.Add("", int64(-1), int64(1<<62), "per_ip", "/a//b", int64(1<<40))
	f.Fuzz(func(t *testing.T, unit string, duration, most int64, mode, endpoint string, priority int64) {
		rule := Rule{Unit: unit, Duration: duration, MaxRequests: most, Mode: mode, Endpoints: []string{endpoint}, Priority: &priority}
		if len(rule.Validate()) > 0 {
			return
		}
		if duration < 1 || duration > maxDuration[unit] || most < 1 || most > 1<<31-1 || len(endpoint) == 0 || len(endpoint) > 256 {
			t.Fatalf("accepted %+v", rule)
		}
		if faults := rule.Effective().Validate(); len(faults) > 0 {
			t.Fatalf("the effective form of %+v has faults: %v", rule, faults)
		}
	})
}
