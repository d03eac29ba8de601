package credential

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
)

// countingReviewer refuses every token after the time in takes, and counts the reviews.
type countingReviewer struct {
	takes                  time.Duration
	asked, now, mostAtOnce atomic.Int64
}

func (r *countingReviewer) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	r.asked.Add(1)
	at := r.now.Add(1)
	for most := r.mostAtOnce.Load(); at > most && !r.mostAtOnce.CompareAndSwap(most, at); most = r.mostAtOnce.Load() {
	}
	if r.takes > 0 {
		<-time.After(r.takes)
	}
	r.now.Add(-1)
	_ = obj.(*authenticationv1.TokenReview)
	return nil
}

func statusOf(err error) int {
	var refused *apierror.Error
	if errors.As(err, &refused) {
		return refused.Status
	}
	return http.StatusOK
}

func TestFewTokensBecomeReviews(t *testing.T) {
	keys := newKeys(t)
	s := testSnapshot(t, keys)
	clock := func() time.Time { return now }
	inCluster := func(changes ...change) string {
		return keys.token(append([]change{claim("iss", "https://kubernetes.default.svc"), claim("sub", "system:serviceaccount:ns:reader")}, changes...)...)
	}
	authenticate := func(tokens *Tokens, token string) int {
		_, err := tokens.Authenticate(context.Background(), s, token)
		return statusOf(err)
	}
	own := func() string { return inCluster() }

	t.Run("1,000 at once are 8 at once and 50 a second", func(t *testing.T) {
		reviewer := &countingReviewer{takes: 20 * time.Millisecond}
		tokens := NewTokens(nil, NewReviews(reviewer, own, clock), clock)
		var group sync.WaitGroup
		begun := time.Now()
		valid := inCluster()
		for i := range 1000 {
			token := valid[:len(valid)-8] + fmt.Sprintf("%04d", i) + valid[len(valid)-4:]
			group.Go(func() { authenticate(tokens, token) })
		}
		group.Wait()
		seconds := time.Since(begun).Seconds() + 1
		if most := reviewer.mostAtOnce.Load(); most > reviewsAtOnce {
			t.Errorf("%d at once", most)
		}
		if asked := reviewer.asked.Load(); asked == 0 || float64(asked) > reviewsPerSecond*(seconds+1) {
			t.Errorf("%d in %.1f s", asked, seconds)
		}
	})
	t.Run("a refusal is remembered for 10 s", func(t *testing.T) {
		reviewer := &countingReviewer{}
		at := now
		clock := func() time.Time { return at }
		tokens, token := NewTokens(nil, NewReviews(reviewer, own, clock), clock), inCluster()
		for range 5 {
			if status := authenticate(tokens, token); status != http.StatusUnauthorized {
				t.Errorf("status %d", status)
			}
		}
		if asked := reviewer.asked.Load(); asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		at = at.Add(reviewAge)
		authenticate(tokens, token)
		if asked := reviewer.asked.Load(); asked != 2 {
			t.Errorf("asked %d times after 10 s", asked)
		}
	})
	t.Run("what cannot be the cluster's is not asked about", func(t *testing.T) {
		reviewer := &countingReviewer{}
		tokens := NewTokens(nil, NewReviews(reviewer, own, clock), clock)
		valid := inCluster()
		for name, token := range map[string]string{
			"a signature of one byte":  valid[:strings.LastIndexByte(valid, '.')] + ".AA",
			"a signature of 64 bytes":  valid[:strings.LastIndexByte(valid, '.')+87],
			"another issuer":           inCluster(claim("iss", "https://elsewhere.example")),
			"no key's id":              inCluster(header("kid", nil)),
			"no subject":               inCluster(claim("sub", nil)),
			"a type that is no access": inCluster(header("typ", "logout+jwt")),
		} {
			if status := authenticate(tokens, token); status != http.StatusUnauthorized {
				t.Errorf("%s: status %d", name, status)
			}
		}
		if asked := reviewer.asked.Load(); asked != 0 {
			t.Errorf("asked %d times", asked)
		}
	})
	t.Run("a server that does not know its cluster's issuer asks", func(t *testing.T) {
		reviewer := &countingReviewer{}
		tokens := NewTokens(nil, NewReviews(reviewer, func() string { return "no JWT" }, clock), clock)
		authenticate(tokens, inCluster(claim("iss", "https://elsewhere.example")))
		if asked := reviewer.asked.Load(); asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestTokenSubjectsAndExpiry(t *testing.T) {
	keys := newKeys(t)
	s := testSnapshot(t, keys)
	clock := func() time.Time { return now }
	tokens := NewTokens(nil, NewReviews(&reviewer{}, nil, clock), clock)
	own := func(changes ...change) string {
		return keys.token(append([]change{claim("iss", "https://own.example"), header("alg", "ES256"), header("kid", "ec")}, changes...)...)
	}
	long := func(changes ...change) string {
		return keys.token(append([]change{claim("iss", "https://long.example")}, changes...)...)
	}
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		token string
		want  int
	}{
		"no subject":                            {keys.token(claim("sub", nil)), 401},
		"an empty subject":                      {keys.token(claim("sub", "")), 401},
		"a subject that is no text":             {keys.token(claim("sub", 5)), 401},
		"typ at+jwt":                            {keys.token(header("typ", "at+jwt")), 200},
		"a session's own":                       {own(), 200},
		"the token of an agent's tool":          {own(header("typ", "at+jwt")), 401},
		"typ jwt":                               {keys.token(header("typ", "jwt")), 200},
		"typ of a logout token":                 {keys.token(header("typ", "logout+jwt")), 401},
		"typ of an ID token":                    {keys.token(header("typ", "id_token")), 401},
		"an empty typ":                          {keys.token(header("typ", "")), 401},
		"typ that is no text":                   {keys.token(header("typ", 1)), 401},
		"a day":                                 {keys.token(claim("iat", seconds(0)), claim("exp", seconds(day))), 200},
		"more than a day":                       {keys.token(claim("iat", seconds(0)), claim("exp", seconds(day+time.Second))), 401},
		"more than a day, mostly over":          {keys.token(claim("iat", seconds(-day)), claim("exp", seconds(time.Minute))), 401},
		"more than a day from now, without iat": {keys.token(claim("exp", seconds(day+time.Second))), 401},
		"ten years":                             {keys.token(claim("exp", seconds(3650*day))), 401},
		"two days where three are declared":     {long(claim("iat", seconds(0)), claim("exp", seconds(2*day))), 200},
		"four days where three are declared":    {long(claim("iat", seconds(0)), claim("exp", seconds(4*day))), 401},
		"an own session's":                      {own(claim("exp", seconds(time.Second))), 200},
		"an own session's that just ended":      {own(claim("exp", seconds(0))), 401},
		"an own session's that ended":           {own(claim("exp", seconds(-59*time.Second))), 401},
		"a date beyond time":                    {keys.token(claim("iat", seconds(0)), claim("exp", 1e17)), 401},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tokens.Authenticate(context.Background(), s, tc.token); statusOf(err) != tc.want {
				t.Errorf("got %v, want %d", err, tc.want)
			}
		})
	}
}

