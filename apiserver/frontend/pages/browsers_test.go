package pages

import (
	"testing"

	"github.com/cardea-iam/cardea/apiserver/frontend/pages/texts"
)

func TestBrowsersInWords(t *testing.T) {
	catalogues, err := texts.Load()
	if err != nil {
		t.Fatal(err)
	}
	v := &visit{text: catalogues.All()[0]}
	for userAgent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                                     "Firefox on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36":                            "Chrome on Windows",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":              "Edge on Windows",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15":                      "Safari on macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0 Mobile/15E148 Safari/604.1":     "Chrome on iPhone",
		"Mozilla/5.0 (Linux; Android 15; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36": "Samsung Internet on Android",
		"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 OPR/120.0.0.0":               "Opera on ChromeOS",
		"okhttp/4.12 (Android 14)": "An app on Android",
		"Firefox/1":                "Firefox",
		"curl/8.5":                 "Unknown browser",
		"":                         "Unknown browser",
		"<script>":                 "Unknown browser",
	} {
		if got := browser(v, userAgent); got != want {
			t.Errorf("%q: %q, want %q", userAgent, got, want)
		}
	}
}
