package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	globex       = "https://idp.globex.example"
	globexFirst  = globex + discoveryPath
	globexKeys   = globex + "/jwks"
	initech      = "https://idp.initech.example"
	initechFirst = initech + discoveryPath
)

// between fails the test unless the times are as many as the bounds, and each is within its bounds.
func between(t *testing.T, what string, times []time.Duration, bounds ...[2]time.Duration) {
	t.Helper()
	if len(times) != len(bounds) {
		t.Errorf("%s: %v, want %v", what, times, bounds)
		return
	}
	for i, at := range times {
		if at < bounds[i][0] || at > bounds[i][1] {
			t.Errorf("%s: %v, want %v", what, times, bounds)
			return
		}
	}
}

// A declared connection is fetched within 5 s, by one of the servers, and then each hour.
func TestDeclaredConnectionIsFetchedBeforeASignInNeedsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, web := newMemory(), &answers{fetched: map[string][]time.Time{}, answer: good}
		servers := running(t, 3, m, web)
		time.Sleep(time.Minute)
		began := time.Now()
		m.declare(map[string]string{"globex": globex})
		time.Sleep(2*time.Hour + 20*time.Minute)
		hour := func(n time.Duration) [2]time.Duration {
			return [2]time.Duration{n * time.Hour, n*time.Hour + n*7*time.Minute}
		}
		between(t, "discovery", web.times(globexFirst, began), [2]time.Duration{0, 5 * time.Second}, hour(1), hour(2))
		between(t, "keys", web.times(globexKeys, began), [2]time.Duration{0, 5 * time.Second}, hour(1), hour(2))
		web.set(func(*http.Request) (int, io.ReadCloser, error) {
			return 0, nil, errors.New("not while a document is fresh")
		})
		for n, server := range servers {
			key, err := server.Key(t.Context(), Connection{Deployment: testDeployment, ID: 6, Connection: &document.Connection{Type: "OIDC", Provider: document.UpstreamProvider{Issuer: globex}}}, globex, "k1")
			if err != nil || key == nil {
				t.Errorf("server %d: %v, %v", n, key, err)
			}
		}
		m.declare(nil)
		time.Sleep(time.Minute)
		count := len(web.times(globexFirst, began))
		time.Sleep(5 * time.Hour)
		if n := len(web.times(globexFirst, began)); n != count {
			t.Errorf("a deleted connection was fetched %d times", n-count)
		}
	})
}

// A provider that fails is asked again after 5 s, 30 s, and then each minute, by all servers together. When it is back,
// the next fetch finds that.
func TestFailingProviderIsAskedEachMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, web := newMemory(), &answers{fetched: map[string][]time.Time{}, answer: bad}
		m.declare(map[string]string{"globex": globex})
		running(t, 3, m, web)
		time.Sleep(12 * time.Minute)
		times := web.times(globexFirst, time.Now())
		if len(times) < 10 || len(times) > 14 {
			t.Fatalf("%d fetches in 12 minutes", len(times))
		}
		for i, least := range []time.Duration{5 * time.Second, 30 * time.Second, time.Minute, time.Minute, time.Minute} {
			if pause := times[i+1] - times[i]; pause < least || pause > least+least/10+time.Second {
				t.Errorf("fetch %d came %v after the one before", i+1, pause)
			}
		}
		row := m.row(6, people.UpstreamDiscovery)
		if row.Failures != len(times) || !strings.HasPrefix(row.Error, "Unreachable: ") {
			t.Errorf("%+v", row)
		}
		web.set(good)
		time.Sleep(70 * time.Second)
		if row := m.row(6, people.UpstreamJWKS); row.Body == "" || row.Failures != 0 {
			t.Errorf("%+v", row)
		}
	})
}

// Another provider is fetched within 5 s, although the former one failed for long.
func TestChangedProviderIsFetchedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, web := newMemory(), &answers{fetched: map[string][]time.Time{}, answer: bad}
		m.declare(map[string]string{"globex": globex})
		running(t, 2, m, web)
		time.Sleep(10*time.Minute + 5*time.Second)
		web.set(good)
		began := time.Now()
		m.declare(map[string]string{"globex": initech})
		time.Sleep(10 * time.Second)
		times := web.times(initechFirst, began)
		if len(times) == 0 || times[0] > 5*time.Second || len(times) > 2 {
			t.Errorf("%v", times)
		}
	})
}

