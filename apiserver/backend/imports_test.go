package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
)

// hashOf returns the digest of a key, as import lines contain it.
func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// keyLine returns the import line of a key, with more members.
func keyLine(externalID, key, more string) string {
	return fmt.Sprintf(`{"type":"api_key","external_id":%q,"app":"tools","name":"Old","sha256":%q,"permissions":["rate_limit_schemes:read"]%s}`, externalID, hashOf(key), more) + "\n"
}

type imported struct {
	Offset                      int
	Imported, Present, Rejected int
	CompletedAt                 *string `json:"completed_at"`
	Rejections                  []struct {
		Line    int
		Field   *string
		Message string
	}
}

// imports sends a batch and returns the answer.
func (s served) imports(t *testing.T, file string, offset int, lines, more string) (out imported) {
	t.Helper()
	body := s.says(t, "POST", fmt.Sprintf("/imports/%s/batches?offset=%d%s", hashOf(file), offset, more), lines, 200)
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestImportedKeysAuthenticateByHash(t *testing.T) {
	s := keyWorld(t)
	const old, cardeaLike = "sk_live_51H.abc/def+ghi==", "ck_looks_like_one_of_ours"
	lines := keyLine("k1", old, `,"prefix":"sk_live_","suffix":"ghi==","metadata":{"plan":"gold"},"created_at":"2020-01-01T00:00:00Z","expires_at":null,"user":null`) +
		"\n" + keyLine("k2", cardeaLike, `,"expires_at":"2021-01-01T00:00:00Z"`)
	if got := s.imports(t, "file", 0, lines, "&complete=true"); got.Imported != 2 || got.Rejected != 0 || got.Offset != len(lines) || got.CompletedAt == nil {
		t.Fatalf("imported: %+v", got)
	}
	body := s.says(t, "GET", "/api-auth/apps/tools/keys?include_inactive=true", "", 200, `"key_prefix":"sk_live_"`, `"key_suffix":"ghi=="`, `"created_at":"2020-01-01T00:00:00Z"`, `"plan":"gold"`)
	if strings.Contains(body, old) || strings.Contains(body, hashOf(old)) {
		t.Error("a key or its hash is served")
	}
	_, status := following(t, s)
	for what, c := range map[string]struct {
		key  string
		want int
	}{"the old key": {old, 200}, "an expired one": {cardeaLike, 401}, "another": {"sk_live_other", 401}} {
		if got := status(c.key); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
	if got := s.imports(t, "second", 0, keyLine("k3", "sk_live_plain", ""), ""); got.Imported != 1 {
		t.Fatalf("imported: %+v", got)
	}
	if got := status("sk_live_plain"); got != 200 {
		t.Errorf("an imported key: %d, want 200", got)
	}
}

func TestImportCompletionIsReportedOnce(t *testing.T) {
	var ended []string
	at := time.Unix(1700000000, 0)
	admin := mint(t)
	feed := fixedFeed{
		fixed(t, "IdentityDeployment", "acme", "uid-1", 7, "acme", at, document.Deployment{ManagementWrites: "Enabled", FieldConflicts: "Reject"}),
		fixed(t, "APIAuthApp", "tools", "uid-2", 1, "tools", at, document.APIAuthApp{Slug: "tools", Name: "Tools", Active: true, Permissions: []string{"*"}}),
		fixed(t, "APIKey", "admin", "uid-3", 2, "", at, document.APIKey{App: "tools", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: admin.ID(), Digest: admin.Digest()}}}),
	}
	s := serveFeed(t, newCluster(), feed, servertest.SQLite(t), nil, func(o *Options) { o.OnImported = func(deployment string) { ended = append(ended, deployment) } })
	s.key = admin.Plain()
	first, second := keyLine("a", "one", ""), keyLine("b", "two", "")
	s.imports(t, "file", 0, first, "")
	if len(ended) != 0 {
		t.Errorf("ended before its last batch: %v", ended)
	}
	for range 2 { // the second time nothing is left to do
		s.imports(t, "file", len(first), second, "&complete=true")
		if len(ended) != 1 || ended[0] != "ns/acme" {
			t.Errorf("ended: %v, want once", ended)
		}
	}
	s.imports(t, "", 0, "", "&complete=true")
	if len(ended) != 1 {
		t.Errorf("an empty file ended: %v", ended)
	}
}

