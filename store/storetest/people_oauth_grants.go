package storetest

import (
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// grantStories test the grants of users.
var grantStories = []story{
	{name: "a new grant to the same client in the same organization and workspace replaces the earlier one", run: func(e *env) {
		e.begin()
		first, other, again := grantOf(1, 1), grantOf(2, 1), grantOf(1, 1)
		other.Client, other.Organization = first.Client, 7
		again.ID, again.Scopes, again.Resources, again.UpdatedAt = 5, nil, []string{"https://a.example", "https://b.example"}, after(time.Hour)
		e.insert(putGrant(first), putGrant(other), putGrant(grantOf(3, 2)), func(tx people.Tx) error {
			id, err := tx.OAuth().PutGrant(again, 9)
			e.Expect(id).To(gomega.Equal(first.ID))
			return err
		})
		again.ID = first.ID
		e.insert(func(tx people.Tx) error {
			got, err := tx.OAuth().GrantsOf(1)
			e.Expect(got).To(gomega.Equal([]people.Grant{again, other}))
			return err
		})
	}},
	{name: "deleting a grant or a token family deletes its codes and tokens, and no others", run: func(e *env) {
		e.begin()
		for n := range int64(3) {
			grant := min(n+1, 2) // the second grant has two families
			e.insert(putGrant(grantOf(grant, 1)), insertFamily(tokenFamily(n+1, grant)), insertCode(authorizationCode(n+1, n+1)), insertRefreshToken(refreshToken(n+1, n+1)))
		}
		e.insert(func(tx people.Tx) error {
			deleted, err := tx.OAuth().DeleteGrant(2)
			e.Expect(deleted).To(gomega.BeTrue())
			return err
		})
		families, codes, tokens := livesOn(e, 3)
		e.Expect([][]int64{families, codes, tokens}).To(gomega.Equal([][]int64{{1}, {1}, {1}}))
		e.insert(func(tx people.Tx) error {
			ended, err := tx.OAuth().EndTokenFamily(1)
			e.Expect(ended).To(gomega.BeTrue())
			return err
		})
		families, codes, tokens = livesOn(e, 3)
		e.Expect([][]int64{families, codes, tokens}).To(gomega.Equal([][]int64{nil, nil, nil}))
		_, stands := one(e, func(tx people.Tx) (people.Grant, bool, error) { return tx.OAuth().Grant(1) })
		e.Expect(stands).To(gomega.BeTrue())
	}},
	{name: "only the user's offline token families that were created at or after a given time are ended", run: func(e *env) {
		e.begin()
		for n, change := range []func(*people.TokenFamily){
			func(f *people.TokenFamily) { f.Offline, f.CreatedAt = true, after(time.Hour) },
			func(f *people.TokenFamily) { f.Offline, f.CreatedAt = true, after(2*time.Hour) },
			func(f *people.TokenFamily) { f.Offline, f.CreatedAt = true, after(time.Minute) },
			func(f *people.TokenFamily) { f.Offline, f.CreatedAt = false, after(2*time.Hour) },
			func(f *people.TokenFamily) { f.Offline, f.CreatedAt, f.User = true, after(2*time.Hour), 2 },
		} {
			id := int64(n + 1)
			family := tokenFamily(id, id)
			family.User = 1
			change(&family)
			e.insert(putGrant(grantOf(id, family.User)), insertFamily(family), insertCode(authorizationCode(id, id)), insertRefreshToken(refreshToken(id, id)))
		}
		e.insert(func(tx people.Tx) error {
			ended, err := tx.OAuth().EndOfflineFamilies(1, after(time.Hour))
			e.Expect(ended).To(gomega.Equal(2))
			return err
		})
		families, codes, tokens := livesOn(e, 5)
		rest := []int64{3, 4, 5}
		e.Expect([][]int64{families, codes, tokens}).To(gomega.Equal([][]int64{rest, rest, rest}))
	}},
	{name: "a deleted user's grants are gone with all that lives on them", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error { return tx.Users().InsertUser(user(1)) }, putGrant(grantOf(1, 1)), putGrant(grantOf(2, 2)),
			insertFamily(tokenFamily(1, 1)), insertFamily(tokenFamily(2, 2)), insertRefreshToken(refreshToken(1, 1)), insertRefreshToken(refreshToken(2, 2)),
			func(tx people.Tx) error { return tx.Users().DeleteUser(1) })
		families, _, tokens := livesOn(e, 2)
		e.Expect([][]int64{families, tokens}).To(gomega.Equal([][]int64{{2}, {2}}))
	}},
	{name: "an app's grants are listed in pages, newest first, also filtered by client or user", run: func(e *env) {
		e.begin()
		for n, user := range []int64{1, 2, 1, 1} {
			g := grantOf(int64(n+1), user)
			if n == 2 {
				g.Client = "client1"
				g.Workspace = 9
			}
			e.insert(putGrant(g))
		}
		elsewhere := grantOf(9, 1)
		elsewhere.App = 2
		e.insert(putGrant(elsewhere))
		for _, c := range []struct {
			filter people.GrantFilter
			limit  int
			want   []int64
		}{
			{people.GrantFilter{App: 1}, 9, []int64{4, 3, 2, 1}},
			{people.GrantFilter{App: 1}, 2, []int64{4, 3}},
			{people.GrantFilter{App: 1, Before: 3}, 9, []int64{2, 1}},
			{people.GrantFilter{App: 1, User: 1}, 9, []int64{4, 3, 1}},
			{people.GrantFilter{App: 1, Client: "client1"}, 9, []int64{3, 1}},
			{people.GrantFilter{App: 1, Client: "client2", User: 1}, 9, nil},
			{people.GrantFilter{App: 3}, 9, nil},
		} {
			var got []int64
			e.insert(func(tx people.Tx) error {
				list, err := tx.OAuth().ListGrants(c.filter, c.limit)
				got = nil
				for _, g := range list {
					got = append(got, g.ID)
				}
				return err
			})
			e.Expect(got).To(gomega.Equal(c.want), "%+v", c.filter)
		}
	}},
}
