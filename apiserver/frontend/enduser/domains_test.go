package enduser_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/dnsserver"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/store/people"
)

// selfService lets organizations manage their connections and domains.
func (w *world) selfService() {
	w.T.Helper()
	d := w.Settings()
	connections := document.DefaultConnections()
	connections.SelfService = true
	d.Connections = &connections
	d.OrganizationPermissions = []string{"organization:invite", "organization:manage", "connection:manage", "billing:read"}
	w.Declare(d)
	d.FrontendHosts = []string{"other.localhost"}
	w.Put("IdentityDeployment", "other", anotherName, "other", d)
	w.Put("B2BSettings", "other", anotherName, "b2b", document.B2BSettings{Enabled: true})
}

// domainsOf is the path of an organization's domains.
func domainsOf(organization string) string { return "/organizations/" + organization + "/domains" }

// addsDomain adds a domain to an organization, and returns its id and the value of its record.
func (b *browser) addsDomain(organization, name string) (id, value string) {
	b.w.T.Helper()
	d := b.ok("POST", domainsOf(organization), fmt.Sprintf(`{"name":%q}`, name))
	return d["id"].(string), d["record"].(map[string]any)["value"].(string)
}

// record is the name of a domain's record.
func record(name string) string { return domain.RecordName(name) }

// proves adds a domain to an organization, adds its record to those that there are, and verifies it.
func (b *browser) proves(organization, name string, others ...string) (id, value string) {
	b.w.T.Helper()
	id, value = b.addsDomain(organization, name)
	b.w.Carrier.DNS().Set(record(name), append(slices.Clone(others), value)...)
	if d := b.ok("POST", domainsOf(organization)+"/"+id+"/verify", `{}`); d["state"] != people.DomainVerified {
		b.w.T.Fatalf("%v", d)
	}
	return id, value
}

// domain returns a domain as the list has it.
func (b *browser) domain(organization, id string) map[string]any {
	b.w.T.Helper()
	for _, d := range b.list(domainsOf(organization)) {
		if d["id"] == id {
			return d
		}
	}
	return nil
}

// reaches waits until a domain has a state, for the worker.
func (w *world) reaches(id, state string) (d people.Domain) {
	w.T.Helper()
	w.Eventually("domain "+id+" is "+state, func() bool {
		w.tx(func(tx people.Tx) (err error) {
			d, _, err = tx.Domains().LockDomain(parseID(id))
			return err
		})
		return d.State == state
	})
	return d
}

// discovered returns how many connections discovery offers for an address.
func (w *world) discovered(address string) int {
	w.T.Helper()
	found := w.browser().ok("POST", "/auth/sso/discover", fmt.Sprintf(`{"email":%q}`, address))
	return len(found["connections"].([]any))
}

func TestProvenDomainLeadsToTheOrganizationsConnectionUntilItLapses(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.selfService()
		owner, org, slug := w.customer("globex")
		p := w.provider()
		w.connection("globex", p, ofOrganization(slug))
		dns := w.Carrier.DNS()
		id, value := owner.addsDomain(org, " Globex.Example ")
		d := owner.domain(org, id)
		if d["name"] != "globex.example" || d["state"] != "pending" || d["effect"] != "none" || d["outcome"] != "" || d["looked_up_at"] != nil || d["verified_at"] != nil {
			t.Fatalf("%v", d)
		}
		if r := d["record"].(map[string]any); r["name"] != "_cardea-challenge.globex.example" || r["type"] != "TXT" {
			t.Errorf("%v", r)
		}
		if n := w.discovered("ann@globex.example"); n != 0 {
			t.Errorf("a pending domain leads to %d connections", n)
		}
		dns.Set(record("globex.example"), "v=spf1 -all")
		missing := owner.refused(400, "DOMAIN_RECORD_NOT_FOUND", "POST", domainsOf(org)+"/"+id+"/verify", `{}`)
		var fault struct {
			Reason     string
			Seen       []string
			LookedUpAt time.Time `json:"looked_up_at"`
		}
		w.Must(json.Unmarshal([]byte(missing.Raw), &struct{ Errors []any }{[]any{&fault}}))
		if !slices.Equal(fault.Seen, []string{"v=spf1 -all"}) || fault.LookedUpAt.IsZero() || fault.Reason != "other_value" {
			t.Errorf("%s", missing.Raw)
		}
		dns.Set(record("globex.example"), "v=spf1 -all", value)
		w.Clock.Advance(time.Minute)
		w.reaches(id, people.DomainVerified)
		if d = owner.domain(org, id); d["effect"] != "active" || d["verified_by"] != "dns" || d["outcome"] != "found" || d["verified_at"] == nil {
			t.Errorf("%v", d)
		}
		if n := w.discovered("ann@globex.example"); n != 1 {
			t.Errorf("%d connections are offered, want 1", n)
		}
		if n := w.discovered("ann@mail.globex.example"); n != 0 {
			t.Error("a subdomain is covered")
		}
		if n := w.audited("domain.added") + w.audited("domain.verified"); n != 2 {
			t.Errorf("%d audit records", n)
		}
		w.lapses(t, id)
		if n := w.discovered("ann@globex.example"); n != 0 {
			t.Errorf("a lapsed domain leads to %d connections", n)
		}
		dns.Set(record("globex.example"), value)
		w.Clock.Advance(26 * time.Hour)
		w.reaches(id, people.DomainVerified)
		if n := w.discovered("ann@globex.example"); n != 1 {
			t.Errorf("%d connections are offered after the record returned", n)
		}
	})
}

