package enduser_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// untilRefused sends responses with new codes to the attempt at an address until one is refused, and returns how many
// were answered as those of an unavailable provider.
func (b *browser) untilRefused(conn string, p *identityprovider.Provider, address string) (unavailable int) {
	b.w.T.Helper()
	for range 100 {
		values, err := p.Authorize(address, ann)
		b.w.Must(err)
		a := b.do("GET", callback(conn, values), "")
		if a.Status != http.StatusServiceUnavailable {
			if a.code() != "INVALID_ATTEMPT" {
				b.w.T.Errorf("%s", a.Raw)
			}
			return unavailable
		}
		unavailable++
	}
	return unavailable
}

// A key set that was never fetched is unavailable. A client gets a bounded number of tries back.
func TestResponseWithoutAKeySetTakesNoTry(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		b := w.browser()
		address, patient := b.begin(conn, ""), b.begin(conn, "")
		p.SetSilent(true)
		for range connection.MaxTries + 1 {
			values, err := p.Authorize(patient, ann)
			w.Must(err)
			b.refused(503, "CONNECTION_UNAVAILABLE", "GET", callback(conn, values), "")
			if tries := w.ssoTries(values.Get("state")); tries != 0 {
				t.Fatalf("%d tries are counted", tries)
			}
		}
		if got, want := b.untilRefused(conn, p, address), 20+connection.MaxTries; got != want {
			t.Errorf("%d responses to an attempt are accepted without a key set, want %d", got, want)
		}
		p.SetSilent(false)
		w.Clock.Advance(2 * time.Minute)
		values, err := p.Authorize(patient, ann)
		w.Must(err)
		if a := b.do("GET", callback(conn, values), ""); a.user() == "" {
			t.Errorf("with a key set, the response is answered with %s", a.Raw)
		}
	})
}

// A discovery document is unavailable a week after its last fetch. No code is sent without it.
func TestResponseWithoutADiscoveryDocumentTakesNoTry(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		w.browser().begin(conn, "")
		p.SetSilent(true)
		w.Clock.Advance(7*24*time.Hour - 3*time.Minute)
		b := w.browser()
		address, patient := b.begin(conn, ""), b.begin(conn, "")
		w.Clock.Advance(5 * time.Minute)
		values, err := p.Authorize(patient, ann)
		w.Must(err)
		for range connection.MaxTries + 1 {
			b.refused(503, "CONNECTION_UNAVAILABLE", "GET", callback(conn, values), "")
		}
		if got, want := b.untilRefused(conn, p, address), 20+connection.MaxTries; got != want {
			t.Errorf("%d responses to an attempt are accepted without a discovery document, want %d", got, want)
		}
		if n := p.Redeemed(); n != 0 {
			t.Errorf("%d codes are redeemed", n)
		}
		p.SetSilent(false)
		w.Clock.Advance(4 * time.Minute)
		if a := b.do("GET", callback(conn, values), ""); a.user() == "" {
			t.Errorf("with a discovery document, the response is answered with %s", a.Raw)
		}
	})
}
