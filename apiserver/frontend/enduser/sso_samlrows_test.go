package enduser_test

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// samlCertificate returns the certificate in the metadata of a connection.
func (w *world) samlCertificate(conn string) *x509.Certificate {
	w.T.Helper()
	found := regexp.MustCompile(`X509Certificate>([^<]+)<`).FindStringSubmatch(w.page("/sso/" + conn + "/metadata"))
	if found == nil {
		w.T.Fatal("the metadata have no certificate")
	}
	der, err := base64.StdEncoding.DecodeString(found[1])
	w.Must(err)
	certificate, err := x509.ParseCertificate(der)
	w.Must(err)
	return certificate
}

func TestMemberSignsInByTheSAMLConnectionOfTheirOrganization(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		w.managesSAML()
		owner, id, _ := w.customer("globex")
		path := "/organizations/" + id + "/connections"
		made := owner.ok("POST", path, samlBody("type", "SAML", "display_name", "Globex"))
		conn := made["id"].(string)
		certificate := w.samlCertificate(conn) // before the provider is known: it is set up first
		changed := owner.ok("PATCH", path+"/"+conn, samlBody("metadata_url", p.URL+"/metadata"))
		if changed["is_active"] != true || changed["reachable"] != true {
			t.Fatalf("%v", changed)
		}
		b := w.browser()
		r, err := p.ReadRedirect(b.begin(conn, ""), certificate)
		w.Must(err)
		if r.Issuer != changed["saml"].(map[string]any)["sp_entity_id"] {
			t.Errorf("the request is of %s", r.Issuer)
		}
		status, to := w.samlPost(conn, p.Respond(r, lee))
		if status != http.StatusSeeOther {
			t.Fatalf("%d: %+v", status, w.failures(conn))
		}
		a := b.do("GET", to, "")
		if a.user() != "" || a.attempt()["current_step"] != "verify_email" { // no domain is proven
			t.Fatalf("%s", a.Raw)
		}
		code := w.CodeFor("lee@globex.example", 1)
		if a = b.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, a.attempt()["id"], code)); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		if session := b.ok("GET", "/session", ""); session["organization"].(map[string]any)["id"] != id {
			t.Errorf("the session is %v", session)
		}
	})
}

func TestAnotherCertificateOfAMemberEndsTheIdentities(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p, forged := w.SAMLProvider(), w.SAMLProvider()
		w.managesSAML()
		owner, id, _ := w.customer("globex")
		path := "/organizations/" + id + "/connections"
		metadata := p.Metadata()
		conn := owner.ok("POST", path, samlBody("type", "SAML", "display_name", "Globex", "metadata_xml", metadata))["id"].(string)
		user, err := ids.Parse(owner.ok("GET", "/me", "")["id"].(string))
		w.Must(err)
		of, err := ids.Parse(conn)
		w.Must(err)
		w.tx(func(tx people.Tx) error {
			return tx.Identities().InsertIdentity(people.Identity{
				ID: of + 1, Connection: of, Issuer: p.URL, Subject: "owner", User: user, CreatedAt: w.Clock.Now().UTC(), UsedAt: w.Clock.Now().UTC(),
			})
		})
		manager := w.role("manager", "Organization", "connection:manage")
		w.Eventually("the role is known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 1 })
		bob, membership, _ := w.joins(owner, id, "bob@example.com")
		owner.ok("PATCH", "/organizations/"+id+"/members/"+membership, fmt.Sprintf(`{"role_id":%q}`, manager))
		_, token := owner.makesLink(id, "it@globex.example", `"sso"`)
		it := w.browser()
		it.opens(token, "it@globex.example", 1)
		own := samlBody("entity_id", p.URL, "sso_url", forged.URL+"/sso", "certificate", forged.Certificate())
		for _, b := range []*browser{bob, it} {
			b.refused(400, "VALIDATION_ERROR", "PATCH", path+"/"+conn, own)
		}
		bob.ok("PATCH", path+"/"+conn, samlBody("entity_id", p.URL, "sso_url", forged.URL+"/sso", "certificate", forged.Certificate(), "confirmation", "Globex"))
		if left := owner.list("/me/identities"); len(left) != 0 {
			t.Errorf("the owner still has %v", left)
		}
	})
}