// lapses removes the record of globex.example, and advances the clock until its domain lapses. Failures of the DNS
// server do not count.
func (w *world) lapses(t *testing.T, id string) {
	t.Helper()
	dns := w.Carrier.DNS()
	dns.Behave(record("globex.example"), dnsserver.Fails)
	looked := func(ago time.Duration) people.Domain {
		before := w.reached(id).LookedUpAt
		w.Clock.Advance(ago)
		w.Eventually("the domain is looked up", func() bool { return w.reached(id).LookedUpAt.After(before) })
		return w.reached(id)
	}
	for range 3 {
		if d := looked(26 * time.Hour); d.State != people.DomainVerified || d.Failures != 0 {
			t.Fatalf("a failure of the DNS server counts: %+v", d)
		}
	}
	dns.Behave(record("globex.example"), dnsserver.Answers)
	dns.Set(record("globex.example"))
	if d := looked(26 * time.Hour); d.State != people.DomainFailing {
		t.Fatalf("%+v", d)
	}
	w.mailed("owner@globex.example", "missing for 7 days, the domain is no longer")
	if n := w.discovered("ann@globex.example"); n != 1 {
		t.Errorf("a failing domain leads to %d connections", n)
	}
	for range 9 {
		if looked(26*time.Hour).State == people.DomainLapsed {
			break
		}
	}
	w.reaches(id, people.DomainLapsed)
	w.mailed("owner@globex.example", "was missing for 7 days")
	if failing, lapsed := w.audited("domain.failing"), w.audited("domain.lapsed"); failing != 1 || lapsed != 1 {
		t.Errorf("%d records of failing, %d of lapsed", failing, lapsed)
	}
}

// reached returns a domain.
func (w *world) reached(id string) (d people.Domain) {
	w.T.Helper()
	w.tx(func(tx people.Tx) (err error) {
		d, _, err = tx.Domains().LockDomain(parseID(id))
		return err
	})
	return d
}

func TestDomainsAreManagedByConnectionAdminsWithARecentSignIn(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, org, _ := w.customer("globex")
		owner.refused(403, "SELF_SERVICE_DISABLED", "GET", domainsOf(org), "")
		owner.refused(403, "SELF_SERVICE_DISABLED", "POST", domainsOf(org), `{"name":"globex.example"}`)
		w.selfService()
		id, _ := owner.addsDomain(org, "globex.example")
		member, membership, _ := w.joins(owner, org, "bob@example.com")
		outsider, _ := w.signedUp("mallory@example.com")
		one := domainsOf(org) + "/" + id
		for _, op := range [][3]string{
			{"GET", domainsOf(org), ""}, {"POST", domainsOf(org), `{"name":"acme.example"}`}, {"DELETE", one, ""}, {"POST", one + "/verify", `{}`},
		} {
			member.refused(403, "PERMISSION_DENIED", op[0], op[1], op[2])
			outsider.refused(404, "ORGANIZATION_NOT_FOUND", op[0], op[1], op[2])
			w.browser().refused(401, "NOT_AUTHENTICATED", op[0], op[1], op[2])
		}
		role := w.role("network", "Organization", "connection:manage")
		owner.ok("PATCH", "/organizations/"+org+"/members/"+membership, fmt.Sprintf(`{"role_id":%q}`, role))
		if d := member.domain(org, id); d == nil {
			t.Error("a member with the permission does not see the domain")
		}
		member.addsDomain(org, "acme.example")
		w.Clock.Advance(w.reauthenticateAfter() + time.Second)
		member.list(domainsOf(org))
		member.refused(403, "REAUTHENTICATION_REQUIRED", "POST", domainsOf(org), `{"name":"another.example"}`)
		member.refused(403, "REAUTHENTICATION_REQUIRED", "POST", one+"/verify", `{}`)
		member.refused(403, "REAUTHENTICATION_REQUIRED", "DELETE", one, "")
		member.reauthenticate()
		member.ok("DELETE", one, "")
		member.refused(404, "DOMAIN_NOT_FOUND", "DELETE", one, "")
		member.refused(404, "DOMAIN_NOT_FOUND", "POST", one+"/verify", `{}`)
		if n := w.audited("domain.removed"); n != 1 {
			t.Errorf("%d records of the removal", n)
		}
	})
}

