package guard

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/internal/assurance"
)

// ErrNotAccepted is in the chain of every error that reports why a token is not accepted. The texts of these errors are
// for logs, and contain no part of the token.
var ErrNotAccepted = errors.New("guard: the token is not accepted")

// ErrNoKeys is in the error chain if no keys of the issuer have been fetched yet, if the last successful fetch is older
// than KeepFor, or if the context ends during a fetch.
var ErrNoKeys = errors.New("guard: the issuer's keys are not available")

// maxLifetime is the longest lifetime of a token, from iat to exp.
const maxLifetime = 24 * time.Hour

// TokensOptions configure a guard of tokens. Issuer and Audiences are required.
type TokensOptions struct {
	// Issuer is the exact `iss` of the tokens. For session tokens it is https:// and the deployment's first host. For
	// access tokens it is the OAuth app's status.issuer.
	Issuer string
	// Audiences are the accepted values of `aud`; a token must have at least one of them. For session tokens, use
	// cardea:<namespace>:<deployment>. For access tokens, use the address of your API, which must be one of the OAuth
	// app's resources.
	Audiences []string
	// KeysURL is the URL of the issuer's key set: https, or http on loopback. Absent: Issuer with the path
	// /.well-known/jwks.json for session tokens, or /jwks for access tokens.
	KeysURL string
	// Algorithms are those that a token may be signed with: ES256, RS256, PS256, EdDSA. Absent: ES256, with which
	// Cardea signs both kinds.
	Algorithms []string
	// Leeway is how far the clocks may differ, at most a minute. Absent: five seconds; negative: none.
	Leeway time.Duration
	// RefreshEvery is the age at which keys are fetched again in the background. Absent: five minutes.
	RefreshEvery time.Duration
	// FetchBetween is the shortest time between two fetches, so that tokens with unknown key ids cannot cause more.
	// While no keys are cached, it is at most a second. Absent: 30 seconds.
	FetchBetween time.Duration
	// KeepFor is how long the last keys are used while the issuer is unavailable. Absent: 24 hours.
	KeepFor time.Duration
	// HTTPClient fetches keys; nil: one with a timeout of five seconds. Redirects are not followed.
	HTTPClient *http.Client
	// Refused answers in place of the guard; nil: Refusal.Send.
	Refused func(http.ResponseWriter, *http.Request, *Refusal)
	// OnRefused is called with the reason why a token was not accepted, and OnKeys with the result of each fetch of
	// keys; nil: no call.
	OnRefused func(*http.Request, error)
	OnKeys    func(error)
	// Clock is the time; nil: time.Now.
	Clock func() time.Time
}

// Tokens is a guard that lets a request through if its token is valid and has the required permissions.
type Tokens struct {
	TokensOptions
	access     bool
	actor      bool // the token must name an actor
	algorithms []jose.SignatureAlgorithm
	keys       *keySet
}

// NewSessionTokens returns a guard of the session tokens that POST /session/token issues to a signed-in user. No keys
// are fetched yet: a service may start before Cardea.
func NewSessionTokens(options TokensOptions) (*Tokens, error) {
	return newTokens(options, false, "/.well-known/jwks.json")
}

// NewAccessTokens is NewSessionTokens for access tokens of an OAuth app (RFC 9068). It cannot verify opaque access
// tokens: use introspection or the decision API for those.
func NewAccessTokens(options TokensOptions) (*Tokens, error) {
	return newTokens(options, true, "/jwks")
}

func newTokens(options TokensOptions, access bool, keysPath string) (*Tokens, error) {
	if options.Issuer == "" || len(options.Audiences) == 0 || slices.Contains(options.Audiences, "") {
		return nil, errors.New("guard: Issuer and Audiences are required: without them, any token signed with the same keys would pass")
	}
	if options.KeysURL == "" {
		options.KeysURL = strings.TrimSuffix(options.Issuer, "/") + keysPath
	}
	if err := checkKeysURL(options.KeysURL); err != nil {
		return nil, err
	}
	if err := options.complete(); err != nil {
		return nil, err
	}
	t := &Tokens{TokensOptions: options, access: access}
	for _, name := range options.Algorithms {
		algorithm := jose.SignatureAlgorithm(name)
		if !slices.Contains([]jose.SignatureAlgorithm{jose.ES256, jose.RS256, jose.PS256, jose.EdDSA}, algorithm) {
			return nil, fmt.Errorf("guard: Algorithms: %q is none of ES256, RS256, PS256, EdDSA", name)
		}
		t.algorithms = append(t.algorithms, algorithm)
	}
	t.keys = &keySet{
		url: options.KeysURL, http: options.HTTPClient, refreshEvery: options.RefreshEvery, between: options.FetchBetween, keepFor: options.KeepFor,
		fetchWithin: fetchWithin, clock: options.Clock, onFetch: options.OnKeys,
	}
	return t, nil
}

// fetchWithin bounds one fetch of keys.
const fetchWithin = 5 * time.Second

