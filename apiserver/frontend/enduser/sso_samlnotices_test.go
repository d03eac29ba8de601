package enduser_test

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// certificateMails returns how many mails about new certificates an address got.
func (w *world) certificateMails(to string) (n int) {
	for _, m := range w.Carrier.Messages(to) {
		if m.Subject == "Your identity provider has a new certificate" {
			n++
		}
	}
	return n
}

// certificatesAudited returns how many records of new certificates the audit has.
func (w *world) certificatesAudited() int {
	w.T.Helper()
	return w.count("SELECT COUNT(*) FROM audit WHERE action = 'connection.certificates_added' AND LENGTH(detail) >= 64")
}

// A provider that names a new certificate in its metadata lets another key sign its users in: the organization's admins
// get a mail, at most two of a day, and the audit names the certificate.
func TestAdminsAreNotifiedOfANewCertificateOfTheirProvider(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		w.managesSAML()
		owner, id, _ := w.customer("globex")
		manager := w.role("manager", "Organization", "connection:manage")
		_, membership, _ := w.joins(owner, id, "bob@globex.example")
		w.joins(owner, id, "carl@globex.example")
		w.Eventually("the role is known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 1 })
		owner.ok("PATCH", "/organizations/"+id+"/members/"+membership, `{"role_id":"`+manager+`"}`)
		conn := owner.ok("POST", "/organizations/"+id+"/connections", samlBody("type", "SAML", "display_name", "Globex", "metadata_url", p.URL+"/metadata"))["id"].(string)
		certificate := w.samlCertificate(conn)
		signsIn := func() {
			t.Helper()
			r, err := p.ReadRedirect(w.browser().begin(conn, ""), certificate)
			w.Must(err)
			w.samlPost(conn, p.Respond(r, lee))
		}
		rotates := func() {
			w.Clock.Advance(31 * time.Second)
			p.Rotate()
			signsIn() // the unknown key lets the metadata be fetched
		}
		signsIn()
		if w.certificatesAudited() != 0 {
			t.Error("the first metadata have new certificates")
		}
		for n := range 12 {
			rotates()
			if got := w.certificatesAudited(); got != min(n+1, 10) {
				t.Fatalf("%d records after %d changes", got, n+1)
			}
			for _, to := range []string{"owner@globex.example", "bob@globex.example"} {
				// Delivered before the clock moves, which would end the lease of a message.
				w.Eventually("the mails are delivered", func() bool { return w.certificateMails(to) >= min(n+1, 2) })
				if got := w.certificateMails(to); got > 2 {
					t.Fatalf("%s got %d mails", to, got)
				}
			}
		}
		if w.certificateMails("carl@globex.example") != 0 {
			t.Error("a member who manages no connections got a mail")
		}
	})
}

// The record of a new certificate and the mails about it are written in the transaction that stores the metadata, and
// only if this server stores them.
func TestNoticeOfACertificateIsWrittenWithTheMetadata(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		w.managesSAML()
		owner, id, _ := w.customer("globex")
		conn := owner.ok("POST", "/organizations/"+id+"/connections", samlBody("type", "SAML", "display_name", "Globex", "metadata_url", p.URL+"/metadata"))["id"].(string)
		connection, err := ids.Parse(conn)
		w.Must(err)
		der, err := base64.StdEncoding.DecodeString(p.Certificate())
		w.Must(err)
		certificate, err := x509.ParseCertificate(der)
		w.Must(err)
		unstored := errors.New("the metadata cannot be stored")
		n := connections.Notifier{Store: w.Store, Snapshots: w.follower(), Keyring: w.Keyring, Clock: w.Clock.Now}
		for _, story := range []struct {
			stored bool
			err    error
			want   int
		}{{false, nil, 0}, {true, unstored, 0}, {true, nil, 1}} {
			err := n.NewCertificates(t.Context(), deploymentName, connection, []*x509.Certificate{certificate}, func(people.Tx) (bool, error) { return story.stored, story.err })
			if !errors.Is(err, story.err) || w.certificatesAudited() != story.want {
				t.Errorf("stored %t, %v: %v, and %d records, want %d", story.stored, story.err, err, w.certificatesAudited(), story.want)
			}
		}
		w.Eventually("the mail is delivered", func() bool { return w.certificateMails("owner@globex.example") == 1 })
		owner.ok("PATCH", "/organizations/"+id+"/connections/"+conn, `{"is_active":false}`) // it keeps the certificates
		w.Must(n.NewCertificates(t.Context(), deploymentName, connection, []*x509.Certificate{certificate}, func(people.Tx) (bool, error) { return true, nil }))
		if got := w.certificatesAudited(); got != 2 {
			t.Errorf("with a certificate of an inactive connection, there are %d records, want 2", got)
		}
	})
}
