package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestBackendCommandsFollowNoRedirect(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		server := httptest.NewServer(http.RedirectHandler(other.URL, status))
		t.Cleanup(server.Close)
		api := &backend{baseURL: server.URL, key: "ck_secret", client: newBackendClient(), retryAfter: time.Millisecond}
		_, _, err := ask[map[string]any](t.Context(), api, "POST", "/imports", []byte("{}"))
		if err == nil || !strings.Contains(err.Error(), "--base-url") || reached.Load() != 0 {
			t.Errorf("%d: got %v, the other server was reached %d times", status, err, reached.Load())
		}
	}
}
