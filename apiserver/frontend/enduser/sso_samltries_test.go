package enduser_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/frontend/enduser"
	"github.com/cardea-iam/cardea/apiserver/frontend/pages/texts"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/upstream"
	"github.com/cardea-iam/cardea/store/people"
)

// follower returns a follower of the configuration, which has loaded it.
func (w *world) follower() *snapshot.Follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := snapshot.NewFollower(w.Store, time.Second, w.Clock.Now, logr.Discard())
	following := make(chan error, 1)
	go func() { following <- f.Run(ctx) }()
	w.T.Cleanup(func() {
		cancel()
		<-following
	})
	<-f.Loaded()
	return f
}

// serveSAML starts another server, which evaluates messages of SAML in the given slots.
func (w *world) serveSAML(evaluations *egress.Slots) string {
	w.T.Helper()
	follower, registry := w.follower(), prometheus.NewRegistry()
	handler, err := enduser.New(enduser.Options{
		Snapshots: follower, Store: w.Store, Keyring: w.Keyring, Clock: w.Clock.Now, Languages: texts.Languages(), Log: logr.Discard(),
		Metrics: enduser.NewMetrics(registry, nil), Evaluations: evaluations,
		Providers: upstream.New(upstream.Options{
			Store: w.Store, Snapshots: follower, Keyring: w.Keyring, Egress: egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil),
			Clock: w.Clock.Now, Log: logr.Discard(), Registry: registry,
		}),
	})
	w.Must(err)
	served := httptest.NewServer(handler)
	w.T.Cleanup(served.Close)
	return served.URL
}

// ssoTries returns how many tries of an attempt are counted.
func (w *world) ssoTries(state string) (tries int) {
	w.T.Helper()
	w.tx(func(tx people.Tx) error {
		a, _, err := tx.Connections().SSOAttemptByState(connection.HashState(state))
		tries = a.Tries
		return err
	})
	return tries
}

// The try of a response that waits for its turn is counted already. It is given back when the response gets no turn,
// also if the client does not wait for the answer.
func TestSAMLResponseWithoutATurnTakesNoTry(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		slots := enduser.NewEvaluations(w.Clock.Now)
		busy := w.serveSAML(slots)
		b := w.browser()
		r := b.samlRequest(conn, p, "")
		form := p.Respond(r, lee)
		done, err := slots.Begin(t.Context(), egress.Asker{Deployment: deploymentName})
		w.Must(err)
		for range connection.MaxTries + 1 {
			client, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(client, http.MethodPost, busy+"/sso/"+conn+"/acs", strings.NewReader(form.Encode()))
			w.Must(err)
			req.Host = "localhost"
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			left := make(chan struct{})
			go func() {
				defer close(left)
				if resp, err := http.DefaultClient.Do(req); err == nil { // a busy machine: the answer came first
					_ = resp.Body.Close()
				}
			}()
			w.Eventually("a try is counted before the evaluation", func() bool { return w.ssoTries(r.RelayState) == 1 })
			leave()
			<-left
			w.Eventually("the try of a client that left is given back", func() bool { return w.ssoTries(r.RelayState) == 0 })
		}
		if status := w.postTo(busy, "/sso/"+conn+"/acs", form).StatusCode; status != http.StatusServiceUnavailable || w.ssoTries(r.RelayState) != 0 {
			t.Errorf("a response without a turn is answered with %d, and %d tries are counted", status, w.ssoTries(r.RelayState))
		}
		done()
		if status := w.postTo(busy, "/sso/"+conn+"/acs", url.Values{"SAMLResponse": {"x"}, "RelayState": {r.RelayState}}).StatusCode; status != http.StatusBadRequest || w.ssoTries(r.RelayState) != 1 {
			t.Errorf("a refused response is answered with %d, and %d tries are counted", status, w.ssoTries(r.RelayState))
		}
		resp := w.postTo(busy, "/sso/"+conn+"/acs", form, "Accept", "text/html")
		if a := b.do("GET", resp.Header.Get("Location"), ""); a.user() == "" {
			t.Errorf("the response is answered with %d: %s", resp.StatusCode, a.Raw)
		}
	})
}

// Metadata that ended while the provider was down are unavailable. A client gets a bounded number of tries back.
func TestSAMLResponseWithoutMetadataTakesNoTry(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		until := w.Clock.Now().Add(2 * time.Minute).UTC().Format(time.RFC3339)
		p.ServeMetadata(strings.Replace(p.Metadata(), "<md:EntityDescriptor", `<md:EntityDescriptor validUntil="`+until+`"`, 1))
		conn := w.DeclareSAML("globex", p, globexSAML)
		b := w.browser()
		r, patient := b.samlRequest(conn, p, ""), b.samlRequest(conn, p, "")
		p.SetDown(true)
		w.Clock.Advance(3 * time.Minute)
		for range connection.MaxTries + 1 {
			if status, _ := w.samlPost(conn, p.Respond(patient, lee)); status != http.StatusServiceUnavailable {
				t.Fatalf("a response without metadata is answered with %d", status)
			}
		}
		form, unavailable := p.Respond(r, lee), 0
		for status := 0; status != http.StatusBadRequest && unavailable < 100; {
			if status, _ = w.samlPost(conn, form); status == http.StatusServiceUnavailable {
				unavailable++
			}
		}
		if want := 20 + connection.MaxTries; unavailable != want {
			t.Errorf("%d responses to an attempt are accepted without metadata, want %d", unavailable, want)
		}
		p.ServeMetadata("")
		p.SetDown(false)
		w.Clock.Advance(2 * time.Minute)
		status, to := w.samlPost(conn, p.Respond(patient, lee))
		if a := b.do("GET", to, ""); a.user() == "" {
			t.Errorf("with metadata again, the response is answered with %d: %s %+v", status, a.Raw, w.failures(conn))
		}
	})
}
