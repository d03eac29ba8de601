package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/samlprovider"
	"github.com/cardea-iam/cardea/store/people"
)

// samlConnection returns a connection to the metadata of a provider.
func samlConnection(p *samlprovider.Provider, change func(*document.ConnectionSAML)) Connection {
	c := &document.ConnectionSAML{MetadataURL: p.URL + "/metadata", ServiceEntityID: "https://acme.example/saml"}
	if change != nil {
		change(c)
	}
	return Connection{Deployment: testDeployment, ID: 17, Connection: &document.Connection{Type: "SAML", Active: true, SAML: c}}
}

func TestSAMLMetadataAreAcceptedOrLeaveTheLastGoodOnes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p, other := samlprovider.Start(time.Now), samlprovider.Start(time.Now)
	defer p.Close()
	defer other.Close()
	known, err := saml.ParseMetadata([]byte(p.Metadata()), saml.MetadataWanted{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	expiring := strings.Replace(p.Metadata(), "<md:IDPSSODescriptor", `<md:IDPSSODescriptor validUntil="`+now.Add(time.Hour).UTC().Format(time.RFC3339)+`"`, 1)
	for name, tc := range map[string]struct {
		entity, text string
		before       content
		want         string
		freshFor     time.Duration
	}{
		"the first":                        {text: p.Metadata(), freshFor: time.Hour},
		"the same entity":                  {text: p.Metadata(), before: content{saml: known}, freshFor: time.Hour},
		"with an end":                      {text: expiring, freshFor: time.Hour},
		"another entity":                   {text: other.Metadata(), before: content{saml: known}, want: "InvalidMetadata: entity_id"},
		"another entity, which is named":   {entity: other.URL, text: other.Metadata(), before: content{saml: known}, freshFor: time.Hour},
		"not the named entity":             {entity: "https://idp.example", text: p.Metadata(), want: "InvalidMetadata: entity_id"},
		"a document type":                  {text: "<!DOCTYPE x><x/>", want: "InvalidMetadata: xml"},
		"a text":                           {text: "none", want: "InvalidMetadata: xml"},
		"another document":                 {text: "<x/>", want: "InvalidMetadata: structure"},
		"metadata that are no longer used": {text: strings.Replace(p.Metadata(), "<md:IDPSSODescriptor", `<md:IDPSSODescriptor validUntil="2020-01-01T00:00:00Z"`, 1), want: "InvalidMetadata: valid_until"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := samlConnection(p, func(s *document.ConnectionSAML) { s.EntityID = tc.entity })
			src := samlSource(c.Connection)
			got, err := src.take(tc.text, tc.before, now)
			if tc.want != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				return
			}
			if err != nil || got.freshFor != tc.freshFor || !src.fits(got.content) {
				t.Fatalf("%+v, %v", got, err)
			}
			stored, err := src.parse(got.text)
			if err != nil || strings.Contains(got.text, "<") || !src.fits(stored) {
				t.Errorf("the stored text %s is read as %v, %v", got.text, stored, err)
			}
		})
	}
}

func TestSAMLMetadataAreNotUsedAfterTheirEnd(t *testing.T) {
	t.Parallel()
	now := time.Now()
	src := source{kind: people.UpstreamSAML, url: "https://idp.example", fits: func(content) bool { return true }}
	v := version{content: content{saml: &saml.Metadata{ValidUntil: now.Add(time.Minute)}}, url: src.url, fetchedAt: now}
	if !v.usable(src, now.Add(59*time.Second)) || v.usable(src, now.Add(time.Minute)) {
		t.Error("the end of the metadata is not observed")
	}
}

func TestDigestOfSAMLMetadataIgnoresTheirEnd(t *testing.T) {
	t.Parallel()
	one := document.SAMLMetadata{EntityID: "https://idp.example", Certificates: [][]byte{{1}}}
	later, rolled := one, one
	later.ValidUntil = time.Now()
	rolled.Certificates = [][]byte{{1}, {2}}
	if saml.Digest(one) != saml.Digest(later) || saml.Digest(one) == saml.Digest(rolled) {
		t.Error("the digest does not follow the certificates alone")
	}
}

