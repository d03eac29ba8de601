package engine

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/store"
)

func contender(name string, change ...func(*claimant)) claimant {
	c := claimant{
		Owner:   store.Owner{Identity: store.Identity{Kind: "RateLimitScheme", Namespace: "ns", Name: name}, UID: "uid-" + name},
		created: time.Unix(1000, 0),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func older(c *claimant)  { c.created = time.Unix(10, 0) }
func lists(c *claimant)  { c.lists = true }
func byHTTP(c *claimant) { c.byHTTP = true }

func TestJudge(t *testing.T) {
	const claim = "slug/RateLimitScheme/ns/acme/free"
	for name, tc := range map[string]struct {
		me           claimant
		recorded     *holder
		rivals       []claimant
		wantReason   string
		wantDisplace string
	}{
		"nobody else wants it": {me: contender("b")},
		"already mine":         {me: contender("b"), recorded: &holder{claimant: contender("b")}, rivals: []claimant{contender("a", older, lists)}},
		"recorded for another, however much younger":   {me: contender("b", older, lists), recorded: &holder{claimant: contender("z")}, wantReason: "Conflict"},
		"recorded for one that is gone":                {me: contender("b"), recorded: &holder{claimant: contender("z"), gone: true}, wantDisplace: "z"},
		"declared over recorded by HTTP":               {me: contender("b"), recorded: &holder{claimant: contender("z", byHTTP)}, wantDisplace: "z"},
		"HTTP under recorded declared":                 {me: contender("b", byHTTP), recorded: &holder{claimant: contender("z")}, wantReason: "Superseded"},
		"HTTP under recorded HTTP":                     {me: contender("b", byHTTP), recorded: &holder{claimant: contender("z", byHTTP)}, wantReason: "Conflict"},
		"no record: the one whose status lists it":     {me: contender("b", older), rivals: []claimant{contender("z", lists)}, wantReason: "Conflict"},
		"no record: mine lists it":                     {me: contender("z", lists), rivals: []claimant{contender("a", older)}},
		"no record: the older":                         {me: contender("a"), rivals: []claimant{contender("z", older)}, wantReason: "Conflict"},
		"no record: mine is older":                     {me: contender("z", older), rivals: []claimant{contender("a")}},
		"no record: as old, the lower name":            {me: contender("b"), rivals: []claimant{contender("a")}, wantReason: "Conflict"},
		"no record: as old, mine is lower":             {me: contender("a"), rivals: []claimant{contender("b")}},
		"no record: HTTP yields to a younger declared": {me: contender("a", byHTTP, older, lists), rivals: []claimant{contender("z")}, wantReason: "Superseded"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(claim, tc.me, tc.recorded, tc.rivals)
			var terminal *TerminalError
			reason := ""
			if errors.As(got.fault, &terminal) {
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

// Whoever judges, exactly one of several contenders wins a claim that nobody holds.
func TestOneContenderWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		var all []claimant
		for i := range n {
			all = append(all, contender(string(rune('a'+i)), func(c *claimant) {
				c.created = time.Unix(rapid.Int64Range(1, 3).Draw(t, "created"), 0)
				c.lists = rapid.Bool().Draw(t, "lists")
				c.byHTTP = rapid.Bool().Draw(t, "byHTTP")
			}))
		}
		winners := 0
		for i, me := range all {
			rivals := append(append([]claimant{}, all[:i]...), all[i+1:]...)
			if judge("id/RateLimitScheme/1", me, nil, rivals).fault == nil {
				winners++
			}
		}
		if winners != 1 {
			t.Fatalf("%d winners of %d", winners, n)
		}
	})
}
