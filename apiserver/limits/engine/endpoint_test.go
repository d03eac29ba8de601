package engine

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/scheme"
)

func TestMatch(t *testing.T) {
	patterns := []string{"*", "/v1/things", "/v1/*", "POST /v1/*", "GET *", "/", "/v1/deep/er/*", "DELETE /v1/things", "/v1/", "/*"}
	var m matcher
	for i, pattern := range patterns {
		if !scheme.ValidEndpoint(pattern) {
			t.Fatalf("%q is no pattern", pattern)
		}
		m.add(pattern, 1<<i)
	}
	for request, want := range map[string]string{
		"GET /":                  "*,GET *,/,/*",
		"PUT /":                  "*,/,/*",
		"PUT /v1":                "*,/*",
		"PUT /v1/":               "*,/v1/*,/v1/,/*",
		"POST /v1/things":        "*,/v1/things,/v1/*,POST /v1/*,/*",
		"DELETE /v1/things":      "*,/v1/things,/v1/*,DELETE /v1/things,/*",
		"DELETE /v1/things/":     "*,/v1/*,/*",
		"PUT /v1/deep/er":        "*,/v1/*,/*",
		"PUT /v1/deep/er/x/y/z/": "*,/v1/*,/v1/deep/er/*,/*",
		"PUT /v10/x":             "*,/*",
		"BREW /v1/things":        "*,/v1/things,/v1/*,/*",
		"PUT /V1/things":         "*,/*",
		"HEAD /v1/x":             "*,/v1/*,GET *,/*",
	} {
		method, path, _ := strings.Cut(request, " ")
		var got []string
		for i, pattern := range patterns {
			if m.match(method, path)&(1<<i) != 0 {
				got = append(got, pattern)
			}
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s matches %s, want %s", request, strings.Join(got, ","), want)
		}
	}
}

func TestHeadCountsAsGetUnlessARuleNamesHead(t *testing.T) {
	var m matcher
	for i, pattern := range []string{"GET /v1/reports/*", "GET /v1/files", "HEAD /v1/files"} {
		m.add(pattern, 1<<i)
	}
	for request, want := range map[string]uint64{"HEAD /v1/reports/7": 1, "GET /v1/files": 2, "HEAD /v1/files": 4} {
		method, path, _ := strings.Cut(request, " ")
		if got := m.match(method, path); got != want {
			t.Errorf("%s matches %b, want %b", request, got, want)
		}
	}
}

