package credential

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/credential/jwks"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/internal/turns"
)

// errRefused stands for every reason why a token is not accepted, because the response names none.
var errRefused = errors.New("the token is refused")

// Tokens authenticates JSON web tokens.
type Tokens struct {
	keys     *jwks.Cache
	reviews  *Reviews
	clock    func() time.Time
	verified *memory
	turns    turns.Turns
}

// NewTokens returns an authenticator that verifies tokens with keys, or with reviews by the Kubernetes API.
func NewTokens(keys *jwks.Cache, reviews *Reviews, clock func() time.Time) *Tokens {
	return &Tokens{keys: keys, reviews: reviews, clock: clock, verified: newMemory()}
}

// Collectors returns the metrics of the cache of verified tokens.
func (t *Tokens) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_verified_tokens", Help: "Tokens remembered as verified.",
		}, func() float64 { tokens, _ := t.verified.size(); return float64(tokens) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_verified_token_bytes", Help: "Memory of the tokens remembered as verified, at most 16 MiB.",
		}, func() float64 { _, bytes := t.verified.size(); return float64(bytes) }),
	}
}

// Evicted returns how many verified tokens were evicted from the cache.
func (t *Tokens) Evicted() uint64 { return t.verified.evicted() }

// Authenticate returns the principal of a token. The error is a 401, or a 503 if the Kubernetes API is needed and does
// not respond.
func (t *Tokens) Authenticate(ctx context.Context, s *snapshot.Snapshot, raw string) (*Principal, error) {
	key := sha256.Sum256([]byte(raw))
	if known, found := t.verified.get(key, s, t.clock()); found {
		return known, nil
	}
	token, err := bearer.Parse(raw)
	if err != nil {
		return nil, apierror.InvalidToken()
	}
	client, _ := token.Payload["client_id"].(string)
	says := presented{token.Claims.Issuer, token.Claims.Audience, client}
	for _, issuer := range candidatesOf(s, says, t.clock()) {
		if token.Claims.Subject == "" || !ofItself(issuer, token.Claims.Subject, client) || !timely(issuer, &token.Claims, t.clock()) {
			continue
		}
		if issuer.Kubernetes {
			return t.review(ctx, issuer, token, key)
		}
		if t.verify(ctx, issuer, token) != nil {
			continue
		}
		permissions, err := t.permissions(ctx, issuer, currentPermissions(issuer, token.Payload))
		if err != nil {
			return nil, err
		}
		principal := newTokenPrincipal(issuer, token.Claims.Subject, permissions)
		t.verified.put(key, says, issuer, principal, token.Claims.Expiry.Time().Add(leeway(issuer)))
		return principal, nil
	}
	return nil, apierror.InvalidToken()
}

// permissionsMost is how many permissions a token may grant. An API key may have half as many.
const permissionsMost = 256

// permissions returns the permissions that a token grants. The error is a 401 for more than permissionsMost, or a 503.
func (t *Tokens) permissions(ctx context.Context, issuer *snapshot.Issuer, payload map[string]any) ([]string, error) {
	names, err := t.evaluate(ctx, issuer, payload)
	if err != nil {
		return nil, err
	}
	if len(names) > permissionsMost && !issuer.OwnSessions { // the server chose the permissions of its own sessions
		return nil, apierror.InvalidToken()
	}
	for i, name := range names {
		names[i] = strings.Clone(name) // a substring would keep the whole claim in memory
	}
	return names, nil
}

// evaluate returns the permissions that a token grants. It evaluates one expression at a time per deployment, because
// tenants write the expressions and all of them share the memory.
func (t *Tokens) evaluate(ctx context.Context, issuer *snapshot.Issuer, payload map[string]any) ([]string, error) {
	if issuer.Expression == nil {
		return issuer.Permissions(payload), nil
	}
	done, err := t.turns.Take(ctx, issuer.Deployment.Deployment)
	if err != nil {
		return nil, apierror.Unavailable(err, "other tokens of the deployment are being evaluated: try again")
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

// verify checks the signature with the issuer's key and one of its algorithms.
func (t *Tokens) verify(ctx context.Context, issuer *snapshot.Issuer, token *bearer.Token) error {
	if issuer.OwnSessions && token.AccessToken {
		return errRefused // the same key signs the tokens that agents' tools get, which are no session tokens
	}
	if !slices.Contains(issuer.Algorithms, token.Algorithm) {
		return errRefused
	}
	key := keyset.Find(issuer.Keys, token.KeyID)
	if issuer.JWKSURL != "" {
		var err error
		if key, err = t.keys.Key(ctx, egress.Asker{Deployment: issuer.Deployment.Deployment}, issuer.JWKSURL, token.KeyID); err != nil {
			return err
		}
	}
	if key == nil || key.Algorithm != "" && key.Algorithm != token.Algorithm {
		return errRefused
	}
	_, err := token.Signature.Verify(key.Key)
	return err
}
