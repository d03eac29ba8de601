package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"net/http/httptest"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/eventtype"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/test/testkit"
)

// creations are users that a load creates at servers of two releases, of which only one records events. The operators
// have no part in them, so they do not count as writes of the load.
type creations struct {
	journal
	// recording reports which servers record events.
	recording map[*testkit.Cardea]bool
	// with are the ids of the users that such servers created, and without those of the users that other servers created.
	with, without []string
	// received is the receiver of the events, at url. It must get those of all users of with but the first ones, since in
	// number.
	received *hooks
	url      string
	since    int
}

// newCreations starts a receiver, which runs until the end of the container.
func newCreations() *creations {
	c := &creations{recording: map[*testkit.Cardea]bool{}}
	c.received = &hooks{types: map[int64]string{}, secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", 32)))}
	receiver := httptest.NewServer(c.received)
	DeferCleanup(receiver.Close)
	c.url = receiver.URL
	return c
}

// creates adds the creation of users to a load. Their addresses begin with a word.
func (c *creations) creates(ctx context.Context, l *load, word string) {
	l.repeat(ctx, 5, func(n int) {
		email := fmt.Sprintf("%s-%d@example.com", word, n)
		l.use(func(server *testkit.Cardea) {
			answer, err := testkit.Do("POST", server.Backend+"/users", l.key, fmt.Sprintf(`{"email": %q}`, email))
			c.wrote("creation of "+email, answer.Status, err, func() {
				if id := answer.JSON["id"].(string); c.recording[server] {
					c.with = append(c.with, id)
				} else {
					c.without = append(c.without, id)
				}
			})
		})
	})
}

// add adds a server, and whether it records events.
func (c *creations) add(server *testkit.Cardea, recording bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recording[server] = recording
}

// counts returns how many users were created with events, and how many without.
func (c *creations) counts() (with, without int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.with), len(c.without)
}

// subscribe declares a WebhookEndpoint for the receiver, which has the secret already.
func (c *creations) subscribe(ctx context.Context, namespace string) {
	GinkgoHelper()
	apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: upgraded, namespace: %[1]s, labels: {iam.cardea.dev/deployment: people}}
stringData: {signing-secret: %[2]s}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: WebhookEndpoint
metadata: {name: upgraded, namespace: %[1]s}
spec:
  deploymentRef: {name: people}
  url: %[3]s/hooks
  signing: {existingSecretRef: {name: upgraded}}
`, namespace, c.received.secret, c.url))
	// Under the load, there is always a scheme that is not Ready yet.
	kubectl(ctx, "wait", "webhookendpoint/upgraded", "-n", namespace, "--for=condition=Ready", "--timeout=60s")
	c.since, _ = c.counts()
}

// events returns the numbered events of a deployment.
func (d *database) events(ctx context.Context, deployment string) (all []people.LoggedEvent, err error) {
	err = d.st.View(ctx, deployment, func(tx people.Tx) error {
		all = nil
		for at := int64(0); ; at = all[len(all)-1].Sequence {
			page, err := tx.EventLog().EventsAfter(at, 1000)
			if all = append(all, page...); err != nil || len(page) < 1000 {
				return err
			}
		}
	})
	return all, err
}

// unsent returns the events that the receiver does not have: of a log from the first one that it has on, except those
// that are sent only by their name, and of the creation of users since the endpoint was ready.
func (c *creations) unsent(log []people.LoggedEvent) (missing []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.received
	h.mu.Lock()
	defer h.mu.Unlock()
	first, created := int64(math.MaxInt64), map[string]int64{}
	for number := range h.types {
		first = min(first, number)
	}
	for _, e := range log {
		if e.Type == "user.created" {
			created[e.SubjectID] = e.Sequence
		}
		if e.Sequence >= first && !eventtype.OptIn(e.Type) && h.types[e.Sequence] != e.Type {
			missing = append(missing, fmt.Sprintf("%d: %s", e.Sequence, e.Type))
		}
	}
	for _, user := range c.with[c.since:] {
		if h.types[created[user]] != "user.created" {
			missing = append(missing, "the creation of user "+user)
		}
	}
	return missing
}

// expectEvents expects that each user that was created with an event has one in the log, and no other user.
func (c *creations) expectEvents(log []people.LoggedEvent) {
	GinkgoHelper()
	c.mu.Lock()
	defer c.mu.Unlock()
	created := map[string]int{}
	for i, e := range log {
		Expect(e.Sequence).To(Equal(log[0].Sequence+int64(i)), "numbers are dense")
		if e.Type == "user.created" {
			created[e.SubjectID]++
		}
	}
	for _, user := range c.with {
		Expect(created[user]).To(Equal(1), "events of the creation of user %s", user)
	}
	Expect(slices.ContainsFunc(c.without, func(user string) bool { return created[user] > 0 })).To(BeFalse(), "a release without events recorded one")
}

// expectDelivered waits until the receiver has every event, and expects that the log has those of all creations.
func (c *creations) expectDelivered(ctx context.Context, db *database, deployment string) {
	GinkgoHelper()
	Expect(c.seen()).To(BeEmpty(), "failed creations of users")
	Eventually(func() ([]string, error) {
		log, err := db.events(ctx, deployment)
		return c.unsent(log), err
	}).WithTimeout(leaseEnds).Should(BeEmpty())
	log, err := db.events(ctx, deployment)
	Expect(err).NotTo(HaveOccurred())
	c.expectEvents(log)
	with, without := c.counts()
	c.received.mu.Lock()
	defer c.received.mu.Unlock()
	Expect(c.received.refused).To(BeZero())
	AddReportEntry("creations of users", fmt.Sprintf("%d with events, of which %d were to be sent; %d without", with, with-c.since, without))
}