func TestCanonicalPath(t *testing.T) {
	for in, want := range map[string]string{
		"/":                             "/",
		"/v1/things":                    "/v1/things",
		"/v1/things?x=/../y#z":          "/v1/things",
		"/v1/things#f?":                 "/v1/things",
		"/v1//things":                   "/v1/things",
		"//v1///things//":               "/v1/things/",
		"/v1/./things/.":                "/v1/things/",
		"/v1/../v2":                     "/v2",
		"/../../v2":                     "/v2",
		"/v1/%2e%2e/v2":                 "/v2",
		"/v1/%2E./v2":                   "/v2",
		"/v1/..":                        "/",
		"/v1/a/..":                      "/v1/",
		"/%76%31/x":                     "/v1/x",
		"/a%3ab":                        "/a%3Ab",
		"/a%20b":                        "/a%20b",
		"/a+b":                          "/a+b",
		"/ä":                            "/%C3%A4",
		"/%c3%a4":                       "/%C3%A4",
		"/.hidden":                      "/.hidden",
		"/a;x=1/b":                      "/a;x=1/b",
		"/...;x":                        "/...;x",
		"/.a;x":                         "/.a;x",
		"/...":                          "/...",
		"/v1/x%25":                      "/v1/x%25",
		"/%252e%252e/x":                 "/%252e%252e/x",
		"/a/b/../..//c":                 "/c",
		"/" + strings.Repeat("a", 8191): "/" + strings.Repeat("a", 8191),
	} {
		if got, err := CanonicalPath(in); got != want || err != nil {
			t.Errorf("%q is %q (%v), want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]error{
		"": ErrPathForm, "v1": ErrPathForm, "*": ErrPathForm, "http://x/": ErrPathForm, "?x": ErrPathForm, "/a b": ErrPathForm, "/\x00": ErrPathForm,
		"/a\x7f": ErrPathForm, "/a\r\n": ErrPathForm, "/" + strings.Repeat("a", 8192): ErrPathForm,
		"/a%": ErrPathEscape, "/a%2": ErrPathEscape, "/a%zz": ErrPathEscape, "/%%2e": ErrPathEscape,
		"/a%2fb": ErrPathEncoded, "/a%2Fb": ErrPathEncoded, "/a%5cb": ErrPathEncoded, `/a\b`: ErrPathEncoded, "/%00": ErrPathEncoded, "/%0a": ErrPathEncoded,
		"/a//../b": ErrPathAmbiguous, "/a//%2e%2e/b": ErrPathAmbiguous, "//..": ErrPathAmbiguous,
		"/public/..;/admin": ErrPathParameter, "/a/.;x/b": ErrPathParameter, "/a/..%3b": ErrPathParameter, "/a/%2e%2e%3Bx=1/b": ErrPathParameter, "/..;": ErrPathParameter,
	} {
		if got, err := CanonicalPath(in); err != want {
			t.Errorf("%q is %q (%v), want the error %v", in, got, err, want)
		}
	}
}

// FuzzCanonicalPath: a canonical path stays as it is, has no dot segment, no double slash and nothing to decode.
func FuzzCanonicalPath(f *testing.F) {
	for _, seed := range []string{"/v1/%2e%2e/x", "//a/./b/..", "/%41%2f", "/a?b", "/ä/%zz"} {
		f.Add(seed)
	}
	f.Add("/" + strings.Repeat("\xff", MaxPath/3+1)) // longer than a path may be once it is escaped
	f.Fuzz(func(t *testing.T, in string) {
		out, err := CanonicalPath(in)
		if err != nil {
			return
		}
		if again, err := CanonicalPath(out); again != out || err != nil {
			t.Fatalf("%q becomes %q, then %q (%v)", in, out, again, err)
		}
		if strings.Contains(out, "//") || strings.Contains(out+"/", "/../") || strings.Contains(out+"/", "/./") || strings.ContainsAny(out, "?#\\ \x00") {
			t.Fatalf("%q becomes %q", in, out)
		}
	})
}

func TestAddressOf(t *testing.T) {
	of := func(s string) uint64 { return AddressOf(netip.MustParseAddr(s)) }
	if of("2001:db8::1") != of("2001:db8::ffff:1") || of("2001:db8::1") == of("2001:db8:0:1::1") {
		t.Error("an IPv6 address counts for its /64")
	}
	if of("192.0.2.1") != of("::ffff:192.0.2.1") || of("192.0.2.1") == of("192.0.2.2") {
		t.Error("an IPv4 address counts for itself, mapped or not")
	}
}

func TestWidest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		endpoints [][]string
		want      int
	}{
		"none":                         {nil, 0},
		"everything":                   {[][]string{{"*"}, {"/*"}, {"GET *"}}, 3},
		"apart":                        {[][]string{{"/a"}, {"/b"}, {"/c/*"}, {"POST /c"}}, 1},
		"one within the other":         {[][]string{{"/a/*"}, {"/a/b/*"}, {"/a/b/c"}, {"/a/c"}}, 3},
		"a rule with many endpoints":   {[][]string{{"/a", "/b", "/c/*"}, {"/a"}}, 2},
		"other methods":                {[][]string{{"GET /a"}, {"POST /a"}, {"PUT /a"}}, 1},
		"a method and all":             {[][]string{{"GET /a"}, {"/a"}, {"*"}}, 3},
		"a GET that HEAD counts as":    {[][]string{{"GET /a"}, {"GET /*"}}, 2},
		"a HEAD beside what counts it": {[][]string{{"GET /a"}, {"HEAD /a"}, {"HEAD *"}, {"GET *"}}, 2},
	} {
		var m matcher
		for i, endpoints := range tc.endpoints {
			for _, endpoint := range endpoints {
				m.add(endpoint, 1<<i)
			}
		}
		if got := m.widest(); got != tc.want {
			t.Errorf("%s: %d rules match one request, want %d", name, got, tc.want)
		}
	}
}
