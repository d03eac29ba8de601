package enduser_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/totp"
)

// importFile imports lines with a key, and returns the response.
func (d *desk) importFile(lines ...string) (status int, raw string) {
	batch := strings.Join(lines, "\n") + "\n"
	sum := sha256.Sum256([]byte(batch))
	r := httptest.NewRequest("POST", "/imports/"+hex.EncodeToString(sum[:])+"/batches?offset=0&complete=true", strings.NewReader(batch))
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("Content-Type", "application/x-ndjson")
	recorder := httptest.NewRecorder()
	d.w.Backend.ServeHTTP(recorder, r)
	return recorder.Code, recorder.Body.String()
}

// Users of another system sign in with the authenticator app, the passkey and the number that they had there.
func TestImportedFactorsSignIn(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		secret := []byte("12345678901234567890")
		source := w.browser()
		source.signUp("device@example.com")
		d := w.device()
		source.addPasskey(d)
		listed := source.list("/me/passkeys")[0]
		var public []byte
		db := w.Open()
		w.Must(db.QueryRowContext(t.Context(), `SELECT public_key FROM passkeys`).Scan(&public))
		w.Must(db.Close())
		source.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"password","password":%q}`, goodPassword))
		url := base64.RawURLEncoding.EncodeToString
		at := w.Clock.Now().UTC().Format(time.RFC3339)
		user := func(id, email string) []string {
			return []string{
				fmt.Sprintf(`{"type":"user","external_id":%q,"password_hash":%q}`, id, oldHash),
				fmt.Sprintf(`{"type":"email","external_id":"mail-%s","user":%q,"email":%q,"verified_at":%q}`, id, id, email, at),
			}
		}
		other := base64.RawURLEncoding.EncodeToString([]byte("another credential"))
		passkey := func(id, user, rp, credential, key string) string {
			return fmt.Sprintf(`{"type":"passkey","external_id":%q,"user":%q,"rp_id":%q,"credential_id":%q,"public_key":%q,"user_handle":%q,"backup_eligible":true,"transports":["internal"]}`,
				id, user, rp, credential, key, url(d.auth.Options.UserHandle))
		}
		lines := append(user("u1", "ada@example.com"), user("u2", "bob@example.com")...)
		lines = append(lines,
			fmt.Sprintf(`{"type":"totp","external_id":"t1","user":"u1","secret":%q,"digits":8,"algorithm":"SHA256","period":60}`, strings.ToLower(totp.FormatSecret([]byte(secret)))),
			fmt.Sprintf(`{"type":"phone","external_id":"p1","user":"u2","phone_number":"+14155552671","verified_at":%q,"second_factor":true}`, at),
		)
		wrong := []string{
			`{"type":"totp","external_id":"t2","user":"u1","secret":"GEZDGNBV"}`,
			`{"type":"totp","external_id":"t3","user":"u1","secret":"not-base32!SECRETSECRET"}`,
			`{"type":"totp","external_id":"t4","user":"u1","secret":"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ","period":15}`,
			`{"type":"phone","external_id":"p2","user":"u1","phone_number":"+14155552672","second_factor":true}`,
			passkey("k2", "u1", "elsewhere.example", other, url(public)),
			passkey("k3", "u1", "localhost", other, url([]byte("no key"))),
			passkey("k4", "u1", "localhost", listed["credential_id"].(string), url(public)),
		}
		lines = append(lines, wrong...)

		weak := w.desk("users-only", deploymentName, "users:write")
		if status, raw := weak.importFile(lines...); status != 403 || !strings.Contains(raw, "user_factors:write") {
			t.Fatalf("a key that may only write users imports factors: %d %s", status, raw)
		}
		helper := w.desk("factors-only", deploymentName, "user_factors:write")
		if status, raw := helper.importFile(passkey("k1", "u1", "localhost", other, url(public))); status != 403 || !strings.Contains(raw, "users:write") {
			t.Fatalf("a key that may only write factors imports a way to sign in: %d %s", status, raw)
		}
		mover := w.desk("mover", deploymentName, "users:write", "user_factors:write")
		status, raw := mover.importFile(lines...)
		if status != 200 || !strings.Contains(raw, `"imported":6`) || !strings.Contains(raw, `"rejected":7`) {
			t.Fatalf("%d %s", status, raw)
		}
		for _, pointer := range []string{"/secret", "/period", "/second_factor", "/rp_id", "/public_key", "/credential_id"} {
			if !strings.Contains(raw, pointer) {
				t.Errorf("no fault is at %s: %s", pointer, raw)
			}
		}
		if strings.Contains(raw, "SECRETSECRET") || strings.Contains(raw, "GEZDGNBV") || strings.Contains(w.Logs.String(), "SECRETSECRET") {
			t.Errorf("a refusal has a secret: %s", raw)
		}

		ada := w.browser()
		ada.ok("POST", "/auth/signin", byPassword("ada@example.com", oldPassword))
		attempt := ada.attempt()
		parameters := totp.Parameters{Algorithm: totp.SHA256, Digits: 8, Period: time.Minute}
		code := totp.Code(parameters, secret, parameters.Step(w.Clock.Now()))
		ada.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", code))
		if !ada.isSignedIn() {
			t.Error("the imported app does not sign in")
		}
		again := w.browser()
		again.ok("POST", "/auth/signin", byPassword("ada@example.com", oldPassword))
		again.refused(400, "CODE_USED", "POST", "/auth/attempt-second-factor", secondStep(again.attempt(), "totp", code))

		bob := w.browser()
		bob.ok("POST", "/auth/signin", byPassword("bob@example.com", oldPassword))
		attempt = bob.attempt()
		bob.ok("POST", "/auth/prepare-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q,"strategy":"sms"}`, attempt))
		bob.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "sms", w.CodeFor("+14155552671", 1)))
		if !bob.isSignedIn() {
			t.Error("the imported number is no second factor")
		}

		// The passkey moves: it leaves this account, and comes back by an import to another one.
		source.ok("DELETE", "/me/passkeys/"+listed["id"].(string), "")
		if status, raw := mover.importFile(passkey("k5", "u2", "localhost", listed["credential_id"].(string), url(public))); status != 200 || !strings.Contains(raw, `"imported":1`) {
			t.Fatalf("%d %s", status, raw)
		}
		moved := w.browser()
		moved.signInByPasskey(d)
		if got := moved.ok("GET", "/me", "")["email"]; got != "bob@example.com" {
			t.Errorf("the passkey signs in %v", got)
		}
	})
}