// A verified token is not verified again for a bounded time.
func TestVerifiedTokensAreCached(t *testing.T) {
	keys := newKeys(t)
	s := testSnapshot(t, keys)
	at := now
	clock := func() time.Time { return at }
	tokens := NewTokens(nil, NewReviews(&reviewer{}, nil, clock), clock)
	token := keys.token(claim("exp", seconds(time.Minute)))
	first, err := tokens.Authenticate(context.Background(), s, token)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := tokens.Authenticate(context.Background(), s, token); err != nil || again != first {
		t.Errorf("the second time: %v, %v", again, err)
	}
	t.Run("not with another signature", func(t *testing.T) {
		last := strings.LastIndexByte(token, '.') + 1
		if _, err := tokens.Authenticate(context.Background(), s, token[:last]+flip(token[last:])); statusOf(err) != 401 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("not where the issuer's entry changed", func(t *testing.T) {
		other := newKeys(t)
		if _, err := tokens.Authenticate(context.Background(), testSnapshot(t, other), token); statusOf(err) != 401 {
			t.Errorf("by a key that is no longer declared: %v", err)
		}
		if _, err := tokens.Authenticate(context.Background(), &snapshot.Snapshot{}, "a.b.c"); statusOf(err) != 401 {
			t.Errorf("got %v", err)
		}
		if p, err := tokens.Authenticate(context.Background(), testSnapshot(t, keys), token); err != nil || p == first {
			t.Errorf("the same key declared again: %v, %v", p, err)
		}
	})
	t.Run("not after its end", func(t *testing.T) {
		at = at.Add(2*time.Minute - time.Nanosecond)
		if _, err := tokens.Authenticate(context.Background(), s, token); err != nil {
			t.Errorf("within the skew: %v", err)
		}
		at = at.Add(time.Nanosecond)
		if _, err := tokens.Authenticate(context.Background(), s, token); statusOf(err) != 401 {
			t.Errorf("got %v", err)
		}
	})
}

func TestChallengeDependsOnCredential(t *testing.T) {
	keys := newKeys(t)
	s := testSnapshot(t, keys)
	clock := func() time.Time { return now }
	a := &Authenticator{Tokens: NewTokens(nil, NewReviews(&reviewer{}, nil, clock), clock), Clock: clock}
	unknown, err := apikey.Mint(rand.Reader, "ck")
	if err != nil {
		t.Fatal(err)
	}
	const plain, invalid = "Bearer", `Bearer error="invalid_token"`
	body := ""
	for name, tc := range map[string]struct {
		sent []string
		want string
	}{
		"none":              {nil, plain},
		"another scheme":    {[]string{"Basic YTpi"}, plain},
		"an empty one":      {[]string{"Bearer "}, invalid},
		"no credential":     {[]string{"Bearer"}, invalid},
		"two":               {[]string{"Bearer a", "Bearer b"}, invalid},
		"a malformed key":   {[]string{"Bearer ck_x"}, invalid},
		"an unknown key":    {[]string{"Bearer " + unknown.Plain()}, invalid},
		"a malformed token": {[]string{"Bearer a.b.c"}, invalid},
		"an expired token":  {[]string{"Bearer " + keys.token(claim("exp", seconds(-time.Hour)))}, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := http.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = "192.0.2.1:1"
			r.Header["Authorization"] = tc.sent
			_, err := a.Authenticate(s, r)
			var refused *apierror.Error
			if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
				t.Fatalf("got %v", err)
			}
			if got := refused.Header.Get("WWW-Authenticate"); got != tc.want {
				t.Errorf("challenge %q, want %q", got, tc.want)
			}
			if body == "" {
				body = refused.Text()
			}
			if refused.Text() != body {
				t.Errorf("the body %q distinguishes this case from the others", refused.Text())
			}
		})
	}
}
