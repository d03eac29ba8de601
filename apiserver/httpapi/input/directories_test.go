package input

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/directories"
)

// parsed reads a body with read.
func parsed[T any](t *testing.T, raw string, read func(*body.Object) T) (T, error) {
	t.Helper()
	o, err := body.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	got := read(o)
	o.Close()
	return got, o.Err()
}

func TestDirectoryHasOnlyWhatWasSent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", directory.MaxGroup)
	for raw, want := range map[string]directories.Change{
		`{}`:                       {},
		`{"connection_id":null}`:   {Connection: ptr.To[int64](0)},
		`{"connection_id":"7"}`:    {Connection: ptr.To[int64](7)},
		`{"on_delete":"Keep"}`:     {Erases: ptr.To(false)},
		`{"on_delete":"Erase"}`:    {Erases: ptr.To(true)},
		`{"is_active":false}`:      {Active: ptr.To(false)},
		`{"group_roles":[]}`:       {GroupRoles: &[]directory.GroupRole{}},
		group("a", "1"):            {GroupRoles: &[]directory.GroupRole{{Group: "a", Role: 1}}},
		group("b", "2", "B", "2"):  {GroupRoles: &[]directory.GroupRole{{Group: "b", Role: 2}, {Group: "B", Role: 2}}},
		group(long, "1", " ", "7"): {GroupRoles: &[]directory.GroupRole{{Group: long, Role: 1}, {Group: " ", Role: 7}}},
	} {
		got, err := parsed(t, raw, Directory)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

// group returns a body with group roles: names and ids in turn.
func group(pairs ...string) string {
	entries := []string{}
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, fmt.Sprintf(`{"group":%q,"role_id":%q}`, pairs[i], pairs[i+1]))
	}
	return `{"group_roles":[` + strings.Join(entries, ",") + `]}`
}

func TestDirectoryFaultsNameTheirMember(t *testing.T) {
	t.Parallel()
	many := []string{}
	for n := range directory.MaxGroupRoles + 1 {
		many = append(many, fmt.Sprint("g", n), "1")
	}
	for raw, pointer := range map[string]string{
		`{"connection_id":""}`:               "/connection_id",
		`{"connection_id":"-1"}`:             "/connection_id",
		`{"on_delete":"keep"}`:               "/on_delete",
		`{"is_active":null}`:                 "/is_active",
		`{"group_roles":{}}`:                 "/group_roles",
		`{"group_roles":["a"]}`:              "/group_roles/0",
		group(many...):                       "/group_roles",
		group("a", "1", "a", "2"):            "/group_roles/1/group",
		group("", "1"):                       "/group_roles/0/group",
		group(strings.Repeat("a", 257), "1"): "/group_roles/0/group",
		group("a\nb", "1"):                   "/group_roles/0/group",
		group("a", "x"):                      "/group_roles/0/role_id",
		group("a", "07"):                     "/group_roles/0/role_id",
		`{"group_roles":[{"group":"a"}]}`:    "/group_roles/0/role_id",
		`{"group_roles":[{"role_id":"1"}]}`:  "/group_roles/0/group",
		`{"group_roles":[{"group":"a","role_id":"1","role":"b"}]}`: "/group_roles/0/role",
	} {
		if _, err := parsed(t, raw, Directory); err == nil || !strings.Contains(fmt.Sprintf("%+v", err), pointer) {
			t.Errorf("%.80s: %v, want a fault at %s", raw, err, pointer)
		}
	}
}

func TestChangeIsComparedOnlyWithATime(t *testing.T) {
	t.Parallel()
	for raw, valid := range map[string]bool{
		`{}`: true, `{"expected_updated_at":"2026-05-10T11:00:00Z"}`: true, `{"expected_updated_at":null}`: false, `{"expected_updated_at":""}`: false, `{"expected_updated_at":1}`: false,
	} {
		if _, err := parsed(t, raw, DirectoryUpdate); (err == nil) != valid {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestLifetimeOfDirectoryTokens(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]time.Duration{`{}`: 0, `{"expires_in":60}`: time.Minute, `{"expires_in":157680000}`: 5 * 365 * 24 * time.Hour} {
		if got, err := parsed(t, raw, DirectoryToken); err != nil || got != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	for _, raw := range []string{`{"expires_in":59}`, `{"expires_in":157680001}`, `{"expires_in":0}`, `{"expires_in":-60}`, `{"expires_in":60.5}`, `{"expires_in":"60"}`, `{"expires_in":null}`, `{"expires_in":9223372036854775807}`} {
		if _, err := parsed(t, raw, DirectoryToken); err == nil {
			t.Errorf("%s is accepted", raw)
		}
	}
}
