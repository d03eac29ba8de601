package webhookreceiver

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/webhook"
)

const body = `{"id":"evt_1","type":"user.created","sequence":"7"}`

var secret = secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 32)))

// post sends a webhook, and returns the response; its status is 0 if there is none.
func post(t *testing.T, url string, attempt int, sign func(http.Header)) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Cardea-Attempt", fmt.Sprint(attempt))
	request.Header.Set("Authorization", "Bearer hush-canary")
	sign(request.Header)
	response, err := (&http.Transport{DisableCompression: true}).RoundTrip(request)
	if err != nil {
		return &http.Response{Body: http.NoBody}
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func signed(t *testing.T, at time.Time) func(http.Header) {
	t.Helper()
	key, err := webhook.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	return func(header http.Header) { webhook.Sign(header, "evt_1", at, []byte(body), key) }
}

func serve(t *testing.T, keys func(context.Context) ([]string, error)) (*Receiver, string) {
	t.Helper()
	r := New(Options{Keys: keys})
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, server.URL + Path
}

func TestReceiverVerifiesSignatures(t *testing.T) {
	t.Parallel()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	_, url := serve(t, Static(webhook.Public(private.Public().(ed25519.PublicKey)), secret))
	public := func(at time.Time) func(http.Header) {
		return func(header http.Header) {
			webhook.Sign(header, "evt_1", at, []byte(body), webhook.Private(private))
		}
	}
	other := func(header http.Header) {
		signed(t, time.Now())(header)
		header.Set("webhook-id", "evt_2")
	}
	for name, tt := range map[string]struct {
		sign func(http.Header)
		want int
	}{
		"a secret": {signed(t, time.Now()), 204}, "a public key": {public(time.Now()), 204},
		"an old request": {signed(t, time.Now().Add(-time.Hour)), 401}, "an old request of a public key": {public(time.Now().Add(-time.Hour)), 401},
		"another id": {other, 401}, "no signature": {func(http.Header) {}, 401},
	} {
		if got := post(t, url, 1, tt.sign).StatusCode; got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func TestReceiverListsTheLastRequests(t *testing.T) {
	t.Parallel()
	r, url := serve(t, Static(secret))
	post(t, url+"?fault=503&retry_after=7", 1, signed(t, time.Now()))
	post(t, url, 2, func(http.Header) {})
	read := func(query string) (listed struct{ Requests []Request }) {
		t.Helper()
		response, err := http.Get(url + query)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		raw, err := io.ReadAll(response.Body)
		if err != nil || json.Unmarshal(raw, &listed) != nil || strings.Contains(string(raw), "hush-canary") {
			t.Fatalf("%s: %v", raw, err)
		}
		return listed
	}
	all := read("").Requests
	if len(all) != 2 || !all[0].Verified || all[0].Status != 503 || all[0].Type != "user.created" || all[0].Sequence != "7" || all[0].Attempt != 1 || all[0].Headers["webhook-id"] != "evt_1" ||
		all[1].Verified || all[1].Status != 401 || all[1].Problem == "" || !strings.Contains(string(all[1].Body), "evt_1") {
		t.Errorf("listed %+v", all)
	}
	if n, m := len(read("?id=evt_1").Requests), len(read("?type=user.deleted").Requests); n != 1 || m != 0 {
		t.Errorf("%d of the id, %d of another type", n, m)
	}
	for n := range kept + 5 {
		r.keep(Request{ID: fmt.Sprint(n)})
	}
	if got := r.Requests(); len(got) != kept || got[0].ID != "5" {
		t.Errorf("%d requests from %s", len(got), got[0].ID)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusNoContent || len(r.Requests()) != 0 {
		t.Errorf("emptied: %v, %d requests", err, len(r.Requests()))
	}
}

// A secret that was replaced is looked up again when a request does not verify.
func TestReceiverLooksForReplacedKeys(t *testing.T) {
	t.Parallel()
	keys := []string{strings.Replace(secret, "whsec_Y", "whsec_Z", 1)}
	var failure error
	r, url := serve(t, func(context.Context) ([]string, error) { return keys, failure })
	if got := post(t, url, 1, signed(t, time.Now())).StatusCode; got != 401 {
		t.Errorf("another secret: %d", got)
	}
	keys = []string{secret}
	r.looked = time.Now().Add(-time.Hour)
	if got := post(t, url, 1, signed(t, time.Now())).StatusCode; got != 204 {
		t.Errorf("the new secret: %d", got)
	}
	failure, r.looked = errors.New("no cluster"), time.Time{}
	if got := post(t, url, 1, signed(t, time.Now())).StatusCode; got != 401 || strings.Contains(r.Requests()[2].Problem, "cluster") {
		t.Errorf("without keys: %d, %+v", got, r.Requests()[2])
	}
}

func TestReceiverFailsAsItsURLSays(t *testing.T) {
	t.Parallel()
	r, url := serve(t, Static(secret))
	for query, want := range map[string]int{
		"?fault=500": 500, "?fault=410": 410, "?fault=429&retry_after=30": 429, "?fault=302": 302, "?fault=slow&delay=1ms": 204, "?fault=hang_up": 0,
		"?fault=500&attempts=1": 500, "?fault=header": 200, "?fault=trickle&delay=1ms": 200, "?fault=endless": 200, "?fault=gzip": 200,
		"?fault=99": 404, "?fault=other": 404, "?fault=slow&delay=soon": 404, "?fault=500&attempts=0": 404,
	} {
		response := post(t, url+query, 1, signed(t, time.Now()))
		if response.StatusCode != want || want == 429 && response.Header.Get("Retry-After") != "30" || want == 302 && response.Header.Get("Location") != Path {
			t.Errorf("%s: %d, want %d", query, response.StatusCode, want)
		}
		large := 0
		for _, values := range response.Header {
			large += len(values[0])
		}
		if n, err := io.CopyN(io.Discard, response.Body, 20); want == 200 && err != nil && large < headerSize {
			t.Errorf("%s: a body of %d bytes and headers of %d: %v", query, n, large, err)
		}
		_ = response.Body.Close()
	}
	if got := post(t, url+"?fault=500&attempts=1", 2, signed(t, time.Now())).StatusCode; got != 204 {
		t.Errorf("the second attempt: %d", got)
	}
	deadline := time.Now().Add(10 * time.Second)
	for r.Open() > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if n := r.Open(); n > 0 {
		t.Errorf("%d requests of senders that are gone are open", n)
	}
}
