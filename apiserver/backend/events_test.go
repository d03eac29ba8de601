package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/sequencer"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

// logUsers logs and numbers events of users with ids.
func logUsers(t *testing.T, s served, number bool, users ...int64) {
	t.Helper()
	err := s.rows.Change(t.Context(), exampleTenant, func(tx people.Tx) error {
		for _, user := range users {
			e, err := events.OfAccount(user, "password").Log(exampleDay(10, 12).Add(time.Duration(user)*time.Minute), "system")
			if err != nil {
				return err
			}
			if err := tx.Records().LogEvents([]people.LoggedEvent{e}); err != nil {
				return err
			}
		}
		if !number {
			return nil
		}
		_, err := tx.EventLog().NumberEvents(20_000)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// cursorOf returns the cursor of the event of a user that logUsers logged, with its number.
func cursorOf(sequence, user int64) string {
	return events.Cursor{Sequence: sequence, ID: ids.From(exampleDay(10, 12).Add(time.Duration(user)*time.Minute)) | sequence}.String()
}

// subjects returns the ids of the subjects of a page.
func subjects(list backendapi.EventList) (all []string) {
	for _, e := range list.Data {
		all = append(all, e.Subject.Id)
	}
	return all
}

func TestEventsAreReadOnceByCursor(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	logUsers(t, s, true, 1, 2, 3, 4, 5)
	var read []string
	cursor := "0-0"
	for pages := 1; ; pages++ {
		page := asks[backendapi.EventList](t, s, "/events?limit=3&types=user.created&after="+cursor)
		read = append(read, subjects(page)...)
		if cursor = page.NextCursor; page.HasMore {
			continue
		}
		if want := []string{"1", "2", "3", "4", "5"}; !slices.Equal(read, want) || pages != 2 {
			t.Errorf("%d pages have %v", pages, read)
		}
		break
	}
	if page := asks[backendapi.EventList](t, s, "/events?after="+cursor); len(page.Data) != 0 || page.HasMore || page.NextCursor != cursor {
		t.Errorf("at the end: %+v", page)
	}
	logUsers(t, s, true, 6)
	if page := asks[backendapi.EventList](t, s, "/events?after="+cursor); !slices.Equal(subjects(page), []string{"6"}) || page.Data[0].Sequence != "8" {
		t.Errorf("after another event: %+v", page)
	}
}

func TestEventsBeginNowOrAtATime(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	logUsers(t, s, true, 1, 2, 3)
	now := asks[backendapi.EventList](t, s, "/events")
	if len(now.Data) != 0 || now.HasMore || now.NextCursor != cursorOf(5, 3) {
		t.Errorf("from now on: %+v", now)
	}
	for since, want := range map[string][]string{
		"2026-05-10T12:02:00Z": {"2", "3"}, "2026-05-10T12:02:01Z": {"3"}, "2026-05-10T12:04:00Z": nil, "2026-05-10T12:00:00Z": {"1", "2", "3"},
		"1999-01-01T00:00:00Z": {navyID(), adaID(), "1", "2", "3"},
	} {
		if page := asks[backendapi.EventList](t, s, "/events?since="+since); !slices.Equal(subjects(page), want) {
			t.Errorf("since %s: %v, want %v", since, subjects(page), want)
		}
	}
}

func navyID() string { return fmt.Sprint(navy) }
func adaID() string  { return fmt.Sprint(ada) }

func TestEventsAreSelected(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	logUsers(t, s, true, 1)
	for query, want := range map[string][]string{
		"": {navyID(), adaID(), "1"}, "&types=*": {navyID(), adaID(), "1"}, "&types=user.*": {adaID(), "1"}, "&types=organization.created,user.created": {navyID(), "1"},
		"&subject_type=user&subject_id=1": {"1"}, "&organization_id=" + navyID(): {navyID()}, "&organization_id=5": nil,
	} {
		page := asks[backendapi.EventList](t, s, "/events?after=0-0"+query)
		if !slices.Equal(subjects(page), want) || page.HasMore || page.NextCursor != cursorOf(3, 1) {
			t.Errorf("%s: %v, %+v", query, subjects(page), page)
		}
	}
}

// TestSelectionOfFewEventsIsBounded: a request reads at most 10,000 events, and the client continues.
func TestSelectionOfFewEventsIsBounded(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	users := make([]int64, scannedMost)
	for i := range users {
		users[i] = int64(i) + 1
	}
	logUsers(t, s, true, users...)
	logUsers(t, s, true, scannedMost+1)
	path := fmt.Sprintf("/events?subject_id=%d&after=", scannedMost+1)
	first := asks[backendapi.EventList](t, s, path+"0-0")
	if len(first.Data) != 0 || !first.HasMore || !strings.HasPrefix(first.NextCursor, fmt.Sprint(scannedMost)+"-") {
		t.Fatalf("the first page: %+v", first)
	}
	if second := asks[backendapi.EventList](t, s, path+first.NextCursor); len(second.Data) != 1 || second.HasMore {
		t.Errorf("the second page: %+v", second)
	}
}

func TestWrongParametersOfEventsAreRefused(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	for query, want := range map[string]string{
		"after=2": "?after", "after=2-x": "?after", "after=-1-0": "?after", "after=0-0&since=2026-05-10T12:00:00Z": "?since", "since=yesterday": "?since", "types=user": "?types",
		"types=": "?types", "wait=31": "?wait", "wait=-1": "?wait", "limit=0": "?limit", "organization_id=x": "?organization_id",
	} {
		answer := s.send("GET", "/events?"+query, "")
		var refused backendapi.Error
		if err := json.Unmarshal(answer.Body.Bytes(), &refused); err != nil || answer.Code != 400 || *refused.Errors[0].Field != want {
			t.Errorf("%s: %d %s", query, answer.Code, answer.Body)
		}
	}
	for _, path := range []string{"/events/evt_1", "/events/1", "/events/evt_x", "/events/evt_", "/events/types/user", "/events/types/user.renamed"} {
		if answer := s.send("GET", path, ""); answer.Code != 404 {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
}

// TestCursorsOfOtherEventsAreGone: events were deleted because of their age, or the store was restored and has others.
func TestCursorsOfOtherEventsAreGone(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	logUsers(t, s, true, 1, 2, 3, 4)
	if err := s.rows.Change(t.Context(), exampleTenant, func(tx people.Tx) error {
		_, err := tx.EventLog().ForgetEvents(exampleDay(10, 12).Add(2*time.Minute), 100)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, cursor := range []string{"0-0", "1-7", "2-0", "4-9", cursorOf(4, 3), "7-0", "99-5"} {
		answer := s.send("GET", "/events?after="+cursor, "")
		var refused backendapi.Error
		if err := json.Unmarshal(answer.Body.Bytes(), &refused); err != nil || answer.Code != 410 || refused.Errors[0].EarliestCursor == nil || *refused.Errors[0].EarliestCursor != "3-0" {
			t.Errorf("%s: %d %s", cursor, answer.Code, answer.Body)
		}
	}
	for cursor, want := range map[string][]string{"3-0": {"2", "3", "4"}, cursorOf(3, 1): {"2", "3", "4"}, cursorOf(4, 2): {"3", "4"}, "4-0": {"3", "4"}, cursorOf(6, 4): nil} {
		if page := asks[backendapi.EventList](t, s, "/events?after="+cursor); !slices.Equal(subjects(page), want) {
			t.Errorf("%s: %v", cursor, subjects(page))
		}
	}
}

// TestRequestsWaitForEvents: an empty page is held back until there is an event that the filter selects, at most for
// the time that the request asks for, and by at most 64 requests of a deployment.
func TestRequestsWaitForEvents(t *testing.T) {
	t.Parallel()
	var worker *sequencer.Worker
	s := exampleWorldWith(t, func(o *Options) {
		worker = sequencer.New(sequencer.Options{Store: o.People, Clock: o.Clock, Log: logr.Discard(), Registry: prometheus.NewRegistry()})
		o.Events = worker
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if page := asks[backendapi.EventList](t, s, "/events?wait=1"); len(page.Data) != 0 || page.NextCursor != "2-"+fmt.Sprint(ids.From(exampleDay(10, 11))|2) {
		t.Errorf("without an event: %+v", page)
	}
	expectLongWait(t, s)
	answers := make(chan *httptest.ResponseRecorder, 70)
	for range 70 {
		go func() { answers <- s.send("GET", "/events?wait=30&subject_id=2", "") }()
	}
	for range 6 { // the others wait
		if answer := <-answers; answer.Code != 429 || answer.Header().Get("Retry-After") != "1" {
			t.Fatalf("one of too many: %d %s", answer.Code, answer.Body)
		}
	}
	logUsers(t, s, false, 1)
	logUsers(t, s, false, 2)
	for range 64 {
		answer := <-answers
		var page backendapi.EventList
		if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil || answer.Code != 200 || !slices.Equal(subjects(page), []string{"2"}) {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
	}
}

// expectLongWait expects a response to a request that waits for longer than the deadlines of its connection.
func expectLongWait(t *testing.T, s served) {
	t.Helper()
	server := httptest.NewUnstartedServer(s)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
	server.Start()
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/events?wait=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	var page backendapi.EventList
	if err := errors.Join(json.NewDecoder(answer.Body).Decode(&page), answer.Body.Close()); err != nil || answer.StatusCode != 200 || page.NextCursor == "" {
		t.Errorf("%d %+v: %v", answer.StatusCode, page, err)
	}
}

// happens runs do, numbers its events, and compares their types.
func (s served) happens(t *testing.T, do func(), want ...events.Type) []people.LoggedEvent {
	t.Helper()
	number := func() (last int64) {
		if err := s.rows.Change(t.Context(), exampleTenant, func(tx people.Tx) error {
			if _, err := tx.EventLog().NumberEvents(1000); err != nil {
				return err
			}
			bounds, err := tx.EventLog().EventBounds()
			last = bounds.Last
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return last
	}
	before := number()
	do()
	number()
	var list []people.LoggedEvent
	if err := s.rows.View(t.Context(), exampleTenant, func(tx people.Tx) (err error) {
		list, err = tx.EventLog().EventsAfter(before, 100)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var types []events.Type
	for _, e := range list {
		types = append(types, events.Type(e.Type))
	}
	if !slices.Equal(types, want) {
		t.Errorf("the events are %v, want %v", types, want)
		return make([]people.LoggedEvent, len(want))
	}
	return list
}

func TestChangesByBackendsLogEvents(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	send := func(status int, method, path, body string) (made struct{ ID string }) {
		t.Helper()
		answer := s.send(method, path, body)
		if answer.Code != status {
			t.Fatalf("%s %s: %d %s", method, path, answer.Code, answer.Body)
		}
		_ = json.Unmarshal(answer.Body.Bytes(), &made) // some have no body
		return made
	}
	var user, organization string
	created := s.happens(t, func() { user = send(200, "POST", "/users", `{"email":"new@example.com","first_name":"New"}`).ID }, events.UserCreated)[0]
	if created.SubjectID != user || !strings.HasPrefix(created.Actor, "key:") || created.Data != `{"method":"import"}` {
		t.Errorf("%+v", created)
	}
	path := "/users/" + user
	if e := s.happens(t, func() { send(200, "PATCH", path, `{"first_name":"Newer"}`) }, events.UserUpdated)[0]; e.Data != `{"changed":["first_name"]}` {
		t.Errorf("%+v", e)
	}
	s.happens(t, func() { send(200, "PATCH", path, `{"first_name":"Newer"}`) })
	s.happens(t, func() { send(200, "PATCH", path, `{"last_name":"L","disabled":true}`) }, events.UserUpdated, events.UserDisabled)
	s.happens(t, func() { send(200, "PATCH", path, `{"disabled":false}`) }, events.UserEnabled)
	s.happens(t, func() { send(204, "PUT", path+"/password", `{"password":"a long enough password 7"}`) }, events.UserPasswordChanged)
	s.happens(t, func() { send(204, "DELETE", path+"/password", "") }, events.UserPasswordRemoved)
	s.happens(t, func() { organization = send(200, "POST", "/organizations", `{"name":"Org"}`).ID }, events.OrganizationCreated, events.WorkspaceCreated)
	members := "/organizations/" + organization + "/members"
	joined := s.happens(t, func() { send(200, "POST", members, fmt.Sprintf(`{"user_id":%q}`, user)) }, events.MembershipCreated, events.MembershipCreated)
	left := s.happens(t, func() { send(204, "DELETE", members+"/"+user, "") }, events.MembershipDeleted)[0]
	if left.SubjectID != joined[0].SubjectID || fmt.Sprint(left.Organization) != organization {
		t.Errorf("%+v", left)
	}
	revoked := func(why events.Reason, do func(), more ...events.Type) {
		t.Helper()
		signInTwice(t, s, user)
		for _, e := range s.happens(t, do, append([]events.Type{events.SessionRevoked, events.SessionRevoked}, more...)...)[:2] {
			if !strings.Contains(e.Data, fmt.Sprintf(`"reason":%q`, why)) || !strings.HasPrefix(e.Actor, "key:") {
				t.Errorf("%+v", e)
			}
		}
	}
	revoked(events.ByBackend, func() { send(200, "POST", path+"/sessions/revoke-all", "") })
	revoked(events.PasswordChanged, func() { send(204, "PUT", path+"/password", `{"password":"a long enough password 8"}`) }, events.UserPasswordChanged)
	revoked(events.Disabled, func() { send(200, "PATCH", path, `{"disabled":true}`) }, events.UserDisabled)
	send(200, "PATCH", path, `{"disabled":false}`)
	revoked(events.Deleted, func() { send(204, "DELETE", path, "") }, events.UserDeleted)
}

// signInTwice inserts two sessions with a sign-in of a user.
func signInTwice(t *testing.T, s served, user string) {
	t.Helper()
	of, err := ids.Parse(user)
	if err != nil {
		t.Fatal(err)
	}
	at := exampleDay(10, 12)
	for id := range int64(2) {
		session := people.Session{ID: 100 + id, ActiveSignIn: 200 + id, CreatedAt: at, UsedAt: at, ExpiresAt: at.Add(1000 * time.Hour)}
		signIn := people.SignIn{ID: 200 + id, Session: session.ID, User: of, Method: people.MethodPassword, CreatedAt: at}
		err := s.rows.Change(t.Context(), exampleTenant, func(tx people.Tx) error {
			return errors.Join(tx.Sessions().InsertSession(session), tx.Sessions().InsertSignIn(signIn))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestImportsLogTheEventsOfOthers: the users, organizations and memberships of an import have the events that they have
// otherwise.
func TestImportsLogTheEventsOfOthers(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	lines := `{"type":"user","external_id":"u1"}
{"type":"email","external_id":"e1","user":"u1","email":"imported@example.com","verified_at":"2024-03-01T08:30:00Z"}
{"type":"organization","external_id":"o1","name":"Imported"}
{"type":"workspace","external_id":"w1","organization":"o1","name":"Main"}
{"type":"membership","external_id":"m1","user":"u1","organization":"o1","owner":true}
{"type":"membership","external_id":"m2","user":"u1","workspace":"w1"}
`
	imported := func(file, lines string, want ...events.Type) []people.LoggedEvent {
		t.Helper()
		return s.happens(t, func() {
			answer := s.send("POST", "/imports/"+strings.Repeat(file, 64)+"/batches?offset=0&complete=true", lines)
			if answer.Code != 200 || !strings.Contains(answer.Body.String(), fmt.Sprintf(`"imported":%d`, strings.Count(lines, "\n"))) {
				t.Fatalf("%d %s", answer.Code, answer.Body)
			}
		}, want...)
	}
	imported("0", lines, events.UserCreated, events.OrganizationCreated, events.WorkspaceCreated, events.MembershipCreated, events.MembershipCreated, events.ImportCompleted)
	more := `{"type":"email","external_id":"e2","user":"u1","email":"other@example.com","verified_at":"2024-03-01T08:30:00Z"}
{"type":"phone","external_id":"p1","user":"u1","phone_number":"+12025550123"}
{"type":"phone","external_id":"p2","user":"u1","phone_number":"+12025550124","verified_at":"2024-03-01T08:30:00Z"}
`
	done := imported("1", more, events.UserEmailVerified, events.UserPhoneAdded, events.UserPhoneVerified, events.UserPhonePrimaryChanged, events.ImportCompleted)[4]
	if done.SubjectType != "import" || done.SubjectID != strings.Repeat("1", 64) || done.Data != `{"rows":3}` {
		t.Errorf("%+v", done)
	}
}
