package storetest

import (
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// tokenStories test the rows that depend on grants: token families, authorization codes and refresh tokens.
var tokenStories = []story{
	{name: "a token family is read as it was written, and an update changes only its scopes, last use and expiry", run: func(e *env) {
		e.begin()
		want := tokenFamily(1, 1)
		e.insert(insertFamily(want))
		got, _ := one(e, func(tx people.Tx) (people.TokenFamily, bool, error) { return tx.OAuth().TokenFamily(1) })
		e.Expect(got).To(gomega.Equal(want))
		changed := want
		changed.Scopes, changed.UsedAt, changed.ExpiresAt, changed.Nonce = nil, after(time.Minute), after(2*time.Hour), "never written"
		e.insert(func(tx people.Tx) error { return tx.OAuth().UpdateTokenFamily(changed) }, func(tx people.Tx) error {
			got, found, err := tx.OAuth().LockTokenFamily(1)
			changed.Nonce = want.Nonce
			e.Expect(found).To(gomega.BeTrue())
			e.Expect(got).To(gomega.Equal(changed))
			return err
		})
	}},
	{name: "beyond the bound of a grant, the least recently used token family is deleted with its tokens", run: func(e *env) {
		e.begin()
		for n := range int64(4) {
			f := tokenFamily(n+1, 1)
			f.UsedAt = after(time.Duration(10-n) * time.Minute) // the first was used last
			e.insert(func(tx people.Tx) error { return tx.OAuth().InsertTokenFamily(f, 3) }, insertRefreshToken(refreshToken(n+1, n+1)), insertCode(authorizationCode(n+1, n+1)))
		}
		e.insert(insertFamily(tokenFamily(5, 2)))
		families, _, _ := livesOn(e, 6)
		e.Expect(families).To(gomega.Equal([]int64{1, 2, 3, 5}), "the fourth was the least recently used, so its own insertion deleted it")
		latest := tokenFamily(6, 1)
		latest.UsedAt = after(time.Hour)
		e.insert(func(tx people.Tx) error { return tx.OAuth().InsertTokenFamily(latest, 3) })
		families, codes, tokens := livesOn(e, 6)
		e.Expect(families).To(gomega.Equal([]int64{1, 2, 5, 6}))
		e.Expect(codes).To(gomega.Equal([]int64{1, 2, 4}))
		e.Expect(tokens).To(gomega.Equal([]int64{1, 2, 4}))
	}},
	{name: "a code is redeemed only once, and not after it expires", run: func(e *env) {
		e.begin()
		want := authorizationCode(1, 1)
		e.insert(insertCode(want))
		for _, try := range []struct {
			at   time.Time
			want bool
		}{{want.ExpiresAt, false}, {after(time.Second), true}, {after(time.Second), false}} {
			e.insert(func(tx people.Tx) error {
				redeemed, err := tx.OAuth().RedeemAuthorizationCode(hashOf(1), try.at)
				e.Expect(redeemed).To(gomega.Equal(try.want))
				return err
			})
		}
		want.RedeemedAt = after(time.Second)
		got, _ := one(e, func(tx people.Tx) (people.AuthorizationCode, bool, error) {
			return tx.OAuth().AuthorizationCode(hashOf(1))
		})
		e.Expect(got).To(gomega.Equal(want))
	}},
	{name: "the first use of a refresh token is recorded, and sets when its parent dies", run: func(e *env) {
		e.begin()
		parent, child := refreshToken(1, 1), refreshToken(2, 1)
		child.Parent = parent.Hash
		e.insert(insertRefreshToken(parent), insertRefreshToken(child))
		child.Network = "192.0.2.0/24"
		use := func(at, dies time.Time) {
			e.insert(func(tx people.Tx) error { return tx.OAuth().UseRefreshToken(child, at, dies) })
		}
		use(after(time.Second), after(11*time.Second))
		use(after(time.Minute), after(2*time.Minute)) // a second use changes neither time
		got, _ := one(e, func(tx people.Tx) (people.RefreshToken, bool, error) { return tx.OAuth().RefreshToken(hashOf(1)) })
		e.Expect(got.DiesAt).To(gomega.Equal(after(11 * time.Second)))
		got, _ = one(e, func(tx people.Tx) (people.RefreshToken, bool, error) { return tx.OAuth().RefreshToken(hashOf(2)) })
		child.UsedAt, child.ParentDiesAt = after(time.Second), after(11*time.Second)
		e.Expect(got).To(gomega.Equal(child))
	}},
	{name: "the newest refresh tokens of a family and the presented one are kept", run: func(e *env) {
		e.begin()
		for n := int64(1); n <= 8; n++ {
			t := refreshToken(n, 1)
			if n%2 == 0 {
				t.UsedAt = after(time.Minute)
			}
			e.insert(insertRefreshToken(t))
		}
		e.insert(insertRefreshToken(refreshToken(9, 2)), func(tx people.Tx) error {
			return tx.OAuth().TrimRefreshTokens(1, hashOf(1), people.RefreshBounds{Used: 1, Unused: 2, YoungSince: after(time.Hour)})
		})
		e.Expect(refreshTokensLeft(e, 9)).To(gomega.Equal([]int64{1, 5, 7, 8, 9}))
		e.insert(func(tx people.Tx) error {
			return tx.OAuth().TrimRefreshTokens(1, hashOf(1), people.RefreshBounds{Used: 1, Young: 1})
		})
		e.Expect(refreshTokensLeft(e, 9)).To(gomega.Equal([]int64{1, 7, 8, 9}))
	}},
}
