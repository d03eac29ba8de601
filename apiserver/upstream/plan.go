package upstream

import (
	"cmp"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

const (
	// checksAtOnce and checksOfDeployment bound the connections that a server checks at once, in all and of one
	// deployment. A provider that does not answer takes its place for requestWithin.
	checksAtOnce, checksOfDeployment = 64, 2
	// firstWithin bounds the random delay of a connection's first check, so that servers do not check together.
	firstWithin = 2 * time.Second
)

// target names a connection.
type target struct {
	deployment string
	id         int64
}

// check is a connection in a plan.
type check struct {
	Connection
	// origin is where its documents begin: another one is checked at once.
	origin string
	// at is when it is checked next. While it is checked, running is true.
	at      time.Time
	running bool
	// since is when the connection changed, zero after a check: a fetch before that was perhaps of another provider.
	since time.Time
}

// plan says when the documents of each declared connection are checked. It is used by one goroutine.
type plan struct {
	checks map[target]*check
	// running counts the checks in progress of a deployment, and served numbers the deployments by their last turn.
	running map[string]int
	served  map[string]uint64
	turns   uint64
	// delay returns a random duration below another one.
	delay func(time.Duration) time.Duration
}

func newPlan(delay func(time.Duration) time.Duration) *plan {
	return &plan{checks: map[target]*check{}, running: map[string]int{}, served: map[string]uint64{}, delay: delay}
}

// origin returns where the documents of a connection begin, "" if it has none.
func origin(c Connection) string {
	if c.Connection.SAML != nil {
		return samlOrigin(c.Connection)
	}
	if metadata, found := declared(c.Connection); found {
		return metadata.JWKSURL
	}
	return c.Provider.Issuer
}

// follow takes over the connections of a snapshot: it forgets deleted ones, and plans a check of those that are new or
// have another provider. It returns the deleted ones.
func (p *plan) follow(s *snapshot.Snapshot, now time.Time) (deleted []Connection) {
	found := map[target]bool{}
	s.ListAll(v1alpha1.KindConnection, func(e *snapshot.Entry) bool {
		c := Connection{Deployment: e.Deployment, ID: e.ID, Connection: &snapshot.ContentOf[snapshot.Connection](e).Connection}
		of, from := target{e.Deployment, e.ID}, origin(c)
		if from == "" {
			return true
		}
		if c.SAML != nil && c.SAML.MetadataURL == "" { // the content of a ConfigMap has the version of its entry
			from += " " + e.Meta.UpdatedAt.String()
		}
		found[of] = true
		known := p.checks[of]
		if known == nil {
			known = &check{}
			p.checks[of] = known
		}
		if known.origin != from {
			known.at, known.since = now.Add(p.delay(firstWithin)), e.Meta.UpdatedAt
		}
		known.Connection, known.origin = c, from
		return true
	})
	for of := range p.checks {
		if !found[of] {
			deleted = append(deleted, p.checks[of].Connection)
			delete(p.checks, of)
		}
	}
	for deployment := range p.served {
		if p.running[deployment] == 0 && s.StateOf(deployment) == nil {
			delete(p.served, deployment)
		}
	}
	return deleted
}

// take returns the checks that begin now: deployments take turns, the one whose last turn is longest ago first, and in
// each the check that is longest due.
func (p *plan) take(now time.Time) (begin []*check) {
	due := map[string][]*check{}
	for _, c := range p.checks {
		if !c.running && !c.at.After(now) {
			due[c.Deployment] = append(due[c.Deployment], c)
		}
	}
	free := checksAtOnce
	for _, n := range p.running {
		free -= n
	}
	var order []string
	for deployment, of := range due {
		slices.SortFunc(of, func(a, b *check) int { return a.at.Compare(b.at) })
		order = append(order, deployment)
	}
	for free > 0 && len(order) > 0 {
		slices.SortFunc(order, func(a, b string) int { return cmp.Compare(p.served[a], p.served[b]) })
		rest := order[:0]
		for _, deployment := range order {
			if free == 0 || p.running[deployment] >= checksOfDeployment || len(due[deployment]) == 0 {
				continue
			}
			c := due[deployment][0]
			due[deployment] = due[deployment][1:]
			c.running = true
			p.turns++
			p.served[deployment] = p.turns
			p.running[deployment]++
			free--
			begin, rest = append(begin, c), append(rest, deployment)
		}
		order = rest
	}
	return begin
}

// has reports whether a connection was not deleted since its check began.
func (p *plan) has(c *check) bool { return p.checks[target{c.Deployment, c.ID}] == c }

// end plans the next check of a connection after a check with the given since.
func (p *plan) end(c *check, since, next time.Time) {
	if p.running[c.Deployment]--; p.running[c.Deployment] == 0 {
		delete(p.running, c.Deployment)
	}
	c.running = false
	if c.since.Equal(since) { // otherwise the provider changed meanwhile: the planned check remains
		c.at, c.since = next, time.Time{}
	}
}