func TestNamesThatAreNoDomainOfAnOrganizationAreRefused(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.selfService()
		owner, org, _ := w.customer("globex")
		owner.addsDomain(org, "globex.example")
		for _, name := range []string{
			"", "com", "co.uk", "github.io", "*.globex.example", "globex.example.", "192.0.2.1", "[::1]", "ann@globex.example", "https://globex.example", "\u0261lobex.example", "xn--a.example",
			"localhost", "glo\u200dbex.example", strings.Repeat("a.", 120) + "example",
		} {
			owner.refused(400, "VALIDATION_ERROR", "POST", domainsOf(org), fmt.Sprintf(`{"name":%s}`, quote(name)))
		}
		owner.refused(400, "VALIDATION_ERROR", "POST", domainsOf(org), `{}`)
		owner.refused(400, "VALIDATION_ERROR", "POST", domainsOf(org), `{"name":"acme.example","verified":true}`)
		owner.refused(400, "DOMAIN_EXISTS", "POST", domainsOf(org), `{"name":"GLOBEX.example"}`)
		// The look-alike in its own script is another domain, which the record of the first does not prove.
		first, value := owner.addsDomain(org, "acme.example")
		lookAlike, _ := owner.addsDomain(org, "xn--cme-7cd.example")
		w.Carrier.DNS().Set(record("acme.example"), value)
		owner.ok("POST", domainsOf(org)+"/"+first+"/verify", `{}`)
		owner.refused(400, "DOMAIN_RECORD_NOT_FOUND", "POST", domainsOf(org)+"/"+lookAlike+"/verify", `{}`)
		for n := range domain.MaxDomains - 3 {
			owner.addsDomain(org, fmt.Sprintf("d%d.example", n))
		}
		owner.refused(400, "DOMAIN_LIMIT_REACHED", "POST", domainsOf(org), `{"name":"more.example"}`)
	})
}

func TestValueOfAnotherOrganizationOrDeploymentProvesNothing(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.selfService()
		owner, org, _ := w.customer("globex")
		other, otherOrg, _ := w.customer("initech")
		elsewhere := w.browser()
		elsewhere.host = "other.localhost"
		elsewhere.signUp("eve@example.com")
		elsewhereOrg := elsewhere.organization("Globex")
		id, value := owner.addsDomain(org, "globex.example")
		theirs, otherValue := other.addsDomain(otherOrg, "globex.example")
		_, elsewhereValue := elsewhere.addsDomain(elsewhereOrg, "globex.example")
		if value == otherValue || value == elsewhereValue || otherValue == elsewhereValue {
			t.Fatal("two domains have one value")
		}
		w.Carrier.DNS().Set(record("globex.example"), otherValue, elsewhereValue, strings.ToLower(value), value+"A")
		owner.refused(400, "DOMAIN_RECORD_NOT_FOUND", "POST", domainsOf(org)+"/"+id+"/verify", `{}`)
		// The ids of others are unknown, in each combination.
		for _, path := range []string{domainsOf(org) + "/" + theirs, domainsOf(org) + "/1", domainsOf(org) + "/x"} {
			owner.refused(404, "DOMAIN_NOT_FOUND", "POST", path+"/verify", `{}`)
			owner.refused(404, "DOMAIN_NOT_FOUND", "DELETE", path, "")
		}
		owner.refused(404, "ORGANIZATION_NOT_FOUND", "DELETE", domainsOf(otherOrg)+"/"+theirs, "")
		owner.refused(404, "ORGANIZATION_NOT_FOUND", "DELETE", domainsOf(elsewhereOrg)+"/"+theirs, "")
		// A domain that is added again has another value: the forgotten record proves nothing.
		w.Carrier.DNS().Set(record("globex.example"), value)
		owner.ok("DELETE", domainsOf(org)+"/"+id, "")
		again, _ := owner.addsDomain(org, "globex.example")
		owner.refused(400, "DOMAIN_RECORD_NOT_FOUND", "POST", domainsOf(org)+"/"+again+"/verify", `{}`)
	})
}

