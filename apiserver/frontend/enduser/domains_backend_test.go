package enduser_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

func TestBackendVerifiesDomainsWithoutTheirRecords(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, org, slug := w.customer("globex")
		w.connection("globex", w.provider(), ofOrganization(slug))
		_, otherOrg, _ := w.customer("initech")
		desk := w.desk("domains", deploymentName, "organizations:read", "organizations:write", "audit:read", "users:read")
		d := desk.expect(200, "POST", domainsOf(org), `{"name":"globex.example","verified":true}`)
		id := d["id"].(string)
		if d["state"] != "verified" || d["verified_by"] != "backend" || d["effect"] != "active" || d["next_lookup_at"] != nil {
			t.Fatalf("%v", d)
		}
		if n := w.discovered("ann@globex.example"); n != 1 {
			t.Errorf("%d connections are offered", n)
		}
		records := desk.expect(200, "GET", "/audit?action=domain.verified", "")["data"].([]any)
		if len(records) != 1 || !strings.HasPrefix(records[0].(map[string]any)["actor"].(string), "key:") || records[0].(map[string]any)["ip_address"] != "198.51.100.7" {
			t.Errorf("%v", records)
		}

		// It does not lapse, although its members look up a record that is not there.
		w.selfService()
		for range 3 {
			owner.refused(400, "DOMAIN_RECORD_NOT_FOUND", "POST", domainsOf(org)+"/"+id+"/verify", `{}`)
			w.Clock.Advance(10 * 24 * time.Hour)
			owner = w.browser()
			owner.signIn("owner@globex.example")
		}
		if d := w.reached(id); d.State != people.DomainVerified || !d.NextLookupAt.IsZero() {
			t.Errorf("%+v", d)
		}

		// Another organization does not get it by DNS, nor from a backend before it is removed from the first.
		second := w.browser()
		second.signIn("owner@initech.example")
		theirs, value := second.addsDomain(otherOrg, "globex.example")
		w.Carrier.DNS().Set(record("globex.example"), value)
		second.refused(400, "DOMAIN_TAKEN", "POST", domainsOf(otherOrg)+"/"+theirs+"/verify", `{}`)
		desk.expect(409, "PATCH", domainsOf(otherOrg)+"/"+theirs, `{"verified":true}`)
		if d := desk.expect(200, "PATCH", domainsOf(org)+"/"+id, `{"verified":false}`); d["state"] != "pending" || d["effect"] != "none" || d["verified_at"] != nil {
			t.Errorf("%v", d)
		}
		if n := w.discovered("ann@globex.example"); n != 0 {
			t.Errorf("%d connections are offered after the withdrawal", n)
		}
		desk.expect(200, "PATCH", domainsOf(otherOrg)+"/"+theirs, `{"verified":true}`)
		desk.expect(204, "DELETE", domainsOf(org)+"/"+id, "")
		desk.expect(404, "DELETE", domainsOf(org)+"/"+id, "")
	})
}

func TestBackendManagesDomainsOfItsDeploymentAlone(t *testing.T) {
	onSQLite(t, func(w *world) {
		_, org, _ := w.customer("globex")
		w.selfService()
		desk := w.desk("domains", deploymentName, "organizations:read", "organizations:write", "users:read")
		reader := w.desk("reader", deploymentName, "organizations:read", "users:read")
		foreign := w.desk("foreign", anotherName, "*")
		id := desk.expect(200, "POST", domainsOf(org), `{"name":"globex.example"}`)["id"].(string)
		one := domainsOf(org) + "/" + id
		for _, op := range [][3]string{{"GET", domainsOf(org), ""}, {"POST", domainsOf(org), `{"name":"acme.example"}`}, {"PATCH", one, `{"verified":true}`}, {"DELETE", one, ""}} {
			foreign.expect(404, op[0], op[1], op[2])
			if op[0] != "GET" {
				reader.expect(403, op[0], op[1], op[2])
			}
		}
		for path, body := range map[string]string{
			domainsOf(org): `{"name":"*.acme.example"}`, domainsOf(org) + "?": `{}`, domainsOf(org) + "?x": `{"name":"acme.example","state":"verified"}`,
		} {
			desk.expect(400, "POST", path, body)
		}
		desk.expect(400, "PATCH", one, `{"verified":null}`)
		desk.expect(200, "PATCH", one, `{}`)
		desk.expect(409, "POST", domainsOf(org), `{"name":"globex.example"}`)
		desk.expect(404, "PATCH", domainsOf(org)+"/1", `{"verified":true}`)
		desk.expect(404, "DELETE", domainsOf(org)+"/x", "")
		for n := range 4 {
			desk.expect(200, "POST", domainsOf(org), fmt.Sprintf(`{"name":"d%d.example"}`, n))
		}
		var names []string
		for path := domainsOf(org) + "?limit=2"; path != ""; {
			page := reader.expect(200, "GET", path, "")
			for _, d := range page["data"].([]any) {
				names = append(names, d.(map[string]any)["name"].(string))
			}
			path = ""
			if next, more := page["next_cursor"].(string); more {
				path = domainsOf(org) + "?limit=2&cursor=" + next
			}
		}
		slices.Sort(names) // those of one moment have any order
		if got := strings.Join(names, " "); got != "d0.example d1.example d2.example d3.example globex.example" {
			w.T.Errorf("the pages have %s", got)
		}
	})
}
