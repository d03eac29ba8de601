package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// auditOf is a stand-in for the backend API with two records per page. It records the queries of its requests.
type auditOf struct {
	records []string
	asked   []string
	// fault, if it is not nil, handles every request instead.
	fault http.HandlerFunc
}

// record returns the line of the n-th record. Two records have the same time.
func record(n int) string {
	at := time.Date(2026, 5, 10, 12, 0, n/2, 5000, time.UTC)
	return fmt.Sprintf(`{"id":"%d","at":"%s","actor":"key:abc","action":"user.updated","object":"user:%d","session_id":null,"ip_address":"","newer":1}`, 100+n, at.Format(time.RFC3339Nano), n)
}

func (a *auditOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked = append(a.asked, r.URL.RawQuery)
	if a.fault != nil {
		a.fault(w, r)
		return
	}
	query := r.URL.Query()
	if r.URL.Path != "/audit" || r.Header.Get("Authorization") != "Bearer secret" || query.Get("order") != "asc" {
		http.Error(w, `{"message":"no"}`, http.StatusForbidden)
		return
	}
	from := 0
	for from < len(a.records) && query.Get("cursor") != "" {
		place, _ := placeOf([]byte(a.records[from]))
		from++
		if place.cursor() == query.Get("cursor") {
			break
		}
	}
	page, next := a.records[from:], "null"
	if len(page) > 2 {
		page = page[:2]
		place, _ := placeOf([]byte(page[1]))
		next = `"` + place.cursor() + `"`
	}
	_, _ = fmt.Fprintf(w, `{"data": [%s], "has_more": %t, "next_cursor": %s}`, strings.Join(page, ", "), next != "null", next)
}

// runExport runs the command.
func runExport(t *testing.T, api http.Handler, args ...string) (out, problems string, err error) {
	t.Helper()
	server := httptest.NewServer(api)
	defer server.Close()
	t.Setenv("CARDEA_API_KEY", "secret")
	t.Setenv("CARDEA_BASE_URL", server.URL)
	root := newRoot()
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"audit", "export"}, args...))
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func records(n int) (lines []string) {
	for i := range n {
		lines = append(lines, record(i))
	}
	return lines
}

func joined(lines []string) string { return strings.Join(append(lines, ""), "\n") }

func TestAuditIsExportedWholeAndInOrder(t *testing.T) {
	api := &auditOf{records: records(5)}
	out, problems, err := runExport(t, api, "--actor", "key:abc", "--action", "user.updated", "--object", "user:1", "--since", "2026-05-10T12:00:00Z")
	if err != nil || out != joined(records(5)) || problems != "5 records exported\n" {
		t.Errorf("%q, %q, %v", out, problems, err)
	}
	if len(api.asked) != 3 {
		t.Errorf("%d pages", len(api.asked))
	}
	for _, asked := range api.asked {
		for _, want := range []string{"actor=key%3Aabc", "action=user.updated", "object=user%3A1", "since=2026-05-10T12%3A00%3A00Z", "until=2"} {
			if !strings.Contains(asked, want) {
				t.Errorf("the query %s lacks %s", asked, want)
			}
		}
	}
}

func TestAnExportGoesOnWithItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	for name, tc := range map[string]struct{ before string }{
		"no file":                        {},
		"an empty one":                   {""},
		"some records":                   {joined(records(3))},
		"all":                            {joined(records(5))},
		"a line that was not finished":   {joined(records(3)) + record(3)[:30]},
		"a line that was hardly begun":   {joined(records(2)) + `{"i`},
		"a first line not finished":      {record(0)[:40]},
		"all, and another not finished":  {joined(records(5)) + `{`},
		"a line finished but its ending": {joined(records(1)) + record(1)},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "no file" {
				if err := os.WriteFile(file, []byte(tc.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, _, err := runExport(t, &auditOf{records: records(5)}, "--file", file)
			if got, _ := os.ReadFile(file); err != nil || out != "" || string(got) != joined(records(5)) {
				t.Errorf("%q, %v:\n%s", out, err, got)
			}
		})
	}
}

func TestAnExportSparesWhatIsNoExport(t *testing.T) {
	for name, content := range map[string]string{
		"a text":                   "hello\n",
		"a text without an end":    "hello",
		"another object":           `{"kubeconfig": true}`,
		"other lines":              "{\"a\":1}\n",
		"a text after records":     joined(records(2)) + "hello",
		"a record without a time":  "{\"id\":\"7\"}\n",
		"a record with a long id":  "{\"id\":\"99999999999999999999\",\"at\":\"2026-05-10T12:00:00Z\"}\n",
		"a line without end":       strings.Repeat("x", 3*maxAuditLine),
		"a line of many megabytes": strings.Repeat("x", 3*maxAuditLine) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "other")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			api := &auditOf{records: records(5)}
			_, _, err := runExport(t, api, "--file", file)
			if got, _ := os.ReadFile(file); exitCode(err) != 2 || !strings.Contains(err.Error(), "use another file") || string(got) != content || len(api.asked) > 0 {
				t.Errorf("%v after %d requests; file unchanged: %t", err, len(api.asked), string(got) == content)
			}
		})
	}
}

func TestTwoExportsToOneFileAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	other, err := openAuditFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := runExport(t, &auditOf{}, "--file", file); exitCode(err) != 2 || !strings.Contains(err.Error(), "another export writes this file") {
		t.Errorf("%v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := runExport(t, &auditOf{}, "--file", file); err != nil {
		t.Errorf("after the other ended: %v", err)
	}
}

func TestAnExportThatCannotRunEndsWithTwo(t *testing.T) {
	answers := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) }
	}
	for name, fault := range map[string]http.HandlerFunc{
		"refused":       func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"message":"no"}`, http.StatusForbidden) },
		"no page":       answers("<html>"),
		"no record":     answers(`{"data":[{"id":"x"}],"next_cursor":null}`),
		"the same page": answers(`{"data":[` + record(1) + `],"next_cursor":"1-1"}`),
		"an empty page": answers(`{"data":[],"next_cursor":"1-1"}`),
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := runExport(t, &auditOf{fault: fault}); exitCode(err) != 2 {
				t.Errorf("%v", err)
			}
		})
	}
	for name, args := range map[string][]string{"a folder": {"--file", t.TempDir()}, "an argument": {"x"}, "an unknown flag": {"--colour"}} {
		if _, _, err := runExport(t, &auditOf{}, args...); exitCode(err) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The default of --until is a minute ago. With a later --since, the backend API would refuse that default, which is not
// on the command line, so the command itself handles that case.
func TestASinceWithinTheLastMinuteExportsNothingYet(t *testing.T) {
	now := time.Date(2026, 5, 10, 12, 0, 30, 0, time.UTC)
	const late, settled = "2026-05-10T13:59:30+02:00", "2026-05-10T11:59:29.999999Z"
	for name, tc := range map[string]struct {
		since, until, file string
		asked              int
		refused, says      string
		left               string
	}{
		"standard output":                    {since: late, refused: "--since " + late + " is less than a minute ago"},
		"to come":                            {since: "2026-05-11T00:00:00Z", refused: "in the future"},
		"a new file":                         {since: late, file: "new", says: "0 records exported: --since " + late},
		"a file with records":                {since: late, file: joined(records(2)), says: "0 records exported: ", left: joined(records(2))},
		"a file that was not finished":       {since: late, file: joined(records(1)) + record(1)[:30], says: "0 records exported: ", left: joined(records(1))},
		"just before that minute":            {since: settled, asked: 1, says: "5 records exported\n"},
		"an own --until":                     {since: late, until: "2026-05-10T12:00:30Z", refused: "--since " + late + " is less than a minute ago"},
		"no time, which is the API's to say": {since: "yesterday", asked: 1, says: "5 records exported\n"},
		"none":                               {asked: 1, says: "5 records exported\n"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &auditOf{}
			api.fault = func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `{"data": [%s], "next_cursor": null}`, strings.Join(records(5), ","))
			}
			server := httptest.NewServer(api)
			defer server.Close()
			t.Setenv("CARDEA_API_KEY", "secret")
			o := auditExport{since: tc.since, until: tc.until}
			o.baseURL = server.URL
			if tc.file != "" {
				o.file = filepath.Join(t.TempDir(), "audit.jsonl")
			}
			if tc.file != "" && tc.file != "new" {
				if err := os.WriteFile(o.file, []byte(tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var problems bytes.Buffer
			err := o.run(t.Context(), &bytes.Buffer{}, &problems, now)
			if tc.refused == "" && err != nil || tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused) || strings.Contains(err.Error(), "until")) {
				t.Errorf("%v", err)
			}
			if len(api.asked) != tc.asked || !strings.HasPrefix(problems.String(), tc.says) {
				t.Errorf("%d requests, standard error %q", len(api.asked), &problems)
			}
			if tc.file != "" {
				if got, err := os.ReadFile(o.file); err != nil || string(got) != tc.left {
					t.Errorf("the file has %q, %v", got, err)
				}
			}
		})
	}
}

// TestRecordsOfTheLastMinuteAreLeft: a transaction that began before another may end after it.
func TestRecordsOfTheLastMinuteAreLeft(t *testing.T) {
	api := &auditOf{}
	server := httptest.NewServer(api)
	defer server.Close()
	t.Setenv("CARDEA_API_KEY", "secret")
	for until, want := range map[string]string{
		"": "until=2026-05-10T10%3A59%3A30Z", "2026-05-10T11:00:00Z": "until=2026-05-10T10%3A59%3A30Z", "2026-05-10T10:00:00Z": "until=2026-05-10T10%3A00%3A00Z", "today": "until=today",
	} {
		o := auditExport{until: until}
		o.baseURL, api.asked = server.URL, nil
		if err := o.run(t.Context(), &bytes.Buffer{}, &bytes.Buffer{}, time.Date(2026, 5, 10, 12, 0, 30, 0, time.FixedZone("", 3600))); err != nil {
			t.Fatal(err)
		}
		if asked := strings.Join(api.asked, " "); !strings.Contains(asked, want) {
			t.Errorf("--until %q: asked for %s, want %s", until, asked, want)
		}
	}
}