func TestOriginOfSAMLMetadataChangesWithTheConnection(t *testing.T) {
	t.Parallel()
	p := samlprovider.Start(time.Now)
	defer p.Close()
	seen := map[string]string{}
	for name, change := range map[string]func(*document.ConnectionSAML){
		"a URL": nil, "an entity": func(s *document.ConnectionSAML) { s.EntityID = "https://idp.example" },
		"a ConfigMap": func(s *document.ConnectionSAML) { s.MetadataURL, s.Metadata = "", "<a/>" },
	} {
		of := origin(samlConnection(p, change))
		if before, found := seen[of]; found || of == "" {
			t.Errorf("%s has the origin of %s: %q", name, before, of)
		}
		seen[of] = name
	}
	if of := origin(samlConnection(p, func(s *document.ConnectionSAML) { s.MetadataURL, s.Given = "", &document.SAMLMetadata{} })); of != "" {
		t.Errorf("given metadata have the origin %q", of)
	}
}

// Sign-ins do not make a server read metadata again and again that it refused. Another URL is read at once.
func TestRefusedMetadataOfSAMLAreFetchedSeldom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	server := w.server()
	w.provider.serve("/metadata", says(200, "<x/>"))
	w.provider.serve("/other", says(200, "<x/>"))
	at := func(path string) Connection {
		return w.connection(func(c *document.Connection) {
			c.Type, c.SAML = "SAML", &document.ConnectionSAML{MetadataURL: w.provider.URL + path}
		})
	}
	for n, after := range []time.Duration{0, 5 * time.Second, 30 * time.Second, time.Minute, time.Minute} {
		for _, step := range []time.Duration{after - time.Second, time.Second} {
			w.Clock.Advance(max(step, 0))
			if _, err := server.SAML(t.Context(), at("/metadata")); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "structure") {
				t.Fatal(err)
			}
			if hits := w.provider.hit("/metadata"); step == time.Second && n > 0 && hits != n+1 || step > time.Second && hits != n {
				t.Errorf("%d fetches, the last %v before", hits, after)
			}
			if n == 0 {
				break
			}
		}
	}
	w.Clock.Advance(2 * time.Second)
	if _, err := server.SAML(t.Context(), at("/other")); !errors.Is(err, ErrUnavailable) || w.provider.hit("/other") != 1 {
		t.Errorf("another URL: %v, %d fetches", err, w.provider.hit("/other"))
	}
}

// The metadata of a deployment are read one after the other, and those of all deployments two at a time. Discovery
// documents do not wait.
func TestMetadataOfSAMLAreReadInTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	server := w.server()
	d := server.documents
	entered, leave := make(chan string, 10), make(chan struct{})
	src := source{kind: people.UpstreamSAML, url: inlineURL, inline: "<x/>"}
	read := func(ctx context.Context, deployment string) error {
		own := src
		own.accept = func(string, content, time.Time) (accepted, error) {
			entered <- deployment
			<-leave
			return accepted{}, nil
		}
		_, err := d.read(ctx, Connection{Deployment: deployment, ID: 17, Connection: &document.Connection{}}, own, version{}, w.Clock.Now())
		return err
	}
	results := make(chan error, 10)
	for _, deployment := range []string{"a/a", "a/a", "b/b", "c/c"} {
		go func() { results <- read(t.Context(), deployment) }()
	}
	first := []string{<-entered, <-entered}
	if first[0] == first[1] || d.reads.Running() != 2 {
		t.Errorf("%v are read", first)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := read(ended, "d/d"); !errors.Is(err, errNoTurn) || !errors.Is(err, context.Canceled) {
		t.Errorf("the context ended: %v", err)
	}
	close(leave)
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// A document that gets no turn is counted as throttled, and its provider has no failure.
func TestMetadataOfSAMLWithoutATurnAreNoFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	server := w.server()
	c := w.connection(func(c *document.Connection) {
		c.Type, c.SAML = "SAML", &document.ConnectionSAML{Metadata: "<x/>"}
	})
	done, err := server.documents.reads.Begin(t.Context(), egress.Asker{Deployment: c.Deployment})
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, leased, err := server.documents.fetch(ctx, c, samlSource(c.Connection), version{})
	if leased || !errors.Is(err, ErrUnavailable) || server.DocumentsExhausted() != 1 || w.row(c, people.UpstreamSAML).Failures != 0 {
		t.Errorf("%t, %v, %d", leased, err, server.DocumentsExhausted())
	}
	if n := testutil.ToFloat64(server.metrics.fetches.WithLabelValues("saml", "throttled")); n != 1 {
		t.Errorf("%v were counted", n)
	}
}

