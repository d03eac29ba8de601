package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// eventOf is an event in the form of the server.
func eventOf(sequence int) string {
	return fmt.Sprintf(`{"id":"evt_4%d","type":"user.updated","version":1,"timestamp":"2026-05-10T11:00:00Z","sequence":"%[1]d","deployment_id":"1",
		"actor":{"type":"system","id":""},"subject":{"type":"user","id":"7\u001b[2J"},"organization_id":null,"workspace_id":null,"data":{"changed":["first_name"]}}`, sequence)
}

// eventPageOf is a page of events with these numbers. Its cursor is after the last of them, or at for none.
func eventPageOf(more bool, at int, sequences ...int) string {
	var list []string
	for _, sequence := range sequences {
		list, at = append(list, eventOf(sequence)), sequence
	}
	return fmt.Sprintf(`{"data":[%s],"has_more":%t,"next_cursor":"%d-4"}`, strings.Join(list, ","), more, at)
}

// eventServer answers each request with the next of the responses, and the last one again. Every request is appended
// to asked. "" cuts the connection, and a number is a status.
func eventServer(t *testing.T, responses ...string) (env map[string]string, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r.URL.Path+" "+r.URL.Query().Encode())
		response := responses[min(len(all), len(responses))-1]
		switch response {
		case "":
			panic(http.ErrAbortHandler)
		case "410":
			w.WriteHeader(http.StatusGone)
			response = `{"message":"?after is the cursor of an event that the server no longer has","errors":[{"earliest_cursor":"3-0"}]}`
		case "429", "503", "403":
			w.WriteHeader(map[string]int{"429": 429, "503": 503, "403": 403}[response])
			response = `{"message":"for the test"}`
		}
		_, _ = io.WriteString(w, response)
	}))
	t.Cleanup(server.Close)
	return map[string]string{envServer: server.URL, envAPIKey: "the-key"}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestEventsAreListedToTheirEnd(t *testing.T) {
	env, asked := eventServer(t, eventPageOf(true, 0, 1, 2), eventPageOf(false, 0, 3))
	args := []string{"events", "list", "--since", "2026-05-01T00:00:00Z", "--types", "user.*,membership.created", "--subject", "user/7", "--organization", "8", "--personal"}
	out, problems, code := run(t, env, args...)
	if code != 0 || !strings.Contains(out, "2026-05-10 11:00:00   user.updated") || !strings.Contains(out, `{"changed":["first_name"]}`) || !strings.HasSuffix(out, "\n3 events.\n") || strings.Contains(out, "\x1b") {
		t.Errorf("%d %q %s", code, problems, out)
	}
	const filter = "organization_id=8&personal=true"
	want := []string{
		"/events limit=100&" + filter + "&since=2026-05-01T00%3A00%3A00Z&subject_id=7&subject_type=user&types=user.%2A%2Cmembership.created",
		"/events after=2-4&limit=98&" + filter + "&subject_id=7&subject_type=user&types=user.%2A%2Cmembership.created",
	}
	if got := asked(); !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
}