func TestDomainMovesOnlyWhenTheFormerRecordIsGone(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.selfService()
		first, firstOrg, slug := w.customer("globex")
		second, secondOrg, _ := w.customer("initech")
		w.connection("globex", w.provider(), ofOrganization(slug))
		_, firstValue := first.proves(firstOrg, "globex.example")
		id, value := second.addsDomain(secondOrg, "globex.example")
		// Before its own proof, the second organization does not learn that the first has the domain.
		second.refused(400, "DOMAIN_RECORD_NOT_FOUND", "POST", domainsOf(secondOrg)+"/"+id+"/verify", `{}`)
		w.Carrier.DNS().Set(record("globex.example"), firstValue, value)
		second.refused(400, "DOMAIN_TAKEN", "POST", domainsOf(secondOrg)+"/"+id+"/verify", `{}`)
		if d := second.domain(secondOrg, id); d["state"] != "pending" || d["outcome"] != "taken" || d["effect"] != "none" {
			t.Errorf("%v", d)
		}
		if n := w.discovered("ann@globex.example"); n != 1 {
			t.Errorf("%d connections of the first organization", n)
		}
		w.Carrier.DNS().Set(record("globex.example"), value)
		w.mails("your organization's TXT record was not there any more", []string{"owner@globex.example"}, func() {
			second.ok("POST", domainsOf(secondOrg)+"/"+id+"/verify", `{}`)
		})
		w.mailed("owner@initech.example", "Another organization had it before")
		if left := first.list(domainsOf(firstOrg)); len(left) != 0 {
			t.Errorf("the first organization still has %v", left)
		}
		if n := w.discovered("ann@globex.example"); n != 0 {
			t.Errorf("%d connections of the first organization after the transfer", n)
		}
		if n := w.audited("domain.transferred"); n != 1 {
			t.Errorf("%d records of the transfer", n)
		}
	})
}

func TestTwoOrganizationsThatProveADomainAtOnceDoNotBothGetIt(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.selfService()
		holder, holderOrg, _ := w.customer("globex")
		holder.proves(holderOrg, "held.example")
		var browsers []*browser
		var orgs []string
		for n := range 8 {
			b, org, _ := w.customer(fmt.Sprintf("racer%d", n))
			browsers, orgs = append(browsers, b), append(orgs, org)
		}
		for _, name := range []string{"held.example", "free.example"} {
			ids, values := make([]string, len(browsers)), make([]string, len(browsers))
			for i, b := range browsers {
				ids[i], values[i] = b.addsDomain(orgs[i], name)
			}
			w.Carrier.DNS().Set(record(name), values...) // not the holder's
			statuses := make([]int, len(browsers))
			var racing sync.WaitGroup
			for i, b := range browsers {
				racing.Go(func() {
					response, err := b.raw(http.MethodPost, domainsOf(orgs[i])+"/"+ids[i]+"/verify", `{}`)
					if err == nil {
						statuses[i] = response.StatusCode
						_ = response.Body.Close()
					}
				})
			}
			racing.Wait()
			var effective []int
			for i, b := range browsers {
				if won := b.domain(orgs[i], ids[i])["state"] == "verified"; won != (statuses[i] == 200) || !won && statuses[i] != 400 {
					t.Errorf("%s: racer %d: status %d, verified: %t", name, i, statuses[i], won)
				} else if won {
					effective = append(effective, i)
				}
			}
			if len(effective) != 1 {
				t.Errorf("%s: the organizations %v have it", name, effective)
			}
		}
		if left, n := holder.list(domainsOf(holderOrg)), w.audited("domain.transferred"); len(left) != 0 || n != 1 {
			t.Errorf("the former organization has %v; %d transfers", left, n)
		}
	})
}

