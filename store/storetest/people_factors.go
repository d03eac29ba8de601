package storetest

import (
	"fmt"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

func authenticator(n, user int64) people.Authenticator {
	return people.Authenticator{
		ID: n, User: user, SignIn: 1, Name: fmt.Sprintf("Phone %d", n), Sealed: fmt.Sprintf("sealed %d", n), Algorithm: "SHA1", Digits: 6,
		Period: 30 * time.Second, CreatedAt: after(time.Duration(n) * time.Second),
	}
}

func passkey(n, user int64) people.Passkey {
	return people.Passkey{
		ID: n, User: user, RelyingParty: "acme.example", Credential: hashOf(n), Handle: hashOf(user), PublicKey: []byte{1, byte(n)}, SignCount: n,
		BackupEligible: 1, BackedUp: true, SecondFactorOnly: true, Transports: []string{"internal", "hybrid"}, AAGUID: make([]byte, 16),
		Name: fmt.Sprintf("Key %d", n), CreatedAt: after(time.Duration(n) * time.Second),
	}
}

func temporaryCode(n, user int64) people.TemporaryCode {
	return people.TemporaryCode{
		ID: n, User: user, Salt: []byte{1, byte(n)}, MAC: []byte{2, byte(n)}, KeyID: "key", CreatedAt: born, ExpiresAt: after(time.Duration(n) * time.Hour),
	}
}

// furnishFactors inserts a row of each kind for user 1.
func furnishFactors(tx people.Tx, mark string) error {
	a, p, c := authenticator(1, 1), passkey(1, 1), temporaryCode(1, 1)
	a.Name, p.Name, c.KeyID = mark, mark, mark
	for _, err := range []error{
		tx.Factors().InsertAuthenticator(a), tx.Factors().InsertPasskey(p), tx.Factors().PutTemporaryCode(c),
		tx.Factors().ReplaceRecoveryCodes(1, [][]byte{hashOf(1)}, born),
	} {
		if err != nil {
			return err
		}
	}
	_, err := tx.Factors().SpendChallenge(hashOf(1), after(5*time.Minute))
	return err
}

// furnishFactorUsers inserts users with various factors, and one of another deployment with all of them.
func furnishFactorUsers(e *env) {
	for n := range int64(10) {
		e.insert(insertUser(n + 1))
	}
	confirmed, old, key, verified := authenticator(1, 2), passkey(3, 9), passkey(4, 7), passkey(5, 6)
	confirmed.ConfirmedAt = born
	resistant, both := passkey(1, 5), authenticator(3, 5)
	both.ConfirmedAt, resistant.SecondFactorOnly, verified.Verified = born, false, true
	old.RelyingParty, old.SecondFactorOnly = "old.example", false
	own, unverified := phone(1, 4), phone(2, 10)
	own.VerifiedAt = born
	for _, insert := range []func(people.Tx) error{
		func(tx people.Tx) error { return tx.Factors().InsertAuthenticator(confirmed) },
		func(tx people.Tx) error { return tx.Factors().InsertAuthenticator(authenticator(2, 3)) }, // not confirmed
		insertPhone(own), insertPhone(phone(3, 1)), insertPhone(unverified),
		func(tx people.Tx) error { return tx.Factors().SetSecondFactorPhone(own.ID, born) },
		func(tx people.Tx) error { return tx.Factors().SetSecondFactorPhone(unverified.ID, born) },
		func(tx people.Tx) error { return tx.Factors().InsertAuthenticator(both) },
		func(tx people.Tx) error { return tx.Factors().InsertPasskey(resistant) },
		func(tx people.Tx) error { return tx.Factors().InsertPasskey(verified) },
		func(tx people.Tx) error { return tx.Factors().InsertPasskey(key) }, // a security key beside no password
		func(tx people.Tx) error { return tx.Factors().InsertPasskey(passkey(6, 8)) },
		func(tx people.Tx) error { return tx.Users().PutCredential(8, people.CredentialPassword, "hash", born) },
		func(tx people.Tx) error { return tx.Factors().InsertPasskey(old) },
	} {
		e.insert(insert)
	}
	e.change("apps/other", func(tx people.Tx) error {
		foreign := passkey(7, 1)
		foreign.SecondFactorOnly = false
		return tx.Factors().InsertPasskey(foreign)
	})
}

// listed returns the ids of the users that match a filter, read in pages of two, and checks the total of each page.
func listed(e *env, filter people.UserFilter) (ids []int64) {
	e.t.Helper()
	for offset := 0; ; offset += 2 {
		var page []people.User
		var total int64
		e.view(home, func(tx people.Tx) (err error) { page, total, err = tx.Users().ListUsers(filter, 2, offset); return err })
		for _, u := range page {
			ids = append(ids, u.ID)
		}
		if len(page) == 0 {
			e.Expect(total).To(gomega.BeEquivalentTo(len(ids)))
			return ids
		}
	}
}

// yes runs a write and returns what it reports.
func yes(e *env, write func(people.Factors) (bool, error)) (did bool) {
	e.t.Helper()
	e.change(home, func(tx people.Tx) (err error) {
		did, err = write(tx.Factors())
		return err
	})
	return did
}

var factorStories = []story{
	{name: "an authenticator is read as written; a time step is accepted once and never below the last one", run: func(e *env) {
		e.begin()
		a := authenticator(1, 7)
		e.insert(func(tx people.Tx) error { return tx.Factors().InsertAuthenticator(a) })
		stored := func() people.Authenticator {
			var all []people.Authenticator
			e.view(home, func(tx people.Tx) (err error) { all, err = tx.Factors().AuthenticatorsOf(7); return err })
			e.Expect(all).To(gomega.HaveLen(1))
			return all[0]
		}
		e.Expect(stored()).To(gomega.Equal(a))
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.ConfirmAuthenticator(1, 100, after(time.Minute)) })).To(gomega.BeTrue())
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.ConfirmAuthenticator(1, 101, after(time.Hour)) })).To(gomega.BeFalse(), "confirmed already")
		e.Expect(stored().ConfirmedAt).To(gomega.Equal(after(time.Minute)))
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.SpendStep(1, 100, born) })).To(gomega.BeFalse(), "the confirming step is spent")
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.SpendStep(1, 99, born) })).To(gomega.BeFalse())
		e.Expect(e.winners(20, func(tx people.Tx) (bool, error) { return tx.Factors().SpendStep(1, 101, born) })).To(gomega.Equal(1))
		e.Expect(stored().LastStep).To(gomega.BeEquivalentTo(101))
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.ResealAuthenticator(1, "another", "lost") })).To(gomega.BeFalse())
		e.Expect(stored().Sealed).To(gomega.Equal(a.Sealed), "a secret that was sealed again meanwhile stays")
		e.Expect(e.winners(20, func(tx people.Tx) (bool, error) { return tx.Factors().ResealAuthenticator(1, a.Sealed, "again") })).To(gomega.Equal(1))
		e.Expect(stored().Sealed).To(gomega.Equal("again"))
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.DeleteAuthenticator(1) })).To(gomega.BeTrue())
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.DeleteAuthenticator(1) })).To(gomega.BeFalse())
	}},
	{name: "a passkey is read as written, and its credential id is unique within the relying party", run: func(e *env) {
		e.begin()
		p := passkey(1, 7)
		e.insert(func(tx people.Tx) error { return tx.Factors().InsertPasskey(p) })
		got, found := one(e, func(tx people.Tx) (people.Passkey, bool, error) {
			return tx.Factors().PasskeyByCredential("acme.example", p.Credential)
		})
		e.Expect(found).To(gomega.BeTrue())
		e.Expect(got).To(gomega.Equal(p))
		_, found = one(e, func(tx people.Tx) (people.Passkey, bool, error) {
			return tx.Factors().PasskeyByCredential("other.example", p.Credential)
		})
		e.Expect(found).To(gomega.BeFalse())
		again := passkey(2, 8)
		again.Credential = p.Credential
		e.fails(e.store.Change(e.ctx, home, func(tx people.Tx) error { return tx.Factors().InsertPasskey(again) }), people.ErrDuplicate)
		again.RelyingParty = "other.example"
		e.insert(func(tx people.Tx) error { return tx.Factors().InsertPasskey(again) })
		p.SignCount, p.BackupEligible, p.BackedUp, p.Verified, p.UsedAt = 9, -1, false, true, after(time.Hour)
		e.insert(func(tx people.Tx) error { return tx.Factors().UsePasskey(p) })
		got, _ = one(e, func(tx people.Tx) (people.Passkey, bool, error) {
			return tx.Factors().PasskeyByCredential("acme.example", p.Credential)
		})
		e.Expect(got).To(gomega.Equal(p))
	}},
	{name: "a recovery code, a challenge and a temporary code work once", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error {
			return tx.Factors().ReplaceRecoveryCodes(7, [][]byte{hashOf(1), hashOf(2)}, born)
		}, func(tx people.Tx) error { return tx.Factors().PutTemporaryCode(temporaryCode(1, 7)) })
		e.Expect(e.winners(20, func(tx people.Tx) (bool, error) {
			return tx.Factors().SpendRecoveryCode(7, hashOf(1), after(time.Minute))
		})).To(gomega.Equal(1))
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.SpendRecoveryCode(8, hashOf(2), born) })).To(gomega.BeFalse(), "another user's code")
		var codes people.RecoveryCodes
		e.view(home, func(tx people.Tx) (err error) { codes, err = tx.Factors().RecoveryCodesOf(7); return err })
		e.Expect(codes).To(gomega.Equal(people.RecoveryCodes{Left: 1, CreatedAt: born}))
		e.insert(func(tx people.Tx) error {
			return tx.Factors().ReplaceRecoveryCodes(7, [][]byte{hashOf(3)}, after(time.Hour))
		})
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.SpendRecoveryCode(7, hashOf(2), born) })).To(gomega.BeFalse(), "a replaced code")
		e.Expect(e.winners(20, func(tx people.Tx) (bool, error) { return tx.Factors().SpendChallenge(hashOf(1), after(time.Hour)) })).To(gomega.Equal(1))
		e.insert(func(tx people.Tx) error { return tx.Factors().PutTemporaryCode(temporaryCode(2, 7)) })
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.DeleteTemporaryCode(7, 1) })).To(gomega.BeFalse(), "a replaced code")
		e.Expect(e.winners(20, func(tx people.Tx) (bool, error) { return tx.Factors().DeleteTemporaryCode(7, 2) })).To(gomega.Equal(1))
	}},
	{name: "users are listed by what their usable factors reach, in pages", run: func(e *env) {
		e.begin()
		furnishFactorUsers(e)
		all := people.FactorFilter{Authenticators: true, Texts: true, RelyingParty: "acme.example", Passwords: true}
		with := func(change func(*people.FactorFilter)) people.FactorFilter {
			f := all
			change(&f)
			return f
		}
		for name, tc := range map[string]struct {
			filter               people.FactorFilter
			none, two, resistant []int64
		}{
			"every kind is usable":  {filter: all, none: []int64{10, 9, 3, 1}, two: []int64{7, 4, 2}, resistant: []int64{8, 6, 5}},
			"no passwords":          {filter: with(func(f *people.FactorFilter) { f.Passwords = false }), none: []int64{10, 9, 3, 1}, two: []int64{8, 7, 4, 2}, resistant: []int64{6, 5}},
			"no authenticators":     {filter: with(func(f *people.FactorFilter) { f.Authenticators = false }), none: []int64{10, 9, 3, 2, 1}, two: []int64{7, 4}, resistant: []int64{8, 6, 5}},
			"no texts":              {filter: with(func(f *people.FactorFilter) { f.Texts = false }), none: []int64{10, 9, 4, 3, 1}, two: []int64{7, 2}, resistant: []int64{8, 6, 5}},
			"another relying party": {filter: with(func(f *people.FactorFilter) { f.RelyingParty = "old.example" }), none: []int64{10, 8, 7, 6, 3, 1}, two: []int64{5, 4, 2}, resistant: []int64{9}},
			"no passkeys":           {filter: with(func(f *people.FactorFilter) { f.RelyingParty = "" }), none: []int64{10, 9, 8, 7, 6, 3, 1}, two: []int64{5, 4, 2}},
			"nothing is usable":     {filter: people.FactorFilter{Passwords: true}, none: []int64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
		} {
			for level, want := range map[assurance.Level][]int64{assurance.None: tc.none, assurance.TwoFactors: tc.two, assurance.PhishingResistant: tc.resistant} {
				filter := tc.filter
				filter.Level = level
				e.Expect(listed(e, people.UserFilter{Factors: &filter})).To(gomega.Equal(want), "%s: %s", name, level)
			}
		}
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(1)) })
		for id := range int64(10) {
			e.insert(func(tx people.Tx) error {
				return tx.Organizations().InsertMember(people.Member{ID: 100 - id, User: id + 1, Organization: organization(1), CreatedAt: born})
			})
		}
		e.Expect(factorLevels(e, 0, 200, all)).To(gomega.Equal(map[int64]assurance.Level{
			1: 0, 2: assurance.TwoFactors, 3: 0, 4: assurance.TwoFactors, 5: assurance.PhishingResistant, 6: assurance.PhishingResistant, 7: assurance.TwoFactors,
			8: assurance.PhishingResistant, 9: 0, 10: 0,
		}))
		e.Expect(factorLevels(e, 91, 2, people.FactorFilter{})).To(gomega.Equal(map[int64]assurance.Level{9: 0, 8: 0}), "a page, without usable factors")
		none := with(func(f *people.FactorFilter) { f.Level = assurance.None })
		e.Expect(listed(e, people.UserFilter{Search: "person1", Factors: &none})).To(gomega.Equal([]int64{10, 1}), "with a search")
	}},
	{name: "proofs are kept with a sign-in, and after its end", run: func(e *env) {
		e.begin()
		g := signIn(1, 1, 1)
		g.Proofs = assurance.Proofs{}.With(assurance.Password, born).With(assurance.TOTP, after(time.Second))
		u, address := user(1)
		e.insert(func(tx people.Tx) error { return tx.Users().InsertUser(u, address) },
			func(tx people.Tx) error { return tx.Sessions().InsertSession(session(1)) },
			func(tx people.Tx) error { return tx.Sessions().InsertToken(tokenOf(1, 1)) },
			func(tx people.Tx) error { return tx.Sessions().InsertSignIn(g) },
			func(tx people.Tx) error { return tx.Factors().SetTwoStep(1, true) })
		s, _ := one(e, func(tx people.Tx) (people.Session, bool, error) { return tx.Sessions().SessionByToken(hashOf(1)) })
		e.Expect(s.SignIns).To(gomega.HaveLen(1))
		e.Expect(s.SignIns[0].Proofs).To(gomega.Equal(g.Proofs))
		e.Expect(s.SignIns[0].TwoStep).To(gomega.BeTrue())
		e.Expect(s.SignIns[0].UserCreatedAt).To(gomega.Equal(u.CreatedAt))
		e.insert(func(tx people.Tx) error { return tx.Sessions().EndSession(1) })
		var ended []people.EndedSignIn
		e.view(home, func(tx people.Tx) (err error) { ended, err = tx.Sessions().EndedSignIns(1, 10); return err })
		e.Expect(ended).To(gomega.HaveLen(1))
		e.Expect(ended[0].Proofs).To(gomega.Equal(g.Proofs))
	}},
	{name: "upkeep deletes what no longer counts, and nothing else", run: func(e *env) {
		e.begin()
		waiting, confirmed := authenticator(1, 7), authenticator(2, 7)
		confirmed.ConfirmedAt = born
		e.insert(func(tx people.Tx) error { return tx.Factors().InsertAuthenticator(waiting) },
			func(tx people.Tx) error { return tx.Factors().InsertAuthenticator(confirmed) },
			func(tx people.Tx) error {
				return tx.Factors().ReplaceRecoveryCodes(7, [][]byte{hashOf(1), hashOf(2)}, born)
			},
			func(tx people.Tx) error { _, err := tx.Factors().SpendRecoveryCode(7, hashOf(1), born); return err },
			func(tx people.Tx) error { return tx.Factors().PutTemporaryCode(temporaryCode(1, 7)) },
			func(tx people.Tx) error {
				_, err := tx.Factors().SpendChallenge(hashOf(1), after(time.Hour))
				return err
			})
		purge := func(at time.Time) {
			_, err := e.store.Purge(e.ctx, at, people.Retention{Audit: 1000 * 24 * time.Hour, ToolCalls: 1000 * 24 * time.Hour}, 100)
			e.ok(err)
		}
		purge(after(time.Minute))
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.SpendChallenge(hashOf(1), after(time.Hour)) })).To(gomega.BeFalse())
		purge(after(91 * 24 * time.Hour))
		e.view(home, func(tx people.Tx) error {
			all, err := tx.Factors().AuthenticatorsOf(7)
			e.Expect(all).To(gomega.Equal([]people.Authenticator{confirmed}))
			if err != nil {
				return err
			}
			used, _, err := tx.Factors().HasRecoveryCode(7, hashOf(1))
			e.Expect(used).To(gomega.BeFalse(), "a used code is forgotten after 90 days")
			if err != nil {
				return err
			}
			left, _, err := tx.Factors().HasRecoveryCode(7, hashOf(2))
			e.Expect(left).To(gomega.BeTrue())
			if err != nil {
				return err
			}
			_, temporary, err := tx.Factors().TemporaryCode(7)
			e.Expect(temporary).To(gomega.BeFalse())
			return err
		})
		e.Expect(yes(e, func(f people.Factors) (bool, error) { return f.SpendChallenge(hashOf(1), born) })).To(gomega.BeTrue())
	}},
}

// factorLevels returns what the factors of organization 1's members reach.
func factorLevels(e *env, after int64, limit int, usable people.FactorFilter) map[int64]assurance.Level {
	return all(e, func(tx people.Tx) (map[int64]assurance.Level, error) {
		return tx.Organizations().FactorLevelsOf(1, after, limit, usable)
	})
}