// complete sets the defaults of absent members.
func (o *TokensOptions) complete() error {
	for name, value := range map[string]time.Duration{"RefreshEvery": o.RefreshEvery, "FetchBetween": o.FetchBetween, "KeepFor": o.KeepFor} {
		if value < 0 {
			return fmt.Errorf("guard: %s must not be negative", name)
		}
	}
	absent := func(value *time.Duration, then time.Duration) {
		if *value == 0 {
			*value = then
		}
	}
	absent(&o.Leeway, 5*time.Second)
	absent(&o.RefreshEvery, 5*time.Minute)
	absent(&o.FetchBetween, 30*time.Second)
	absent(&o.KeepFor, 24*time.Hour)
	o.Leeway = max(0, o.Leeway)
	if o.Leeway > time.Minute {
		return errors.New("guard: Leeway must be at most a minute: synchronize the clocks")
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = []string{string(jose.ES256)}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	own := http.Client{Timeout: fetchWithin}
	if o.HTTPClient != nil {
		own = *o.HTTPClient
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirected }
	o.HTTPClient = &own
	if o.Refused == nil {
		o.Refused = func(w http.ResponseWriter, r *http.Request, refusal *Refusal) { refusal.Send(w, r) }
	}
	if o.OnRefused == nil {
		o.OnRefused = func(*http.Request, error) {}
	}
	if o.OnKeys == nil {
		o.OnKeys = func(error) {}
	}
	return nil
}

// checkKeysURL refuses http except on loopback: an attacker on the network path could answer with other keys.
func checkKeysURL(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || parsed.User != nil {
		return errors.New("guard: KeysURL must be a URL with a host and without a user")
	}
	loopback := slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, parsed.Hostname())
	if parsed.Scheme != "https" && (parsed.Scheme != "http" || !loopback) {
		return errors.New("guard: KeysURL must be https, or http on loopback: an attacker could replace the keys")
	}
	return nil
}

// Require returns middleware that lets a request through if its token is valid and has each of the permissions, as a
// permission or as a scope. Without permissions, every valid token passes.
func (t *Tokens) Require(permissions ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who, refusal := t.accept(r, permissions)
			if refusal != nil {
				t.Refused(w, r, refusal)
				return
			}
			admit(next, w, r, who)
		})
	}
}

// RequireAssurance returns middleware that lets a request through if its token is valid and its user has proven an
// assurance level, "1", "2" or "phr" ("": any), at most maxAge ago (whole seconds; 0: at any time). It refuses other
// tokens with 401 and the challenge of RFC 9470, by which an OAuth client asks the user for more. The tokens of a
// client for itself never suffice. RequireAssurance panics if acr or maxAge is none of these, because the program is
// wrong.
func (t *Tokens) RequireAssurance(acr string, maxAge time.Duration) func(http.Handler) http.Handler {
	seconds := ""
	if maxAge != 0 {
		seconds = strconv.FormatInt(int64(maxAge/time.Second), 10)
	}
	wanted, err := assurance.ParseWanted(acr, seconds)
	if err != nil || maxAge%time.Second != 0 {
		panic(fmt.Sprintf("guard: RequireAssurance(%q, %s): acr must be 1, 2, phr or empty, and maxAge whole seconds of at most a year", acr, maxAge))
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who, refusal := t.accept(r, nil)
			if refusal == nil && !wanted.Met(who.ACR, who.ProvenAt, t.Clock().Add(-t.Leeway)) {
				refusal = &Refusal{
					Status: http.StatusUnauthorized, Message: assurance.InsufficientMessage, Header: http.Header{"Www-Authenticate": {wanted.Challenge()}},
				}
			}
			if refusal != nil {
				t.Refused(w, r, refusal)
				return
			}
			admit(next, w, r, who)
		})
	}
}

// accept returns the identity of a request's token if it is valid and has the permissions.
func (t *Tokens) accept(r *http.Request, permissions []string) (*Identity, *Refusal) {
	raw := bearer(r.Header, false)
	if raw == "" {
		return nil, unauthorized(challengeNone)
	}
	who, err := t.Verify(r.Context(), raw)
	switch {
	case errors.Is(err, ErrNoKeys):
		return nil, unavailable("tokens cannot be verified now: try again")
	case err != nil:
		t.OnRefused(r, err)
		return nil, unauthorized(challengeBad)
	}
	for _, permission := range permissions {
		if !who.Can(permission) {
			return nil, lacks(permission)
		}
	}
	return who, nil
}

