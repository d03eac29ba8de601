package enduser_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/reseal"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/seal"
)

// A root key that was rotated, and taken away after upkeep sealed again what it sealed, leaves every authenticator and
// recovery code working. Before upkeep, the new key alone opens no secret.
func TestRotatedRootKeyLeavesFactorsWorking(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ring := func(keys ...[]byte) *seal.Keyring {
			var files []string
			for _, key := range keys {
				file := filepath.Join(t.TempDir(), "root.key")
				w.Must(os.WriteFile(file, key, 0o600))
				files = append(files, file)
			}
			r, err := seal.Load(files)
			w.Must(err)
			return r
		}
		newKey := bytes.Repeat([]byte{8}, 32)
		rotated, after := ring(newKey, servertest.RootKey), ring(newKey)
		apps := map[string]*app{}
		var codes []any
		for _, email := range []string{"ada@example.com", "bob@example.com"} {
			b := w.browser()
			b.signUp(email)
			apps[email], codes = b.addApp()
		}
		serve := func(keys *seal.Keyring) {
			w.Keyring = keys
			w.Server = w.serve(w.Store)
			w.open(nil) // as the operator does: what the document seals is sealed under the present key
		}
		signsIn := func(email, kind, code string) bool {
			b := w.browser()
			attempt := b.firstStep(email)
			return b.do("POST", "/auth/attempt-second-factor", secondStep(attempt, kind, code)).Status == 200 && b.isSignedIn()
		}
		serve(after)
		if signsIn("ada@example.com", "totp", apps["ada@example.com"].next()) {
			t.Fatal("a secret was opened without its root key")
		}
		serve(rotated)
		upkeep := reseal.New(reseal.Options{Store: w.Store, Keyring: rotated, Clock: w.Clock.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry()})
		w.Must(upkeep.Pass(t.Context()))
		serve(after)
		for email, a := range apps {
			if !signsIn(email, "totp", a.next()) {
				t.Errorf("%s: the code of the authenticator is refused", email)
			}
		}
		if !signsIn("bob@example.com", "recovery_code", codes[0].(string)) {
			t.Error("a recovery code is refused")
		}
	})
}
