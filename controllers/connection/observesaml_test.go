package connection

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// certificates returns certificates in DER that expire at times.
func certificates(t *testing.T, expiries ...time.Time) (list [][]byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range expiries {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: at.AddDate(-1, 0, 0), NotAfter: at}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, der)
	}
	return list
}

func TestConditionsFromTheMetadataOfSAML(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	metadata := func(change func(*people.UpstreamDocument), list ...[]byte) people.UpstreamDocument {
		raw, err := json.Marshal(document.SAMLMetadata{EntityID: "https://globex.example/saml", Certificates: list})
		if err != nil {
			t.Fatal(err)
		}
		d := people.UpstreamDocument{Kind: people.UpstreamSAML, Body: "https://globex.example/metadata\n" + string(raw), SHA256: "hash", FetchedAt: now}
		if change != nil {
			change(&d)
		}
		return d
	}
	expires := func(after ...time.Duration) people.UpstreamDocument {
		var times []time.Time
		for _, d := range after {
			times = append(times, now.Add(d))
		}
		return metadata(nil, certificates(t, times...)...)
	}
	changed := func(ago time.Duration) people.UpstreamDocument {
		return metadata(func(d *people.UpstreamDocument) { d.ChangedAt = now.Add(-ago) })
	}
	const fetched, expiring, hasExpired, hasChanged = "Reachable=True/Fetched", "CertificateExpiring=True/Expiring", "CertificateExpiring=True/Expired", "MetadataChanged=True/Changed"
	for name, row := range map[string]struct {
		d           people.UpstreamDocument
		want        []string
		certificate string
	}{
		"no row":      {d: people.UpstreamDocument{}, want: []string{"Reachable=Unknown/Pending"}},
		"no answer":   {d: people.UpstreamDocument{Kind: people.UpstreamSAML, Error: "Unreachable: globex.example: 503"}, want: []string{"Reachable=False/Unreachable saml: globex.example: 503"}},
		"bad XML now": {d: metadata(func(d *people.UpstreamDocument) { d.Error = "InvalidMetadata: it has a DOCTYPE" }), want: []string{"Reachable=False/InvalidMetadata saml: it has a DOCTYPE"}},

		"a certificate of years":      {d: expires(900 * day), want: []string{fetched}, certificate: "2028-08-17T12:00:00Z"},
		"30 days":                     {d: expires(30 * day), want: []string{fetched}, certificate: "2026-03-31T12:00:00Z"},
		"less than 30 days":           {d: expires(30*day - time.Second), want: []string{fetched, expiring}, certificate: "2026-03-31T11:59:59Z"},
		"the last second":             {d: expires(time.Second), want: []string{fetched, expiring}, certificate: "2026-03-01T12:00:01Z"},
		"expired":                     {d: expires(0), want: []string{fetched, hasExpired}, certificate: "2026-03-01T12:00:00Z"},
		"the first of two":            {d: expires(900*day, 3*day), want: []string{fetched, expiring}, certificate: "2026-03-04T12:00:00Z"},
		"a certificate that is none":  {d: metadata(nil, []byte("x")), want: []string{fetched}},
		"a body of newer servers":     {d: metadata(func(d *people.UpstreamDocument) { d.Body = "url\n[]" }), want: []string{fetched}},
		"a change":                    {d: changed(0), want: []string{fetched, hasChanged}},
		"a change to the last second": {d: changed(day - time.Second), want: []string{fetched, hasChanged}},
		"a change of yesterday":       {d: changed(day), want: []string{fetched}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeSAML}}
			conditions, upstream := conclude(c, observed{saml: row.d}, now)
			if diff := cmp.Diff(row.want, shown(conditions)); diff != "" {
				t.Error(diff)
			}
			var want *v1alpha1.ConnectionUpstream
			if !row.d.FetchedAt.IsZero() {
				want = &v1alpha1.ConnectionUpstream{FetchedAt: "2026-03-01T12:00:00Z", SHA256: "hash", CertificateExpiresAt: row.certificate}
			}
			if diff := cmp.Diff(want, upstream); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAChangeOfMetadataIsOneEvent(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	recorder := events.NewFakeRecorder(10)
	opts := Options{Events: recorder}
	c := &v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeSAML}}
	pass := func(d people.UpstreamDocument) {
		conditions, _ := conclude(c, observed{saml: d}, now)
		opts.announce(c, conditions)
		c.Status.Conditions = conditions
	}
	d := people.UpstreamDocument{Body: "url\n{}", FetchedAt: now}
	pass(d)
	d.ChangedAt = now
	pass(d)
	pass(d)
	now = now.Add(time.Hour)
	d.ChangedAt = now
	pass(d)
	now = now.Add(24 * time.Hour)
	pass(d)
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, event)
	}
	if len(got) != 2 || !strings.Contains(got[0], "MetadataChanged") || !strings.Contains(got[0], "2026-03-01T12:00:00Z") || !strings.Contains(got[1], "2026-03-01T13:00:00Z") {
		t.Errorf("got %q, want an event for each of two changes", got)
	}
}
