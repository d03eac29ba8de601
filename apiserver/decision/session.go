package decision

import (
	"context"
	"errors"
	"net/netip"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

// bySession returns the subject of a session token. The deployment's default scheme limits each user separately. After
// too many failed attempts, a client gets 429 for its invalid tokens. Its valid tokens are still accepted, because
// other users may share the address, and a session gets a new token every minute. So the token is verified before the
// throttle is checked.
func (a *API) bySession(ctx context.Context, s *snapshot.Snapshot, raw string, client netip.Addr) (*subject, error) {
	if bearer.Classify(raw) != bearer.SessionToken {
		return nil, apierror.InvalidToken()
	}
	digest := kindSession.digest(raw)
	if known := a.cache.get(digest, s); known != nil {
		if !known.live(a.Clock()) {
			return nil, credential.Expired()
		}
		return known, nil
	}
	token, err := a.Authenticator.Tokens.SessionToken(ctx, s, raw)
	if err != nil && !errors.Is(err, credential.ErrExpired) && a.attempts.TooMany(client, client) {
		return nil, credential.TooManyAttempts()
	}
	if err != nil {
		return nil, err
	}
	binding, err := a.Limiter.Bind(s, token.Principal)
	if missing := (*limits.MissingError)(nil); errors.As(err, &missing) {
		return nil, apierror.Unavailable(err, "the deployment's limits are not known here yet: try again")
	}
	if err != nil {
		return nil, err
	}
	found := newSessionSubject(s, &token, binding)
	a.cache.put(digest, found)
	return found, nil
}
