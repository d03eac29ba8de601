package integration

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/test/testkit"
)

const oneMiB = 1 << 20

// raw sends bytes unchanged, because http.Client would correct them, and reads the response.
func (w *world) raw(request string) testkit.Answer {
	GinkgoHelper()
	conn, err := net.DialTimeout("tcp", w.server.Listener.Addr().String(), 5*time.Second)
	Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	Expect(conn.SetDeadline(time.Now().Add(10 * time.Second))).To(Succeed())
	go func() { _, _ = io.WriteString(conn, request) }() // the server may respond and close before it read all
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	Expect(err).NotTo(HaveOccurred())
	answer := testkit.Answer{Status: resp.StatusCode, Header: resp.Header, Raw: body}
	_ = json.Unmarshal(body, &answer.JSON) // nil if the body is not JSON, which the caller reports
	return answer
}

// lines returns a request line and headers without a body.
func lines(line string, header ...string) string {
	return line + " HTTP/1.1\r\nHost: backend\r\nConnection: close\r\n" + strings.Join(append(header, ""), "\r\n") + "\r\n"
}

// refusal is a request and the expected error response.
type refusal struct {
	method, path string
	// body and contentType, "" for none.
	body, contentType string
	status            int
	// at are the fields of the faults, joined by spaces.
	at string
	// message is a part of the message.
	message string
}

func put(method, path, body string, status int, at, message string) refusal {
	return refusal{method: method, path: path, body: body, contentType: "application/json", status: status, at: at, message: message}
}

