package bench

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

const (
	// syncedUsers is the size of the directory, and createdRound how many users one round creates.
	syncedUsers, createdRound = 100_000, 500
	// filterRound is how many lookups by userName are timed.
	filterRound = 5000
)

// directoryWorld is a connectionWorld with a directory of an organization that has the connection's domain.
type directoryWorld struct {
	*connectionWorld
	directory, token string
	next             int
}

func newDirectoryWorld(t *testing.T, engine string) *directoryWorld {
	t.Helper()
	w := &directoryWorld{connectionWorld: newConnectionWorld(t, engine)}
	content := w.content()
	content.Organization = w.organizationSlug(t, w.persons[0])
	w.redeclare(t, content)
	key, err := apikey.Mint(rand.Reader, document.DirectoryTokenPrefix)
	check(t, err)
	id := ids.Derive(v1alpha1.KindDirectory, "bench", "globex")
	w.directory, w.token = ids.Format(id), key.Plain()
	check(t, w.filler.put(t.Context(), v1alpha1.KindDirectory, "globex", "globex", id, document.Directory{
		Slug: "globex", Organization: content.Organization, Connection: "globex", Active: true, Verifiers: []document.Verifier{{ID: key.ID(), Digest: key.Digest()}},
	}))
	await(t, time.Minute, 10*time.Millisecond, func() bool { return w.scim("GET", "/ServiceProviderConfig", "").Code == http.StatusOK })
	return w
}

// scim sends a request to the directory. It waits if the directory asks for that, as identity providers do.
func (w *directoryWorld) scim(method, path, body string) *httptest.ResponseRecorder {
	for {
		r := httptest.NewRequest(method, "http://"+benchHost+"/scim/v2/"+w.directory+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+w.token)
		r.Header.Set("Content-Type", "application/scim+json")
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, r)
		if recorder.Code != http.StatusTooManyRequests {
			return recorder
		}
		time.Sleep(time.Second) // Retry-After
	}
}

// lookUp looks a user up by the userName, and returns how many there are.
func (w *directoryWorld) lookUp(t *testing.T, n int) float64 {
	recorder := w.scim("GET", "/Users?filter="+url.QueryEscape(fmt.Sprintf(`userName eq "u%d@globex.example"`, n)), "")
	var list struct{ TotalResults float64 }
	if check(t, json.Unmarshal(recorder.Body.Bytes(), &list)); recorder.Code != http.StatusOK {
		t.Fatalf("lookup: %s", recorder.Body)
	}
	return list.TotalResults
}

// create creates the next user.
func (w *directoryWorld) create(t *testing.T) {
	w.next++
	address := fmt.Sprintf("u%d@globex.example", w.next)
	body := fmt.Sprintf(`{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":%q,"externalId":"e%d","name":{"givenName":"Ann","familyName":"Lee"},"emails":[{"value":%q,"type":"work","primary":true}]}`, address, w.next, address)
	if recorder := w.scim("POST", "/Users", body); recorder.Code != http.StatusCreated {
		t.Fatalf("POST /Users: %s", recorder.Body)
	}
}

// TestBenchDirectories measures a first sync of a directory as identity providers do it, one connection that looks each
// user up and creates it; then lookups in the full directory, and the creation of users beside the same statements run
// bare.
func TestBenchDirectories(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		w := newDirectoryWorld(t, engine)
		w.sync(t, engine)
		w.filters(t, engine)
		w.creations(t, engine)
	}
}

// sessions asks for the session of a user until done, and returns how long each request took.
func (w *directoryWorld) sessions(t *testing.T, done func() bool) (took []time.Duration) {
	for p := w.persons[1]; !done(); time.Sleep(5 * time.Millisecond) {
		start := time.Now()
		w.getSession(t, p)
		took = append(took, time.Since(start))
	}
	return took
}

// sync fills the directory, while another user asks for the session.
func (w *directoryWorld) sync(t *testing.T, engine string) {
	t.Helper()
	idleUntil := time.Now().Add(10 * time.Second)
	idle := w.sessions(t, func() bool { return time.Now().After(idleUntil) })
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	var synced atomic.Bool
	beside := make(chan []time.Duration)
	go func() { beside <- w.sessions(t, synced.Load) }()
	before, most, begin := heap(), 0.0, time.Now()
	for i := range syncedUsers {
		if w.lookUp(t, i+1) != 0 {
			t.Fatal("the user exists already")
		}
		w.create(t)
		if i%10_000 == 0 {
			most = max(most, heap())
		}
	}
	took := time.Since(begin)
	synced.Store(true)
	busy := <-beside
	what := engine + ", first sync of " + fmt.Sprint(syncedUsers) + " users"
	row(what, "<= 10 min", "%.1f min", took.Minutes())
	row(what+": growth of the heap", "<= 64 MiB", "%.1f MiB", most-before)
	row(what+": p99 of GET /session beside it, to idle", "<= 1.5", "%.2f (%s, %s)", float64(quantile(busy, 0.99))/float64(quantile(idle, 0.99)), ms(quantile(busy, 0.99)), ms(quantile(idle, 0.99)))
}

// filters measures lookups by userName in the full directory.
func (w *directoryWorld) filters(t *testing.T, engine string) {
	t.Helper()
	var took []time.Duration
	for i := range filterRound {
		start := time.Now()
		if w.lookUp(t, 1+i*7919%w.next) != 1 {
			t.Fatal("a user is not found")
		}
		if one := time.Since(start); one < time.Second { // else it waited for its turn under the limit of requests
			took = append(took, one)
		}
	}
	row(fmt.Sprintf("%s, GET /Users by userName among %d: p99", engine, w.next), "<= 10 ms", "%s (p50 %s)", ms(quantile(took, 0.99)), ms(quantile(took, 0.5)))
}

// creations compares creations of users with their statements run bare, in alternating rounds.
func (w *directoryWorld) creations(t *testing.T, engine string) {
	t.Helper()
	script := w.recording.of(func() { w.create(t) })
	var ratios []float64
	for range peopleRounds {
		time.Sleep(2 * time.Second) // the directory saves up its burst of requests
		start := time.Now()
		for range createdRound {
			w.create(t)
		}
		own := time.Since(start)
		start = time.Now()
		for range createdRound {
			check(t, w.replay(script))
		}
		ratios = append(ratios, float64(time.Since(start))/float64(own))
	}
	row(engine+", POST /Users: ratio to its "+fmt.Sprint(len(script))+" statements run bare", ">= 0.6", "%.2f", median(ratios))
}
