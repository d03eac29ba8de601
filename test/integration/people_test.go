package integration

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

const adaPassword = "a slow train through the hills"

// ok sends a request and expects a documented 200.
func (w *world) ok(method, path, key, body string) map[string]any {
	GinkgoHelper()
	answer := w.ask(method, path, key, body)
	Expect(answer.Status).To(Equal(200), "%s %s: %s", method, path, answer.Raw)
	return answer.JSON
}

// newUser creates a user and returns the id.
func (w *world) newUser(key, email string) string {
	GinkgoHelper()
	return w.ok("POST", "/users", key, fmt.Sprintf(`{"email":%q,"password":%q}`, email, adaPassword))["id"].(string)
}

// newOrganization creates an organization and returns the id.
func (w *world) newOrganization(key, name, owner string) string {
	GinkgoHelper()
	body := fmt.Sprintf(`{"name":%q}`, name)
	if owner != "" {
		body = fmt.Sprintf(`{"name":%q,"owner_id":%q}`, name, owner)
	}
	return w.ok("POST", "/organizations", key, body)["id"].(string)
}

// rows returns the rows of a query on the store, with the columns of each row joined by spaces.
func (w *world) rows(query string, arguments ...any) []string {
	GinkgoHelper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.dir, "cardea.db")+"?mode=ro")
	Expect(err).NotTo(HaveOccurred())
	defer db.Close()
	found, err := db.Query(query, arguments...)
	Expect(err).NotTo(HaveOccurred())
	defer found.Close()
	columns, err := found.Columns()
	Expect(err).NotTo(HaveOccurred())
	var all []string
	for found.Next() {
		values, into := make([]string, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		Expect(found.Scan(into...)).To(Succeed())
		all = append(all, strings.Join(values, " "))
	}
	Expect(found.Err()).NotTo(HaveOccurred())
	return all
}

// visit sends a request to the end-user listener under a host with a session cookie. It returns the status, the body
// and the cookie for the next request.
func (w *world) visit(method, host, path, cookie, body string) (int, map[string]any, string) {
	GinkgoHelper()
	var reader io.Reader
	if body != "" {
		reader = bytes.NewBufferString(body)
	}
	request, err := http.NewRequest(method, w.server.Frontend+path, reader)
	Expect(err).NotTo(HaveOccurred())
	request.Host = host
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if cookie != "" {
		request.AddCookie(&http.Cookie{Name: "__session", Value: cookie})
	}
	answer, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	var envelope map[string]any
	Expect(json.NewDecoder(answer.Body).Decode(&envelope)).To(Succeed())
	for _, set := range answer.Cookies() {
		cookie = set.Value
	}
	return answer.StatusCode, envelope, cookie
}

// signIn signs in by password.
func (w *world) signIn(host, email string) (int, string) {
	GinkgoHelper()
	status, _, cookie := w.visit("POST", host, "/auth/signin", "", fmt.Sprintf(`{"strategy":"password","email":%q,"password":%q}`, email, adaPassword))
	return status, cookie
}

// organized enables organizations for a deployment.
func (w *world) organized(ctx context.Context, name string) {
	GinkgoHelper()
	settings := testkit.Settings(w.namespace, name, name)
	settings.Spec.Enabled = ptr.To(true)
	create(ctx, settings)
	expectReady(ctx, settings)
	key := cluster.APIKey(ctx, w.namespace, name+"-key")
	Eventually(func() any { return w.do("GET", "/settings/b2b-settings", key, "").JSON["enabled"] }).Should(BeTrue())
}

