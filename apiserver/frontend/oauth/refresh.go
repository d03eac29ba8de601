package oauth

import (
	"bytes"
	"errors"
	"net/netip"
	"net/url"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// refreshGrace is how long a refresh token lives on once its successor was used: for the requests that were under way.
	refreshGrace = 10 * time.Second
	// maxUsed and maxUnused are how many refresh tokens of a family are remembered: those that were used, whose return is noticed, and those
	// that were not. Unused are the answer that arrived, and those that were lost: seven of them in a row is more than a client tries.
	// maxYoung bounds those of the last refreshGrace: the answer of each of so many refreshes at once works.
	maxUsed, maxUnused, maxYoung = 64, 8, 128
)

// refresh gives the next tokens for a refresh token (RFC 6749 6), which it replaces. A lost answer costs nothing: until the successor was
// used, and a little longer from the same network, the same token gives another one. Later its return ends the family: somebody has a copy.
func (c *call) refresh(form url.Values) error {
	if !c.client.May(string(v1alpha1.GrantTypeRefreshToken)) {
		return unauthorizedClient("the client may not use refresh tokens: add RefreshToken to its grantTypes")
	}
	if form.Get("refresh_token") == "" {
		return invalidRequest("refresh_token is missing")
	}
	hash, formed := session.Hash(form.Get("refresh_token"))
	if !formed {
		return errGrant
	}
	return c.issue(func(u *account.Unit) (*issued, error) {
		token, found, err := u.RefreshToken(hash)
		if err != nil || !found {
			return nil, ungrantable(err, "there is no such refresh token, or no more")
		}
		family, found, err := u.LockTokenFamily(token.Family)
		if err != nil || !found {
			return nil, ungrantable(err, "what the refresh token is of has ended")
		}
		if !c.holds(family) {
			return nil, ungrantable(nil, "the refresh token was given to another client")
		}
		if token, found, err = u.RefreshToken(hash); err != nil || !found { // others may have used it until the family was locked
			return nil, ungrantable(err, "there is no such refresh token, or no more")
		}
		var asked narrowed
		if err := c.narrow(&asked, form, family); err != nil {
			return nil, err
		}
		return c.rotate(u, family, token, asked)
	}, nil)
}

// rotate gives the next tokens of a locked family for one of its refresh tokens, or ends the family that somebody has a copy of a token of.
func (c *call) rotate(u *account.Unit, family people.TokenFamily, token people.RefreshToken, asked narrowed) (*issued, error) {
	if !c.now.Before(token.ExpiresAt) || !c.now.Before(family.UsedAt.Add(idleOf(c.client))) {
		return nil, ungrantable(nil, "the refresh token is expired, or was not used for too long")
	}
	network := networkOf(c.address())
	if !token.DiesAt.IsZero() && (!c.now.Before(token.DiesAt) || token.Network != network) || c.leftover(token) {
		return nil, c.end(u, family, "oauth.refresh_token_reused")
	}
	if token.UsedAt.IsZero() {
		token.Network = network
	}
	if err := u.UseRefreshToken(token, c.now, c.now.Add(refreshGrace)); err != nil {
		return nil, err
	}
	out, err := c.grow(u, family, &token, asked)
	if errors.Is(err, errNothingLeft) {
		return nil, c.end(u, family, "oauth.grant_lapsed") // for good: what comes back later is granted anew
	}
	return out, err
}

// leftover reports that a token comes for the first time after the time of the one it replaced: its sibling went on long since. Two hold tokens
// of the family then, of whom one is a thief that used a copy before its owner did, and waited.
func (c *call) leftover(token people.RefreshToken) bool {
	return token.UsedAt.IsZero() && !token.ParentDiesAt.IsZero() && !c.now.Before(token.ParentDiesAt)
}

// idleOf is how long a client's refresh tokens are good without use.
func idleOf(client *consent.Client) time.Duration {
	return time.Duration(client.RefreshIdleSeconds) * time.Second
}

// refreshToken gives a family another refresh token.
func (c *call) refreshToken(u *account.Unit, family people.TokenFamily, parent *people.RefreshToken) (string, error) {
	plain, hash, err := session.Mint(u.Random)
	if err != nil {
		return "", err
	}
	next := people.RefreshToken{Hash: hash, Family: family.ID, CreatedAt: c.now, ExpiresAt: family.ExpiresAt}
	if parent != nil {
		next.Parent = bytes.Clone(parent.Hash)
	}
	if err := u.InsertRefreshToken(next); err != nil {
		return "", err
	}
	if parent == nil {
		return plain, nil
	}
	return plain, u.TrimRefreshTokens(family.ID, parent.Hash, people.RefreshBounds{Used: maxUsed, Unused: maxUnused, Young: maxYoung, YoungSince: c.now.Add(-refreshGrace)})
}

// networkOf is the neighbourhood within which a device keeps its address: an IPv4 /24 or an IPv6 /64.
func networkOf(address netip.Addr) string {
	bits := 24
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return "unknown"
	}
	return prefix.String()
}