var _ = Describe("The management API refuses", Ordered, func() {
	var w *world
	var key, reader string
	BeforeAll(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		key = w.tenant(ctx, "acme")
		w.post(key, "free", "")
		apiKey := testkit.Key(w.namespace, "acme-app", "reader", "rate_limit_schemes:read")
		create(ctx, apiKey)
		expectReady(ctx, apiKey)
		reader = cluster.APIKey(ctx, w.namespace, "reader")
		w.expectAccepted(reader)
	})

	expectRefusal := func(with string, want refusal) testkit.Answer {
		GinkgoHelper()
		answer := w.ask(want.method, want.path, with, want.body, [2]string{"Content-Type", want.contentType})
		Expect(answer.Status).To(Equal(want.status), string(answer.Raw))
		if want.at != "" {
			Expect(faultsAt(answer)).To(Equal(want.at), string(answer.Raw))
		}
		Expect(answer.JSON["message"]).To(ContainSubstring(want.message))
		return answer
	}

	const one, huge = schemesPath + "/free", oneMiB + 1
	DescribeTable("in the documented order of checks:", func(credential func() string, want refusal) { expectRefusal(credential(), want) },
		Entry("404 route before 401", func() string { return "" }, refusal{method: "PATCH", path: "/api-auth/nothing", body: "x", status: 404, message: "no such path"}),
		Entry("405 before 401", func() string { return "" }, refusal{method: "PUT", path: one, body: "x", status: 405, message: "does not support PUT: use"}),
		Entry("401 before 415", func() string { return "" }, refusal{method: "PATCH", path: "/api-auth/rate-limit-schemes/x", body: "x", contentType: "text/plain", status: 401, message: "no accepted credential"}),
		Entry("415 before 413", func() string { return reader }, refusal{method: "PATCH", path: one, body: strings.Repeat(" ", huge), contentType: "text/plain", status: 415, message: "application/json"}),
		Entry("413 before 403", func() string { return reader }, put("PATCH", one, strings.Repeat(" ", huge), 413, "", "longer than 1048576 bytes")),
		Entry("403 before 400", func() string { return reader }, put("PATCH", one, "{", 403, "", "rate_limit_schemes:write")),
		Entry("403 for a deletion", func() string { return reader }, refusal{method: "DELETE", path: one, status: 403, message: "rate_limit_schemes:write"}),
		Entry("400 before 404", func() string { return key }, put("PATCH", schemesPath+"/nothing", `{"name":7}`, 400, "/name", "")),
		Entry("404 before anything is written", func() string { return key }, put("PATCH", schemesPath+"/nothing", `{"name":"x"}`, 404, ":slug", "names no rate-limit scheme of the deployment")),
		Entry("404 for reading", func() string { return key }, refusal{method: "GET", path: schemesPath + "/nothing", status: 404, at: ":slug"}),
		Entry("404 for deleting", func() string { return key }, refusal{method: "DELETE", path: schemesPath + "/nothing", status: 404, at: ":slug"}),
		Entry("409 for a slug that is taken", func() string { return key }, put("POST", schemesPath, free("free", ""), 409, "/slug", "is taken by another scheme of the deployment")),
	)

	It("other methods, naming the supported ones", func() {
		for path, allowed := range map[string]string{schemesPath: "GET, HEAD, POST", one: "DELETE, GET, HEAD, PATCH"} {
			for _, method := range []string{"PUT", "OPTIONS", "TRACE", "BREW"} {
				answer := w.ask(method, path, "", "")
				Expect(answer.Status).To(Equal(405))
				Expect(answer.Header.Get("Allow")).To(Equal(allowed), path)
			}
		}
	})

	DescribeTable("a body that is not JSON in UTF-8:", func(contentType string, status int) {
		answer := w.ask("PATCH", one, key, "{}", [2]string{"Content-Type", contentType})
		Expect(answer.Status).To(Equal(status), string(answer.Raw))
	},
		Entry(nil, "application/json", 200), Entry(nil, "Application/JSON; charset=UTF-8", 200), Entry(nil, `application/json; charset="utf-8"`, 200),
		Entry(nil, "", 415), Entry(nil, "text/plain", 415), Entry(nil, "application/x-www-form-urlencoded", 415), Entry(nil, "application/jsonx", 415),
		Entry(nil, "application/merge-patch+json", 415), Entry(nil, "application/json; charset=latin1", 415), Entry(nil, "application/json, text/plain", 415), Entry(nil, ";", 415),
	)

	It("bodies over 1 MiB, with or without a length, and accepts one of exactly 1 MiB", func() {
		padded := func(size int) string { return "{}" + strings.Repeat(" ", size-2) }
		head := []string{"Authorization: Bearer " + key, "Content-Type: application/json"}
		for size, status := range map[int]int{oneMiB: 200, oneMiB + 1: 413} {
			Expect(w.ask("PATCH", one, key, padded(size)).Status).To(Equal(status), "%d bytes", size)
			chunked := lines("PATCH "+one, append(head, "Transfer-Encoding: chunked")...) + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, padded(size))
			answer := w.raw(chunked)
			Expect(answer.Status).To(Equal(status), "%d bytes in chunks: %s", size, answer.Raw)
			expectDocumented("PATCH", one, answer)
		}
	})

	malformed := []string{
		"", " ", "{", "[]", "null", "7", `"x"`, `{"name":"x"}{}`, `{"name":"x",}`, `{name:"x"}`, `{"name":'x'}`, "{\"name\":\"\xff\"}", `{"name":"\ud800"}`, "\xef\xbb\xbf{}",
		strings.Repeat("[", 100000), strings.Repeat(`{"rules":[`, 50000), `{"name":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}", `{"name":1e999999999x}`, "{\"a\x00b\":1}",
	}
	It("malformed JSON, of any kind", func() {
		for _, body := range malformed {
			for _, target := range [][2]string{{"POST", schemesPath}, {"PATCH", one}} {
				answer := w.ask(target[0], target[1], key, body, [2]string{"Content-Type", "application/json"})
				Expect(answer.Status).To(Equal(400), "%.60q: %s", body, answer.Raw)
				Expect(len(answer.Raw)).To(BeNumerically("<", 1000))
			}
		}
	})

	const rule = `{"unit":"minute","duration":1,"max_requests":1`
	rules := func(list string) string { return `{"slug":"s","name":"N","rules":[` + list + `]}` }
	DescribeTable("to create from a faulty body, with every fault at once:", func(body, at string) { expectRefusal(key, put("POST", schemesPath, body, 400, at, "")) },
		Entry("nothing", `{}`, "/slug /name /rules"),
		Entry("null everywhere", `{"slug":null,"name":null,"rules":null,"description":null}`, "/slug /name /rules"),
		Entry("wrong types", `{"slug":1,"name":[],"rules":{},"description":7}`, "/slug /name /description /rules"),
		Entry("bad values", `{"slug":"A","name":" ","rules":[],"description":"a\u200bb"}`, "/slug /name /description /rules"),
		Entry("a slug of 64 and a name of 81", `{"slug":"`+letters(64)+`","name":"`+letters(81)+`","rules":[`+rule+`}],"description":"`+letters(501)+`"}`, "/slug /name /description"),
		Entry("two lines and bidirectional controls", `{"slug":"a\n","name":"a\nb","rules":[`+rule+`}],"description":"\u202e"}`, "/slug /name /description"),
		Entry("unknown members", `{"slug":"s","name":"N","rules":[`+rule+`,"burst":1}],"id":"7","a/b~":1}`, "/rules/0/burst /id /a~1b~0"),
		Entry("the YAML spelling", rules(`{"unit":"minute","duration":1,"maxRequests":1}`), "/rules/0/max_requests /rules/0/maxRequests"),
		Entry("members twice", `{"slug":"s","slug":"t","name":"N","rules":[`+rule+`,"unit":"day"}]}`, "/slug /rules/0/unit"),
		Entry("rules that are none", rules(`7,null,[],"x"`), "/rules/0 /rules/1 /rules/2 /rules/3"),
		Entry("an empty rule", rules(`{}`), "/rules/0/unit /rules/0/duration /rules/0/max_requests"),
		Entry("members of wrong type", rules(`{"unit":1,"duration":"1","max_requests":1.5,"mode":null,"endpoints":"*","priority":true}`),
			"/rules/0/unit /rules/0/duration /rules/0/max_requests /rules/0/mode /rules/0/endpoints /rules/0/priority"),
		Entry("members out of bounds", rules(`{"unit":"week","duration":0,"max_requests":0,"mode":"per_user","endpoints":["/a","nope"],"priority":2147483648}`),
			"/rules/0/unit /rules/0/max_requests /rules/0/mode /rules/0/endpoints/1 /rules/0/priority"),
		Entry("numbers that do not fit", rules(`{"unit":"day","duration":1e2,"max_requests":99999999999999999999}`), "/rules/0/duration /rules/0/max_requests"),
		Entry("an endpoint that is no string", rules(rule+`,"endpoints":["*",7,null]}`), "/rules/0/endpoints/1 /rules/0/endpoints/2"),
		Entry("empty endpoints and mode", rules(rule+`,"endpoints":[],"mode":""}`), "/rules/0/mode /rules/0/endpoints"),
		Entry("types and values together", rules(`7,{"unit":"week","duration":"1","max_requests":0,"endpoints":[7,"nope"]}`),
			"/rules/0 /rules/1/duration /rules/1/endpoints/0 /rules/1/unit /rules/1/max_requests /rules/1/endpoints/1"),
		Entry("the second rule", rules(rule+`},{"unit":"hour","duration":721,"max_requests":1}`), "/rules/1/duration"),
		Entry("two calendar months", rules(`{"unit":"calendar_month","duration":2,"max_requests":1}`), "/rules/0/duration"),
		Entry("65 rules", rules(strings.TrimSuffix(strings.Repeat(rule+"},", 65), ",")), "/rules"),
		Entry("101 endpoints", rules(rule+`,"endpoints":[`+strings.TrimSuffix(strings.Repeat(`"/a",`, 101), ",")+`]}`), "/rules/0/endpoints"),
		Entry("513 endpoints", rules(strings.Repeat(rule+`,"endpoints":[`+strings.TrimSuffix(strings.Repeat(`"/a",`, 57), ",")+`]},`, 8)+rule+`,"endpoints":[`+strings.TrimSuffix(strings.Repeat(`"/a",`, 57), ",")+`]}`), "/rules"),
	)

	DescribeTable("to update from a faulty body, with every fault at once:", func(body, at string) { expectRefusal(key, put("PATCH", one, body, 400, at, "")) },
		Entry("null where nothing can be cleared", `{"name":null,"rules":null}`, "/name /rules"),
		Entry("what cannot be changed", `{"slug":"free","deployment_id":"1","created_at":"x"}`, "/slug /deployment_id /created_at"),
		Entry("a blank name and no rules", `{"name":"\u3000","rules":[]}`, "/name /rules"),
		Entry("a fault beside a good member", `{"name":"good","rules":[{"unit":"day"}]}`, "/rules/0/duration /rules/0/max_requests"),
	)

	It("a hundred faults and counts the rest", func() {
		members := make([]string, 1000)
		for i := range members {
			members[i] = fmt.Sprintf(`"x%d":1`, i)
		}
		answer := w.ask("PATCH", one, key, "{"+strings.Join(members, ",")+"}")
		Expect(answer.Status).To(Equal(400))
		Expect(answer.JSON["errors"]).To(HaveLen(101))
		Expect(answer.JSON["message"]).To(HaveSuffix("and 900 more faults"))
	})

	It("faulty requests without doing half of them", func() {
		Expect(w.ask("GET", schemesPath+"/free", key, "").JSON).To(HaveKeyWithValue("name", "Free"))
		Expect(w.ask("GET", schemesPath, key, "").JSON).To(HaveKeyWithValue("total", 1.0))
	})

	DescribeTable("invalid paging:", func(query, at string) {
		expectRefusal(key, refusal{method: "GET", path: schemesPath + query, status: 400, at: at})
	},
		Entry(nil, "?limit=0", "?limit"), Entry(nil, "?limit=-1", "?limit"), Entry(nil, "?limit=abc", "?limit"), Entry(nil, "?limit=", "?limit"), Entry(nil, "?limit=1.5", "?limit"),
		Entry(nil, "?limit=1&limit=1", "?limit"), Entry(nil, "?limit=9223372036854775808", "?limit"), Entry(nil, "?limit=1,2", "?limit"),
		Entry(nil, "?offset=-1", "?offset"), Entry(nil, "?offset=x", "?offset"), Entry(nil, "?offset=99999999999999999999", "?offset"), Entry(nil, "?offset=0&offset=0", "?offset"),
		Entry(nil, "?limit=0&offset=-1", "?limit ?offset"), Entry(nil, "?limit=x&offset=y", "?limit ?offset"),
	)

	It("paths that are not in canonical form, without a redirect", func() {
		for target, status := range map[string]int{
			schemesPath + "/": 404, schemesPath + "//free": 404, "/" + schemesPath: 404, "/api-auth/x/../rate-limit-schemes": 404, "/api-auth/./rate-limit-schemes": 404,
			schemesPath + "/free/": 404, schemesPath + "/free/x": 404, "/api-auth": 404, "/": 404, "/docs/": 404, schemesPath + "/..": 404, "/API-AUTH/rate-limit-schemes": 404,
			schemesPath + "/%2e%2e": 404, schemesPath + "/%2F": 404, schemesPath + "/a%2Fb": 404, schemesPath + "/free%2F": 404, schemesPath + "/free%00": 404, schemesPath + "/FREE": 404,
			schemesPath + "/%66ree": 200, "/api%2Dauth/rate-limit-schemes": 200, schemesPath + "?": 200, "http://elsewhere" + schemesPath: 200, schemesPath + "#x": 404,
		} {
			answer := w.raw(lines("GET "+target, "Authorization: Bearer "+key))
			Expect(answer.Status).To(Equal(status), "%s: %s", target, answer.Raw)
			Expect(answer.Header).NotTo(HaveKey("Location"), target)
			Expect(answer.JSON).NotTo(BeNil(), target)
		}
		for _, method := range []string{"PATCH", "DELETE"} {
			for _, slug := range []string{"a%2Fb", "%00", "%2e%2e", "A", "a.b", letters(64), "%F0%9F%92%A9", "a%20b"} {
				answer := w.raw(lines(method+" "+schemesPath+"/"+slug, "Authorization: Bearer "+key, "Content-Type: application/json", "Content-Length: 2") + "{}")
				Expect(answer.Status).To(Equal(404), "%s %s: %s", method, slug, answer.Raw)
			}
		}
	})

	It("every unaccepted credential with the same message", func(ctx context.Context) {
		expired, revoked := testkit.Key(w.namespace, "acme-app", "expired", "*"), testkit.Key(w.namespace, "acme-app", "revoked", "*")
		idleApp, idle := testkit.App(w.namespace, "acme", "idle", "*"), testkit.Key(w.namespace, "idle", "idle", "*")
		create(ctx, expired, revoked, idleApp, idle)
		expectReady(ctx, expired, revoked, idleApp, idle)
		dead := map[string]string{}
		for _, name := range []string{"expired", "revoked", "idle"} {
			dead[name] = cluster.APIKey(ctx, w.namespace, name)
			w.expectAccepted(dead[name])
		}
		update(ctx, expired, func(k *v1alpha1.APIKey) { k.Spec.ExpiresAt = ptr.To(metav1.NewTime(time.Now().Add(-time.Minute))) })
		update(ctx, idleApp, func(a *v1alpha1.APIAuthApp) { a.Spec.Active = ptr.To(false) })
		Expect(cluster.Client.Delete(ctx, revoked)).To(Succeed())
		for _, plain := range dead {
			w.expectRefused(plain)
		}
		unknown, err := apikey.Mint(rand.Reader, "ck")
		Expect(err).NotTo(HaveOccurred())
		flipped := key[:len(key)-1] + map[bool]string{true: "0", false: "1"}[key[len(key)-1] != '0']
		for what, header := range map[string][]string{
			"none": nil, "empty": {"Authorization: "}, "scheme alone": {"Authorization: Bearer"}, "no key": {"Authorization: Bearer "},
			"another scheme": {"Authorization: Basic " + key}, "no scheme": {"Authorization: " + key}, "key as X-Api-Key": {"X-Api-Key: " + key},
			"garbled": {"Authorization: Bearer " + flipped}, "cut": {"Authorization: Bearer " + key[:len(key)-1]}, "with more": {"Authorization: Bearer " + key + "x"},
			"two words": {"Authorization: Bearer " + key + " " + key}, "huge": {"Authorization: Bearer " + letters(20000)},
			"unknown": {"Authorization: Bearer " + unknown.Plain()}, "expired": {"Authorization: Bearer " + dead["expired"]},
			"revoked": {"Authorization: Bearer " + dead["revoked"]}, "of an inactive app": {"Authorization: Bearer " + dead["idle"]},
			"a JWT": {"Authorization: Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"}, "a cookie": {"Cookie: __session=" + key},
			"twice": {"Authorization: Bearer " + key, "Authorization: Bearer " + key}, "twice, one other": {"Authorization: Bearer " + key, "Authorization: Bearer " + reader},
		} {
			answer := w.raw(lines("GET "+schemesPath, append(header, "X-Request-Id: same")...))
			Expect(answer.Status).To(Equal(401), what)
			challenge := "Bearer"
			if len(header) > 0 && strings.HasPrefix(header[0], "Authorization: Bearer") {
				challenge = `Bearer error="invalid_token"`
			}
			Expect(answer.Header.Get("WWW-Authenticate")).To(Equal(challenge), what)
			Expect(answer.Raw).To(MatchJSON(compact(w.ask("GET", schemesPath, "", "", [2]string{"X-Request-Id", "same"}).JSON)), what)
		}
		Expect(w.raw(lines("GET " + schemesPath + "?api_key=" + key)).Status).To(Equal(401))
		Expect(w.raw(lines("GET "+schemesPath, "Authorization: bearer "+key)).Status).To(Equal(200), "the scheme's case does not matter")
	})

	It("objects of another deployment, as if they did not exist", func(ctx context.Context) {
		sibling := w.tenant(ctx, "sibling")
		elsewhere := *w
		var err error
		elsewhere.namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, foreign := range []string{sibling, elsewhere.tenant(ctx, "acme")} {
			Expect(w.ask("GET", schemesPath, foreign, "").JSON).To(HaveKeyWithValue("total", 0.0))
			unknown := w.ask("GET", schemesPath+"/nothing", foreign, "", [2]string{"X-Request-Id", "same"})
			for _, method := range []string{"GET", "PATCH", "DELETE"} {
				answer := w.ask(method, one, foreign, `{"name":"Mine"}`, [2]string{"X-Request-Id", "same"})
				Expect(answer.Status).To(Equal(404), method)
				Expect(answer.Raw).To(Equal(unknown.Raw))
			}
			w.post(foreign, "free", "")
		}
		Expect(w.ask("GET", one, key, "").JSON).To(HaveKeyWithValue("name", "Free"))
		Expect(w.live(ctx, "sibling.free").Spec.DeploymentRef.Name).To(Equal("sibling"))
	})
})