func TestRequestedLookupsOfADomainAreBounded(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.selfService()
		owner, org, _ := w.customer("globex")
		id, _ := owner.addsDomain(org, "globex.example")
		for range 10 {
			owner.refused(400, "DOMAIN_RECORD_NOT_FOUND", "POST", domainsOf(org)+"/"+id+"/verify", `{}`)
		}
		before := w.Carrier.DNS().Queries(record("globex.example"))
		refused := owner.refused(429, "RATE_LIMITED", "POST", domainsOf(org)+"/"+id+"/verify", `{}`)
		if after := w.Carrier.DNS().Queries(record("globex.example")); after != before || refused.Header.Get("Retry-After") == "" {
			t.Errorf("%d queries, then %d; Retry-After %q", before, after, refused.Header.Get("Retry-After"))
		}
		// Another row of the name has the same bound.
		owner.ok("DELETE", domainsOf(org)+"/"+id, "")
		again, _ := owner.addsDomain(org, "globex.example")
		owner.refused(429, "RATE_LIMITED", "POST", domainsOf(org)+"/"+again+"/verify", `{}`)
		if n := w.series("cardea_domain_checks_total", "outcome=no_record"); n != 10 {
			t.Errorf("%v lookups are counted", n)
		}
	})
}

func TestDeclaredDomainDisplacesAProvenOne(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.selfService()
		owner, org, slug := w.customer("globex")
		id, _ := owner.proves(org, "globex.example")
		w.connection("own", w.provider(), ofOrganization(slug, "globex.example"))
		if d := owner.domain(org, id); d["effect"] != "active" {
			w.T.Errorf("the organization's own declaration displaces it: %v", d)
		}
		w.connection("own", w.provider(), ofOrganization(slug))
		w.connection("all", w.provider(), func(c *document.Connection) { c.Domains = []string{"globex.example"} })
		if d := owner.domain(org, id); d["effect"] != "displaced" || d["state"] != "verified" {
			w.T.Errorf("%v", d)
		}
		w.mails("no effect for your organization", []string{"owner@globex.example"}, func() {
			for range 2 {
				owner.ok("POST", domainsOf(org)+"/"+id+"/verify", `{}`)
			}
		})
		if n := w.audited("domain.displaced"); n != 1 {
			w.T.Errorf("%d records", n)
		}
	})
}

func TestConfinedSignInDoesNotChangeDomains(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.selfService()
		owner, org, slug := w.customer("globex")
		w.role("network", "Organization", "connection:manage")
		p := w.provider()
		conn := w.connection("globex", p, func(c *document.Connection) {
			ofOrganization(slug)(c)
			c.TrustsEmail = true
			c.Membership.RoleExpression = `["network"]`
		})
		id, _ := owner.addsDomain(org, "globex.example")
		b := w.browser()
		if a := b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example", "email_verified": true}); a.user() == "" {
			t.Fatal(a.Raw)
		}
		b.list(domainsOf(org))
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", domainsOf(org), `{"name":"acme.example"}`)
		b.refused(403, "REAUTHENTICATION_REQUIRED", "DELETE", domainsOf(org)+"/"+id, "")
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", domainsOf(org)+"/"+id+"/verify", `{}`)
	})
}

func TestDueDomainsOfOneDeploymentDoNotDelayThoseOfOthers(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.selfService()
		owner, org, _ := w.customer("globex")
		id, value := owner.addsDomain(org, "globex.example")
		w.Carrier.DNS().Set(record("globex.example"), value)
		const flood = 100
		due := w.Clock.Now().Add(-time.Hour)
		w.Must(w.Store.Change(t.Context(), anotherName, func(tx people.Tx) error {
			for n := range int64(flood) {
				name := fmt.Sprintf("slow%d.example", n)
				w.Carrier.DNS().Behave(record(name), dnsserver.Silent)
				d := people.Domain{ID: 1000 + n, Organization: 1, Name: name, Value: "x", State: people.DomainPending, CreatedAt: due, FailingSince: due, NextLookupAt: due}
				if err := tx.Domains().InsertDomain(d); err != nil {
					return err
				}
			}
			return nil
		}))
		w.Clock.Advance(time.Minute)
		w.reaches(id, people.DomainVerified)
		// A member's request finds a slot too, although the lookups of the worker wait for answers.
		owner.ok("POST", domainsOf(org)+"/"+id+"/verify", `{}`)
		if n := w.series("cardea_domain_checks_total"); n > flood/4 {
			t.Errorf("%v lookups were made before", n)
		}
	})
}