// A provider that sends a byte each second is abandoned after 10 s, and does not delay other connections.
func TestAnswerThatNeverEndsIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, web := newMemory(), &answers{fetched: map[string][]time.Time{}}
		web.answer = func(r *http.Request) (int, io.ReadCloser, error) {
			if r.URL.Host != "idp.globex.example" {
				return good(r)
			}
			return 200, io.NopCloser(dripping{r.Context()}), nil
		}
		m.declare(map[string]string{"globex": globex, "initech": initech})
		server := running(t, 1, m, web)[0]
		time.Sleep(4 * time.Second)
		if row := m.row(7, people.UpstreamDiscovery); row.Body == "" {
			t.Errorf("the other connection waits: %+v", row)
		}
		began := time.Now()
		_, err := server.Metadata(t.Context(), Connection{Deployment: testDeployment, ID: 6, Connection: &document.Connection{Type: "OIDC", Provider: document.UpstreamProvider{Issuer: globex}}})
		if took := time.Since(began); !errors.Is(err, ErrUnavailable) || took > requestWithin {
			t.Errorf("%v after %v", err, took)
		}
		time.Sleep(10 * time.Second)
		if row := m.row(6, people.UpstreamDiscovery); !strings.Contains(row.Error, "does not answer within 10s") {
			t.Errorf("%+v", row)
		}
	})
}

// dripping sends a byte each second until its context ends.
type dripping struct{ ctx context.Context }

func (d dripping) Read(into []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(time.Second):
		into[0] = ' '
		return 1, nil
	}
}

// Several deployments use the same provider. Their fetches of a URL at one time are one request.
func TestOneURLIsFetchedOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, web, slow := newMemory(), &answers{fetched: map[string][]time.Time{}}, make(chan struct{})
		web.answer = func(r *http.Request) (int, io.ReadCloser, error) { <-slow; return good(r) }
		server := running(t, 1, m, web)[0]
		var group sync.WaitGroup
		for n := range 20 {
			group.Go(func() {
				c := Connection{Deployment: fmt.Sprint("acme/", n), ID: 6, Connection: &document.Connection{Type: "OIDC", Provider: document.UpstreamProvider{Issuer: globex}}}
				if _, err := server.Metadata(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(slow)
		group.Wait()
		if n := len(web.times(globexFirst, time.Now())); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// A server that needs what another one fetches waits for the result, good or bad, and does not fetch after it.
func TestServersWaitForTheFetchOfAnother(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*http.Request) (int, io.ReadCloser, error){"good": good, "bad": bad} {
		synctest.Test(t, func(t *testing.T) {
			m, web := newMemory(), &answers{fetched: map[string][]time.Time{}}
			web.answer = func(r *http.Request) (int, io.ReadCloser, error) {
				time.Sleep(3 * time.Second)
				return answer(r)
			}
			var group sync.WaitGroup
			began := time.Now()
			for _, server := range running(t, 3, m, web) {
				group.Go(func() {
					_, err := server.Metadata(t.Context(), Connection{Deployment: testDeployment, ID: 6, Connection: &document.Connection{Type: "OIDC", Provider: document.UpstreamProvider{Issuer: globex}}})
					if took := time.Since(began); (err == nil) != (name == "good") || took > 3*time.Second+2*pollEvery {
						t.Errorf("%s: %v after %v", name, err, took)
					}
				})
			}
			group.Wait()
			if n := len(web.times(globexFirst, began)); n != 1 {
				t.Errorf("%s: %d fetches", name, n)
			}
		})
	}
}

// Servers check the same document at different times.
func TestChecksAreSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, web := newMemory(), &answers{fetched: map[string][]time.Time{}, answer: good}
		server := running(t, 1, m, web)[0]
		c := Connection{Deployment: testDeployment, ID: 6, Connection: &document.Connection{Type: "OIDC", Provider: document.UpstreamProvider{Issuer: globex}}}
		seen := map[time.Time]bool{}
		for range 20 {
			seen[server.check(t.Context(), c, time.Time{}).next] = true
		}
		if len(seen) < 10 {
			t.Errorf("20 checks have %d times", len(seen))
		}
	})
}

// A document that was not fetched for long is waited for once. After the failure, the last good one is used at once.
func TestOverdueDocumentIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, web := newMemory(), &answers{fetched: map[string][]time.Time{}, answer: good}
		server := running(t, 1, m, web)[0]
		c := Connection{Deployment: testDeployment, ID: 6, Connection: &document.Connection{Type: "OIDC", Provider: document.UpstreamProvider{Issuer: globex}}} // a row: not declared
		took := func() time.Duration {
			began := time.Now()
			if _, err := server.Metadata(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		took()
		time.Sleep(90 * time.Minute)
		web.set(func(r *http.Request) (int, io.ReadCloser, error) {
			<-r.Context().Done()
			return 0, nil, r.Context().Err()
		})
		if d := took(); d != 0 {
			t.Errorf("half an hour overdue, a sign-in waits for %v", d)
		}
		time.Sleep(time.Minute) // it failed once
		m.mu.Lock()
		row := m.rows[testDeployment+" 6 "+people.UpstreamDiscovery]
		row.Failures, row.Error = 0, ""
		m.rows[testDeployment+" 6 "+people.UpstreamDiscovery] = row
		m.mu.Unlock()
		server = running(t, 1, m, web)[0]
		time.Sleep(5 * time.Hour)
		if d := took(); d == 0 || d > requestWithin {
			t.Errorf("hours overdue, a sign-in waits for %v", d)
		}
		time.Sleep(time.Second)
		if d := took(); d != 0 {
			t.Errorf("after the failure, a sign-in waits for %v", d)
		}
	})
}
