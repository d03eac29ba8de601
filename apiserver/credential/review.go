package credential

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/shares"
)

// Any client can send a text that looks like a ServiceAccount's token, and management writes need the Kubernetes API
// too. Reviews are therefore bounded, with a share for each deployment. If the cluster's keys can be read, only tokens
// that the cluster signed are reviewed.
const (
	// reviewAge is how long a review is cached, including a refusal.
	reviewAge = 10 * time.Second
	// reviewWithin bounds one request to the Kubernetes API.
	reviewWithin = 5 * time.Second
	// reviewsAtOnce and reviewsPerSecond bound the requests, and reviewsOfOne the concurrent requests for one deployment's
	// tokens.
	reviewsAtOnce    = 8
	reviewsOfOne     = 4
	reviewsPerSecond = 50
	// reviewPatience is how long a token waits for its review to start.
	reviewPatience = time.Second
	// reviewBytes bounds the cache of reviews: the reviews of one reviewAge, at reviewsPerSecond, fill a twentieth of
	// it. reviewSize is the size of a review without its username.
	reviewBytes = 4 << 20
	reviewSize  = 400
	// ownTokenAge is how often the server's own token is read again.
	ownTokenAge = time.Minute
)

// errBusy means that too many tokens are being reviewed.
var errBusy = errors.New("too many tokens to review")

// Reviewer asks the Kubernetes API for the user of a token.
type Reviewer interface {
	Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
}

// Reviews caches reviews for a short time, shares a request among concurrent callers, and bounds the requests.
type Reviews struct {
	reviewer Reviewer
	ownToken func() string
	clock    func() time.Time
	flights  singleflight.Group
	slots    *egress.Slots
	rate     *rate.Limiter
	known    *shares.Cache[digest, review]
	keys     clusterKeys
	// busy counts the reviews that were refused because of the bounds.
	busy atomic.Uint64

	mu       sync.Mutex
	issuers  []string // of the server's own tokens, newest last
	lookedAt time.Time
}

// review is the result of a review: the username, "" for a refused token.
type review struct {
	username string
	at       time.Time
}

// NewReviews returns Reviews of a reviewer. ownToken returns the token with which the server itself accesses the
// Kubernetes API; other tokens of the cluster have the same issuer. If it is nil or returns "", the issuer is not
// checked.
func NewReviews(reviewer Reviewer, ownToken func() string, clock func() time.Time) *Reviews {
	return &Reviews{
		reviewer: reviewer, ownToken: ownToken, clock: clock, known: shares.NewCache[digest, review](shares.Bounds{Bytes: reviewBytes}),
		slots: egress.NewSlots(egress.Bounds{AtOnce: reviewsAtOnce, DeploymentAtOnce: reviewsOfOne}, clock), rate: rate.NewLimiter(reviewsPerSecond, reviewsPerSecond),
		keys: clusterKeys{clock: clock},
	}
}

// CheckSignatures enables the refusal of forged tokens without a request to the Kubernetes API. keys reads the JSON web
// key set of the cluster. Call it before the first token.
func (r *Reviews) CheckSignatures(keys func(context.Context) ([]byte, error)) { r.keys.fetch = keys }

// Exhausted returns how many reviews were refused because of the bounds, and how many cached reviews were evicted.
func (r *Reviews) Exhausted() uint64 { return r.busy.Load() + r.known.Evicted() }

// username returns the user of a token for an audience of a deployment, "" if the Kubernetes API does not accept the
// token, and the time of the review.
func (r *Reviews) username(ctx context.Context, deployment string, token *bearer.Token, audience string) (review, error) {
	key := sha256.Sum256([]byte(audience + "\x00" + token.Raw))
	if known, found := r.known.Get(key, r.clock()); found && r.clock().Sub(known.at) < reviewAge {
		return known, nil
	}
	if r.keys.forged(ctx, token) {
		return review{at: r.clock()}, nil
	}
	answer, err, _ := r.flights.Do(string(key[:]), func() (any, error) {
		username, err := r.ask(context.WithoutCancel(ctx), deployment, token.Raw, audience)
		if err != nil {
			return nil, err
		}
		answer := review{username: username, at: r.clock()}
		r.known.Put(deployment, key, answer, int64(reviewSize+len(username)), answer.at)
		return answer, nil
	})
	if err != nil {
		return review{}, err
	}
	return answer.(review), nil
}

func (r *Reviews) ask(ctx context.Context, deployment, token, audience string) (string, error) {
	waiting, stop := context.WithTimeout(ctx, reviewPatience)
	defer stop()
	done, err := r.slots.Begin(waiting, egress.Asker{Deployment: deployment})
	if err == nil {
		defer done()
		err = r.rate.Wait(waiting)
	}
	if err != nil {
		r.busy.Add(1)
		return "", errBusy
	}
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

// plausible reports whether the Kubernetes API could have issued a token: it has a key id, a signature of its
// algorithm's length, and an issuer that the server's own token has or had.
func (r *Reviews) plausible(token *bearer.Token) bool {
	if token.KeyID == "" {
		return false
	}
	switch size := len(token.Signature.Signatures[0].Signature); token.Algorithm {
	case "RS256", "PS256": // the length of the modulus, which has 2048 to 8192 bits
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

// ownIssuers returns the issuers of the server's own tokens since the start. A cluster that changes its issuer accepts
// the former one for a while.
func (r *Reviews) ownIssuers() []string {
	if r.ownToken == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock(); r.lookedAt.IsZero() || now.Sub(r.lookedAt) >= ownTokenAge {
		r.lookedAt = now
		if issuer := bearer.StatedIssuer(r.ownToken()); issuer != "" && !slices.Contains(r.issuers, issuer) {
			r.issuers = append(slices.Clone(r.issuers), issuer)
		}
	}
	return r.issuers
}

// review authenticates the token of a ServiceAccount. A ServiceAccount of another namespace than the deployment's gets
// permissions only from an expression that names it. Otherwise the right to create ServiceAccounts in any namespace
// would give access to the deployment.
func (t *Tokens) review(ctx context.Context, issuer *snapshot.Issuer, token *bearer.Token, key digest) (*Principal, error) {
	if !t.reviews.plausible(token) {
		return nil, apierror.InvalidToken()
	}
	audience := token.Claims.Audience[slices.IndexFunc(token.Claims.Audience, func(a string) bool { return slices.Contains(issuer.Audiences, a) })]
	answer, err := t.reviews.username(ctx, issuer.Deployment.Deployment, token, audience)
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

// unreviewed returns the error for a token that could not be reviewed.
func unreviewed(err error) error {
	if errors.Is(err, errBusy) {
		return apierror.Unavailable(err, "the Kubernetes API is being asked about too many tokens: try again")
	}
	return apierror.Unavailable(err, "this token needs a review by the Kubernetes API, which is unavailable: try again")
}

// names reports whether an expression contains a subject as a quoted string.
func names(expression, username string) bool {
	return strings.Contains(expression, "'"+username+"'") || strings.Contains(expression, `"`+username+`"`)
}