func TestImportContinuesWhereItStopped(t *testing.T) {
	s := keyWorld(t)
	at := "/imports/" + hashOf("file")
	s.says(t, "GET", at, "", 404, ":file")
	s.says(t, "GET", "/imports/none", "", 404)
	first, second := keyLine("a", "one", ""), keyLine("b", "two", "")
	s.imports(t, "file", 0, first, "")
	s.says(t, "POST", at+"/batches?offset=0", first, 409, fmt.Sprint(len(first)))
	s.says(t, "POST", at+fmt.Sprintf("/batches?offset=%d", len(first)), strings.TrimSuffix(second, "\n"), 400, "within a line")
	s.says(t, "POST", at+"/batches", second, 400, "?offset")
	s.says(t, "POST", at+"/batches?offset=-1", second, 400, "?offset")
	s.says(t, "GET", at, "", 200, fmt.Sprintf(`"offset":%d`, len(first)), `"imported":1`, `"completed_at":null`)
	s.imports(t, "file", len(first), strings.TrimSuffix(second, "\n"), "&complete=true")
	if got := s.imports(t, "file", 0, keyLine("c", "three", ""), ""); got.Imported != 2 || got.CompletedAt == nil {
		t.Errorf("a completed file goes on: %+v", got)
	}
	// The same lines in a corrected file change nothing, and the corrected line is imported.
	if got := s.imports(t, "corrected", 0, first+second+keyLine("c", "three", ""), "&complete=true"); got.Imported != 1 || got.Present != 2 {
		t.Errorf("a corrected file: %+v", got)
	}
}

func TestInvalidLineIsRejectedAlone(t *testing.T) {
	s := keyWorld(t)
	const secret = "not-to-be-told"
	faulty := []struct{ line, field string }{
		{`{`, ""},
		{`[]`, ""},
		{`{"type":"person","external_id":"u"}`, "/type"},
		{`{"external_id":"x"}`, "/type"},
		{`{"type":"api_key"}`, "/external_id"},
		{`{"type":"api_key","external_id":"` + strings.Repeat("x", 256) + `"}`, "/external_id"},
		{`{"type":"api_key","external_id":"a\nb"}`, "/external_id"},
		{`{"type":"api_key","external_id":"x","app":"tools","name":"n","sha256":"` + secret + `"}`, "/sha256"},
		{`{"type":"api_key","external_id":"x","app":"none","name":"n","sha256":"` + hashOf("x") + `"}`, "/app"},
		{strings.TrimSpace(keyLine("x", "x", `,"admin":true`)), "/admin"},
		{strings.TrimSpace(keyLine("x", "x", `,"name":"twice"`)), ""},
		{strings.TrimSpace(keyLine("x", "x", `,"prefix":"`+strings.Repeat("x", 256)+`"`)), "/prefix"},
		{strings.TrimSpace(keyLine("x", "x", `,"suffix":"123456789"`)), "/suffix"},
		{strings.TrimSpace(keyLine("x", "x", `,"user":"u1"`)), "/user"},
		{strings.TrimSpace(keyLine("x", "x", `,"created_at":"1969-12-31T23:59:59Z"`)), "/created_at"},
		{strings.TrimSpace(keyLine("x", "x", `,"created_at":"2999-01-01T00:00:00Z"`)), "/created_at"},
		{strings.TrimSpace(keyLine("x", "x", `,"expires_at":"1970-01-01T00:00:00Z"`)), "/expires_at"},
		{strings.TrimSpace(keyLine("x", "x", `,"rate_limit_scheme":"none"`)), "/rate_limit_scheme"},
		{strings.TrimSpace(keyLine("x", "x", `,"metadata":{"a":"`+strings.Repeat("x", 5000)+`"}`)), "/metadata"},
		{`{"type":"api_key","external_id":"x","app":"shop","name":"n","sha256":"` + hashOf("x") + `","permissions":["users:write"]}`, "/permissions/0"},
		{strings.TrimSpace(keyLine("taken", "good", "")), "/sha256"},
		{strings.TrimSpace(keyLine("long", "long", `,"x":"`+strings.Repeat("x", 17<<10)+`"`)), ""},
	}
	lines := keyLine("good", "good", "")
	for _, f := range faulty {
		lines += f.line + "\n"
	}
	lines += keyLine("last", "last", "")
	got := s.imports(t, "file", 0, lines, "&complete=true")
	if got.Imported != 2 || got.Rejected != len(faulty) {
		t.Fatalf("imported %d, rejected %d of %d: %+v", got.Imported, got.Rejected, len(faulty), got.Rejections)
	}
	for _, rejection := range got.Rejections {
		if strings.Contains(rejection.Message, secret) {
			t.Errorf("the rejection of line %d contains the value: %s", rejection.Line, rejection.Message)
		}
	}
	for i, f := range faulty {
		found := f.field == ""
		for _, rejection := range got.Rejections {
			found = found || rejection.Line == i+2 && rejection.Field != nil && *rejection.Field == f.field
		}
		if !found {
			t.Errorf("%.80s: no rejection of %s: %+v", f.line, f.field, got.Rejections)
		}
	}
}