var _ = Describe("Users, over the backend API,", Ordered, ContinueOnFailure, func() {
	var w *world
	var key, host string
	BeforeAll(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		host = w.namespace + ".app.example"
		key = w.tenant(ctx, "acme")
		w.tenant(ctx, "sibling")
		deployment := testkit.Deployment(w.namespace, "acme")
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(host)}
		})
		Eventually(func() int { status, _, _ := w.visit("GET", host, "/session", "", ""); return status }).Should(Equal(200))
	})

	It("are created with a proven email, and sign in", func() {
		created := w.ok("POST", "/users", key, `{"email":" Ada@People.example ","first_name":" Ada ","last_name":"","password":"`+adaPassword+`"}`)
		Expect(created).To(And(HaveKeyWithValue("email", "Ada@People.example"), HaveKeyWithValue("first_name", "Ada"), HaveKeyWithValue("last_name", ""),
			HaveKeyWithValue("primary_phone_number", BeNil()), HaveKeyWithValue("phone_numbers", BeEmpty()), HaveKeyWithValue("organization_memberships", BeEmpty()),
			HaveKeyWithValue("disabled", false), HaveKeyWithValue("updated_at", created["created_at"])))
		Expect(w.ok("GET", "/users/"+created["id"].(string), key, "")).To(Equal(created))
		Expect(w.rows(`SELECT kind, method, address, user_agent FROM events WHERE user_id = ?`, created["id"])).To(Equal([]string{"signup import  "}))
		Expect(w.rows(`SELECT action, actor, address FROM audit WHERE object = ?`, "user:"+created["id"].(string))).To(
			ConsistOf(MatchRegexp(`^user\.created key:[0-9A-Za-z]{12} 127\.0\.0\.1$`)))

		status, cookie := w.signIn(host, "ada@people.EXAMPLE")
		Expect(status).To(Equal(200))
		status, me, _ := w.visit("GET", host, "/me", cookie, "")
		Expect(status).To(Equal(200))
		Expect(me["data"]).To(HaveKeyWithValue("id", created["id"]))

		answer := w.ask("POST", "/users", key, `{"email":"ADA@people.example"}`)
		Expect(answer.Status).To(Equal(409))
		Expect(faultsAt(answer)).To(Equal("/email"))
		Expect(w.rows(`SELECT kind FROM events WHERE method = 'import'`)).To(HaveLen(1), "a refused creation is not counted")
	})

	It("are refused with every fault at once", func() {
		for body, at := range map[string]string{
			`{}`: "/email", `{"email":null}`: "/email", `{"email":"no"}`: "/email", `{"email":"Ada <ada@x.example>"}`: "/email", `{"email":"a@b.example, c@d.example"}`: "/email",
			`{"email":"a\u0000@b.example"}`: "/email", `{"email":"` + letters(64) + "@" + letters(200) + `.example"}`: "/email", `{"email":7,"first_name":null,"last_name":"` + letters(81) + `"}`: "/email /first_name /last_name",
			`{"email":"x@y.example","first_name":"a\nb","disabled":true}`:        "/first_name /disabled",
			`{"email":"x@y.example","password":"short"}`:                         "/password",
			`{"email":"x@y.example","password":"` + letters(129) + `"}`:          "/password",
			`{"email":"longenough@y.example","password":"longenough@y.example"}`: "/password",
			`{"email":"x@y.example","password":"passwordpassword"}`:              "/password", `{"email":"x@y.example","password":""}`: "/password", `{"email":"x@y.example","password":null}`: "/password",
		} {
			answer := w.ask("POST", "/users", key, body)
			Expect(answer.Status).To(Equal(400), "%s: %s", body, answer.Raw)
			Expect(faultsAt(answer)).To(Equal(at), body)
		}
		Expect(w.ok("GET", "/users?search=y.example", key, "")).To(HaveKeyWithValue("total", 0.0))
	})

	It("are listed newest first, searched by name and email, and paged", func() {
		for i := range 3 {
			w.ok("POST", "/users", key, fmt.Sprintf(`{"email":"list%d@Pages.example","first_name":"Grace %d","last_name":"100%%_sure"}`, i, i))
		}
		emails := func(list map[string]any) (all []string) {
			for _, user := range list["data"].([]any) {
				Expect(user).NotTo(Or(HaveKey("phone_numbers"), HaveKey("organization_memberships")))
				all = append(all, user.(map[string]any)["email"].(string))
			}
			return all
		}
		list := w.ok("GET", "/users?search=pages.EXAMPLE&limit=2", key, "")
		Expect(list).To(And(HaveKeyWithValue("total", 3.0), HaveKeyWithValue("has_more", true), HaveKeyWithValue("limit", 2.0), HaveKeyWithValue("offset", 0.0)))
		Expect(emails(list)).To(Equal([]string{"list2@Pages.example", "list1@Pages.example"}))
		list = w.ok("GET", "/users?search=pages.example&limit=2&offset=2", key, "")
		Expect(list).To(HaveKeyWithValue("has_more", false))
		Expect(emails(list)).To(Equal([]string{"list0@Pages.example"}))
		Expect(emails(w.ok("GET", "/users?search=gRACE+1", key, ""))).To(Equal([]string{"list1@Pages.example"}))
		Expect(w.ok("GET", "/users?search=100%25_", key, "")).To(HaveKeyWithValue("total", 3.0), "a pattern's signs are text")
		Expect(w.ok("GET", "/users?search=1%25su", key, "")).To(HaveKeyWithValue("total", 0.0))
		Expect(w.ok("GET", "/users?limit=1000&offset=1000", key, "")).To(And(HaveKeyWithValue("limit", 100.0), HaveKeyWithValue("data", BeEmpty()), HaveKeyWithValue("has_more", false)))
		for query, at := range map[string]string{"limit=0": "?limit", "offset=-1": "?offset", "limit=x&offset=y": "?limit ?offset", "search=%00": "?search", "search=%ff": "?search"} {
			answer := w.ask("GET", "/users?"+query, key, "")
			Expect(answer.Status).To(Equal(400), string(answer.Raw))
			Expect(faultsAt(answer)).To(Equal(at))
		}
	})

	It("are merged; disabling ends every session at once, and enabling permits sign-ins again", func() {
		id := w.newUser(key, "merge@people.example")
		path := "/users/" + id
		before := w.ok("GET", path, key, "")
		Expect(w.ok("PATCH", path, key, `{}`)).To(Equal(before))
		Expect(w.ok("PATCH", path, key, `{"first_name":"","disabled":false}`)).To(Equal(before), "equal values change nothing")
		Expect(w.rows(`SELECT action FROM audit WHERE object = ?`, "user:"+id)).To(Equal([]string{"user.created"}))
		named := w.ok("PATCH", path, key, `{"first_name":"Mary","last_name":" Somerville "}`)
		Expect(named).To(And(HaveKeyWithValue("first_name", "Mary"), HaveKeyWithValue("last_name", "Somerville"), HaveKeyWithValue("created_at", before["created_at"])))
		Expect(named["updated_at"]).NotTo(Equal(before["updated_at"]))
		Expect(w.ok("PATCH", path, key, `{"first_name":""}`)).To(And(HaveKeyWithValue("first_name", ""), HaveKeyWithValue("last_name", "Somerville")))
		for body, at := range map[string]string{
			`{"first_name":null,"disabled":null}`: "/first_name /disabled", `{"email":"new@people.example"}`: "/email", `{"disabled":"yes","last_name":"a\u200bb"}`: "/last_name /disabled",
		} {
			answer := w.ask("PATCH", path, key, body)
			Expect(answer.Status).To(Equal(400), string(answer.Raw))
			Expect(faultsAt(answer)).To(Equal(at))
		}

		_, first := w.signIn(host, "merge@people.example")
		_, second := w.signIn(host, "merge@people.example")
		Expect(w.ok("PATCH", path, key, `{"disabled":true}`)).To(HaveKeyWithValue("disabled", true))
		for _, cookie := range []string{first, second} {
			status, _, _ := w.visit("GET", host, "/me", cookie, "")
			Expect(status).To(Equal(401))
		}
		Expect(w.rows(`SELECT id FROM signins WHERE user_id = ?`, id)).To(BeEmpty())
		status, _ := w.signIn(host, "merge@people.example")
		Expect(status).To(Equal(403))
		w.ok("PATCH", path, key, `{"disabled":false}`)
		status, _ = w.signIn(host, "merge@people.example")
		Expect(status).To(Equal(200))
		Expect(w.rows(`SELECT action FROM audit WHERE object = ? AND actor LIKE 'key:%' ORDER BY at, id`, "user:"+id)).To(
			Equal([]string{"user.created", "user.updated", "user.updated", "user.disabled", "user.enabled"}))
	})

	It("are signed out everywhere, and other accounts of the same browser are not", func() {
		id, other := w.newUser(key, "out@people.example"), w.newUser(key, "stays@people.example")
		_, alone := w.signIn(host, "out@people.example")
		_, shared := w.signIn(host, "stays@people.example")
		status, _, shared := w.visit("POST", host, "/auth/signin", shared, fmt.Sprintf(`{"strategy":"password","email":"out@people.example","password":%q}`, adaPassword))
		Expect(status).To(Equal(200))
		Expect(w.ok("POST", "/users/"+id+"/sessions/revoke-all", key, "")).To(HaveKeyWithValue("revoked", 2.0))
		status, _, _ = w.visit("GET", host, "/me", alone, "")
		Expect(status).To(Equal(401))
		status, me, _ := w.visit("GET", host, "/me", shared, "")
		Expect(status).To(Equal(200))
		Expect(me["data"]).To(HaveKeyWithValue("id", other))
		Expect(w.ok("POST", "/users/"+id+"/sessions/revoke-all", key, `{}`)).To(HaveKeyWithValue("revoked", 0.0))
	})

	It("have their password replaced or removed, which ends their sessions, and their sessions listed", func() {
		id := w.newUser(key, "leaked@people.example")
		_, cookie := w.signIn(host, "leaked@people.example")
		sessions := w.ok("GET", "/users/"+id+"/sessions", key, "")["data"].([]any)
		Expect(sessions).To(HaveLen(1))
		Expect(sessions[0]).To(And(HaveKeyWithValue("method", "password"), HaveKey("last_active_at"), HaveKey("expires_at"), HaveKey("ip_address"), HaveKey("user_agent")))

		path, fresh := "/users/"+id+"/password", "an entirely different passphrase"
		answer := w.ask("PUT", path, key, fmt.Sprintf(`{"password":%q}`, fresh))
		Expect(answer.Status).To(Equal(204), string(answer.Raw))
		status, _, _ := w.visit("GET", host, "/me", cookie, "")
		Expect(status).To(Equal(401))
		Expect(w.ok("GET", "/users/"+id+"/sessions", key, "")).To(HaveKeyWithValue("data", BeEmpty()))
		status, _ = w.signIn(host, "leaked@people.example")
		Expect(status).To(Equal(401), "the leaked password is refused")
		status, _, cookie = w.visit("POST", host, "/auth/signin", "", fmt.Sprintf(`{"strategy":"password","email":"leaked@people.example","password":%q}`, fresh))
		Expect(status).To(Equal(200))

		Expect(w.ask("DELETE", path, key, "").Status).To(Equal(204))
		status, _, _ = w.visit("GET", host, "/me", cookie, "")
		Expect(status).To(Equal(401))
		status, _, _ = w.visit("POST", host, "/auth/signin", "", fmt.Sprintf(`{"strategy":"password","email":"leaked@people.example","password":%q}`, fresh))
		Expect(status).To(Equal(401))
		Expect(w.ask("DELETE", path, key, "").Status).To(Equal(404), "the user has no password any more")
		for body, at := range map[string]string{`{}`: "/password", `{"password":"short"}`: "/password", `{"password":"leaked@people.example"}`: "/password", `{"password":null,"x":1}`: "/password /x"} {
			answer := w.ask("PUT", path, key, body)
			Expect(answer.Status).To(Equal(400), string(answer.Raw))
			Expect(faultsAt(answer)).To(Equal(at))
			Expect(string(answer.Raw)).NotTo(ContainSubstring("short\""), "the password is not echoed")
		}
		for _, missing := range []string{"1", "x"} {
			Expect(w.ask("PUT", "/users/"+missing+"/password", key, fmt.Sprintf(`{"password":%q}`, fresh)).Status).To(Equal(404))
			Expect(w.ask("DELETE", "/users/"+missing+"/password", key, "").Status).To(Equal(404))
			Expect(w.ask("GET", "/users/"+missing+"/sessions", key, "").Status).To(Equal(404))
		}
		Expect(w.rows(`SELECT action FROM audit WHERE object = ? AND actor LIKE 'key:%' ORDER BY at, id`, "user:"+id)).To(
			Equal([]string{"user.created", "user.password_set", "user.password_removed"}))
	})

	It("are deleted with all their data, and the address is free again", func() {
		id := w.newUser(key, "gone@people.example")
		_, cookie := w.signIn(host, "gone@people.example")
		answer := w.ask("DELETE", "/users/"+id, key, "")
		Expect(answer.Status).To(Equal(204), string(answer.Raw))
		status, _, _ := w.visit("GET", host, "/me", cookie, "")
		Expect(status).To(Equal(401))
		for _, table := range []string{"emails", "phones", "credentials", "signins", "attempts", "organization_memberships"} {
			Expect(w.rows(`SELECT user_id FROM `+table+` WHERE user_id = ?`, id)).To(BeEmpty(), table)
		}
		for _, method := range []string{"GET", "DELETE"} {
			Expect(w.ask(method, "/users/"+id, key, "").Status).To(Equal(404))
		}
		Expect(w.newUser(key, "gone@people.example")).NotTo(Equal(id))
	})

	It("of another deployment and malformed ids are 404", func(ctx context.Context) {
		siblings := cluster.APIKey(ctx, w.namespace, "sibling-key")
		theirs := w.newUser(siblings, "ada@people.example")
		w.newUser(siblings, "only@sibling.example")
		Expect(w.ok("GET", "/users?search=sibling", key, "")).To(HaveKeyWithValue("total", 0.0))
		for _, id := range []string{theirs, "1", "0", "-1", "01", "x", "9223372036854775808", "%20" + theirs, theirs + "%00"} {
			for _, ask := range [][2]string{{"GET", ""}, {"PATCH", "{}"}, {"DELETE", ""}} {
				Expect(w.ask(ask[0], "/users/"+id, key, ask[1]).Status).To(Equal(404), "%s %s", ask[0], id)
			}
			Expect(w.ask("POST", "/users/"+id+"/sessions/revoke-all", key, "").Status).To(Equal(404), id)
		}
		Expect(w.ok("GET", "/users/"+theirs, siblings, "")).To(HaveKeyWithValue("disabled", false))
	})
})

