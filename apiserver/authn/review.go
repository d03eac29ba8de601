package authn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/authn/unverified"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

// Anybody can send what looks like a ServiceAccount's token. The Kubernetes API, which management writes need as well, is
// therefore asked about few of them.
const (
	// reviewAge is how long a review is believed, also one that refused.
	reviewAge = 10 * time.Second
	// reviewWithin bounds one question to the Kubernetes API.
	reviewWithin = 5 * time.Second
	// reviewsAtOnce and reviewsPerSecond bound the questions.
	reviewsAtOnce    = 8
	reviewsPerSecond = 50
	// reviewPatience is how long a token waits for its question to be asked.
	reviewPatience = time.Second
	// maxReviews bounds the memory of reviews: the rate fills a twentieth of it while one is believed.
	maxReviews = 10_000
	// ownTokenAge is how often the server's own token is read again.
	ownTokenAge = time.Minute
)

// errBusy: too many tokens are being reviewed.
var errBusy = errors.New("too many tokens to review")

// Reviewer asks the Kubernetes API whose a token is.
type Reviewer interface {
	Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
}

// Reviews remembers reviews for a short time, asks once where several wait for one answer, and bounds what it asks.
type Reviews struct {
	reviewer Reviewer
	ownToken func() string
	clock    func() time.Time
	flights  singleflight.Group
	slots    *semaphore.Weighted
	rate     *rate.Limiter
	known    *lru.Cache[digest, review]

	mu       sync.Mutex
	issuers  []string // that the server's own token had, the newest last
	lookedAt time.Time
}

// review is an answer: the username, "" of a token that was refused.
type review struct {
	username string
	at       time.Time
}

// NewReviews returns a memory over a reviewer. ownToken returns the token by which the server itself speaks to the Kubernetes
// API: others' have the same issuer. It may be nil, or return "": then the issuer is not looked at.
func NewReviews(reviewer Reviewer, ownToken func() string, clock func() time.Time) *Reviews {
	known, err := lru.New[digest, review](maxReviews)
	if err != nil {
		panic(err) // the size is a constant above 0
	}
	return &Reviews{
		reviewer: reviewer, ownToken: ownToken, clock: clock, known: known,
		slots: semaphore.NewWeighted(reviewsAtOnce), rate: rate.NewLimiter(reviewsPerSecond, reviewsPerSecond),
	}
}

// username returns who a token belongs to for an audience, "" if the Kubernetes API does not accept it, and when that was
// found out.
func (r *Reviews) username(ctx context.Context, token, audience string) (review, error) {
	key := sha256.Sum256([]byte(audience + "\x00" + token))
	if known, found := r.known.Get(key); found && r.clock().Sub(known.at) < reviewAge {
		return known, nil
	}
	answer, err, _ := r.flights.Do(string(key[:]), func() (any, error) {
		username, err := r.ask(context.WithoutCancel(ctx), token, audience)
		if err != nil {
			return nil, err
		}
		answer := review{username: username, at: r.clock()}
		r.known.Add(key, answer)
		return answer, nil
	})
	if err != nil {
		return review{}, err
	}
	return answer.(review), nil
}

func (r *Reviews) ask(ctx context.Context, token, audience string) (string, error) {
	waiting, stop := context.WithTimeout(ctx, reviewPatience)
	defer stop()
	if r.slots.Acquire(waiting, 1) != nil || r.wait(waiting) != nil {
		return "", errBusy
	}
	defer r.slots.Release(1)
	ctx, cancel := context.WithTimeout(ctx, reviewWithin)
	defer cancel()
	asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}
	if err := r.reviewer.Create(ctx, asked); err != nil {
		return "", fmt.Errorf("review a token: %w", err)
	}
	if !asked.Status.Authenticated || !slices.Contains(asked.Status.Audiences, audience) {
		return "", nil
	}
	return asked.Status.User.Username, nil
}

