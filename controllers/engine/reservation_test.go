package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/store"
)

const schemeSlug = "slug/RateLimitScheme/ns/acme/free"

func contender(name string, change ...func(*competitor)) competitor {
	c := competitor{
		Owner:   store.Owner{Identity: store.Identity{Kind: "RateLimitScheme", Namespace: "ns", Name: name}, UID: "uid-" + name},
		created: time.Unix(1000, 0),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func older(c *competitor)     { c.created = time.Unix(10, 0) }
func lists(c *competitor)     { c.lists = true }
func yields(c *competitor)    { c.yields = true }
func innate(c *competitor)    { c.innate = true }
func elsewhere(c *competitor) { c.Namespace = "another" }
func foreign(c *competitor)   { c.Kind, c.UID = "OAuthApp", "uid-of-another-kind" }

func has(c competitor) *recordedOwner  { return &recordedOwner{competitor: c} }
func had(c competitor) *recordedOwner  { return &recordedOwner{competitor: c, gone: true} }
func all(c ...competitor) []competitor { return c }

func TestResolveConflict(t *testing.T) {
	const conflict, superseded = v1alpha1.ReasonConflict, v1alpha1.ReasonSuperseded
	for name, tc := range map[string]struct {
		me           competitor
		recorded     *recordedOwner
		competitors  []competitor
		wantReason   string
		wantDisplace string
	}{
		"nobody else wants it": {me: contender("b")},
		"already mine":         {me: contender("b"), recorded: has(contender("b")), competitors: all(contender("a", older, lists))},
		"recorded for another, however much younger":   {me: contender("b", older, lists), recorded: has(contender("z")), wantReason: conflict},
		"recorded for one that is gone":                {me: contender("b"), recorded: had(contender("z")), wantDisplace: "z"},
		"mine declared, recorded by HTTP":              {me: contender("b"), recorded: has(contender("z", yields)), wantDisplace: "z"},
		"mine by HTTP, recorded declared":              {me: contender("b", yields), recorded: has(contender("z")), wantReason: superseded},
		"mine by HTTP, recorded by HTTP":               {me: contender("b", yields), recorded: has(contender("z", yields)), wantReason: conflict},
		"no record: the one whose status lists it":     {me: contender("b", older), competitors: all(contender("z", lists)), wantReason: conflict},
		"no record: mine lists it":                     {me: contender("z", lists), competitors: all(contender("a", older))},
		"no record: the older":                         {me: contender("a"), competitors: all(contender("z", older)), wantReason: conflict},
		"no record: mine is older":                     {me: contender("z", older), competitors: all(contender("a"))},
		"no record: as old, the lower name":            {me: contender("b"), competitors: all(contender("a")), wantReason: conflict},
		"no record: as old, mine is lower":             {me: contender("a"), competitors: all(contender("b"))},
		"no record: HTTP yields to a younger declared": {me: contender("a", yields, older, lists), competitors: all(contender("z")), wantReason: superseded},

		"elsewhere, recorded":                       {me: contender("b", older, lists), recorded: has(contender("z", elsewhere)), wantReason: conflict},
		"elsewhere, recorded, gone":                 {me: contender("b"), recorded: had(contender("z", elsewhere)), wantReason: conflict},
		"elsewhere, recorded, HTTP's":               {me: contender("b"), recorded: has(contender("z", elsewhere, yields)), wantReason: conflict},
		"elsewhere, recorded, mine by name":         {me: contender("b", innate), recorded: has(contender("z", elsewhere)), wantDisplace: "z"},
		"recorded, mine by name":                    {me: contender("b", innate), recorded: has(contender("z")), wantReason: conflict},
		"recorded, both by name":                    {me: contender("b", innate), recorded: has(contender("z", elsewhere, innate)), wantReason: conflict},
		"recorded by name":                          {me: contender("b"), recorded: has(contender("z", innate)), wantReason: conflict},
		"recorded by name, gone":                    {me: contender("b"), recorded: had(contender("z", innate)), wantDisplace: "z"},
		"recorded by name, gone, elsewhere":         {me: contender("b"), recorded: had(contender("z", innate, elsewhere)), wantReason: conflict},
		"no record: another's by name":              {me: contender("a", older, lists), competitors: all(contender("z", innate, elsewhere)), wantReason: conflict},
		"no record: mine by name":                   {me: contender("z", innate), competitors: all(contender("a", older, lists, elsewhere))},
		"another kind, recorded":                    {me: contender("b", older, lists), recorded: has(contender("z", foreign)), wantReason: conflict},
		"another kind, recorded, gone":              {me: contender("b"), recorded: had(contender("z", foreign)), wantReason: conflict},
		"another kind, recorded, HTTP's":            {me: contender("b"), recorded: has(contender("z", foreign, yields)), wantReason: conflict},
		"another kind, recorded, mine by name":      {me: contender("b", innate), recorded: has(contender("z", foreign, elsewhere)), wantReason: conflict},
		"another kind, no record: the older":        {me: contender("b"), competitors: all(contender("z", foreign, older)), wantReason: conflict},
		"another kind, no record: mine is older":    {me: contender("b", older), competitors: all(contender("z", foreign))},
		"another kind, no record: its status lists": {me: contender("b", older), competitors: all(contender("z", foreign, lists)), wantReason: conflict},
		"another kind of the same name and age":     {me: contender("b"), competitors: all(contender("b", foreign)), wantReason: conflict},
		"no record: the older in another namespace": {me: contender("a"), competitors: all(contender("z", older, elsewhere)), wantReason: conflict},
	} {
		t.Run(name, func(t *testing.T) {
			got := resolveConflict(schemeSlug, tc.me, tc.recorded, tc.competitors)
			reason := ""
			if terminal := (*TerminalError)(nil); errors.As(got.fault, &terminal) {
				reason = terminal.Reason
			}
			displaced := ""
			if got.displace != nil {
				displaced = got.displace.Name
			}
			if reason != tc.wantReason || displaced != tc.wantDisplace {
				t.Errorf("got fault %v, displaced %q; want reason %q, displaced %q", got.fault, displaced, tc.wantReason, tc.wantDisplace)
			}
		})
	}
}

// A declared resource supersedes a resource that HTTP created if both need the same slug, but not if both need the same
// id.
func TestOnlySlugsAreYielded(t *testing.T) {
	byHTTP := &v1alpha1.B2BSettings{}
	byHTTP.Namespace, byHTTP.Name = "acme", "acme"
	byHTTP.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByHTTP}
	const kind = v1alpha1.KindB2BSettings
	if c := newCompetitor(kind, reservation.Slug(kind, "acme/acme", "b2b"), byHTTP); !c.yields {
		t.Error("the slug is not yielded")
	}
	if c := newCompetitor(kind, reservation.ID(kind, ids.Derive(kind, "acme", "acme")), byHTTP); c.yields || !c.innate {
		t.Errorf("the id is yielded: %+v", c)
	}
}

func TestAConflictNamesNobodyOfAnotherNamespace(t *testing.T) {
	fault := resolveConflict("host/app.example.com", contender("b"), has(contender("bank-prod", elsewhere)), nil).fault
	if fault == nil || strings.Contains(fault.Error(), "bank-prod") || strings.Contains(fault.Error(), `"another"`) || strings.Contains(fault.Error(), "another/") {
		t.Errorf("got %v", fault)
	}
	if fault := resolveConflict("host/app.example.com", contender("b"), has(contender("z")), nil).fault; !strings.Contains(fault.Error(), "ns/z") {
		t.Errorf("the conflict does not name the owner in the same namespace: %v", fault)
	}
}

// If each contender decides for itself, exactly one of them gets a free reservation.
func TestOneContenderWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slug := rapid.Bool().Draw(t, "slug")
		n := rapid.IntRange(1, 6).Draw(t, "n")
		byName := rapid.IntRange(0, n).Draw(t, "by name") // n: the reservation belongs to no contender by name
		var all []competitor
		for i := range n {
			all = append(all, contender(string(rune('a'+i)), func(c *competitor) {
				c.created = time.Unix(rapid.Int64Range(1, 3).Draw(t, "created"), 0)
				c.lists = rapid.Bool().Draw(t, "lists")
				c.innate = i == byName
				if rapid.Bool().Draw(t, "foreign") {
					foreign(c)
					c.UID += c.Name
				}
				if slug {
					c.yields = rapid.Bool().Draw(t, "yields")
				} else if rapid.Bool().Draw(t, "elsewhere") {
					elsewhere(c)
				}
			}))
		}
		winners := 0
		for i, me := range all {
			others := append(append([]competitor{}, all[:i]...), all[i+1:]...)
			if resolveConflict("id/RateLimitScheme/1", me, nil, others).fault == nil {
				winners++
			}
		}
		if winners != 1 {
			t.Fatalf("%d winners of %d", winners, n)
		}
	})
}
