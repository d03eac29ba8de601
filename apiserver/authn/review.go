package authn

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"golang.org/x/sync/singleflight"
)

const (
	// reviewAge is how long a positive review is believed.
	reviewAge = 10 * time.Second
	// reviewWithin bounds one question to the Kubernetes API.
	reviewWithin = 5 * time.Second
	// maxReviews bounds the memory of reviews.
	maxReviews = 10_000
)

// Reviewer asks the Kubernetes API whose a token is.
type Reviewer interface {
	Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
}

// Reviews remembers positive reviews for a short time, and asks once where several wait for one answer.
type Reviews struct {
	reviewer Reviewer
	clock    func() time.Time
	flights  singleflight.Group

	mu    sync.Mutex
	known map[[sha256.Size]byte]review
}

type review struct {
	username string
	at       time.Time
}

// NewReviews returns a memory over a reviewer.
func NewReviews(reviewer Reviewer, clock func() time.Time) *Reviews {
	return &Reviews{reviewer: reviewer, clock: clock, known: map[[sha256.Size]byte]review{}}
}

// username returns who a token belongs to for an audience, "" if the Kubernetes API does not accept it.
func (r *Reviews) username(ctx context.Context, token, audience string) (string, error) {
	key := sha256.Sum256([]byte(audience + "\x00" + token))
	r.mu.Lock()
	known, found := r.known[key]
	r.mu.Unlock()
	if found && r.clock().Sub(known.at) < reviewAge {
		return known.username, nil
	}
	answer, err, _ := r.flights.Do(string(key[:]), func() (any, error) { return r.ask(context.WithoutCancel(ctx), token, audience) })
	if err != nil {
		return "", err
	}
	username := answer.(string)
	if username != "" {
		r.remember(key, username)
	}
	return username, nil
}

func (r *Reviews) ask(ctx context.Context, token, audience string) (string, error) {
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

func (r *Reviews) remember(key [sha256.Size]byte, username string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock()
	if len(r.known) >= maxReviews {
		for old, known := range r.known {
			if now.Sub(known.at) >= reviewAge {
				delete(r.known, old)
			}
		}
	}
	if len(r.known) < maxReviews {
		r.known[key] = review{username: username, at: now}
	}
}

// review authenticates the token of a ServiceAccount. One of another namespace than the deployment's is granted something only
// by an expression that names it: whoever can create ServiceAccounts elsewhere must not thereby get in here.
func (t *Tokens) review(ctx context.Context, issuer *snapshot.Issuer, token *parsed) (*Principal, error) {
	audience := token.audiences[slices.IndexFunc(token.audiences, func(a string) bool { return slices.Contains(issuer.Audiences, a) })]
	username, err := t.reviewers.username(ctx, token.raw, audience)
	if err != nil {
		return nil, apierror.Unavailable(err, "the Kubernetes API must be asked about this token and is out of reach: try again")
	}
	subject, isServiceAccount := strings.CutPrefix(username, "system:serviceaccount:")
	if !isServiceAccount {
		return nil, apierror.Unauthorized()
	}
	namespace, _, _ := strings.Cut(subject, ":")
	permissions := issuer.Permissions(token.claims)
	if namespace != issuer.Deployment.Namespace && !names(issuer.PermissionsExpression, username) {
		permissions = nil
	}
	return newTokenPrincipal(issuer, username, permissions), nil
}

// names tells whether an expression names a subject as a quoted string.
func names(expression, username string) bool {
	return strings.Contains(expression, "'"+username+"'") || strings.Contains(expression, `"`+username+`"`)
}