// The largest metadata fit a deployment's share of the cache.
func TestLargestMetadataOfSAMLAreCached(t *testing.T) {
	t.Parallel()
	endpoint := saml.Endpoint{Binding: saml.BindingRedirect, URL: strings.Repeat("x", 2048), ResponseURL: strings.Repeat("x", 2048)}
	m := &saml.Metadata{EntityID: strings.Repeat("x", 1024)}
	for range 16 {
		m.SignOn, m.Logout = append(m.SignOn, endpoint), append(m.Logout, endpoint)
		m.Certificates = append(m.Certificates, &x509.Certificate{Raw: make([]byte, 16<<10)})
	}
	if bytes := samlBytes(m) + versionBytes + 2*2048 + maxFailure; bytes > documentShares.DeploymentBytes {
		t.Errorf("%d bytes", bytes)
	}
}

// notices are the notices of new certificates that were recorded.
type notices struct {
	w     *world
	added [][]*x509.Certificate
	fail  error
}

// record is Options.OnNewCertificates.
func (n *notices) record(ctx context.Context, c Connection, added []*x509.Certificate, store func(people.Tx) (bool, error)) error {
	stored := false
	err := n.w.Store.Change(ctx, c.Deployment, func(tx people.Tx) (err error) {
		stored, err = store(tx)
		return errors.Join(err, n.fail)
	})
	if err == nil && stored {
		n.added = append(n.added, added)
	}
	return err
}

// The notice of a new certificate is recorded with the metadata, or again with the next fetch. Of two servers, the one
// records it that stores the metadata.
func TestNewCertificateIsNotifiedOfOnceWithItsMetadata(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		n := &notices{w: w}
		p := samlprovider.Start(w.Clock.Now)
		t.Cleanup(p.Close)
		first, second := w.server().documents, w.server().documents
		first.onNewCertificates, second.onNewCertificates = n.record, n.record
		c := samlConnection(p, nil)
		src := samlSource(c.Connection)
		fetch := func(d *documents) {
			t.Helper()
			if v, err := d.refreshNow(t.Context(), c, src, wish{periodic: true}); err != nil || v.failures > 0 {
				t.Fatal(err, v.failure)
			}
		}
		fetch(first)
		p.Rotate()
		w.Clock.Advance(24 * time.Hour)
		n.fail = errors.New("the server ends before the transaction does")
		fetch(first)
		if stored := w.row(c, people.UpstreamSAML); len(n.added) != 0 || stored.LeasedUntil.IsZero() {
			t.Errorf("%d notices, and the row is %v", len(n.added), stored)
		}
		n.fail = nil
		w.Clock.Advance(leaseFor)
		before, err := second.load(t.Context(), c, src)
		w.Must(err)
		fetch(first)
		if _, leased, err := second.fetch(t.Context(), c, src, before); leased || err != nil {
			t.Errorf("%t, %v", leased, err)
		}
		if len(n.added) != 1 || len(n.added[0]) != 1 {
			t.Errorf("%d notices", len(n.added))
		}
		// The lease of a slow fetch went to another server.
		p.Rotate()
		w.Clock.Advance(24 * time.Hour)
		slow := src
		slow.accept = func(text string, last content, now time.Time) (accepted, error) {
			w.Clock.Advance(leaseFor)
			fetch(second)
			return src.accept(text, last, now)
		}
		before, err = first.load(t.Context(), c, src)
		w.Must(err)
		if _, _, err := first.fetch(t.Context(), c, slow, before); err != nil || len(n.added) != 2 {
			t.Errorf("%v, %d notices", err, len(n.added))
		}
	})
}
