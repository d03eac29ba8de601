package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/users/imports"
)

// importing is a stand-in for the backend API's import. It rejects lines that contain "bad".
type importing struct {
	mu sync.Mutex
	// got is the received text. done is true if the last batch was received.
	got  bytes.Buffer
	done bool
	// batches counts the received batches. The response to batch number lose is lost, and batch number busy gets a 503
	// once.
	batches, lose, busy int
	// other is the number of the batch that another command has already sent when this command sends it.
	other              int
	imported, rejected int
}

func (b *importing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, `{"message":"no accepted credential"}`, http.StatusUnauthorized)
		return
	}
	rejections := ""
	if r.Method == http.MethodPost {
		raw, _ := io.ReadAll(r.Body)
		b.batches++
		if b.batches == b.busy {
			http.Error(w, `{}`, http.StatusServiceUnavailable)
			return
		}
		if r.URL.Query().Get("offset") != fmt.Sprint(b.got.Len()) {
			http.Error(w, `{"message":"elsewhere"}`, http.StatusConflict)
			return
		}
		if imports.Count(raw) > imports.MaxLines || len(raw) > 1<<20 {
			http.Error(w, `{"message":"too much"}`, http.StatusRequestEntityTooLarge)
			return
		}
		b.got.Write(raw)
		b.done = r.URL.Query().Get("complete") == "true"
		for i, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
			if strings.Contains(line, "bad") || len(line) > imports.MaxLine {
				b.rejected++
				rejections += fmt.Sprintf(`{"line":%d,"field":"/x","message":"is bad"},`, i+1)
				continue
			}
			b.imported++
		}
		if b.batches == b.lose {
			panic(http.ErrAbortHandler)
		}
		if b.batches == b.other {
			http.Error(w, `{"message":"elsewhere"}`, http.StatusConflict)
			return
		}
	} else if b.got.Len() == 0 {
		http.Error(w, `{}`, http.StatusNotFound)
		return
	}
	completed := "null"
	if b.done {
		completed = `"2026-01-01T00:00:00Z"`
	}
	_, _ = fmt.Fprintf(w, `{"offset":%d,"imported":%d,"present":0,"rejected":%d,"completed_at":%s,"rejections":[%s]}`,
		b.got.Len(), b.imported, b.rejected, completed, strings.TrimSuffix(rejections, ","))
}

// runImport runs the command over a file's content.
func runImport(t *testing.T, b *importing, content string) (out, problems string, err error) {
	t.Helper()
	server := httptest.NewServer(b)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "keys.jsonl")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CARDEA_API_KEY", "secret")
	t.Setenv("CARDEA_BASE_URL", server.URL)
	root := newRoot()
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs([]string{"import", file})
	err = root.ExecuteContext(t.Context())
	return strings.ReplaceAll(stdout.String(), file, "FILE"), strings.ReplaceAll(stderr.String(), file, "FILE"), err
}

func TestImportSendsAFileWhole(t *testing.T) {
	content := strings.Repeat(strings.Repeat("x", 999)+"\n", 4000) + "last"
	for name, b := range map[string]*importing{"at once": {}, "an answer is lost": {lose: 2}, "busy": {busy: 3}, "another imports it too": {other: 2}, "another ends it": {other: 4}} {
		t.Run(name, func(t *testing.T) {
			out, problems, err := runImport(t, b, content)
			if err != nil || problems != "" || out != "FILE: 4001 imported, 0 present, 0 rejected\n" {
				t.Errorf("%q, %q, %v", out, problems, err)
			}
			if b.got.String() != content || !b.done {
				t.Errorf("received %d bytes of %d; complete: %t", b.got.Len(), len(content), b.done)
			}
		})
	}
}

func TestImportTellsRejectedLinesByTheirNumbers(t *testing.T) {
	content := strings.Repeat(strings.Repeat("x", 999)+"\n", 600) + "bad\nfine\nbad\n"
	out, problems, err := runImport(t, &importing{}, content)
	if exitCode(err) != 1 || out != "FILE: 601 imported, 0 present, 2 rejected\n" || problems != "FILE:601: /x: is bad\nFILE:603: /x: is bad\n" {
		t.Errorf("%q, %q, %v", out, problems, err)
	}
}

