package oauth

import (
	"bytes"
	"errors"
	"net/netip"
	"net/url"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// refreshGrace is how long a refresh token stays valid after its successor was used, for concurrent requests.
	refreshGrace = 10 * time.Second
	// maxUsed bounds the used refresh tokens of a token family that the store keeps to detect copies. maxUnused bounds
	// the unused ones: the token of one response that arrived, and those of seven responses that were lost. maxYoung
	// bounds the tokens of the last refreshGrace, so that the responses of concurrent refreshes all work.
	maxUsed, maxUnused, maxYoung = 64, 8, 128
)

// refreshGrant exchanges a refresh token for the next tokens (RFC 6749 6). The new refresh token replaces it.
//   - If a response is lost, the client can present the same token again and gets another successor. This works until a
//     successor is used, and then for refreshGrace from the same network.
//   - If the token is used later, or from another network, the token family ends, because the token was copied.
type refreshGrant struct{}

func (refreshGrant) parse(c *call, form url.Values) (redemption, error) {
	if form.Get("refresh_token") == "" {
		return redemption{}, invalidRequest("refresh_token is missing")
	}
	hash, formed := session.Hash(form.Get("refresh_token"))
	if !formed {
		return redemption{}, errGrant
	}
	return redemption{redeem: func(u *account.Unit) (*issued, error) {
		token, found, err := u.OAuth().RefreshToken(hash)
		if err != nil || !found {
			return nil, ungrantable(err, "there is no such refresh token")
		}
		family, found, err := u.OAuth().LockTokenFamily(token.Family)
		if err != nil || !found {
			return nil, ungrantable(err, "the authorization of the refresh token has ended")
		}
		if !c.ownsFamily(family) {
			return nil, ungrantable(nil, "the refresh token was issued to another client")
		}
		if token, found, err = u.OAuth().RefreshToken(hash); err != nil || !found { // a concurrent request may have used it before the lock
			return nil, ungrantable(err, "there is no such refresh token")
		}
		asked, err := c.restrict(form, family)
		if err != nil {
			return nil, err
		}
		return rotate(c, u, family, token, asked)
	}}, nil
}

// rotate grants the next tokens of a locked token family for one of its refresh tokens. It ends the family if the token
// is a copy.
func rotate(c *call, u *account.Unit, family people.TokenFamily, token people.RefreshToken, asked restriction) (*issued, error) {
	if !c.now.Before(token.ExpiresAt) || !c.now.Before(family.UsedAt.Add(idleOf(c.client))) {
		return nil, ungrantable(nil, "the refresh token is expired, or was not used for too long")
	}
	network := networkOf(c.address())
	if !token.DiesAt.IsZero() && (!c.now.Before(token.DiesAt) || token.Network != network) || leftover(c, token) {
		return nil, c.end(u, family, events.OAuthTokenReused, "oauth.refresh_token_reused")
	}
	if token.UsedAt.IsZero() {
		token.Network = network
	}
	if err := u.OAuth().UseRefreshToken(token, c.now, c.now.Add(refreshGrace)); err != nil {
		return nil, err
	}
	out, err := c.issueNext(u, family, &token, asked)
	if errors.Is(err, errNothingLeft) {
		return nil, c.end(u, family, events.OAuthGrantLapsed, "oauth.grant_lapsed") // the family ends permanently: a later grant makes a new one
	}
	return out, err
}

// leftover reports whether a token is used for the first time after its parent's grace has ended. A sibling of the
// token is in use by then, so two parties have tokens of the family: one of them used a copy before the owner.
func leftover(c *call, token people.RefreshToken) bool {
	return token.UsedAt.IsZero() && !token.ParentDiesAt.IsZero() && !c.now.Before(token.ParentDiesAt)
}

// idleOf returns how long a client's refresh tokens are valid without use.
func idleOf(client *consent.Client) time.Duration {
	return time.Duration(client.RefreshIdleSeconds) * time.Second
}

// refreshToken adds a refresh token to a token family.
func refreshToken(c *call, u *account.Unit, family people.TokenFamily, parent *people.RefreshToken) (string, error) {
	plain, hash, err := session.Mint(u.Random)
	if err != nil {
		return "", err
	}
	next := people.RefreshToken{Hash: hash, Family: family.ID, CreatedAt: c.now, ExpiresAt: family.ExpiresAt}
	if parent != nil {
		next.Parent = bytes.Clone(parent.Hash)
	}
	if err := u.OAuth().InsertRefreshToken(next); err != nil {
		return "", err
	}
	if parent == nil {
		return plain, nil
	}
	return plain, u.OAuth().TrimRefreshTokens(family.ID, parent.Hash, people.RefreshBounds{Used: maxUsed, Unused: maxUnused, Young: maxYoung, YoungSince: c.now.Add(-refreshGrace)})
}

// networkOf returns the network within which a device keeps its address: an IPv4 /24 or an IPv6 /64.
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
