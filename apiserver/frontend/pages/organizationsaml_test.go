package pages_test

import (
	"crypto/elliptic"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/samlmetadata"
)

const (
	idpEntity = "https://idp.engines.example/saml"
	idpSignOn = "https://idp.engines.example/sso"
)

func samlConnectable(d *document.Deployment) {
	connectable(d)
	d.Connections.Types = []string{"OIDC", "SAML"}
}

func TestAdminSetsUpASAMLConnection(t *testing.T) {
	w := newWorld(t, samlConnectable)
	first, err := samlmetadata.Certificate(elliptic.P256())
	w.Must(err)
	second, err := samlmetadata.Certificate(elliptic.P256())
	w.Must(err)
	xml := samlmetadata.XML(idpEntity, idpSignOn, first)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(xml)) }))
	t.Cleanup(server.Close)

	ada, _ := w.engines()
	ada.open("/organizations/engines/sso")
	ada.says("SAML 2.0")
	ada.submit("add", "display_name", "Engines", "type", "SAML")
	ada.says("The connection is there.")
	ada.says("Not finished: enter the identity provider below.")
	ada.says("Assertion consumer service URL")
	ada.says("/acs")
	ada.says("/metadata")
	ada.says("Microsoft Entra ID")
	at := ada.page.url.Path

	ada.submit("metadata-url", "metadata_url", "idp")
	ada.refused(http.StatusBadRequest, "metadata_url", "Enter the https address of the provider’s metadata.")
	ada.submit("metadata-xml", "metadata_xml", "<html>")
	if ada.page.status != http.StatusBadRequest {
		t.Errorf("status %d", ada.page.status)
	}
	ada.says("This metadata cannot be used.")
	ada.submit("stated", "entity", idpEntity, "sso_url", "http://idp.engines.example", "certificate", samlmetadata.PEM(first))
	ada.refused(http.StatusBadRequest, "sso_url", "Enter the https address to which the provider takes sign-ins.")
	ada.submit("stated", "entity", idpEntity, "sso_url", idpSignOn, "certificate", "none")
	ada.refused(http.StatusBadRequest, "certificate", "Enter one certificate in PEM, with an RSA key of at least 2048 bits or a key on P-256 or a stronger curve.")

	ada.submit("stated", "entity", idpEntity, "sso_url", idpSignOn, "certificate", samlmetadata.PEM(first))
	ada.at(at)
	ada.says("The connection was changed.")
	ada.says("The metadata of the provider was entered here")
	ada.says("1 Jan 2036")
	// Another certificate of the same provider needs no confirmation; another source of its metadata does.
	ada.submit("metadata-xml", "metadata_xml", samlmetadata.XML(idpEntity, idpSignOn, second))
	ada.says("The connection was changed.")
	ada.submit("metadata-url", "metadata_url", server.URL)
	if ada.page.status != http.StatusBadRequest {
		t.Errorf("status %d", ada.page.status)
	}
	ada.submit("metadata-url", "metadata_url", server.URL, "confirmation", "Engines")
	ada.says("The connection was changed.")
	ada.says("The provider was reached.")
	ada.says(idpEntity)
	ada.submit("name", "display_name", "Analytical Engines")
	ada.says("Analytical Engines")
	if strings.Contains(ada.page.raw, "PRIVATE KEY") {
		t.Error("the page has the private key")
	}
	ada.open("/organizations/engines/sso")
	ada.says(idpEntity)
}

func TestUserWithASetupLinkSetsUpASAMLConnection(t *testing.T) {
	w := newWorld(t, samlConnectable)
	ada, _ := w.engines()
	ada.open("/organizations/engines/sso")
	link := ada.setupAddress("it@example.com")
	it := w.browser()
	it.open(link)
	it.submit("send")
	it.submit("code", "code", w.CodeFor("it@example.com", 1))
	it.click("Single sign-on")
	it.submit("add", "display_name", "Engines", "type", "SAML")
	der, err := samlmetadata.Certificate(elliptic.P256())
	w.Must(err)
	it.submit("metadata-xml", "metadata_xml", samlmetadata.XML(idpEntity, idpSignOn, der))
	it.says("The connection was changed.")
}