var _ = Describe("Organizations, over the backend API,", Ordered, ContinueOnFailure, func() {
	var w *world
	var key, owner, member string
	BeforeAll(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		key = w.tenant(ctx, "acme")
		w.tenant(ctx, "sibling")
		owner, member = w.newUser(key, "owner@people.example"), w.newUser(key, "member@people.example")
	})
	memberships := func(user string) []any {
		GinkgoHelper()
		return w.ok("GET", "/users/"+user, key, "")["organization_memberships"].([]any)
	}

	It("are refused while the deployment has none", func(ctx context.Context) {
		for _, path := range []string{"/organizations", "/organizations/1/members"} {
			answer := w.ask("POST", path, key, `{}`)
			Expect(answer.Status).To(Equal(403), string(answer.Raw))
			Expect(answer.JSON["message"]).To(ContainSubstring("organizations are disabled"))
		}
		w.organized(ctx, "acme")
		w.organized(ctx, "sibling")
	})

	It("are created with an owner and a default workspace, or without members", func() {
		created := w.ok("POST", "/organizations", key, `{"name":" Müller & Söhne ","description":"Two\nlines","owner_id":"`+owner+`"}`)
		Expect(created).To(And(HaveKeyWithValue("name", "Müller & Söhne"), HaveKeyWithValue("slug", "muller-sohne"), HaveKeyWithValue("description", "Two\nlines"), HaveKeyWithValue("image_url", ""),
			HaveKeyWithValue("default_workspace", And(HaveKeyWithValue("name", "Default"), HaveKeyWithValue("slug", "default"), HaveKey("id")))))
		Expect(memberships(owner)).To(ConsistOf(And(
			HaveKeyWithValue("organization", HaveKeyWithValue("id", created["id"])), HaveKeyWithValue("role", And(HaveKeyWithValue("id", BeNil()), HaveKeyWithValue("name", "owner"))))))
		again := w.ok("POST", "/organizations", key, `{"name":"Müller & Söhne"}`)
		Expect(again["slug"]).To(HavePrefix("muller-sohne-"))
		Expect(w.rows(`SELECT user_id FROM organization_memberships WHERE organization_id = ?`, again["id"])).To(BeEmpty())
		Expect(w.rows(`SELECT user_id FROM workspace_memberships WHERE organization_id = ?`, again["id"])).To(BeEmpty())
		Expect(w.rows(`SELECT kind, user_id, address FROM events WHERE kind IN ('organization', 'workspace') ORDER BY kind, user_id`)).To(
			Equal([]string{"organization 0 ", "organization " + owner + " ", "workspace 0 ", "workspace " + owner + " "}))
		Expect(w.rows(`SELECT action FROM audit WHERE object = ?`, "organization:"+again["id"].(string))).To(Equal([]string{"organization.created"}))
	})

	It("are refused with every fault at once", func(ctx context.Context) {
		theirs := w.newUser(cluster.APIKey(ctx, w.namespace, "sibling-key"), "owner@sibling.example")
		for body, at := range map[string]string{
			`{}`: "/name", `{"name":" ","description":7,"owner_id":"x","slug":"s"}`: "/name /description /owner_id /slug", `{"name":null,"owner_id":null}`: "/name /owner_id",
			`{"name":"N","owner_id":7}`: "/owner_id", `{"name":"N","owner_id":"12"}`: "/owner_id", `{"name":"N","owner_id":"` + theirs + `"}`: "/owner_id",
		} {
			answer := w.ask("POST", "/organizations", key, body)
			Expect(answer.Status).To(Equal(400), string(answer.Raw))
			Expect(faultsAt(answer)).To(Equal(at), body)
		}
	})

	It("gain and lose members, effective from the next request on", func(ctx context.Context) {
		roles := map[string]string{}
		for _, level := range []v1alpha1.RoleLevel{v1alpha1.RoleLevelOrganization, v1alpha1.RoleLevelWorkspace} {
			role := testkit.Role(w.namespace, "acme", strings.ToLower(string(level)), level)
			create(ctx, role)
			expectReady(ctx, role)
			roles[string(level)] = role.Status.ID
		}
		organization := w.newOrganization(key, "Members", owner)
		members := "/organizations/" + organization + "/members"
		with := func(user, role string) string { return fmt.Sprintf(`{"user_id":%q,"role_id":%q}`, user, role) }
		Eventually(func() int { return w.do("POST", members, key, with("12", roles["Organization"])).Status }).Should(Equal(400))
		for body, at := range map[string]string{
			`{}`: "/user_id", `{"user_id":"x","role_id":7}`: "/user_id /role_id", with("12", roles["Organization"]): "/user_id", with(member, "12"): "/role_id", with(member, "0"): "/role_id",
			with(member, roles["Workspace"]): "/role_id", `{"user_id":null,"role_id":null,"owner":true}`: "/user_id /role_id /owner",
		} {
			answer := w.ask("POST", members, key, body)
			Expect(answer.Status).To(Equal(400), string(answer.Raw))
			Expect(faultsAt(answer)).To(Equal(at), body)
		}
		var joined map[string]any
		Eventually(func() int {
			answer := w.do("POST", members, key, with(member, roles["Organization"]))
			joined = answer.JSON
			return answer.Status
		}).Should(Equal(200))
		Expect(joined).To(And(HaveKeyWithValue("organization", HaveKeyWithValue("id", organization)), HaveKeyWithValue("role", HaveKeyWithValue("id", roles["Organization"]))))
		Expect(memberships(member)).To(ConsistOf(Equal(joined)))
		Expect(w.rows(`SELECT owner FROM workspace_memberships WHERE organization_id = ? AND user_id = ?`, organization, member)).To(Equal([]string{"0"}))
		answer := w.ask("POST", members, key, with(member, roles["Organization"]))
		Expect(answer.Status).To(Equal(409))
		Expect(faultsAt(answer)).To(Equal("/user_id"))

		remove := members + "/" + member
		Expect(w.ask("DELETE", remove, key, "").Status).To(Equal(204))
		Expect(memberships(member)).To(BeEmpty())
		Expect(w.rows(`SELECT owner FROM workspace_memberships WHERE organization_id = ? AND user_id = ?`, organization, member)).To(BeEmpty())
		Expect(w.ask("DELETE", remove, key, "").Status).To(Equal(404))
		Expect(w.rows(`SELECT action FROM audit WHERE object = ? ORDER BY at, id`, "membership:"+joined["id"].(string))).To(
			Equal([]string{"organization.member_added", "organization.member_removed"}))
		Expect(w.ok("POST", members, key, `{"user_id":"`+member+`"}`)).To(HaveKeyWithValue("role", BeNil()))
		Expect(w.ask("DELETE", members+"/"+owner, key, "").Status).To(Equal(204), "the owner can be removed too")
	})

	It("outlive their only owner", func() {
		lonely := w.newUser(key, "lonely@people.example")
		organization := w.newOrganization(key, "Lonely", lonely)
		Expect(w.ask("DELETE", "/users/"+lonely, key, "").Status).To(Equal(204))
		Expect(w.rows(`SELECT user_id FROM organization_memberships WHERE organization_id = ?`, organization)).To(BeEmpty())
		w.ok("POST", "/organizations/"+organization+"/members", key, `{"user_id":"`+member+`"}`)
	})

	It("of another deployment and malformed ids are 404", func(ctx context.Context) {
		siblings := cluster.APIKey(ctx, w.namespace, "sibling-key")
		theirUser := w.newUser(siblings, "theirs@sibling.example")
		theirs := w.newOrganization(siblings, "Theirs", theirUser)
		ours := w.newOrganization(key, "Ours", owner)
		for _, id := range []string{theirs, "1", "0", "x", "01", "9223372036854775808"} {
			Expect(w.ask("POST", "/organizations/"+id+"/members", key, `{"user_id":"`+member+`"}`).Status).To(Equal(404), id)
			Expect(w.ask("DELETE", "/organizations/"+id+"/members/"+owner, key, "").Status).To(Equal(404), id)
			Expect(w.ask("DELETE", "/organizations/"+ours+"/members/"+id, key, "").Status).To(Equal(404), id)
		}
		Expect(w.ask("DELETE", "/organizations/"+theirs+"/members/"+theirUser, key, "").Status).To(Equal(404))
		answer := w.ask("POST", "/organizations/"+ours+"/members", key, `{"user_id":"`+theirUser+`"}`)
		Expect(answer.Status).To(Equal(400))
		Expect(faultsAt(answer)).To(Equal("/user_id"))
		Expect(w.rows(`SELECT user_id FROM organization_memberships WHERE organization_id = ?`, theirs)).To(Equal([]string{theirUser}))
	})
})

