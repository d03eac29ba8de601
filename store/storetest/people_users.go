package storetest

import (
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

func insertUser(n int64) func(tx people.Tx) error {
	return func(tx people.Tx) error { return tx.Users().InsertUser(user(n)) }
}

func insertPhone(p people.Phone) func(tx people.Tx) error {
	return func(tx people.Tx) error { return tx.Phones().InsertPhone(p) }
}

var userStories = []story{
	{name: "a user is read as written, by id and by the folded address, until deleted", run: func(e *env) {
		e.begin()
		want, _ := user(1)
		e.insert(insertUser(1))
		byID := func(tx people.Tx) (people.User, bool, error) { return tx.Users().User(1) }
		got, found := one(e, byID)
		e.Expect(found).To(gomega.BeTrue())
		e.Expect(got).To(gomega.Equal(want))
		got, _ = one(e, func(tx people.Tx) (people.User, bool, error) { return tx.Users().UserByEmail("person1@example.com") })
		e.Expect(got).To(gomega.Equal(want), "the address is kept as typed")
		_, found = one(e, func(tx people.Tx) (people.User, bool, error) { return tx.Users().UserByEmail("Person1@Example.com") })
		e.Expect(found).To(gomega.BeFalse(), "addresses compare folded")

		want.FirstName, want.LastName, want.Disabled, want.UpdatedAt, want.Organization = "New", "", true, after(time.Hour), 7
		e.insert(func(tx people.Tx) error { return tx.Users().UpdateUser(want) }, func(tx people.Tx) error { return tx.Users().SetLastOrganization(1, 7) })
		got, _ = one(e, byID)
		e.Expect(got).To(gomega.Equal(want))
		var locked people.User
		e.insert(func(tx people.Tx) (err error) { locked, _, err = tx.Users().LockUser(1); return err })
		e.Expect(locked).To(gomega.Equal(want))

		e.insert(func(tx people.Tx) error { return tx.Users().DeleteUser(1) })
		_, found = one(e, byID)
		e.Expect(found).To(gomega.BeFalse())
		e.insert(insertUser(1))
	}},
	{name: "an id and a folded address belong to one user of a deployment", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1))
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error {
			u, address := user(2)
			address.Address = "PERSON1@example.COM"
			return tx.Users().InsertUser(u, address)
		})
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error {
			_, address := user(2)
			u, _ := user(1)
			return tx.Users().InsertUser(u, address)
		})
		_, found := one(e, func(tx people.Tx) (people.User, bool, error) { return tx.Users().User(2) })
		e.Expect(found).To(gomega.BeFalse(), "a user without an address was left behind")
		e.change("apps/other", insertUser(1))
	}},
	{name: "users are listed the newest first, found by name and address, in pages", run: func(e *env) {
		e.begin()
		for n := range int64(5) {
			e.insert(insertUser(n + 1))
		}
		e.insert(func(tx people.Tx) error {
			return tx.Users().UpdateUser(people.User{ID: 2, FirstName: "Élodie 100%", LastName: `O_Neil\`, UpdatedAt: born})
		})
		for _, tc := range []struct {
			search        string
			limit, offset int
			want          []int64
			total         int64
		}{
			{"", 10, 0, []int64{5, 4, 3, 2, 1}, 5}, {"", 2, 1, []int64{4, 3}, 5}, {"", 2, 5, nil, 5}, {"PERSON3@", 10, 0, []int64{3}, 1},
			{"first4 LAST4", 10, 0, []int64{4}, 1}, {"irst", 1, 0, []int64{5}, 4}, {"Élodie", 10, 0, []int64{2}, 1}, {"100%", 10, 0, []int64{2}, 1},
			{"o_n", 10, 0, []int64{2}, 1}, {`l\`, 10, 0, []int64{2}, 1}, {"%", 10, 0, []int64{2}, 1}, {"_", 10, 0, []int64{2}, 1}, {"nobody", 10, 0, nil, 0},
		} {
			e.ok(e.store.View(e.ctx, home, func(tx people.Tx) error {
				users, total, err := tx.Users().ListUsers(people.UserFilter{Search: tc.search}, tc.limit, tc.offset)
				var ids []int64
				for _, u := range users {
					ids = append(ids, u.ID)
				}
				e.Expect(ids).To(gomega.Equal(tc.want), tc.search)
				e.Expect(total).To(gomega.Equal(tc.total), tc.search)
				return err
			}))
		}
	}},
	{name: "a credential is replaced", run: func(e *env) {
		e.begin()
		read := func(tx people.Tx) (string, bool, error) { return tx.Users().Credential(1, people.CredentialPassword) }
		_, found := one(e, read)
		e.Expect(found).To(gomega.BeFalse())
		for _, secret := range []string{"first", "second"} {
			e.insert(func(tx people.Tx) error { return tx.Users().PutCredential(1, people.CredentialPassword, secret, born) })
			got, _ := one(e, read)
			e.Expect(got).To(gomega.Equal(secret))
		}
		_, found = one(e, func(tx people.Tx) (string, bool, error) { return tx.Users().Credential(1, "other") })
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "a deleted user leaves nothing of its own, and what others and analytics need", run: func(e *env) {
		e.begin()
		e.change(home, func(tx people.Tx) error { return furnish(tx, "gone") })
		e.insert(insertUser(2), func(tx people.Tx) error { return tx.Sessions().InsertSignIn(signIn(2, 1, 2)) },
			func(tx people.Tx) error { m := message(3); m.Challenge = 1; return tx.Challenges().InsertMessage(m) })
		e.insert(func(tx people.Tx) error { return tx.Users().DeleteUser(1) })
		for name, read := range map[string]func(tx people.Tx) (any, error){
			"user": reads["User"], "phone": reads["Phone"],
			"credential": func(tx people.Tx) (any, error) { return optional(tx.Users().Credential(1, people.CredentialPassword)) },
			"challenge":  reads["LiveChallenge"], "member": func(tx people.Tx) (any, error) { return optional(tx.Organizations().Member(1, 1)) },
			"workspace member": func(tx people.Tx) (any, error) { return optional(tx.Organizations().WorkspaceMember(1, 1)) },
		} {
			e.Expect(all(e, read)).To(gomega.BeNil(), name)
		}
		kept, found := one(e, func(tx people.Tx) (people.Session, bool, error) { return tx.Sessions().SessionByToken(hashOf(1)) })
		e.Expect(found).To(gomega.BeTrue(), "another account is in the session")
		e.Expect(kept.SignIns).To(gomega.HaveLen(1))
		e.Expect(kept.ActiveSignIn).To(gomega.BeEquivalentTo(2))
		summary, err := e.store.Summarize(e.ctx, home, people.Period{From: born, To: after(time.Hour)}, people.Period{}, 10)
		e.ok(err)
		e.Expect(summary.Period.SignInUsers).To(gomega.BeEquivalentTo(1))
		e.Expect(summary.RecentSignIns).To(gomega.BeEmpty())
		claimed, err := e.store.LeaseMessages(e.ctx, after(time.Hour), time.Minute, people.Claim{Limit: 10})
		e.ok(err)
		e.Expect(claimed).To(gomega.HaveLen(1), "no code is sent to a deleted user")
		e.insert(insertUser(1)) // the id and the address are free
		recreated, err := e.store.Summarize(e.ctx, home, people.Period{From: born, To: after(time.Hour)}, people.Period{}, 10)
		e.ok(err)
		e.Expect(recreated.RecentSignIns).To(gomega.HaveLen(1))
		e.Expect(recreated.RecentSignIns[0].Address + recreated.RecentSignIns[0].UserAgent).To(gomega.BeEmpty())
	}},
	{name: "phones are read as written, one of them primary, until deleted", run: func(e *env) {
		e.begin()
		first, second := phone(1, 1), phone(2, 1)
		first.Primary, first.VerifiedAt = true, after(time.Minute)
		e.insert(insertPhone(second), insertPhone(first), insertPhone(phone(3, 2)))
		phonesOf := func(tx people.Tx) ([]people.Phone, error) { return tx.Phones().PhonesOf(1) }
		e.Expect(all(e, phonesOf)).To(gomega.Equal([]people.Phone{first, second}))
		e.insert(insertUser(1), func(tx people.Tx) error { return tx.Phones().MakePrimary(1, 2) })
		first.Primary, second.Primary = false, true
		e.Expect(all(e, phonesOf)).To(gomega.Equal([]people.Phone{first, second}))
		owner, _ := one(e, func(tx people.Tx) (people.User, bool, error) { return tx.Users().User(1) })
		e.Expect(owner.Phone).To(gomega.Equal(second.Number))
		e.insert(func(tx people.Tx) error { return tx.Phones().DeletePhone(1) })
		_, found := one(e, func(tx people.Tx) (people.Phone, bool, error) { return tx.Phones().Phone(1) })
		e.Expect(found).To(gomega.BeFalse())
		e.Expect(all(e, phonesOf)).To(gomega.Equal([]people.Phone{second}))
	}},
	{name: "a user has a number once, and a number has one verified owner", run: func(e *env) {
		e.begin()
		mine, theirs, again := phone(1, 1), phone(2, 2), phone(3, 1)
		theirs.Number, again.Number = mine.Number, mine.Number
		e.insert(insertPhone(mine), insertPhone(theirs))
		e.refuses(people.ErrDuplicate, insertPhone(again))
		e.refuses(people.ErrDuplicate, insertPhone(mine))
		ownerOf := func(tx people.Tx) (int64, bool, error) { return tx.Phones().PhoneOwner(mine.Number) }
		_, found := one(e, ownerOf)
		e.Expect(found).To(gomega.BeFalse())
		var won, lost atomic.Int64
		together(2, func(i int) {
			switch err := e.store.Change(e.ctx, home, func(tx people.Tx) error { return tx.Phones().VerifyPhone(int64(i+1), after(time.Minute)) }); err {
			case nil:
				won.Store(int64(i + 1))
			case people.ErrDuplicate:
				lost.Add(1)
			default:
				e.t.Error(err)
			}
		})
		e.Expect(lost.Load()).To(gomega.BeEquivalentTo(1))
		owner, found := one(e, ownerOf)
		e.Expect(found).To(gomega.BeTrue())
		e.Expect(owner).To(gomega.Equal(won.Load()))
		verified, _ := one(e, func(tx people.Tx) (people.Phone, bool, error) { return tx.Phones().Phone(won.Load()) })
		e.Expect(verified.VerifiedAt).To(gomega.Equal(after(time.Minute)))
		e.insert(func(tx people.Tx) error { return tx.Phones().DeletePhone(won.Load()) })
		e.insert(func(tx people.Tx) error { return tx.Phones().VerifyPhone(3-won.Load(), after(time.Minute)) })
	}},
}
