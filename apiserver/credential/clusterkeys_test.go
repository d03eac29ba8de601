package credential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
)

// forgeries returns an authenticator for tokens of ServiceAccounts, a token that the cluster signed, and forged tokens
// of the same form.
func forgeries(t *testing.T, reviews func(*countingReviewer, issuerKeys) *Reviews) (status func(token string) int, reviewer *countingReviewer, signed string, forged func(n int) string) {
	t.Helper()
	keys, reviewer := newKeys(t), &countingReviewer{}
	s := testSnapshot(t, keys)
	tokens := NewTokens(nil, reviews(reviewer, keys), func() time.Time { return now })
	signed = keys.token(claim("iss", "https://kubernetes.default.svc"), claim("sub", "system:serviceaccount:ns:reader"))
	at := strings.LastIndexByte(signed, '.') + 1
	forged = func(n int) string { return signed[:at] + fmt.Sprintf("%08d", n) + signed[at+8:] }
	return func(token string) int {
		_, err := tokens.Authenticate(t.Context(), s, token)
		return statusOf(err)
	}, reviewer, signed, forged
}

func TestForgedTokensAreRefusedWithoutReview(t *testing.T) {
	t.Parallel()
	reads := 0
	status, reviewer, signed, forged := forgeries(t, func(reviewer *countingReviewer, keys issuerKeys) *Reviews {
		r := NewReviews(reviewer, nil, func() time.Time { return now })
		r.CheckSignatures(func(context.Context) ([]byte, error) { reads++; return keys.set(t), nil })
		return r
	})
	for n := range 500 {
		if got := status(forged(n)); got != http.StatusUnauthorized {
			t.Fatalf("a forged token: %d", got)
		}
	}
	if asked := reviewer.asked.Load(); asked != 0 {
		t.Errorf("%d forged tokens were reviewed", asked)
	}
	status(signed)
	if asked := reviewer.asked.Load(); asked != 1 || reads != 1 {
		t.Errorf("a signed token: %d reviews, %d reads of the keys", asked, reads)
	}
}

func TestTokensAreReviewedWhileClusterKeysAreUnknown(t *testing.T) {
	t.Parallel()
	status, reviewer, signed, _ := forgeries(t, func(reviewer *countingReviewer, _ issuerKeys) *Reviews {
		r := NewReviews(reviewer, nil, func() time.Time { return now })
		r.CheckSignatures(func(context.Context) ([]byte, error) { return nil, errors.New("forbidden") })
		return r
	})
	status(signed)
	if asked := reviewer.asked.Load(); asked != 1 {
		t.Errorf("%d reviews", asked)
	}
}

func TestClusterKeysAreReadAtMostEveryTenSeconds(t *testing.T) {
	t.Parallel()
	keys, reads, at := newKeys(t), 0, now
	k := &clusterKeys{clock: func() time.Time { return at }, fetch: func(context.Context) ([]byte, error) {
		if reads++; reads == 1 {
			return []byte(`{"keys":[]}`), nil
		}
		return keys.set(t), nil
	}}
	token := mustParse(t, keys.token())
	for range 3 {
		if k.forged(t.Context(), token) {
			t.Error("forged, by keys that are not known")
		}
	}
	at = at.Add(clusterKeysEvery)
	if k.forged(t.Context(), token) || reads != 2 {
		t.Errorf("%d reads", reads)
	}
	at = at.Add(clusterKeysFor)
	k.fetch = func(context.Context) ([]byte, error) { return nil, errors.New("away") }
	if set, _, _ := k.cached(); set != nil {
		t.Error("keys are used for longer than an hour")
	}
}

// A token with a key id that is not in the cached keys is reviewed if the keys could not be read again: the cluster may
// have a new key.
func TestTokensOfNewClusterKeyAreReviewedAfterFailedRead(t *testing.T) {
	t.Parallel()
	old, next, at := newKeys(t), newKeys(t), now
	k := &clusterKeys{clock: func() time.Time { return at }, fetch: func(context.Context) ([]byte, error) { return old.set(t), nil }}
	if k.forged(t.Context(), mustParse(t, old.token())) {
		t.Error("forged, with a known key")
	}
	token := mustParse(t, next.token())
	token.KeyID = "next"
	if !k.forged(t.Context(), token) {
		t.Error("an unknown key id is not forged, although the keys were just read")
	}
	at = at.Add(clusterKeysEvery)
	k.fetch = func(context.Context) ([]byte, error) { return nil, errors.New("unavailable") }
	for range 2 { // the second call reads nothing
		if k.forged(t.Context(), token) {
			t.Error("forged, although the keys could not be read")
		}
	}
}

// While the cluster's keys are unknown, a flood of one deployment's tokens does not block another deployment's reviews.
func TestReviewsTakeTurnsByDeployment(t *testing.T) {
	t.Parallel()
	reviewer := &countingReviewer{takes: 10 * time.Millisecond}
	r := NewReviews(reviewer, nil, time.Now)
	flood, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for n := range 200 {
		group.Go(func() {
			for flood.Err() == nil {
				_, _ = r.ask(flood, "apps/flooded", fmt.Sprint(n), "a")
			}
		})
	}
	for n := range 10 {
		if _, err := r.ask(t.Context(), "apps/honest", fmt.Sprint(n), "a"); err != nil {
			t.Errorf("the honest deployment's token %d: %v", n, err)
		}
	}
	stop()
	group.Wait()
	if r.Exhausted() == 0 {
		t.Error("no review of the flooded deployment was refused")
	}
}

func mustParse(t *testing.T, raw string) *bearer.Token {
	t.Helper()
	token, err := bearer.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return token
}
