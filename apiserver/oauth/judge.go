package oauth

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/apiserver/authorization"
	"github.com/cardea-iam/cardea/internal/ids"
)

// judged is what is true of an access token now.
type judged struct {
	claims accessClaims
	// client is whose token it is, nil: the token is not good.
	client *authorization.Client
	// person is whom it is about, nil for a client's own.
	person *person
	// scopes are those that are still held.
	scopes []string
}

func (j *judged) has(scope string) bool { return slices.Contains(j.scopes, scope) }

// judge tells what is true of an access token now: what the person still holds of it, or nothing.
func (c *call) judge(raw string) (judged, error) {
	claims, ok := c.read(raw)
	if !ok {
		return judged{}, nil
	}
	client, found, err := c.findClient(claims.ClientID)
	if err != nil || !found {
		return judged{}, err
	}
	out := judged{claims: claims, client: client, scopes: strings.Fields(claims.Scope)}
	if claims.Authorization == "" {
		out.scopes = slices.DeleteFunc(out.scopes, func(scope string) bool { return !c.MayAsk(client, scope) })
		return out, nil
	}
	id, err := ids.Parse(claims.Authorization)
	if err != nil {
		return judged{}, nil
	}
	var held []string
	err = c.view(func(u *account.Unit) error {
		family, found, err := u.TokenFamily(id)
		if err != nil || !found || family.Client != client.ID || family.App != c.Entry.ID {
			return err
		}
		held, out.person, err = c.standing(u, family)
		return err
	})
	if err != nil || out.person == nil {
		return judged{}, err
	}
	asked := len(out.scopes)
	out.scopes = slices.DeleteFunc(out.scopes, func(scope string) bool { return !slices.Contains(held, scope) })
	if asked > 0 && len(out.scopes) == 0 {
		return judged{}, nil
	}
	return out, nil
}

// read reads an access token that the app gave and whose time is not over.
func (c *call) read(raw string) (claims accessClaims, ok bool) {
	if text, err := c.Keyring.Open(sealedAccessToken, c.Content.Issuer, raw); err == nil {
		ok = json.Unmarshal(text, &claims) == nil
	} else {
		claims, ok = c.verify(raw)
	}
	return claims, ok && claims.Issuer == c.Content.Issuer && claims.Expiry != nil && claims.IssuedAt != nil && c.now.Before(claims.Expiry.Time())
}

// verify reads an access token that the app signed.
func (c *call) verify(raw string) (claims accessClaims, ok bool) {
	parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err != nil || len(parsed.Headers) != 1 || parsed.Headers[0].ExtraHeaders[jose.HeaderType] != typeAccessToken {
		return claims, false
	}
	for _, key := range c.Content.SigningKeys {
		var public jose.JSONWebKey
		if key.ID != parsed.Headers[0].KeyID || key.ExpiresAt != nil && !c.now.Before(*key.ExpiresAt) || public.UnmarshalJSON(key.Public) != nil || public.Algorithm != parsed.Headers[0].Algorithm {
			continue
		}
		return claims, parsed.Claims(public.Key, &claims) == nil
	}
	return claims, false
}