// wait waits for the rate, and gives the slot back if that takes too long.
func (r *Reviews) wait(ctx context.Context) error {
	err := r.rate.Wait(ctx)
	if err != nil {
		r.slots.Release(1)
	}
	return err
}

// plausible tells whether a token could be the Kubernetes API's: whether it has a key's id, a signature as long as its
// algorithm's are, and an issuer that the server's own token has or had.
func (r *Reviews) plausible(token *unverified.Token) bool {
	if token.KeyID == "" {
		return false
	}
	switch size := len(token.Signature.Signatures[0].Signature); token.Algorithm {
	case "RS256", "PS256": // as long as the modulus, which has 2048 to 8192 bits
		if size < 256 || size > 1024 {
			return false
		}
	default: // ES256 and EdDSA
		if size != 64 {
			return false
		}
	}
	issuers := r.ownIssuers()
	return len(issuers) == 0 || slices.Contains(issuers, token.Claims.Issuer)
}

// ownIssuers returns the issuers that the server's own token had since the start. A cluster that changes its issuer accepts the
// old one for a while.
func (r *Reviews) ownIssuers() []string {
	if r.ownToken == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock(); r.lookedAt.IsZero() || now.Sub(r.lookedAt) >= ownTokenAge {
		r.lookedAt = now
		if issuer := unverifiedIssuer(r.ownToken()); issuer != "" && !slices.Contains(r.issuers, issuer) {
			r.issuers = append(slices.Clone(r.issuers), issuer)
		}
	}
	return r.issuers
}

// unverifiedIssuer returns the iss of a token, "" for what is none.
func unverifiedIssuer(raw string) string {
	var claims jwt.Claims
	token, err := jwt.ParseSigned(raw, unverified.Accepted)
	if err != nil || token.UnsafeClaimsWithoutVerification(&claims) != nil {
		return ""
	}
	return claims.Issuer
}

// review authenticates the token of a ServiceAccount. One of another namespace than the deployment's is granted something only
// by an expression that names it: whoever can create ServiceAccounts elsewhere must not thereby get in here.
func (t *Tokens) review(ctx context.Context, issuer *snapshot.Issuer, token *unverified.Token, key digest) (*Principal, error) {
	if !t.reviews.plausible(token) {
		return nil, apierror.InvalidToken()
	}
	audience := token.Claims.Audience[slices.IndexFunc(token.Claims.Audience, func(a string) bool { return slices.Contains(issuer.Audiences, a) })]
	answer, err := t.reviews.username(ctx, token.Raw, audience)
	if err != nil {
		return nil, unreviewed(err)
	}
	subject, isServiceAccount := strings.CutPrefix(answer.username, "system:serviceaccount:")
	if !isServiceAccount {
		return nil, apierror.InvalidToken()
	}
	permissions, err := t.permissions(ctx, issuer, token.Payload)
	if err != nil {
		return nil, err
	}
	namespace, _, _ := strings.Cut(subject, ":")
	if namespace != issuer.Deployment.Namespace && !names(issuer.PermissionsExpression, answer.username) {
		permissions = nil
	}
	principal := newTokenPrincipal(issuer, answer.username, permissions)
	until := answer.at.Add(reviewAge)
	if ends := token.Claims.Expiry.Time().Add(leeway(issuer)); ends.Before(until) {
		until = ends
	}
	t.verified.put(key, presented{issuer: token.Claims.Issuer, audiences: token.Claims.Audience}, issuer, principal, until)
	return principal, nil
}

// unreviewed answers a token that could not be reviewed.
func unreviewed(err error) error {
	if errors.Is(err, errBusy) {
		return apierror.Unavailable(err, "the Kubernetes API is being asked about too many tokens: try again")
	}
	return apierror.Unavailable(err, "the Kubernetes API must be asked about this token and is out of reach: try again")
}

// names tells whether an expression names a subject as a quoted string.
func names(expression, username string) bool {
	return strings.Contains(expression, "'"+username+"'") || strings.Contains(expression, `"`+username+`"`)
}
