package redirecturi

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	good := map[string]Form{
		"https://app.example/callback":           HTTPS,
		"https://app.example":                    HTTPS,
		"https://app.example:8443/cb?a=b&c=%20":  HTTPS,
		"http://127.0.0.1/callback":              Loopback,
		"http://127.0.0.1:1234/":                 Loopback,
		"http://[::1]:1/x":                       Loopback,
		"http://localhost":                       Loopback,
		"com.example.app:/oauth2redirect":        PrivateUse,
		"cursor://anysphere.cursor-mcp/callback": PrivateUse,
	}
	for raw, want := range good {
		if got, err := Classify(raw); err != nil || got != want {
			t.Errorf("%s: %v, %v", raw, got, err)
		}
	}
	for _, bad := range []string{
		"", "/callback", "app.example/callback", "//app.example/callback", "https:", "https:///callback", "https:/callback", "https://", "https://app.example/#", "https://app.example/#a", "https://*.example/",
		"https://app.example/*", "HTTPS://app.example/", "https://%D0%B0pp.example/", "https://app%E2%80%AE.example/", "https://APP.example/", "https://user@app.example/", "https://user:password@app.example/", "https://app.example/a b", "https://app.example/\n",
		"https://app.example/é", "https://app.example:/", "https://app.example\\@evil.example/", "http://app.example/", "http://127.0.0.2/", "http://localhost.evil.example/", "http://127.0.0.1@evil.example/",
		"http://[::2]/", "http://2130706433/", "http://LOCALHOST/", "javascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:https://app.example/1", "about:blank", "JavaScript:alert(1)",
		"intent://x", "x:y", "mailto:a@b.example", "https://app.example/" + strings.Repeat("a", 2048),
	} {
		if got, err := Classify(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

func TestFits(t *testing.T) {
	for _, tc := range []struct {
		registered, asked string
		want              bool
	}{
		{"https://app.example/cb", "https://app.example/cb", true},
		{"https://app.example/cb", "https://app.example/cb/", false},
		{"https://app.example/cb", "https://app.example:443/cb", false},
		{"https://app.example/cb", "https://app.example/CB", false},
		{"https://app.example/cb", "https://app.example/cb?a=b", false},
		{"https://app.example/cb", "https://app.example/cb#", false},
		{"https://app.example/cb", "HTTPS://app.example/cb", false},
		{"https://app.example/cb", "http://app.example/cb", false},
		{"https://app.example/cb", "https://app.example.evil.example/cb", false},
		{"https://app.example/cb", "https://app.example/x/../cb", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:4711/cb", true},
		{"http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", true},
		{"http://127.0.0.1:1/cb", "http://127.0.0.1/cb", true},
		{"http://127.0.0.1/cb", "http://127.0.0.1:1/cb2", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:1/cb?x", false},
		{"http://127.0.0.1/cb", "http://localhost:1/cb", false},
		{"http://127.0.0.1/cb", "http://[::1]:1/cb", false},
		{"http://[::1]/cb", "http://[::1]:99/cb", true},
		{"http://localhost", "http://localhost:99", true},
		{"http://localhost/", "http://localhost:99", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:x/cb", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:1@evil.example/cb", false},
		{"http://127.0.0.1/cb", "https://127.0.0.1:1/cb", false},
		{"com.example.app:/cb", "com.example.app:/cb", true},
		{"com.example.app:/cb", "com.example.app:/cb2", false},
		{"com.example.app:/cb", "com.example.app://cb", false},
	} {
		if got := Fits(tc.registered, tc.asked); got != tc.want {
			t.Errorf("registered %s, asked %s: %v", tc.registered, tc.asked, got)
		}
	}
}

func FuzzFits(f *testing.F) {
	f.Add("http://127.0.0.1/cb", "http://127.0.0.1:1/cb")
	f.Add("https://app.example/cb", "https://app.example/cb")
	f.Fuzz(func(t *testing.T, registered, asked string) {
		if _, err := Classify(registered); err != nil || !Fits(registered, asked) {
			return
		}
		// A URI that fits has the form of the registered one.
		first, _ := Classify(registered)
		if form, err := Classify(asked); err != nil || form != first {
			t.Fatalf("registered %q, and %q fits: %v, %v", registered, asked, form, err)
		}
	})
}
