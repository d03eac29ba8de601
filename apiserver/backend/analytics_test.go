package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// fixedAnalytics returns the same result for every call, and records the arguments of the last call.
type fixedAnalytics struct {
	summary        people.Summary
	err            error
	asked          string
	period, before people.Period
}

func (f *fixedAnalytics) Summarize(_ context.Context, deployment string, period, before people.Period, recent int) (people.Summary, error) {
	f.asked, f.period, f.before = fmt.Sprint(deployment, " ", recent), period, before
	return f.summary, f.err
}

func fetchAnalytics(t *testing.T, from *fixedAnalytics) *httptest.ResponseRecorder {
	t.Helper()
	return fetchSummary(serveWith(t, failing{}, from))
}

// fetchSummary requests the summary of a day and a half.
func fetchSummary(s served) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/analytics?from=2026-05-10T00:00:00Z&to=2026-05-11T12:00:00Z", nil)
	r.Header.Set("Authorization", "Bearer "+s.key)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestGetAnalytics(t *testing.T) {
	at := time.Date(2026, 5, 10, 12, 0, 0, 1000, time.UTC)
	entry := people.Recent{User: 7, Email: "a@example.com", LastName: "Person", At: at, Method: "sso:x", Address: "192.0.2.1", UserAgent: "agent"}
	from := &fixedAnalytics{summary: people.Summary{
		Period: people.Counts{SignInUsers: 1, SignUps: 2, Organizations: 3, Workspaces: 4}, Before: people.Counts{SignInUsers: 3, SignUps: 4, Workspaces: 4}, SignUps: 9,
		Days: []people.Day{{Start: at.Truncate(24 * time.Hour), SignInUsers: 1, SignUps: 2}}, RecentSignUps: []people.Recent{entry}, RecentSignIns: []people.Recent{entry},
	}}
	w := fetchAnalytics(t, from)
	const want = `{"unique_signins":1,"signups":2,"organizations_created":3,"workspaces_created":4,"total_signups":9,"unique_signins_change":-66.66666666666667,` +
		`"signups_change":-50,"organizations_created_change":null,"workspaces_created_change":0,` +
		`"daily_metrics":[{"day":"2026-05-10","signins":1,"signups":2},{"day":"2026-05-11","signins":0,"signups":0}],` +
		`"recent_signups":[{"user_id":"7","email":"a@example.com","first_name":"","last_name":"Person","signed_up_at":"2026-05-10T12:00:00.000001Z","method":"sso:x",` +
		`"name":"Person","date":"2026-05-10T12:00:00.000001Z"}],` +
		`"recent_signins":[{"user_id":"7","user_email":"a@example.com","signed_in_at":"2026-05-10T12:00:00.000001Z","method":"sso:x","ip_address":"192.0.2.1",` +
		`"user_agent":"agent","email":"a@example.com","name":"Person","date":"2026-05-10T12:00:00.000001Z"}]}`
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d\n got %s\nwant %s", w.Code, w.Body, want)
	}
	if from.asked != "ns/acme 10" || from.before != periodBefore(from.period) || from.period.To.Sub(from.period.From) != 36*time.Hour {
		t.Errorf("asked for %s, %v, %v", from.asked, from.period, from.before)
	}
}

func TestGetAnalyticsFails(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		status int
		retry  bool
	}{
		"the store is away": {fmt.Errorf("%w: refused", store.ErrUnavailable), 503, true},
		"it takes too long": {fmt.Errorf("%w: %w", store.ErrUnavailable, context.DeadlineExceeded), 503, true},
		"anything else":     {errors.New("hush"), 500, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := fetchAnalytics(t, &fixedAnalytics{err: tc.err})
			var said struct{ Message string }
			if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Message == "" || w.Code != tc.status || (w.Header().Get("Retry-After") != "") != tc.retry {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// slowAnalytics takes a time of the test's clock for every summary.
type slowAnalytics struct {
	fixedAnalytics
	takes time.Duration
}

func (s *slowAnalytics) Summarize(ctx context.Context, deployment string, period, before people.Period, recent int) (people.Summary, error) {
	time.Sleep(s.takes)
	return s.fixedAnalytics.Summarize(ctx, deployment, period, before, recent)
}

func TestDeploymentWhoseQueriesUsedTheirTimeGets429(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveWith(t, failing{}, &slowAnalytics{takes: 10 * time.Second})
		for _, want := range []int{200, 429, 429} {
			w := fetchSummary(s)
			after, _ := strconv.Atoi(w.Header().Get("Retry-After"))
			if w.Code != want || want == 429 && (after < 30 || after > 45) {
				t.Errorf("%d, want %d; after %d s: %s", w.Code, want, after, w.Body)
			}
		}
		time.Sleep(45 * time.Second)
		if w := fetchSummary(s); w.Code != 200 {
			t.Errorf("after the time of Retry-After: %d %s", w.Code, w.Body)
		}
	})
}
