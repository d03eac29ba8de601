package decision

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/authn"
	"github.com/cardea-iam/cardea/apiserver/limiter"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
)

// bySession finds who a session's token stands for. The deployment's default scheme binds it, each user for themselves.
//
// Whoever presents too many bad ones is told so, but each is looked at first: a signature that is right is no guess, whoever else is
// behind that address, and a token is new every minute.
func (a *API) bySession(ctx context.Context, s *snapshot.Snapshot, raw string, client netip.Addr) (*subject, error) {
	digest := apikey.Digest(sha256.Sum256([]byte(raw)))
	if known := a.subjects.get(digest, s); known != nil {
		if !known.live(a.Clock()) {
			return nil, authn.Expired()
		}
		return known, nil
	}
	token, err := a.Authenticator.Tokens.SessionToken(ctx, s, raw)
	if err != nil && !errors.Is(err, authn.ErrExpired) && a.guesses.tooMany(client) {
		return nil, tooManyGuesses()
	}
	if err != nil {
		return nil, err
	}
	binding, err := a.Limiter.Bind(s, token.Principal)
	if missing := (*limiter.MissingError)(nil); errors.As(err, &missing) {
		return nil, apierror.Unavailable(err, "the deployment's limits are not known here yet: try again")
	}
	if err != nil {
		return nil, err
	}
	found := newSessionSubject(s, &token, binding)
	a.subjects.put(digest, found)
	return found, nil
}
