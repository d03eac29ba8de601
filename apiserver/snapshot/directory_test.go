package snapshot

import (
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

func TestDirectoriesAreIndexedByOrganization(t *testing.T) {
	t.Parallel()
	directory := func(slug, organization string, id int64) store.Document {
		return doc(t, "Directory", slug, id, slug, time.Unix(1, 0), document.Directory{
			Slug: slug, Organization: organization, Connection: "globex", Active: true, GroupRoles: []document.GroupRole{{Group: "Engineering", Role: "developer"}},
		})
	}
	s, err := build([]store.Document{directory("staff", "globex", 3), directory("other", "initech", 2), directory("guests", "globex", 1)}, store.Position{Revision: 1})
	if err != nil {
		t.Fatal(err)
	}
	listed := func(s *Snapshot, deployment, organization string) string {
		var slugs []string
		for _, e := range s.DirectoriesOf(deployment, organization) {
			slugs = append(slugs, ContentOf[document.Directory](e).Slug)
		}
		return strings.Join(slugs, " ")
	}
	if got := listed(s, "ns/acme", "globex"); got != "guests staff" {
		t.Errorf("directories of globex: %q, want them in the order of their slugs", got)
	}
	if got := listed(s, "ns/other", "globex") + listed(s, "ns/acme", "glob"); got != "" {
		t.Errorf("%q, want none of another deployment or organization", got)
	}
	if e, found := s.ByID("Directory", "ns/acme", 3); !found || e.Key != "staff" {
		t.Errorf("by id: %v, %v", e, found)
	}
	if _, found := s.ByID("Directory", "ns/other", 3); found {
		t.Error("a directory is found in another deployment")
	}
	if e, found := s.BySlug("Directory", "ns/acme", "guests"); !found || e.ID != 1 {
		t.Errorf("by slug: %v, %v", e, found)
	}
	for _, referent := range []store.Identity{{Kind: "Connection", Namespace: "ns", Name: "globex"}, {Kind: "MembershipRole", Namespace: "ns", Name: "developer"}} {
		if referrers := s.Referrers(referent); len(referrers) != 3 {
			t.Errorf("%s: %d referrers, want 3", referent, len(referrers))
		}
	}
	moved := directory("staff", "initech", 3)
	next, err := s.apply([]store.Change{{Document: moved}, {Document: directory("other", "initech", 2), Deleted: true}}, store.Position{Revision: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := listed(next, "ns/acme", "globex") + ", " + listed(next, "ns/acme", "initech"); got != "guests, staff" {
		t.Errorf("after a change: %q", got)
	}
}
