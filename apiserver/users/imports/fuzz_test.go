package imports

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
)

// FuzzRead checks that a line is either valid, with a bounded external id, or refused with a fault, and that no line
// makes Read panic.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"type":"user","external_id":"u1","password_hash":"$2b$12$x","created_at":"2024-02-29T12:00:00Z"}`, `{"type":"membership","external_id":"m","user":"u","workspace":null,"organization":"o"}`,
		`{"type":"signin","external_id":"s","user":"u","signed_in_at":"1970-01-01T00:00:00Z","method":"sso:x","ip_address":"::ffff:1.2.3.4"}`,
		`{"type":"api_key","external_id":"k","app":"a","name":"n","sha256":"00","permissions":[1],"metadata":{"a":[{}]}}`, `{"type":"email","type":"phone"}`, `[`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	f.Add([]byte(`{"type":"totp","external_id":"t","user":"u","secret":"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ","digits":8,"period":60,"algorithm":"SHA512"}`))
	f.Add([]byte(`{"type":"passkey","external_id":"k","user":"u","rp_id":"a.example","credential_id":"AAAA","public_key":"pAEBAycgBiFYIA","user_handle":"AA","transports":["usb"]}`))
	f.Add([]byte(`{"type":"identity","external_id":"i","user":"u","connection":"google","issuer":"https://accounts.google.com","subject":"1030","email":"Ada@example.com"}`))
	f.Add([]byte(`{"type":"identity","external_id":"i","user":"u","connection":"entra","issuer":null,"subject":"9188040d-6c67-4c5b-b112-36a304b66dad/9188040d-6c67-4c5b-b112-36a304b66dad"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		line := Read(Raw{1, raw}, now)
		if line.Refused != nil {
			if len(line.Faults()) == 0 {
				t.Error("the line is refused without a fault")
			}
			return
		}
		if line.Content == nil || line.ExternalID == "" || strings.ContainsAny(line.ExternalID, "\n\x00") || len(line.Permissions(func(slug string) bool { return len(slug)%2 == 0 })) == 0 {
			t.Errorf("%+v passes", line)
		}
		if i, is := line.Content.(*Identity); is {
			checkIdentity(t, &line, i)
		}
		if !line.At.IsZero() && (line.At.Unix() < 0 || line.At.After(now.Add(maxAhead))) {
			t.Errorf("a time of %s passes", line.At)
		}
	})
}

// checkIdentity reports a fault of an identity that passed.
func checkIdentity(t *testing.T, line *Line, i *Identity) {
	t.Helper()
	if line.User == "" || i.Connection == "" || i.Subject == "" || len(i.Subject) > connection.MaxSubject || strings.ContainsAny(i.Issuer+i.Email+i.Subject, "\n\x00") {
		t.Errorf("%+v passes", i)
	}
}

// FuzzReadIdentity checks that a line of an identity is read as it was written, or is refused with a fault of a member.
func FuzzReadIdentity(f *testing.F) {
	f.Add("u1", "google", "https://accounts.google.com", "1030", "Ada@example.com")
	f.Add("u1", "entra", "", "9188040d-6c67-4c5b-b112-36a304b66dad/9188040d-6c67-4c5b-b112-36a304b66dad", "")
	f.Add("u\n", "\u2028", "https://a b", strings.Repeat("ü", 130), "a@b@c")
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, user, slug, issuer, subject, email string) {
		members := map[string]any{"type": "identity", "external_id": "i1", "user": user, "connection": slug, "issuer": issuer, "subject": subject, "email": email}
		for _, optional := range []string{"issuer", "email"} {
			if members[optional] == "" {
				members[optional] = nil
			}
		}
		raw, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		line := Read(Raw{1, raw}, now)
		if line.Refused != nil {
			if faults := line.Faults(); faults[0][0] == "" && len(raw) <= MaxLine {
				t.Errorf("%s: a fault of no member: %s", raw, faults[0][1])
			}
			return
		}
		i := line.Content.(*Identity)
		checkIdentity(t, &line, i)
		var want struct{ User, Connection, Issuer, Subject string }
		if err := json.Unmarshal(raw, &want); err != nil { // text that is not UTF-8 was replaced
			t.Fatal(err)
		}
		if line.User != want.User || i.Connection != want.Connection || i.Issuer != want.Issuer || i.Subject != want.Subject {
			t.Errorf("%+v of %+v, want %+v", i, line, want)
		}
	})
}