// peopleOperations are the operations on users and organizations, with the permission each needs.
var peopleOperations = []struct{ method, path, body, permission string }{
	{"GET", "/users", "", "users:read"}, {"GET", "/users/{user}", "", "users:read"}, {"PATCH", "/users/{user}", `{"first_name":"Ada"}`, "users:write"},
	{"PUT", "/users/{user}/password", `{"password":"an entirely different passphrase"}`, "users:write"}, {"DELETE", "/users/{user}/password", "", "users:write"},
	{"GET", "/users/{user}/sessions", "", "users:read"}, {"GET", "/users/{user}/identities", "", "users:read"}, {"GET", "/users/{user}/second-factors", "", "user_factors:read"},
	{"POST", "/users/{user}/second-factors/reset", `{"reason":"a lost phone"}`, "user_factors:write"},
	{"POST", "/users", `{"email":"new@people.example"}`, "users:write"}, {"POST", "/users/{user}/sessions/revoke-all", "", "users:write"},
	{"POST", "/organizations", `{"name":"New"}`, "organizations:write"}, {"POST", "/organizations/{organization}/members", `{"user_id":"{user}"}`, "organizations:write"},
	{"DELETE", "/organizations/{organization}/members/{user}", "", "organizations:write"}, {"DELETE", "/users/{user}", "", "users:write"},
}

