package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/url"
	"regexp"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
)

// verifier is the form of a code_verifier (RFC 7636 4.1).
var verifier = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)

// codeGrant redeems authorization codes (RFC 6749 4.1.3), each once. An attempt of another client does not affect the
// code. If its own client redeems the code again, the token family ends, because the code was copied.
type codeGrant struct{}

func (codeGrant) parse(c *call, form url.Values) (redemption, error) {
	for _, name := range []string{"code", "redirect_uri", "code_verifier"} {
		if form.Get(name) == "" {
			return redemption{}, invalidRequest(name + " is missing")
		}
	}
	if !verifier.MatchString(form.Get("code_verifier")) {
		return redemption{}, invalidRequest("code_verifier must be 43 to 128 letters, digits, and - . _ ~")
	}
	hash, formed := session.Hash(form.Get("code"))
	if !formed {
		return redemption{}, errGrant
	}
	request := &codeRedemption{call: c, form: form, hash: hash}
	return redemption{redeem: request.redeem, finish: request.finish}, nil
}

// codeRedemption is one request to redeem a code.
type codeRedemption struct {
	*call
	form url.Values
	hash []byte
	// tried reports that at least one run of the transaction redeemed the code. redeemed reports that the last run
	// redeemed it.
	tried, redeemed bool
}

func (r *codeRedemption) redeem(u *account.Unit) (*issued, error) {
	r.redeemed = false
	code, known, err := u.OAuth().AuthorizationCode(r.hash)
	switch {
	case err != nil || !known:
		return nil, ungrantable(err, "there is no such code")
	case code.RedirectURI != r.form.Get("redirect_uri"):
		return nil, ungrantable(nil, "the code was issued for another redirect_uri")
	case !proven(code.Challenge, r.form.Get("code_verifier")):
		return nil, ungrantable(nil, "the code was issued for another code_verifier")
	}
	family, known, err := u.OAuth().LockTokenFamily(code.Family)
	switch {
	case err != nil || !known:
		return nil, ungrantable(err, "the authorization of the code has ended")
	case !r.ownsFamily(family):
		return nil, ungrantable(nil, "the code was issued to another client")
	case !code.RedeemedAt.IsZero() && !r.redemptions.racedWith(r.hash, r.began):
		return nil, r.end(u, family, events.OAuthCodeReplayed, "oauth.code_replayed")
	}
	asked, err := r.restrict(r.form, family)
	if err != nil {
		return nil, err
	}
	// One of several concurrent requests succeeds. The others began while the code was valid, so they do not prove a copy.
	redeemed, err := u.OAuth().RedeemAuthorizationCode(r.hash, r.now)
	if err != nil || !redeemed {
		return nil, ungrantable(err, "the code is expired, or was redeemed at the same time")
	}
	r.tried, r.redeemed = true, true
	r.redemptions.redeem(r.hash)
	return r.issueNext(u, family, nil, asked)
}

func (r *codeRedemption) finish(committed bool) {
	if r.tried {
		r.redemptions.done(r.hash, committed && r.redeemed)
	}
}

// proven reports whether a code_verifier matches a challenge (RFC 7636 4.6).
func proven(challenge, verifier string) bool {
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}
