package consent

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// TypeAccessToken is the type of access tokens that are JWTs (RFC 9068 2.1).
	TypeAccessToken = "at+jwt"
	// SealedAccessToken is the kind that opaque access tokens are sealed for, by their issuer.
	SealedAccessToken = "oauth-access-token"
)

// AccessClaims are what an access token says (RFC 9068 2.2).
type AccessClaims struct {
	jwt.Claims
	ClientID    string   `json:"client_id"`
	Scope       string   `json:"scope,omitempty"`
	Permissions []string `json:"permissions,omitempty"`
	// AuthTime is when the person proved who they are, and Authorization the family of the token; a client's own token has neither.
	AuthTime      *jwt.NumericDate `json:"auth_time,omitempty"`
	Authorization string           `json:"authorization_id,omitempty"`
}

// NewOpaque seals claims for us alone. The issuer stands before, so that it is known who can open it.
func (a *App) NewOpaque(keyring *seal.Keyring, claims AccessClaims) (string, error) {
	raw, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString([]byte(a.Content.Issuer)) + "." + keyring.Seal(SealedAccessToken, a.Content.Issuer, raw), nil
}

// OpaqueIssuer is whose an opaque access token says that it is; false: it has not the form of one.
func OpaqueIssuer(raw string) (issuer string, opaque bool) {
	head, _, _ := strings.Cut(raw, ".")
	if strings.Count(raw, ".") != 3 { // the issuer's part, and the three of what is sealed
		return "", false
	}
	plain, err := base64.RawURLEncoding.DecodeString(head)
	return string(plain), err == nil
}

// openAccessToken opens an opaque access token that says whose it is.
func openAccessToken(keyring *seal.Keyring, issuer, raw string) (claims AccessClaims, ok bool) {
	_, sealed, _ := strings.Cut(raw, ".")
	text, err := keyring.Open(SealedAccessToken, issuer, sealed)
	ok = err == nil && json.Unmarshal(text, &claims) == nil
	return claims, ok
}

// verifyAccessToken verifies the signature of an access token, and returns which key it is of.
func (a *App) verifyAccessToken(raw string, now time.Time) (claims AccessClaims, key string, ok bool) {
	parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err != nil || len(parsed.Headers) != 1 || parsed.Headers[0].ExtraHeaders[jose.HeaderType] != TypeAccessToken {
		return claims, "", false
	}
	key = parsed.Headers[0].KeyID
	for _, one := range a.Content.SigningKeys {
		var public jose.JSONWebKey
		if one.ID != key || !a.publishes(key, now) || public.UnmarshalJSON(one.Public) != nil || public.Algorithm != parsed.Headers[0].Algorithm {
			continue
		}
		err := parsed.Claims(public.Key, &claims)
		return claims, key, err == nil
	}
	return claims, "", false
}

// Subject is whom a family's tokens are about, where they act.
type Subject struct {
	User   people.User
	Place  Place
	Family people.TokenFamily
}

// Standing tells what a family of a client stands for now: the scopes that the person still holds and the client may still ask for. Nil: for
// nothing any more, because the person, the grant or the sign-in is gone, or nothing of what was granted is left.
func (a *App) Standing(u *account.Unit, client *Client, family people.TokenFamily) ([]string, *Subject, error) {
	user, found, err := u.User(family.User)
	if err != nil || !found || user.Disabled || !u.Now.Before(family.ExpiresAt) {
		return nil, nil, err
	}
	if _, granted, err := u.Grant(family.Grant); err != nil || !granted {
		return nil, nil, err
	}
	if !family.Offline {
		s, signedIn, err := u.SessionOfSignIn(family.SignIn)
		if err != nil || !signedIn || session.Evaluate(s, SessionPolicy(u.Tenant), u.Now) != session.Live {
			return nil, nil, err
		}
	}
	place, err := PlaceOf(u, family.User, family.Organization, family.Workspace)
	if err != nil {
		return nil, nil, err
	}
	held := slices.DeleteFunc(a.Held(u, family.Scopes, place), func(scope string) bool { return !a.MayAsk(client, scope) })
	if len(held) == 0 && len(family.Scopes) > 0 {
		return nil, nil, nil
	}
	return held, &Subject{User: user, Place: place, Family: family}, nil
}

// SessionPolicy is the deployment's of sessions.
func SessionPolicy(tenant *account.Tenant) session.Policy {
	declared := tenant.Settings.EffectiveSession()
	return session.Policy{Idle: declared.IdleTimeout(), Lifetime: declared.Lifetime(), MaxSignIns: declared.MaxSignIns}
}

// Judged is what is true of an access token now.
type Judged struct {
	Claims AccessClaims
	// Client is whose token it is, nil: the token is not good.
	Client *Client
	// Subject is whom it is about, nil for a client's own.
	Subject *Subject
	// Scopes are those that are still held.
	Scopes []string
}

// Has reports whether a scope is still held.
func (j *Judged) Has(scope string) bool { return slices.Contains(j.Scopes, scope) }

// Judge tells what is true of an access token now, of which the claims were read: what the person still holds of it, or nothing.
func (a *App) Judge(u *account.Unit, claims AccessClaims) (Judged, error) {
	client, found, err := FindClient(u, a, claims.ClientID)
	if err != nil || !found {
		return Judged{}, err
	}
	out := Judged{Claims: claims, Client: client, Scopes: strings.Fields(claims.Scope)}
	if claims.Authorization == "" {
		out.Scopes = slices.DeleteFunc(out.Scopes, func(scope string) bool { return !a.MayAsk(client, scope) })
		out.Claims.Permissions = slices.DeleteFunc(slices.Clone(claims.Permissions), func(name string) bool { return !slices.Contains(client.MachinePermissions, name) })
		return out, nil
	}
	id, err := ids.Parse(claims.Authorization)
	if err != nil {
		return Judged{}, nil
	}
	family, found, err := u.TokenFamily(id)
	if err != nil || !found || family.Client != client.ID || family.App != a.Entry.ID {
		return Judged{}, err
	}
	held, subject, err := a.Standing(u, client, family)
	if err != nil || subject == nil {
		return Judged{}, err
	}
	asked := len(out.Scopes)
	out.Subject, out.Scopes = subject, slices.DeleteFunc(out.Scopes, func(scope string) bool { return !slices.Contains(held, scope) })
	if asked > 0 && len(out.Scopes) == 0 {
		return Judged{}, nil
	}
	return out, nil
}
