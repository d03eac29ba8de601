package pages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestDomainPages(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) {
		manageable(d)
		connections := document.DefaultConnections()
		connections.SelfService = true
		d.Connections = &connections
	})
	ada, bob := w.engines()
	const path = "/organizations/engines/domains"
	bob.open("/organizations/engines")
	if bob.links(path) {
		t.Error("a member without the permission sees a link to the domains")
	}
	bob.open(path)
	if bob.page.status != http.StatusNotFound {
		t.Errorf("a member without the permission sees the domains: %d", bob.page.status)
	}
	ada.open("/organizations/engines")
	ada.open(ada.link(path))
	ada.says("Your organization has no domain yet.")
	ada.submit("add", "domain", "*.engines.example")
	ada.refused(http.StatusBadRequest, "domain", "Enter one domain of your organization, such as acme.example.")
	if ada.page.value("domain") != "*.engines.example" {
		t.Error("what was typed is lost")
	}
	ada.submit("add", "domain", "Engines.example")
	ada.at(path)
	ada.says("The domain was added.")
	ada.says("_cardea-challenge.engines.example")
	ada.submit("add", "domain", "engines.example")
	ada.refused(http.StatusBadRequest, "", "The organization has this domain already.")
	ada.open(path)
	_, value, _ := strings.Cut(ada.page.raw, "cardea-domain-verification=")
	value = "cardea-domain-verification=" + value[:26]

	dns := w.Carrier.DNS()
	dns.Set(domain.RecordName("engines.example"), "<script>alert(1)</script>\u202e")
	ada.submit("verify")
	ada.refused(http.StatusBadRequest, "", "The record was not found.")
	ada.says("There are records of this name, but none has the value.")
	if strings.Contains(ada.page.raw, "<script>alert") || strings.Contains(ada.page.raw, "\u202e") || !strings.Contains(ada.page.raw, "&lt;script&gt;alert(1)") {
		t.Errorf("what was seen: %s", ada.page.raw)
	}
	dns.Set(domain.RecordName("engines.example"), value)
	ada.submit("verify")
	ada.at(path)
	ada.says("The domain is verified.")
	ada.says("Verified. Keep the record.")

	// A change needs a recent proof, after which the browser returns to the page.
	w.Clock.Advance(time.Hour)
	ada.open(path)
	ada.submit("remove")
	ada.at("/reauthenticate")
	ada.submit("password", "password", goodPassword)
	ada.at(path)
	ada.submit("remove")
	ada.says("The domain was removed.")
}

func TestDomainPageIsAbsentWithoutSelfService(t *testing.T) {
	w := newWorld(t, manageable)
	ada, _ := w.engines()
	ada.open("/organizations/engines")
	if ada.links("/organizations/engines/domains") {
		t.Error("the organization's page links to the domains")
	}
	ada.open("/organizations/engines/domains")
	if ada.page.status != http.StatusNotFound {
		t.Errorf("status %d", ada.page.status)
	}
}
