package authn

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/authn/jwks"
	"github.com/cardea-iam/cardea/apiserver/authn/unverified"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/permission"
)

// errRefused is every reason a token is not accepted; none is told.
var errRefused = errors.New("the token is refused")

// Tokens authenticates JSON web tokens.
type Tokens struct {
	keys     *jwks.Cache
	reviews  *Reviews
	clock    func() time.Time
	verified *memory
	turns    turns
}

// NewTokens returns what authenticates tokens by fetched keys and by reviews of the Kubernetes API.
func NewTokens(keys *jwks.Cache, reviews *Reviews, clock func() time.Time) *Tokens {
	return &Tokens{keys: keys, reviews: reviews, clock: clock, verified: newMemory()}
}

// Authenticate returns the principal of a token. The error is a 401, or a 503 where the Kubernetes API must be asked and does
// not answer.
func (t *Tokens) Authenticate(ctx context.Context, s *snapshot.Snapshot, raw string) (*Principal, error) {
	key := sha256.Sum256([]byte(raw))
	if known, found := t.verified.get(key, s, t.clock()); found {
		return known, nil
	}
	token, err := unverified.Parse(raw)
	if err != nil {
		return nil, apierror.InvalidToken()
	}
	client, _ := token.Payload["client_id"].(string)
	says := presented{token.Claims.Issuer, token.Claims.Audience, client}
	issuer, err := issuerOf(s, says, t.clock())
	if err != nil || token.Claims.Subject == "" || !ofItself(issuer, token.Claims.Subject, client) || !timely(issuer, &token.Claims, t.clock()) {
		return nil, apierror.InvalidToken()
	}
	if issuer.Kubernetes {
		return t.review(ctx, issuer, token, key)
	}
	if err := t.verify(ctx, issuer, token); err != nil {
		return nil, apierror.InvalidToken()
	}
	permissions, err := t.permissions(ctx, issuer, heldNow(issuer, token.Payload))
	if err != nil {
		return nil, err
	}
	principal := newTokenPrincipal(issuer, token.Claims.Subject, permissions)
	t.verified.put(key, says, issuer, principal, token.Claims.Expiry.Time().Add(leeway(issuer)))
	return principal, nil
}

// permissions returns what a token grants. Expressions are evaluated one at a time for a deployment: they are the tenant's,
// and the memory they take is everybody's.
func (t *Tokens) permissions(ctx context.Context, issuer *snapshot.Issuer, payload map[string]any) ([]string, error) {
	if issuer.Expression == nil {
		return issuer.Permissions(payload), nil
	}
	done, err := t.turns.take(ctx, issuer.Deployment.Deployment)
	if err != nil {
		return nil, apierror.Unavailable(err, "other tokens of the deployment are being judged: try again")
	}
	defer done()
	return issuer.Permissions(payload), nil
}

func newTokenPrincipal(issuer *snapshot.Issuer, subject string, permissions []string) *Principal {
	return &Principal{
		Deployment: issuer.Deployment, Settings: issuer.Settings, Subject: subject,
		granted: permission.NewSet(permissions), ceiling: permission.NewSet([]string{permission.All}),
	}
}

// selectIssuer finds the one declared issuer of a token. A token for two deployments is refused: it would be a guess.
func selectIssuer(s *snapshot.Snapshot, tokenIssuer string, audiences []string) (*snapshot.Issuer, error) {
	for _, issuer := range []string{tokenIssuer, ""} { // "" is the Kubernetes API, which says itself whose its tokens are
		var found *snapshot.Issuer
		for _, audience := range audiences {
			candidate, declared := s.Issuer(issuer, audience)
			if !declared {
				continue
			}
			if found != nil && found != candidate {
				return nil, errRefused
			}
			found = candidate
		}
		if found != nil {
			return found, nil
		}
	}
	return nil, errRefused
}

// verify checks the signature with the issuer's key and one of its algorithms.
func (t *Tokens) verify(ctx context.Context, issuer *snapshot.Issuer, token *unverified.Token) error {
	if !slices.Contains(issuer.Algorithms, token.Algorithm) {
		return errRefused
	}
	key := keyset.Find(issuer.Keys, token.KeyID)
	if issuer.JWKSURL != "" {
		var err error
		if key, err = t.keys.Key(ctx, issuer.JWKSURL, token.KeyID); err != nil {
			return err
		}
	}
	if key == nil || key.Algorithm != "" && key.Algorithm != token.Algorithm {
		return errRefused
	}
	_, err := token.Signature.Verify(key.Key)
	return err
}
