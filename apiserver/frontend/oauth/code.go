package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// verifier is the form of what proves that a code is redeemed by who asked for it (RFC 7636 4.1).
var verifier = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)

// errGrant refuses a code or a refresh token, whatever is wrong with it: what is told apart is told to thieves too.
var errGrant = &Error{Status: http.StatusBadRequest, Code: "invalid_grant", Description: "it is unknown, expired, used, revoked, or was given to another client, for another redirect_uri or code_verifier"}

// ungrantable is errGrant with what auditors are told of why, unless something else went wrong.
func ungrantable(err error, reason string) error {
	if err != nil {
		return err
	}
	refused := *errGrant
	refused.Reason = reason
	return &refused
}

// errNothingLeft refuses what a person, or a grant, stands for no more.
var errNothingLeft = invalidGrant("nothing is left of what was granted: ask the person again")

// authorizationCode redeems a code (RFC 6749 4.1.3), once. What a stranger tries changes nothing for the rightful client; what its own client
// redeems again ends what came of it, for somebody has a copy.
func (c *call) authorizationCode(form url.Values) error {
	if !c.client.May(string(v1alpha1.GrantTypeAuthorizationCode)) {
		return unauthorizedClient("the client may not use authorization codes: add AuthorizationCode to its grantTypes")
	}
	for _, name := range []string{"code", "redirect_uri", "code_verifier"} {
		if form.Get(name) == "" {
			return invalidRequest(name + " is missing")
		}
	}
	if !verifier.MatchString(form.Get("code_verifier")) {
		return invalidRequest("code_verifier has to be 43 to 128 letters, digits, and - . _ ~")
	}
	hash, formed := session.Hash(form.Get("code"))
	if !formed {
		return errGrant
	}
	tried, redeeming := false, false
	return c.issue(func(u *account.Unit) (*issued, error) {
		redeeming = false
		code, known, err := u.AuthorizationCode(hash)
		switch {
		case err != nil || !known:
			return nil, ungrantable(err, "there is no such code")
		case code.RedirectURI != form.Get("redirect_uri"):
			return nil, ungrantable(nil, "the code was given for another redirect_uri")
		case !proven(code.Challenge, form.Get("code_verifier")):
			return nil, ungrantable(nil, "the code was given for another code_verifier")
		}
		family, known, err := u.LockTokenFamily(code.Family)
		switch {
		case err != nil || !known:
			return nil, ungrantable(err, "what the code is of has ended")
		case !c.holds(family):
			return nil, ungrantable(nil, "the code was given to another client")
		case !code.RedeemedAt.IsZero() && !c.redemptions.beside(hash, c.began):
			return nil, c.end(u, family, "oauth.code_replayed")
		}
		var asked narrowed
		if err := c.narrow(&asked, form, family); err != nil {
			return nil, err
		}
		// Of those who come at once one succeeds. The others began while the code was good: they are no proof of a copy.
		redeemed, err := u.RedeemAuthorizationCode(hash, c.now)
		if err != nil || !redeemed {
			return nil, ungrantable(err, "the code is expired, or was redeemed at the same time")
		}
		tried, redeeming = true, true
		c.redemptions.redeem(hash)
		return c.grow(u, family, nil, asked)
	}, func(committed bool) {
		if tried {
			c.redemptions.done(hash, committed && redeeming)
		}
	})
}

// refusedUnless is the refusal of a grant, unless something else went wrong.
func refusedUnless(err error) error {
	if err != nil {
		return err
	}
	return errGrant
}

// holds reports whether a family is of the client that asks.
func (c *call) holds(family people.TokenFamily) bool {
	return family.Client == c.client.ID && family.App == c.Entry.ID
}

// proven reports whether a verifier is the one of a challenge.
func proven(challenge, verifier string) bool {
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}

// lasting is a refusal whose transaction is committed all the same: what it ended stays ended.
type lasting struct{ error }

func (l *lasting) Unwrap() error { return l.error }

// end ends a family that somebody has a copy of a token of, or of which nothing is left, and refuses.
func (c *call) end(u *account.Unit, family people.TokenFamily, why string) error {
	ended, err := u.EndTokenFamily(family.ID)
	if err == nil && ended {
		err = u.Audit(why, "oauth_grant:"+ids.Format(family.Grant))
	}
	if err != nil {
		return err
	}
	refused := *errGrant
	refused.Audited = ended
	return &lasting{&refused}
}

// narrowed is what a token request asks for of what was granted.
type narrowed struct {
	// scopes is nil for all.
	scopes    []string
	resources []string
}

// narrow reads what is asked for of what a family has. Resources that are not the app's or the client's any more are left out; where none is
// left, nothing is given: a token without any is for the issuer.
func (c *call) narrow(asked *narrowed, form url.Values, family people.TokenFamily) error {
	if form.Has("scope") {
		scopes, err := scopesOf(form.Get("scope"))
		if err != nil {
			return err
		}
		for _, scope := range scopes {
			if !slices.Contains(family.Scopes, scope) {
				return invalidScope("a scope was not granted")
			}
		}
		asked.scopes = append([]string{}, scopes...)
	}
	for _, resource := range form["resource"] {
		if !slices.Contains(family.Resources, resource) || !c.maySeek(c.client, resource) {
			return invalidTarget("a resource was not granted, or is not the client's any more")
		}
	}
	if form.Has("resource") {
		asked.resources = slices.Compact(slices.Sorted(slices.Values(form["resource"])))
		return nil
	}
	asked.resources = slices.DeleteFunc(slices.Clone(family.Resources), func(resource string) bool { return !c.maySeek(c.client, resource) })
	if len(family.Resources) > 0 && len(asked.resources) == 0 {
		return invalidTarget("none of the resources that were granted is the client's any more")
	}
	return nil
}

// grow gives a family its next tokens: what it stands for now, and a refresh token in place of parent (nil: the first) where the client uses
// them.
func (c *call) grow(u *account.Unit, family people.TokenFamily, parent *people.RefreshToken, asked narrowed) (*issued, error) {
	held, subject, err := c.Standing(u, c.client, family)
	if err != nil {
		return nil, err
	}
	if subject == nil {
		return nil, errNothingLeft
	}
	out := &issued{subject: subject, scopes: held, resources: asked.resources}
	family.Scopes, family.UsedAt = held, c.now
	if asked.scopes != nil {
		out.scopes = slices.DeleteFunc(slices.Clone(held), func(scope string) bool { return !slices.Contains(asked.scopes, scope) })
	}
	if parent == nil {
		family.ExpiresAt = c.now.Add(c.client.AccessTokenLifetime())
		if c.client.May(string(v1alpha1.GrantTypeRefreshToken)) {
			family.ExpiresAt = c.now.Add(max(c.client.AccessTokenLifetime(), time.Duration(c.client.RefreshTokenSeconds)*time.Second))
		}
	}
	if c.client.May(string(v1alpha1.GrantTypeRefreshToken)) {
		if out.refresh, err = c.refreshToken(u, family, parent); err != nil {
			return nil, err
		}
	}
	out.family = family
	return out, u.UpdateTokenFamily(family)
}
