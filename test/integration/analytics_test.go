package integration

import (
	"context"
	"fmt"
	"net/url"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/test/testkit"
)

// lived inserts the first user of a deployment and records their sign-up, their sign-in, and an organization and a
// workspace that they created.
func (w *world) lived(ctx context.Context, deployment, name string, at time.Time) {
	GinkgoHelper()
	Expect(w.store.Change(ctx, deployment, func(tx people.Tx) error {
		err := tx.Users().InsertUser(people.User{ID: 1, FirstName: name, LastName: "Person", CreatedAt: at},
			people.Email{ID: 2, User: 1, Address: name + "@Example.com", Primary: true, CreatedAt: at})
		for i, kind := range []string{people.EventSignUp, people.EventSignIn, people.EventOrganization, people.EventWorkspace} {
			if err == nil {
				err = tx.Records().RecordEvent(happened(int64(i+1), kind, 1, at))
			}
		}
		return err
	})).To(Succeed())
}

func happened(id int64, kind string, user int64, at time.Time) people.Event {
	return people.Event{ID: id, Kind: kind, At: at, User: user, Method: people.MethodPassword, Address: "192.0.2.1", UserAgent: "agent/1"}
}

var _ = Describe("The analytics operation", Ordered, func() {
	var w *world
	var key string
	BeforeAll(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		key = w.tenant(ctx, "acme")
	})
	summary := func(from, to string) map[string]any {
		GinkgoHelper()
		answer := w.ask("GET", "/analytics?from="+url.QueryEscape(from)+"&to="+url.QueryEscape(to), key, "")
		Expect(answer.Status).To(Equal(200), string(answer.Raw))
		expectForm("analytics summary", "analytics summary", answer.Raw)
		return answer.JSON
	}

	It("counts, compares with the period before, and lists the newest", func(ctx context.Context) {
		midnight := time.Date(2026, 5, 10, 0, 0, 0, 0, time.UTC)
		w.lived(ctx, w.namespace+"/acme", "Ada", midnight.Add(-time.Hour))
		w.lived(ctx, w.namespace+"/other", "Eve", midnight)
		Expect(w.store.Change(ctx, w.namespace+"/acme", func(tx people.Tx) error {
			for n := int64(2); n <= 13; n++ {
				at := midnight.Add(time.Duration(n) * time.Microsecond)
				err := tx.Users().InsertUser(people.User{ID: n, FirstName: fmt.Sprint("First", n), CreatedAt: at}, people.Email{ID: n + 1000, User: n, Address: fmt.Sprint(n, "@example.com"), Primary: true, CreatedAt: at})
				if err == nil {
					err = tx.Records().RecordEvent(happened(100+n, people.EventSignUp, n, at))
				}
				if err == nil {
					err = tx.Records().RecordEvent(happened(200+n, people.EventSignIn, 1+n%3, at.Add(36*time.Hour)))
				}
				if err != nil {
					return err
				}
			}
			return tx.Users().DeleteUser(13)
		})).To(Succeed())

		got := summary("2026-05-10T00:00:00Z", "2026-05-12T00:00:00Z")
		Expect(got).To(And(HaveKeyWithValue("unique_signins", 3.0), HaveKeyWithValue("signups", 12.0), HaveKeyWithValue("total_signups", 13.0),
			HaveKeyWithValue("organizations_created", 0.0), HaveKeyWithValue("workspaces_created", 0.0)))
		Expect(got).To(And(HaveKeyWithValue("unique_signins_change", 200.0), HaveKeyWithValue("signups_change", 1100.0),
			HaveKeyWithValue("organizations_created_change", -100.0), HaveKeyWithValue("workspaces_created_change", -100.0)))
		Expect(compact(map[string]any{"days": got["daily_metrics"]})).To(MatchJSON(`{"days":[{"day":"2026-05-10","signins":0,"signups":12},{"day":"2026-05-11","signins":3,"signups":0}]}`))
		var signedUp []any
		for _, entry := range got["recent_signups"].([]any) {
			signedUp = append(signedUp, entry.(map[string]any)["user_id"])
		}
		Expect(signedUp).To(Equal([]any{"12", "11", "10", "9", "8", "7", "6", "5", "4", "3"}), "the newest ten, without the deleted user")
		Expect(got["recent_signins"]).To(HaveLen(10))
		Expect(got["recent_signins"].([]any)[0]).To(And(HaveKeyWithValue("user_id", "2"), HaveKeyWithValue("signed_in_at", "2026-05-11T12:00:00.000013Z"), HaveKeyWithValue("name", "First2")))
		Expect(compact(got)).NotTo(ContainSubstring("Eve"))

		By("offsets, and a plus that was not escaped")
		east := summary("2026-05-10T05:30:00+05:30", "2026-05-12T05:30:00+05:30")
		Expect(compact(east)).To(MatchJSON(compact(got)))
		raw := w.ask("GET", "/analytics?from=2026-05-10T05:30:00+05:30&to=2026-05-12T00:00:00Z", key, "")
		Expect(compact(raw.JSON)).To(MatchJSON(compact(got)))

		By("ends of periods")
		Expect(summary("2026-05-10T00:00:00.000002Z", "2026-05-10T00:00:00.000003Z")).To(And(HaveKeyWithValue("signups", 1.0), HaveKeyWithValue("daily_metrics", HaveLen(1))))
		Expect(summary("2026-05-10T00:00:00.000013999Z", "2026-05-10T00:00:00.000014Z")).To(HaveKeyWithValue("signups", 1.0))
		Expect(summary("2026-05-09T00:00:00Z", "2026-05-10T00:00:00.000001Z")).To(And(HaveKeyWithValue("signups", 1.0), HaveKeyWithValue("daily_metrics", HaveLen(2))))
		Expect(summary("2024-02-29T12:00:00Z", "2027-03-05T12:00:00Z")).To(And(HaveKeyWithValue("signups", 13.0), HaveKeyWithValue("signups_change", BeNil()), HaveKeyWithValue("daily_metrics", HaveLen(1101))))
		Expect(summary("1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z")).To(And(HaveKeyWithValue("signups", 0.0), HaveKeyWithValue("total_signups", 13.0)))
		Expect(summary("9999-12-30T00:00:00Z", "9999-12-31T23:59:59.999999Z")).To(HaveKeyWithValue("daily_metrics", HaveLen(2)))

		head := w.ask("HEAD", "/analytics?from=2026-05-10T00:00:00Z&to=2026-05-12T00:00:00Z", key, "")
		Expect(head.Status).To(Equal(200))
	})

	const from, to = "from=2026-11-01T00:00:00Z", "to=2026-11-02T00:00:00Z"
	DescribeTable("refuses invalid parameters, naming all at once:", func(query, at string) {
		answer := w.ask("GET", "/analytics?"+query, key, "")
		Expect(answer.Status).To(Equal(400), string(answer.Raw))
		Expect(faultsAt(answer)).To(Equal(at), string(answer.Raw))
	},
		Entry("nothing", "", "?from ?to"), Entry("no to", from, "?to"), Entry("no from", to, "?from"), Entry("empty", "from=&to=", "?from ?to"),
		Entry("no values", "from&to", "?from ?to"), Entry("twice", from+"&"+from+"&"+to, "?from"), Entry("twice and missing", from+"&"+from, "?from ?to"),
		Entry("both twice", from+"&"+to+"&"+to+"&"+from, "?from ?to"), Entry("a date", "from=2026-11-01&"+to, "?from"), Entry("no offset", from+"&to=2026-11-02T00:00:00", "?to"),
		Entry("words", "from=yesterday&to=today", "?from ?to"), Entry("a number", "from=1761955200&"+to, "?from"), Entry("no such day", "from=2026-02-29T00:00:00Z&"+to, "?from"),
		Entry("a bad escape", "from=%zz&"+to, "?from"), Entry("a list", "from=2026-11-01T00:00:00Z,2026-11-01T00:00:00Z&"+to, "?from"), Entry("a zero byte", "from=%00&"+to, "?from"),
		Entry("equal", from+"&to=2026-11-01T00:00:00Z", "?to"), Entry("backwards", "from=2026-11-03T00:00:00Z&"+to, "?to"),
		Entry("too long by a microsecond", "from=2024-02-29T12:00:00Z&to=2027-03-05T12:00:00.000001Z", "?to"), Entry("before 1970", "from=1969-12-31T23:59:59Z&"+to, "?from"),
		Entry("after 9999", from+"&to=9999-12-31T23:59:59-01:00", "?to"), Entry("beside other parameters", from+"&"+to+"x&limit=x", "?to"),
	)

	It("needs its permission", func(ctx context.Context) {
		narrow, right := testkit.Key(w.namespace, "acme-app", "narrow", "ai_tools:read"), testkit.Key(w.namespace, "acme-app", "counter", "analytics:read")
		create(ctx, narrow, right)
		expectReady(ctx, narrow, right)
		plain := cluster.APIKey(ctx, w.namespace, "narrow")
		Eventually(func() int { return w.do("GET", "/analytics", plain, "").Status }).Should(Equal(403), "before the parameters are validated")
		answer := w.ask("GET", "/analytics", plain, "")
		Expect(answer.JSON["message"]).To(ContainSubstring("analytics:read"))
		plain = cluster.APIKey(ctx, w.namespace, "counter")
		Eventually(func() int { return w.do("GET", "/analytics?"+from+"&"+to, plain, "").Status }).Should(Equal(200))
	})

	It("is 503 while the store is unavailable, and only where the store is needed", func() {
		w.store.Interrupt(true)
		DeferCleanup(func() { w.store.Interrupt(false) })
		answer := w.ask("GET", "/analytics?"+from+"&"+to, key, "")
		Expect(answer.Status).To(Equal(503))
		Expect(answer.Header.Get("Retry-After")).To(MatchRegexp("^[1-9][0-9]*$"))
		Expect(string(answer.Raw)).NotTo(ContainSubstring("interrupted"), "the cause is for the log")
		Expect(w.ask("GET", "/analytics", key, "").Status).To(Equal(400))
		Expect(w.ask("GET", schemesPath, key, "").Status).To(Equal(200))
		w.store.Interrupt(false)
		Expect(w.ask("GET", "/analytics?"+from+"&"+to, key, "").Status).To(Equal(200))
	})
})