// Verify returns the identity in a token. The error has ErrNotAccepted or ErrNoKeys in its chain.
func (t *Tokens) Verify(ctx context.Context, raw string) (*Identity, error) {
	header, err := t.header(raw)
	if err != nil {
		return nil, err
	}
	token, err := jwt.ParseSigned(raw, t.algorithms)
	if err != nil {
		return nil, notAccepted("it is not a signed token with an accepted algorithm")
	}
	key, err := t.keys.key(ctx, header.KeyID)
	if err != nil {
		return nil, err
	}
	if key == nil {
		return nil, notAccepted("the issuer has no such key")
	}
	if key.Algorithm != "" && key.Algorithm != header.Algorithm {
		return nil, notAccepted("the key is for another algorithm")
	}
	said := claims{}
	if err := token.Claims(key.Key, &said); err != nil {
		return nil, notAccepted("the signature is not the issuer's, or the claims cannot be parsed")
	}
	if err := t.check(&said); err != nil {
		return nil, err
	}
	return said.identity(t.access), nil
}

func notAccepted(why string) error { return fmt.Errorf("%w: %s", ErrNotAccepted, why) }

// tokenHeader has the members of a token's header that are used. Every other member is refused, except cty.
type tokenHeader struct {
	Algorithm string `json:"alg"`
	Type      string `json:"typ"`
	KeyID     string `json:"kid"`
}

// header reads a token's header, which is not verified yet. The algorithm must be an accepted one, and the type the
// expected one (RFC 8725 3.11). A header with other members, such as a key of its own (jwk, jku), is refused.
func (t *Tokens) header(raw string) (tokenHeader, error) {
	var header tokenHeader
	if len(raw) > maxCredential || strings.Count(raw, ".") != 2 {
		return header, notAccepted("it is not a token in compact form, or is too long")
	}
	head, _, _ := strings.Cut(raw, ".")
	text, err := base64.RawURLEncoding.Strict().DecodeString(head)
	members := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(text, &members) != nil || json.Unmarshal(text, &header) != nil {
		return header, notAccepted("its header is not a JSON object in base64url")
	}
	for name := range members {
		if !slices.Contains([]string{"alg", "typ", "kid", "cty"}, name) {
			return header, notAccepted("its header has a member that is not accepted")
		}
	}
	if !slices.Contains(t.algorithms, jose.SignatureAlgorithm(header.Algorithm)) {
		return header, notAccepted("its algorithm is not among the accepted ones")
	}
	if header.KeyID == "" {
		return header, notAccepted("its header has no kid")
	}
	kind := strings.TrimPrefix(strings.ToLower(header.Type), "application/")
	if t.access && kind != "at+jwt" || !t.access && kind != "jwt" {
		return header, notAccepted("it is a token of another type")
	}
	return header, nil
}

// claims are the claims of both kinds of tokens.
type claims struct {
	jwt.Claims
	SessionID    string   `json:"sid"`
	Organization *string  `json:"organization"`
	Workspace    *string  `json:"workspace"`
	Permissions  []string `json:"permissions"`
	ClientID     string   `json:"client_id"`
	Scope        string   `json:"scope"`
	ACR          string   `json:"acr"`
	AuthTime     *float64 `json:"auth_time"`
	agentClaims
}

// check validates claims against the expected values.
func (t *Tokens) check(said *claims) error {
	now := t.Clock()
	switch {
	case said.Issuer != t.Issuer:
		return notAccepted("it is another issuer's")
	case !slices.ContainsFunc(t.Audiences, said.Audience.Contains):
		return notAccepted("it is for another audience")
	case said.Subject == "":
		return notAccepted("it has no sub")
	case !t.access && said.SessionID == "":
		return notAccepted("it has no sid")
	case t.access && said.ClientID == "":
		return notAccepted("it has no client_id")
	case t.actor && said.Act == nil:
		return notAccepted("it has no act: no agent got it for a call")
	case said.Expiry == nil || said.IssuedAt == nil:
		return notAccepted("it has no exp or no iat")
	case !now.Before(said.Expiry.Time().Add(t.Leeway)):
		return notAccepted("it has expired")
	case said.IssuedAt.Time().After(now.Add(t.Leeway)) || said.NotBefore != nil && said.NotBefore.Time().After(now.Add(t.Leeway)):
		return notAccepted("it is not valid yet")
	case said.Expiry.Time().Sub(said.IssuedAt.Time()) > maxLifetime:
		return notAccepted("it lives longer than 24 hours")
	}
	return nil
}

// identity returns the identity that claims describe.
func (c *claims) identity(access bool) *Identity {
	who := &Identity{Subject: c.Subject, SessionID: c.SessionID, ClientID: c.ClientID, ExpiresAt: c.Expiry.Time(), ACR: c.ACR}
	if c.AuthTime != nil {
		who.ProvenAt = time.Unix(int64(*c.AuthTime), 0)
	}
	switch {
	case !access:
		who.UserID, who.Permissions = c.Subject, c.Permissions
		if c.Organization != nil {
			who.OrganizationID = *c.Organization
		}
		if c.Workspace != nil {
			who.WorkspaceID = *c.Workspace
		}
		return who
	case c.Subject == c.ClientID: // a client acts for itself: only such access tokens have permissions
		who.Permissions = c.Permissions
	default:
		who.UserID = c.Subject
	}
	c.agentClaims.describe(who)
	who.Scopes = strings.Fields(c.Scope)
	return who
}