func TestImportCannotGrantMissingPermission(t *testing.T) {
	s := keyWorld(t)
	following(t, s)
	_, weak := s.creates(t, "tools", `{"name":"weak","permissions":["api_keys:write"]}`)
	s.key = weak
	if got := s.imports(t, "file", 0, keyLine("x", "x", ""), ""); got.Rejected != 1 || got.Imported != 0 {
		t.Errorf("imported: %+v", got)
	}
	s.key = s.reader
	if answer := s.send("POST", "/imports/"+hashOf("file")+"/batches?offset=0", keyLine("y", "y", "")); answer.Code != 403 {
		t.Errorf("by a key without the permission: %d", answer.Code)
	}
}

func TestImportManyKeysInOneBatch(t *testing.T) {
	s := keyWorld(t)
	var lines strings.Builder
	n := 0
	for ; lines.Len() < 1<<20-512; n++ {
		lines.WriteString(keyLine(fmt.Sprint(n), fmt.Sprint("key ", n), ""))
	}
	if got := s.imports(t, "file", 0, lines.String(), "&complete=true"); got.Imported != n || got.Rejected != 0 {
		t.Errorf("%d of %d were imported: %.500v", got.Imported, n, got.Rejections)
	}
}

func TestImportRefusesTooManyLines(t *testing.T) {
	s := keyWorld(t)
	at := "/imports/" + hashOf("file")
	s.says(t, "POST", at+"/batches?offset=0", strings.Repeat("{}\n", 10_001), 413, "10001 lines", "at most 10000")
	s.says(t, "GET", at, "", 404)
	if got := s.imports(t, "file", 0, strings.Repeat("{}\n\n", 10_000), ""); got.Rejected != 10_000 {
		t.Errorf("%d were rejected", got.Rejected)
	}
}

func TestEmptyFirstBatchCreatesNoImport(t *testing.T) {
	s := keyWorld(t)
	at := "/imports/" + hashOf("file")
	for _, more := range []string{"", "&complete=true"} {
		s.says(t, "POST", at+"/batches?offset=0"+more, "", 400, "the first batch is empty")
		s.says(t, "GET", at, "", 404)
	}
	first := keyLine("a", "one", "")
	s.imports(t, "file", 0, first, "")
	if got := s.imports(t, "file", len(first), "", "&complete=true"); got.Imported != 1 || got.CompletedAt == nil {
		t.Errorf("an empty last batch: %+v", got)
	}
	if got := s.imports(t, "", 0, "", "&complete=true"); got.CompletedAt == nil {
		t.Errorf("an empty file: %+v", got)
	}
}

func TestUnfinishedImportsAreBounded(t *testing.T) {
	s := keyWorld(t)
	for n := range unfinishedImports {
		s.imports(t, fmt.Sprint(n), 0, "\n", "")
	}
	s.says(t, "POST", "/imports/"+hashOf("more")+"/batches?offset=0", "\n", 400, ":file", "100 imports of the deployment are unfinished")
	s.says(t, "GET", "/imports/"+hashOf("more"), "", 404)
	if got := s.imports(t, "whole", 0, keyLine("a", "one", ""), "&complete=true"); got.Imported != 1 {
		t.Errorf("a file in one batch: %+v", got)
	}
	s.imports(t, "0", 1, keyLine("b", "two", ""), "&complete=true")
	s.imports(t, "more", 0, "\n", "")
}

func TestFaultsPerLineAreBounded(t *testing.T) {
	s := keyWorld(t)
	var members strings.Builder
	for i := range 200 {
		fmt.Fprintf(&members, `,"m%d":1`, i)
	}
	got := s.imports(t, "file", 0, strings.TrimSuffix(keyLine("k", "k", members.String()), "\n"), "&complete=true")
	if n := len(got.Rejections); got.Rejected != 1 || n != 5 || got.Rejections[n-1].Message != "and more faults" {
		t.Errorf("%d rejected: %+v", got.Rejected, got.Rejections)
	}
}
