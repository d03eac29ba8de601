package enduser_test

import (
	"testing"
	"time"
)

// A provider that names a new certificate in its metadata lets another key sign its users in: the organization's admins
// get a mail, at most two of a day, and the audit names the certificate.
func TestAdminsAreNotifiedOfANewCertificateOfTheirProvider(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
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
		mails := func(to string) (n int) {
			for _, m := range w.Carrier.Messages(to) {
				if m.Subject == "Your identity provider has a new certificate" {
					n++
				}
			}
			return n
		}
		audited := func() int {
			return w.count("SELECT COUNT(*) FROM audit WHERE action = 'connection.certificates_added' AND LENGTH(detail) >= 64")
		}
		signsIn()
		if audited() != 0 {
			t.Error("the first metadata have new certificates")
		}
		for n := range 12 {
			rotates()
			if got := audited(); got != min(n+1, 10) {
				t.Fatalf("%d records after %d changes", got, n+1)
			}
			for _, to := range []string{"owner@globex.example", "bob@globex.example"} {
				// Delivered before the clock moves, which would end the lease of a message.
				w.Eventually("the mails are delivered", func() bool { return mails(to) >= min(n+1, 2) })
				if got := mails(to); got > 2 {
					t.Fatalf("%s got %d mails", to, got)
				}
			}
		}
		if mails("carl@globex.example") != 0 {
			t.Error("a member who manages no connections got a mail")
		}
	})
}
