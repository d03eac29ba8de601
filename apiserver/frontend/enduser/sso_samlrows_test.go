package enduser_test

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"testing"
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
	onEngines(t, func(t *testing.T, w *world) {
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