func TestWhatOthersWroteDoesNotSteerTheTerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.json")
	export := `{"users":[{"id":"u\u001b[2J","email":"x","federatedIdentities":[{"identityProvider":"\u001b]0;x\u0007"}]}]}`
	if err := os.WriteFile(file, []byte(export), 0o600); err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	var problems bytes.Buffer
	root.SetOut(io.Discard)
	root.SetErr(&problems)
	root.SetArgs([]string{"import", "--dry-run", "--from", "keycloak", file})
	err := root.ExecuteContext(t.Context())
	f := importFile{name: "f\x1b[2J"}
	f.report(&problems, 1, "/a\x1b[2J", "is\u009b bad")
	if exitCode(err) != 1 || strings.ContainsAny(problems.String(), "\x1b\x07\u009b") || !strings.Contains(problems.String(), "left out: a login by another provider") {
		t.Errorf("%v: %q", err, problems.String())
	}
}

func TestImportMapsProvidersToConnections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.json")
	export := `{"users":[{"id":"u","federatedIdentities":[{"identityProvider":"google","userId":"1030"},{"identityProvider":"Globex, SSO","userId":"00u1"},{"identityProvider":"corp","userId":"7"}]}]}`
	if err := os.WriteFile(file, []byte(export), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &importing{}
	server := httptest.NewServer(b)
	defer server.Close()
	t.Setenv("CARDEA_API_KEY", "secret")
	t.Setenv("CARDEA_BASE_URL", server.URL)
	root := newRoot()
	var out, problems bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&problems)
	root.SetArgs([]string{"import", "--from", "keycloak", "--connection", "google=google-workspace", "--connection", "Globex, SSO=globex", file})
	if err := root.ExecuteContext(t.Context()); err != nil || !strings.HasSuffix(out.String(), ": 3 imported, 0 present, 0 rejected\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
	for _, want := range []string{`"connection":"google-workspace","subject":"1030"`, `"connection":"globex","subject":"00u1"`} {
		if !strings.Contains(b.got.String(), want) {
			t.Errorf("%s lacks %s", b.got.String(), want)
		}
	}
	if want := file + ":1: left out: a login by corp that no --connection maps (1 users; this is the first)\n"; problems.String() != want {
		t.Errorf("%q, want %q", problems.String(), want)
	}
}

func TestImportGoesOnAndEnds(t *testing.T) {
	b := &importing{}
	b.got.WriteString("first\n")
	b.imported = 1
	if out, _, err := runImport(t, b, "first\nsecond\n"); err != nil || out != "FILE: 2 imported, 0 present, 0 rejected\n" || b.got.String() != "first\nsecond\n" {
		t.Errorf("%q, %v, %q", out, err, b.got.String())
	}
	if out, _, err := runImport(t, b, "first\nsecond\n"); err != nil || out != "FILE: already imported\n" {
		t.Errorf("again: %q, %v", out, err)
	}
}

func TestAnImportThatAlwaysConflictsEnds(t *testing.T) {
	b := &importing{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Error(w, `{}`, http.StatusConflict)
			return
		}
		b.ServeHTTP(w, r)
	}))
	defer server.Close()
	i := &importer{backend: &backend{baseURL: server.URL, key: "secret", client: server.Client()}, out: io.Discard, problems: io.Discard}
	f, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := i.file(t.Context(), importFile{name: "f", File: f}); !errors.Is(err, errElsewhere) {
		t.Errorf("%v, want errElsewhere", err)
	}
}

func TestADryRunJudgesWithoutAServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines.jsonl")
	lines := `{"type":"user","external_id":"u"}` + "\n" + `{"type":"email","external_id":"e","user":"later","email":"a@example.com"}` + "\n\n" + `{"type":"organization","external_id":"o","name":"O"}` + "\n" +
		`{"type":"workspace","external_id":"w","organization":"o","name":"W"}` + "\n" + `{"type":"membership","external_id":"m","user":"u","workspace":"w"}` + "\n" + `{"type":"user","external_id":"x","password_hash":"secret"}` + "\n" +
		`{"type":"identity","external_id":"i","user":"u","connection":"google","subject":"1"}` + "\n" + `{"type":"identity","external_id":"j","user":"later","connection":"google","subject":"2"}`
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CARDEA_API_KEY", "")
	root := newRoot()
	var out, problems bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&problems)
	root.SetArgs([]string{"import", "--dry-run", file})
	err := root.ExecuteContext(t.Context())
	told := strings.ReplaceAll(problems.String(), file, "FILE")
	if exitCode(err) != 1 || !strings.HasSuffix(out.String(), ": 4 good, 4 rejected; nothing was sent\n") || strings.Contains(told, "secret") {
		t.Errorf("%v, %q, %q", err, out.String(), told)
	}
	for _, at := range []string{"FILE:2: /user: ", "FILE:6: /user: ", "FILE:7: /password_hash: ", "FILE:9: /user: "} {
		if !strings.Contains(told, at) {
			t.Errorf("%q lacks %q", told, at)
		}
	}
}

func TestAnEndlessLineIsRejectedAlone(t *testing.T) {
	long := strings.Repeat("y", 3<<20)
	b := &importing{lose: 2}
	out, problems, err := runImport(t, b, "first\n"+long+"\nbad\n"+strings.Repeat("z", maxImportLine)+"\nlast\n"+long)
	if exitCode(err) != 1 || out != "FILE: 2 imported, 0 present, 4 rejected\n" || strings.Contains(b.got.String(), "yy") {
		t.Errorf("%q, %v", out, err)
	}
	for _, at := range []string{"FILE:2: ", "FILE:3: "} {
		if !strings.Contains(problems, at) {
			t.Errorf("%q lacks %q", problems, at)
		}
	}
	// An interrupted import continues after the long line: its offset counts the bytes of the stand-in, which was sent.
	halfway := &importing{imported: 1, rejected: 1}
	halfway.got.WriteString("first\n" + string(standIn))
	out, problems, err = runImport(t, halfway, "first\n"+long+"\nlast\nbad\n")
	if exitCode(err) != 1 || out != "FILE: 2 imported, 0 present, 2 rejected\n" || problems != "FILE:4: /x: is bad\n" {
		t.Errorf("the continued import: %q, %q, %v", out, problems, err)
	}
	within := &importing{}
	within.got.WriteString("fir")
	if _, _, err = runImport(t, within, "first\n"); !errors.Is(err, errWithinLine) || exitCode(err) != 2 {
		t.Errorf("within a line: %v", err)
	}
}

func TestShortLinesAreSentInBatchesThatTheAPITakes(t *testing.T) {
	content := strings.Repeat("x\n\n", 25_000)
	b := &importing{}
	if _, problems, err := runImport(t, b, content); err != nil || problems != "" || b.got.String() != content || b.batches != 3 {
		t.Errorf("%d bytes of %d in %d batches: %q, %v", b.got.Len(), len(content), b.batches, problems, err)
	}
}

func TestImportThatCannotRunEndsWithTwo(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		dry  string
	}{
		"without a key":          {args: []string{"import", "nothing.jsonl"}},
		"without a file":         {args: []string{"import"}},
		"an unknown flag":        {args: []string{"import", "--fast", "nothing.jsonl"}},
		"a mapping of lines":     {args: []string{"import", "--dry-run", "--connection", "google=google", "nothing.jsonl"}},
		"a mapping to nothing":   {args: []string{"import", "--dry-run", "--from", "clerk", "--connection", "google", "nothing.csv"}},
		"two mappings of a name": {args: []string{"import", "--dry-run", "--from", "clerk", "--connection", "google=a", "--connection", "google=b", "nothing.csv"}},
		"a flag of another kind": {args: []string{"import", "--dry-run=maybe", "nothing.jsonl"}},
		"a wrong environment":    {args: []string{"import", "nothing.jsonl"}, dry: "maybe"},
		"no file there":          {args: []string{"import", "--dry-run", "nothing.jsonl"}},
		"a day too many":         {args: []string{"analytics", "verify", "2026-05-11"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CARDEA_API_KEY", "")
			t.Setenv("CARDEA_DRY_RUN", tc.dry)
			root := newRoot()
			root.SetArgs(tc.args)
			if err := root.ExecuteContext(t.Context()); exitCode(err) != 2 {
				t.Errorf("%v: ends with %d", err, exitCode(err))
			}
		})
	}
}
