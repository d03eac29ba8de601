package decision

import (
	"slices"
	"strings"
	"testing"
)

// checkBodies are bodies of checks. readFast accepts only the first four.
var checkBodies = []string{
	`{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/v1/things","client_ip":"198.51.100.7","required_permissions":["orders:read"]}`,
	` { "method" : "POST" , "resource":"/","user_agent":"curl/8","required_permissions":[ ],"principal":{"value":"e.y.J","type":"session_token"}} ` + "\n",
	`{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/","client_ip":"::ffff:10.0.0.1"}`,
	`{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/","deployment":"apps/acme"}`,
	`{"deployment":"4509453688918756309","principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/","app":"shop"}`,
	`{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/","deployment":"acme"}`,

	`{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/é"}`, `{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"\/"}`,
	`{}`, ``, `[]`, `{"principal":{},"method":"GET","resource":"/"}`, `{"principal":{"type":"api_key","value":"ck_x"},"method":"get","resource":"/"}`,
	`{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/","resource":"/"}`, `{"principal":{"type":"api_key","value":"ck_x","x":1},"method":"GET","resource":"/"}`,
	`{"principal":{"type":"key","value":"ck_x"},"method":"GET","resource":"/"}`, `{"principal":{"type":"api_key","value":""},"method":"GET","resource":"/"}`,
	`{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/","client_ip":"fe80::1%eth0"}`, `{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":null}`,
	`{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/","required_permissions":["a",]}`, `{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/"}}`,
	`{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/",}`, `{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/","required_permissions":["a"],"roles":[]}`,
}

// readFast accepts the usual bodies, and never a faulty one.
func TestReadFast(t *testing.T) {
	for i, text := range checkBodies {
		if _, quickly := readFast([]byte(text)); quickly != (i < 4) {
			t.Errorf("%s: read quickly: %v", text, quickly)
		}
		holdQuickly(t, []byte(text))
	}
	many := `{"principal":{"type":"api_key","value":"ck_x"},"method":"GET","resource":"/","required_permissions":["x"` + strings.Repeat(`,"x"`, maxPermissions) + `]}`
	if _, quickly := readFast([]byte(many)); quickly {
		t.Errorf("%d permissions were taken", maxPermissions+1)
	}
}

// FuzzReadFast compares readFast with readStrict.
func FuzzReadFast(f *testing.F) {
	for _, text := range checkBodies {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { holdQuickly(t, raw) })
}

func holdQuickly(t *testing.T, raw []byte) {
	t.Helper()
	got, quickly := readFast(raw)
	if !quickly {
		return
	}
	want, err := readStrict(raw)
	if err != nil {
		t.Fatalf("readFast accepted %q, and readStrict fails: %v", raw, err)
	}
	if got.credential != want.credential || got.kind != want.kind || got.method != want.method || got.path != want.path || got.client != want.client || got.scope.deployment != want.scope.deployment || !slices.Equal(got.permissions, want.permissions) {
		t.Fatalf("%q: %+v, want %+v", raw, got, want)
	}
}
