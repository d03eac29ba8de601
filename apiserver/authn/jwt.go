package authn

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/authn/jwks"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/permission"
)

// maxToken is the longest token, in bytes.
const maxToken = 16 << 10

// accepted are the algorithms any issuer may use; each declares which of them.
var accepted = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// forbiddenHeaders would let a token bring its own key, or change what is verified.
var forbiddenHeaders = []string{"jwk", "jku", "x5u", "x5c", "crit", "b64"}

// strict reads base64url in its one spelling: no token has two.
var strict = base64.RawURLEncoding.Strict()

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

// parsed is a token that was read but not verified.
type parsed struct {
	raw       string
	signature *jose.JSONWebSignature
	algorithm string
	keyID     string
	// claims are the registered ones, and payload is everything the token says.
	claims  jwt.Claims
	payload map[string]any
}

// Authenticate returns the principal of a token. The error is a 401, or a 503 where the Kubernetes API must be asked and does
// not answer.
func (t *Tokens) Authenticate(ctx context.Context, s *snapshot.Snapshot, raw string) (*Principal, error) {
	key := sha256.Sum256([]byte(raw))
	if known, found := t.verified.get(key, s, t.clock()); found {
		return known, nil
	}
	token, err := parseToken(raw)
	if err != nil {
		return nil, apierror.InvalidToken()
	}
	issuer, err := selectIssuer(s, token.claims.Issuer, token.claims.Audience)
	if err != nil || token.claims.Subject == "" || !timely(issuer, &token.claims, t.clock()) {
		return nil, apierror.InvalidToken()
	}
	if issuer.Kubernetes {
		return t.review(ctx, issuer, token, key)
	}
	if err := t.verify(ctx, issuer, token); err != nil {
		return nil, apierror.InvalidToken()
	}
	permissions, err := t.permissions(ctx, issuer, token.payload)
	if err != nil {
		return nil, err
	}
	principal := newTokenPrincipal(issuer, token.claims.Subject, permissions)
	t.verified.put(key, token, issuer, principal, token.claims.Expiry.Time().Add(leeway(issuer)))
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

// parseToken reads a compact token and the claims that decide who can verify it.
func parseToken(raw string) (*parsed, error) {
	if len(raw) > maxToken || strings.Count(raw, ".") != 2 {
		return nil, errRefused
	}
	header, err := readHeader(raw[:strings.IndexByte(raw, '.')])
	if err != nil {
		return nil, err
	}
	if _, err := strict.DecodeString(raw[strings.LastIndexByte(raw, '.')+1:]); err != nil {
		return nil, errRefused
	}
	signature, err := jose.ParseSignedCompact(raw, accepted)
	if err != nil {
		return nil, errRefused
	}
	t := &parsed{raw: raw, signature: signature}
	t.algorithm, _ = header["alg"].(string)
	t.keyID, _ = header["kid"].(string)
	payload := signature.UnsafePayloadWithoutVerification()
	if t.payload, err = decodeObject(payload); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(payload, &t.claims); err != nil {
		return nil, errRefused
	}
	if t.claims.Issuer == "" || len(t.claims.Audience) == 0 || len(t.claims.Audience) > 32 {
		return nil, errRefused
	}
	return t, nil
}

func readHeader(encoded string) (map[string]any, error) {
	raw, err := strict.DecodeString(encoded)
	if err != nil {
		return nil, errRefused
	}
	header, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	for _, name := range forbiddenHeaders {
		if _, found := header[name]; found {
			return nil, errRefused
		}
	}
	if kid, found := header["kid"]; found {
		if _, ok := kid.(string); !ok {
			return nil, errRefused
		}
	}
	if !acceptedType(header) {
		return nil, errRefused
	}
	return header, nil
}

// acceptedType tells whether a token says that it is one for access, or says nothing: one made for another end, such as a
// logout token, is not accepted here (RFC 8725, 3.11).
func acceptedType(header map[string]any) bool {
	sent, found := header["typ"]
	if !found {
		return true
	}
	name, _ := sent.(string)
	return strings.EqualFold(name, "JWT") || strings.EqualFold(name, "at+jwt")
}

// decodeObject reads one JSON object without a member twice: two readers must not understand a token differently.
func decodeObject(raw []byte) (map[string]any, error) {
	if err := uniqueNames(raw); err != nil {
		return nil, errRefused
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, errRefused
	}
	return object, nil
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
func (t *Tokens) verify(ctx context.Context, issuer *snapshot.Issuer, token *parsed) error {
	if !slices.Contains(issuer.Algorithms, token.algorithm) {
		return errRefused
	}
	key := keyset.Find(issuer.Keys, token.keyID)
	if issuer.JWKSURL != "" {
		var err error
		if key, err = t.keys.Key(ctx, issuer.JWKSURL, token.keyID); err != nil {
			return err
		}
	}
	if key == nil || key.Algorithm != "" && key.Algorithm != token.algorithm {
		return errRefused
	}
	_, err := token.signature.Verify(key.Key)
	return err
}
