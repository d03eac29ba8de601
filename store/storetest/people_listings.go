package storetest

import (
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

var listingStories = []story{
	{name: "organizations are listed the newest first, found by name and slug, with how many members they have", run: func(e *env) {
		e.begin()
		for n := range int64(4) {
			e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(n + 1)) })
		}
		special := organization(5)
		special.Name, special.Slug = `Élan 100%_\`, "elan"
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(special) },
			func(tx people.Tx) error { return tx.Organizations().InsertMember(member(1, 2, 1)) }, func(tx people.Tx) error { return tx.Organizations().InsertMember(member(2, 2, 2)) },
			func(tx people.Tx) error { return tx.Organizations().InsertMember(member(3, 3, 1)) })
		e.change("apps/other", func(tx people.Tx) error { return tx.Organizations().InsertMember(member(1, 2, 3)) })
		for _, tc := range []struct {
			search        string
			limit, offset int
			want          []int64
			total         int64
		}{
			{"", 10, 0, []int64{5, 4, 3, 2, 1}, 5}, {"", 2, 1, []int64{4, 3}, 5}, {"", 2, 5, nil, 5}, {"ORGANIZATION 3", 10, 0, []int64{3}, 1}, {"zation-2", 10, 0, []int64{2}, 1},
			{"Élan", 10, 0, []int64{5}, 1}, {"%", 10, 0, []int64{5}, 1}, {"_", 10, 0, []int64{5}, 1}, {`\`, 10, 0, []int64{5}, 1}, {"nobody", 10, 0, nil, 0},
		} {
			e.ok(e.store.View(e.ctx, home, func(tx people.Tx) error {
				found, total, err := tx.Listings().ListOrganizations(tc.search, tc.limit, tc.offset)
				var ids []int64
				for _, o := range found {
					ids = append(ids, o.ID)
					e.Expect(o.Members).To(gomega.Equal(map[int64]int64{2: 2, 3: 1}[o.ID]))
				}
				e.Expect(ids).To(gomega.Equal(tc.want), tc.search)
				e.Expect(total).To(gomega.Equal(tc.total), tc.search)
				return err
			}))
		}
	}},
	{name: "audit records are listed the newest first or the oldest, by actor, action, object and time, from a place on", run: func(e *env) {
		e.begin()
		same := audit(4)
		same.At = audit(3).At // records of the same time are ordered by their ids
		other := audit(5)
		other.Actor, other.Action, other.Object, other.Session, other.Address = "key:abc", "user.deleted", "user:7", 0, ""
		written := map[int64]people.Audit{1: audit(1), 2: audit(2), 3: audit(3), 4: same, 5: other}
		for _, record := range written {
			e.insert(func(tx people.Tx) error { return tx.Records().RecordAudit(record) })
		}
		e.change("apps/other", func(tx people.Tx) error { return tx.Records().RecordAudit(audit(6)) })
		at := func(n int64) time.Time { return written[n].At }
		for name, tc := range map[string]struct {
			filter people.AuditFilter
			limit  int
			want   []int64
		}{
			"all":                            {people.AuditFilter{}, 10, []int64{5, 4, 3, 2, 1}},
			"a page":                         {people.AuditFilter{}, 2, []int64{5, 4}},
			"the next":                       {people.AuditFilter{After: people.AuditPlace{At: at(4), ID: 4}}, 2, []int64{3, 2}},
			"an actor":                       {people.AuditFilter{Actor: "key:abc"}, 10, []int64{5}},
			"no part of an actor":            {people.AuditFilter{Actor: "key:ab"}, 10, nil},
			"an action":                      {people.AuditFilter{Action: "phone.verified"}, 10, []int64{4, 3, 2, 1}},
			"an object":                      {people.AuditFilter{Object: "user:7"}, 10, []int64{5}},
			"an action of somebody else":     {people.AuditFilter{Actor: "key:abc", Action: "phone.verified"}, 10, nil},
			"an actor or an object":          {people.AuditFilter{AnyActor: []string{"key:x", "key:abc"}, AnyObject: []string{"phone:1"}}, 10, []int64{5, 4, 3, 2, 1}},
			"one of two objects":             {people.AuditFilter{AnyObject: []string{"user:7", "user:8"}}, 10, []int64{5}},
			"either, and an action":          {people.AuditFilter{AnyActor: []string{"key:abc"}, AnyObject: []string{"user:7"}, Action: "phone.verified"}, 10, nil},
			"a time on":                      {people.AuditFilter{Since: at(3)}, 10, []int64{5, 4, 3}},
			"until a time":                   {people.AuditFilter{Until: at(3)}, 10, []int64{2, 1}},
			"a period":                       {people.AuditFilter{Since: at(2), Until: at(5)}, 10, []int64{4, 3, 2}},
			"a place before the period ends": {people.AuditFilter{Until: at(5), After: people.AuditPlace{At: at(3), ID: 3}}, 10, []int64{2, 1}},
			"all, the oldest first":          {people.AuditFilter{OldestFirst: true}, 10, []int64{1, 2, 3, 4, 5}},
			"a page of the oldest":           {people.AuditFilter{OldestFirst: true}, 3, []int64{1, 2, 3}},
			"the next oldest":                {people.AuditFilter{OldestFirst: true, After: people.AuditPlace{At: at(3), ID: 3}}, 10, []int64{4, 5}},
			"a period, the oldest first":     {people.AuditFilter{OldestFirst: true, Since: at(2), Until: at(5)}, 10, []int64{2, 3, 4}},
			"a place before the period":      {people.AuditFilter{OldestFirst: true, Since: at(3), After: people.AuditPlace{At: at(1), ID: 1}}, 10, []int64{3, 4, 5}},
			"a place at the period's begin":  {people.AuditFilter{OldestFirst: true, Since: at(3), After: people.AuditPlace{At: at(3), ID: 3}}, 10, []int64{4, 5}},
			"an actor, the oldest first":     {people.AuditFilter{OldestFirst: true, Actor: "key:abc"}, 10, []int64{5}},
			"a place after the period's end": {people.AuditFilter{Until: at(3), After: people.AuditPlace{At: at(3), ID: 4}}, 10, []int64{2, 1}},
		} {
			found := all(e, func(tx people.Tx) ([]people.Audit, error) { return tx.Listings().ListAudit(tc.filter, tc.limit) })
			var ids []int64
			for _, record := range found {
				ids = append(ids, record.ID)
				e.Expect(record).To(gomega.Equal(written[record.ID]), name)
			}
			e.Expect(ids).To(gomega.Equal(tc.want), name)
		}
	}},
}
