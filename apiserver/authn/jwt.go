package authn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/authn/jwks"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/permission"
)

const (
	// maxToken is the longest token, in bytes.
	maxToken = 16 << 10
	// skew is how far an issuer's clock may differ from ours.
	skew = 60 * time.Second
)

// accepted are the algorithms any issuer may use; each declares which of them.
var accepted = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// forbiddenHeaders would let a token bring its own key, or change what is verified.
var forbiddenHeaders = []string{"jwk", "jku", "x5u", "x5c", "crit", "b64"}

// errRefused is every reason a token is not accepted; none is told.
var errRefused = errors.New("the token is refused")

// Tokens authenticates JSON web tokens.
type Tokens struct {
	keys      *jwks.Cache
	reviewers *Reviews
	clock     func() time.Time
}

// NewTokens returns what authenticates tokens by fetched keys and by reviews of the Kubernetes API.
func NewTokens(keys *jwks.Cache, reviews *Reviews, clock func() time.Time) *Tokens {
	return &Tokens{keys: keys, reviewers: reviews, clock: clock}
}

// parsed is a token that was read but not verified.
type parsed struct {
	raw       string
	signature *jose.JSONWebSignature
	algorithm string
	keyID     string
	claims    map[string]any
	issuer    string
	audiences []string
}

// Authenticate returns the principal of a token. The error is a 401, or a 503 where the Kubernetes API must be asked and does
// not answer.
func (t *Tokens) Authenticate(ctx context.Context, s *snapshot.Snapshot, raw string) (*Principal, error) {
	token, err := parseToken(raw)
	if err != nil {
		return nil, apierror.Unauthorized()
	}
	issuer, err := selectIssuer(s, token)
	if err != nil || !t.timely(token.claims) {
		return nil, apierror.Unauthorized()
	}
	if issuer.Kubernetes {
		return t.review(ctx, issuer, token)
	}
	if err := t.verify(ctx, issuer, token); err != nil {
		return nil, apierror.Unauthorized()
	}
	subject, _ := token.claims["sub"].(string)
	return newTokenPrincipal(issuer, subject, issuer.Permissions(token.claims)), nil
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
	signature, err := jose.ParseSignedCompact(raw, accepted)
	if err != nil {
		return nil, errRefused
	}
	t := &parsed{raw: raw, signature: signature}
	t.algorithm, _ = header["alg"].(string)
	t.keyID, _ = header["kid"].(string)
	if t.claims, err = decodeObject(signature.UnsafePayloadWithoutVerification()); err != nil {
		return nil, err
	}
	issuer, ok := t.claims["iss"].(string)
	if !ok || issuer == "" {
		return nil, errRefused
	}
	t.issuer = issuer
	switch audience := t.claims["aud"].(type) {
	case string:
		t.audiences = []string{audience}
	case []any:
		for _, item := range audience {
			text, ok := item.(string)
			if !ok {
				return nil, errRefused
			}
			t.audiences = append(t.audiences, text)
		}
	}
	if len(t.audiences) == 0 || len(t.audiences) > 32 {
		return nil, errRefused
	}
	return t, nil
}

func readHeader(encoded string) (map[string]any, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
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
	return header, nil
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
func selectIssuer(s *snapshot.Snapshot, token *parsed) (*snapshot.Issuer, error) {
	for _, issuer := range []string{token.issuer, ""} { // "" is the Kubernetes API, which says itself whose its tokens are
		var found *snapshot.Issuer
		for _, audience := range token.audiences {
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

// timely tells whether a token is alive. It must say when it ends.
func (t *Tokens) timely(claims map[string]any) bool {
	now := t.clock()
	expires, ok := numericDate(claims["exp"])
	if !ok || !now.Before(expires.Add(skew)) {
		return false
	}
	for _, name := range []string{"nbf", "iat"} {
		if value, sent := claims[name]; sent {
			if from, ok := numericDate(value); !ok || now.Add(skew).Before(from) {
				return false
			}
		}
	}
	return true
}

// numericDate reads seconds since 1970, which may have a fraction (RFC 7519, 2).
func numericDate(value any) (time.Time, bool) {
	seconds, ok := value.(float64)
	if !ok || math.IsNaN(seconds) || seconds < 0 || seconds > 253402300799 { // the year 9999
		return time.Time{}, false
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), true
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
