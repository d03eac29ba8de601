package backend

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to damage stored rows

	"github.com/cardea-iam/cardea/store/people"
)

// exported is a backend whose deployment has events on 10 and 12 May 2026.
func exported(t *testing.T) served {
	t.Helper()
	s := serve(t, failing{})
	at := time.Date(2026, time.May, 10, 23, 59, 59, 999_999_000, time.UTC)
	err := s.rows.Change(t.Context(), "ns/acme", func(tx people.Tx) error {
		for n, kind := range []string{people.EventSignIn, people.EventSignIn, people.EventSignUp, people.EventOrganization, people.EventWorkspace, people.EventWorkspace} {
			for user, later := range []time.Duration{0, 48 * time.Hour} {
				id := int64(10*n + user + 1)
				if later > 0 && kind != people.EventSignIn {
					continue
				}
				if err := tx.Records().RecordEvent(people.Event{ID: id, Kind: kind, At: at.Add(later), User: id, Method: people.MethodPassword}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s served) rollUp(t *testing.T) {
	t.Helper()
	waiting, err := s.rows.Waiting(t.Context())
	for _, w := range waiting {
		if err == nil {
			_, err = s.rows.RollUpDay(t.Context(), w, time.UnixMicro(0), 100)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestExportAnalytics(t *testing.T) {
	t.Parallel()
	const period = "?from=2026-05-10T23:00:00-01:00&to=2026-05-12T00:00:00.000001Z" // 11 and 12 May
	const wide = "?from=2026-05-10T12:00:00Z&to=2026-05-12T12:00:00Z"
	s := exported(t)
	for range 2 {
		s.says(t, "GET", "/analytics/export"+period, "", 200,
			`{"data":[{"day":"2026-05-11","signins":0,"signups":0,"organizations_created":0,"workspaces_created":0},{"day":"2026-05-12","signins":2,"signups":0,"organizations_created":0,"workspaces_created":0}]}`)
		s.says(t, "GET", "/analytics/export"+wide+"&format=json", "", 200, `{"data":[{"day":"2026-05-10","signins":2,"signups":1,"organizations_created":1,"workspaces_created":2},{"day":"2026-05-11"`)
		answer := s.send("GET", "/analytics/export"+wide+"&format=csv", "")
		const want = "day,signins,signups,organizations_created,workspaces_created\r\n2026-05-10,2,1,1,2\r\n2026-05-11,0,0,0,0\r\n2026-05-12,2,0,0,0\r\n"
		if answer.Code != 200 || answer.Body.String() != want || !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/csv") {
			t.Errorf("%d %v\n%s", answer.Code, answer.Header(), answer.Body)
		}
		s.rollUp(t)
	}
}

func TestExportAnalyticsRefusesInvalidPeriods(t *testing.T) {
	t.Parallel()
	s := exported(t)
	for query, field := range map[string]string{
		"": "?from", "?from=2026-05-10T00:00:00Z": "?to", "?from=2026-05-10T00:00:00Z&to=2026-05-10T00:00:00Z": "?to",
		"?from=2026-05-10T00:00:00Z&to=2026-05-11T00:00:00Z&format=xml": "?format",
		// The period is 1,100 days long, and touches 1,101 UTC days.
		"?from=2024-02-29T12:00:00Z&to=2027-03-05T12:00:00Z": "?to",
	} {
		s.says(t, "GET", "/analytics/export"+query, "", 400, fmt.Sprintf(`"field":%q`, field))
	}
	s.says(t, "GET", "/analytics/export?from=2024-02-29T00:00:00Z&to=2027-03-05T00:00:00Z", "", 200, `"day":"2027-03-04"`)
}

func TestVerificationReportsDamagedDay(t *testing.T) {
	t.Parallel()
	s := exported(t)
	s.says(t, "GET", "/analytics/verification", "", 200, `{"data":[],"next":null}`)
	s.rollUp(t)
	s.says(t, "GET", "/analytics/verification", "", 200, `{"data":[{"day":"2026-05-10","events":6,"fault":null},{"day":"2026-05-12","events":2,"fault":null}],"next":null}`)
	s.says(t, "GET", "/analytics/verification?limit=1", "", 200, `{"data":[{"day":"2026-05-10","events":6,"fault":null}],"next":"2026-05-11"}`)
	db, err := sql.Open("sqlite", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), `UPDATE sealed_days SET log = user_set WHERE day = ?`,
		time.Date(2026, time.May, 12, 0, 0, 0, 0, time.UTC).Unix()/86400); err != nil {
		t.Fatal(err)
	}
	body := s.says(t, "GET", "/analytics/verification?from=2026-05-11", "", 200)
	var found struct{ Data []struct{ Day, Fault string } }
	if err := json.Unmarshal([]byte(body), &found); err != nil || len(found.Data) != 1 || found.Data[0].Day != "2026-05-12" || found.Data[0].Fault == "" {
		t.Errorf("%s, %v", body, err)
	}
	for query, field := range map[string]string{"?from=today": "?from", "?from=1969-12-31": "?from", "?limit=0": "?limit"} {
		s.says(t, "GET", "/analytics/verification"+query, "", 400, fmt.Sprintf(`"field":%q`, field))
	}
}
