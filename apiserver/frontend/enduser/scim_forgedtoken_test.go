package enduser_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
)

// withAnotherSecret returns a well-formed token with the public ID of another one, and with a secret of its own.
func (w *world) withAnotherSecret(token string) string {
	w.T.Helper()
	mint := func(random []byte) apikey.Key {
		key, err := apikey.Mint(bytes.NewReader(random), document.DirectoryTokenPrefix)
		w.Must(err)
		return key
	}
	drawn := map[byte]byte{} // by character, the random byte that gives it
	for b := range byte(62) {
		drawn[mint(bytes.Repeat([]byte{b}, 64)).ID()[0]] = b
	}
	right, err := apikey.Parse(token)
	w.Must(err)
	random := make([]byte, 64)
	for i, c := range []byte(right.ID()) {
		random[i] = drawn[c]
	}
	forged := mint(random)
	if forged.ID() != right.ID() || forged.Plain() == token {
		w.T.Fatalf("%s is not a token with the ID of %s", forged, right)
	}
	return forged.Plain()
}

// The ID of a token is public: administrators see it, and logs have it.
func TestTokenWithAnotherSecretIsRefused(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, slug := w.customer("globex")
		for name, d := range map[string]*directory{"declared": w.directory("declared", slug, nil), "of the organization": owner.setsUpDirectory(id, `{}`)} {
			w.Eventually("the directory responds", func() bool { return d.do("GET", "/Users", "").Status == http.StatusOK })
			right := d.token
			if d.token = w.withAnotherSecret(right); d.do("GET", "/Users", "").Status != http.StatusUnauthorized {
				t.Errorf("a directory %s accepts another secret", name)
			}
			if status := d.do("POST", "/Users", `{"userName":"ann@globex.example"}`).Status; status != http.StatusUnauthorized {
				t.Errorf("a directory %s accepts another secret for a change: %d", name, status)
			}
			d.token = right
			d.ok(http.StatusOK, "GET", "/Users", "")
		}
	})
}

func TestTokenOfAnOrganizationsDirectoryExpires(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		d := owner.setsUpDirectory(id, `{}`)
		_, d.token = owner.makesToken(id, d.id, `{"expires_in":3600}`)
		w.Clock.Advance(time.Hour - time.Second)
		d.ok(http.StatusOK, "GET", "/Users", "")
		w.Clock.Advance(time.Second)
		d.refused(http.StatusUnauthorized, "", "GET", "/Users", "")
		d.refused(http.StatusUnauthorized, "", "POST", "/Users", `{"userName":"ann@globex.example"}`)
	})
}