var _ = Describe("Every operation on users", func() {
	It("needs its own permission, and the store", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		w.organized(ctx, "acme")
		keys := map[string]string{}
		for _, permission := range []v1alpha1.Permission{"users:read", "users:write", "user_factors:read", "user_factors:write", "organizations:write"} {
			name := strings.NewReplacer(":", "-", "_", "-").Replace(string(permission))
			narrow := testkit.Key(w.namespace, "acme-app", name, permission)
			create(ctx, narrow)
			expectReady(ctx, narrow)
			keys[string(permission)] = cluster.APIKey(ctx, w.namespace, name)
			Eventually(func() int { return w.do("GET", schemesPath, keys[string(permission)], "").Status }).Should(Equal(403))
		}
		user, organization := w.newUser(key, "ada@people.example"), w.newOrganization(key, "Acme", "")
		fill := strings.NewReplacer("{user}", user, "{organization}", organization).Replace

		w.store.Interrupt(true)
		for _, op := range peopleOperations {
			answer := w.ask(op.method, fill(op.path), key, fill(op.body))
			Expect(answer.Status).To(Equal(503), "%s %s: %s", op.method, op.path, answer.Raw)
			Expect(answer.Header.Get("Retry-After")).To(Equal("5"))
		}
		w.store.Interrupt(false)
		for _, op := range peopleOperations {
			for permission, narrow := range keys {
				if permission == op.permission {
					continue
				}
				answer := w.ask(op.method, fill(op.path), narrow, fill(op.body))
				Expect(answer.Status).To(Equal(403), "%s %s with %s", op.method, op.path, permission)
				Expect(answer.JSON["message"]).To(ContainSubstring(op.permission))
			}
			answer := w.ask(op.method, fill(op.path), keys[op.permission], fill(op.body))
			Expect(answer.Status).To(BeElementOf(200, 204), "%s %s: %s", op.method, op.path, answer.Raw)
			Expect(answer.Header).NotTo(HaveKey("Cardea-Synced"))
		}
	})

	It("works where management writes are disabled, because it changes no resource", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		update(ctx, testkit.Deployment(w.namespace, "acme"), func(d *v1alpha1.IdentityDeployment) {
			d.Spec.Management = &v1alpha1.ManagementPolicy{Writes: ptr.To(v1alpha1.ManagementWritesDisabled)}
		})
		Eventually(func() int { return w.do("PATCH", "/settings/b2b-settings", key, `{}`).Status }).Should(Equal(403))
		w.newUser(key, "ada@people.example")
	})

	It("distinguishes tokens from keys in the audit", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		w.tenant(ctx, "acme")
		deployment := testkit.Deployment(w.namespace, "acme")
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.JWTIssuers = []v1alpha1.JWTIssuer{{Name: "cluster", Kubernetes: &v1alpha1.KubernetesIssuer{}, PermissionsExpression: ptr.To("['*']")}}
		})
		expectReady(ctx, deployment)
		jwt := token(ctx, w.namespace, "backend", "cardea:"+w.namespace+":acme")
		w.expectAccepted(jwt)
		id := w.newUser(jwt, "ada@people.example")
		Expect(w.rows(`SELECT actor FROM audit WHERE object = ?`, "user:"+id)).To(Equal([]string{"token:system:serviceaccount:" + w.namespace + ":backend"}))
	})

	It("lets one of two concurrent creations of the same user succeed", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		statuses := make(chan int, 8)
		for range cap(statuses) {
			go func() {
				defer GinkgoRecover()
				answer, err := testkit.Do("POST", w.server.URL+"/users", key, `{"email":"ada@people.example"}`)
				Expect(err).NotTo(HaveOccurred())
				statuses <- answer.Status
			}()
		}
		counts := map[int]int{}
		for range cap(statuses) {
			var status int
			Eventually(statuses).WithTimeout(20 * time.Second).Should(Receive(&status))
			counts[status]++
		}
		Expect(counts).To(Equal(map[int]int{200: 1, 409: cap(statuses) - 1}))
	})
})
