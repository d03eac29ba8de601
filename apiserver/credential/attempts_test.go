package credential

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/credential/keycache"
	"github.com/cardea-iam/cardea/internal/apikey"
)

// unknownKeys finds no key, and counts the lookups.
type unknownKeys struct{ asked int }

func (k *unknownKeys) Find(context.Context, apikey.Key) (*keycache.Key, error) {
	k.asked++
	return nil, keycache.ErrUnknown
}
func (k *unknownKeys) Cached(apikey.Digest) (*keycache.Key, bool) { return nil, false }
func (k *unknownKeys) Used(*keycache.Key, time.Time)              {}

// TestUnknownKeysOfAClientAreThrottled: once a client has presented a hundred unknown keys in a minute, its keys are
// not looked up any more; other clients are served.
func TestUnknownKeysOfAClientAreThrottled(t *testing.T) {
	t.Parallel()
	s := testSnapshot(t, newKeys(t))
	keys := &unknownKeys{}
	a := &Authenticator{Keys: keys, Attempts: NewAttempts(), Clock: func() time.Time { return now }}
	ask := func(from string) int {
		key, err := apikey.Mint(rand.Reader, "ck")
		if err != nil {
			t.Fatal(err)
		}
		r, _ := http.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = from
		r.Header["Authorization"] = []string{"Bearer " + key.Plain()}
		_, err = a.Authenticate(s, r)
		return statusOf(err)
	}
	for i := range 300 {
		want := http.StatusUnauthorized
		if i >= attemptsPerMinute {
			want = http.StatusTooManyRequests
		}
		if got := ask("192.0.2.1:1"); got != want {
			t.Fatalf("attempt %d: %d, want %d", i, got, want)
		}
	}
	if keys.asked != attemptsPerMinute {
		t.Errorf("%d keys were looked up", keys.asked)
	}
	if got := ask("192.0.2.2:1"); got != http.StatusUnauthorized {
		t.Errorf("another client: %d", got)
	}
}

// TestPeerThatNamesItsClientsIsThrottled: a peer cannot evade the throttle by naming another client in each attempt.
func TestPeerThatNamesItsClientsIsThrottled(t *testing.T) {
	t.Parallel()
	a, peer, other := NewAttempts(), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	client := netip.MustParseAddr("192.0.2.1")
	for range peerAttemptsPerMinute {
		if a.TooMany(client, peer) {
			t.Fatal("throttled too early")
		}
		a.Failed(client, peer)
		client = client.Next()
	}
	if !a.TooMany(client, peer) {
		t.Error("the peer is not throttled")
	}
	if a.TooMany(client, other) {
		t.Error("another peer is throttled")
	}
}