func TestListOfEventsHasALimit(t *testing.T) {
	env, asked := eventServer(t, eventPageOf(true, 0, 1, 2))
	out, problems, code := run(t, env, "events", "list", "--limit", "2")
	if code != 0 || !strings.HasSuffix(out, "2 events; --after 2-4 shows the next.\n") || len(asked()) != 1 {
		t.Errorf("%d %q %s", code, problems, out)
	}
	if since := asked()[0]; !strings.Contains(since, "since="+time.Now().UTC().Add(-time.Hour).Format("2006-01-02T")) {
		t.Errorf("asked %s", since)
	}
	env, _ = eventServer(t, eventPageOf(true, 0, 1, 2), eventPageOf(false, 2))
	out, problems, code = run(t, env, "events", "list", "--after", "0-0", "-o", "json")
	var list struct {
		Data []struct{ Sequence string }
		Next string `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list.Data) != 2 || list.Next != "2-4" || strings.Contains(out, "\x1b") {
		t.Errorf("%d %q %s", code, problems, out)
	}
}

// TestTailContinuesAfterInterruptions: a connection that is cut, a server that is unavailable, and one at its bound are
// asked again after the last cursor. Another refusal ends the command.
func TestTailContinuesAfterInterruptions(t *testing.T) {
	env, asked := eventServer(t, eventPageOf(false, 5), eventPageOf(false, 0, 6), "", "503", eventPageOf(false, 6), "429", eventPageOf(false, 0, 7), "410")
	out, problems, code := run(t, env, "events", "tail", "--request-timeout", "10s")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != exitFault || len(lines) != 2 || !strings.HasPrefix(lines[0], "2026-05-10 11:00:00  user.updated ") || strings.Contains(out, "\x1b") {
		t.Errorf("%d %q", code, out)
	}
	if strings.Count(problems, "trying again") != 2 || !strings.Contains(problems, "--after 3-0 begins with the earliest event") || !strings.Contains(problems, "--after 7-4 continues here") {
		t.Errorf("%s", problems)
	}
	want := []string{"/events limit=100"}
	for _, after := range []string{"5", "6", "6", "6", "6", "6", "7"} {
		want = append(want, "/events after="+after+"-4&limit=100&wait=8")
	}
	if got := asked(); !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
}

func TestTailIsJSONByLine(t *testing.T) {
	env, _ := eventServer(t, eventPageOf(false, 0, 1, 2), "403")
	out, problems, code := run(t, env, "events", "tail", "--since", "10m", "-o", "json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitNoAccess || len(lines) != 2 || !json.Valid([]byte(lines[0])) || !json.Valid([]byte(lines[1])) || !strings.Contains(lines[1], `"sequence":"2"`) {
		t.Errorf("%d %q %s", code, problems, out)
	}
}

// TestTailFailsWithoutABeginning: a server that is unavailable for the first request is not asked again.
func TestTailFailsWithoutABeginning(t *testing.T) {
	env, asked := eventServer(t, "503")
	if _, problems, code := run(t, env, "events", "tail"); code != exitNoAccess || len(asked()) != 1 || strings.Contains(problems, "--after") {
		t.Errorf("%d %q %q", code, problems, asked())
	}
}

func TestTypesOfEventsAreListedAndCompleted(t *testing.T) {
	const entry = `{"type":%q,"version":1,"description":"A user changed.","schema":{"type":"object"},"example":%s}`
	types := `{"data":[` + fmt.Sprintf(entry, "user.created", eventOf(1)) + "," + fmt.Sprintf(entry, "user.updated", eventOf(1)) + "," + fmt.Sprintf(entry, "membership.created", eventOf(1)) + `]}`
	env, asked := eventServer(t, types)
	out, problems, code := run(t, env, "events", "types")
	if code != 0 || !strings.Contains(out, "membership.created   1         A user changed.") || asked()[0] != "/events/types " {
		t.Errorf("%d %q %s", code, problems, out)
	}
	if out, problems, code = run(t, env, "events", "types", "-o", "json"); code != 0 || !strings.Contains(out, `"schema"`) {
		t.Errorf("%d %q %s", code, problems, out)
	}
	out, _, _ = run(t, env, "__complete", "events", "list", "--types", "user.created,")
	if want := "user.created,user.*\nuser.created,user.created\nuser.created,user.updated\nuser.created,membership.*\nuser.created,membership.created\n"; !strings.HasPrefix(out, want) {
		t.Errorf("completed %q", out)
	}
}

func TestWrongSelectionsOfEventsAreRefused(t *testing.T) {
	env, asked := eventServer(t, "503")
	for _, args := range [][]string{
		{"list", "--since", "yesterday"}, {"list", "--since", "-1h"}, {"list", "--subject", "user/x"}, {"list", "--subject", "/7"}, {"list", "--limit", "0"}, {"list", "--limit", "10001"},
		{"list", "--since", "1h", "--after", "0-0"}, {"tail", "-o", "yaml"}, {"list", "extra"}, {"tail", "extra"}, {"types", "extra"},
	} {
		if _, problems, code := run(t, env, append([]string{"events"}, args...)...); code != exitUsage {
			t.Errorf("%v: %d %q", args, code, problems)
		}
	}
	if got := asked(); len(got) != 0 {
		t.Errorf("asked %q", got)
	}
}
