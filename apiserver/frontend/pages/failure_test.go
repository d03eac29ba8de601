package pages

import (
	"net/http"
	"net/url"
	"testing"
)

func TestFailurePageOffersRetry(t *testing.T) {
	for path, want := range map[string]string{
		"/account": "/account", "/account?a=b": "/account?a=b", "//evil.example/": "/", "///evil.example/": "/", `/\evil.example/`: "/", "/%5Cevil.example/": "/",
	} {
		u, err := url.Parse("http://localhost" + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := retry((&visit{r: &http.Request{URL: u}})); got != want {
			t.Errorf("%s is tried again at %s, want %s", path, got, want)
		}
	}
}
