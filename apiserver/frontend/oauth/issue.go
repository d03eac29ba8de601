package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// typeIDToken is the type of ID tokens.
const typeIDToken = "JWT"

// granted is the response of the token endpoint.
type granted struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token,omitempty"`
	IDToken      string `json:"id_token,omitempty"`
	Scope        string `json:"scope,omitempty"`
}

// idClaims are the claims of an ID token apart from the user's (OpenID Connect Core 2).
type idClaims struct {
	jwt.Claims
	Nonce           string           `json:"nonce,omitempty"`
	AuthTime        *jwt.NumericDate `json:"auth_time"`
	ACR             string           `json:"acr"`
	AMR             []string         `json:"amr"`
	AuthorizedParty string           `json:"azp"`
	AccessTokenHash string           `json:"at_hash"`
	SessionID       string           `json:"sid"`
}

// issued is what a transaction grants, before it is signed.
type issued struct {
	family            people.TokenFamily
	subject           *consent.Subject
	scopes, resources []string
	refresh           string
	// about are the claims about the user in ID tokens.
	about map[string]any
}

// request returns the common data of the transactions of a call.
func (c *call) request() *account.Request {
	actor := "anonymous"
	if c.client != nil {
		actor = "oauth_client:" + c.client.ID
	}
	return &account.Request{
		Tenant: account.NewTenant(c.Snapshot, c.Deployment), Store: c.Store, Keyring: c.Keyring, Random: rand.Reader, Now: c.now,
		Client: account.NewClient(c.address(), c.r.UserAgent()), Actor: actor,
	}
}

func (c *call) view(do func(*account.Unit) error) error {
	return storeUnavailable(c.request().View(c.r.Context(), do))
}

func (c *call) change(do func(*account.Unit) error) error {
	return storeUnavailable(c.request().Change(c.r.Context(), do))
}

// storeUnavailable maps an unavailable store to a response that asks for a retry.
func storeUnavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return &Error{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "the store is unavailable: try again", RetryAfter: time.Second}
	}
	return err
}

// issue runs the transaction of a token request and responds with the tokens. It opens the signing keys before the
// transaction, and signs the tokens after its commit.
func (c *call) issue(request redemption) error {
	access, err := signer(c, jose.ES256, bearer.TypeAccessToken)
	if err != nil {
		return err
	}
	identity, err := signer(c, c.idTokenAlgorithm(), typeIDToken)
	if err != nil {
		return err
	}
	var out *issued
	err = c.change(func(u *account.Unit) (err error) {
		if out, err = request.redeem(u); err == nil && slices.Contains(out.scopes, consent.ScopeOpenID) {
			out.about, err = c.about(u, out.subject, out.scopes)
		}
		return err
	})
	if request.finish != nil {
		request.finish(err == nil)
	}
	if err != nil {
		return err
	}
	return c.answer(out, access, identity)
}

// issueOwn responds with a client's own token.
func (c *call) issueOwn(claims bearer.AccessClaims) error {
	signer, err := signer(c, jose.ES256, bearer.TypeAccessToken)
	if err != nil {
		return err
	}
	signed, err := c.accessToken(signer, claims)
	if err != nil {
		return err
	}
	writeJSON(c.w, http.StatusOK, granted{AccessToken: signed, TokenType: "Bearer", ExpiresIn: int64(c.client.AccessTokenLifetime() / time.Second), Scope: claims.Scope})
	return nil
}

// answer signs the granted tokens, and responds with them.
func (c *call) answer(out *issued, access, identity jose.Signer) (err error) {
	lifetime := min(c.client.AccessTokenLifetime(), out.family.ExpiresAt.Sub(c.now))
	answer := granted{TokenType: "Bearer", ExpiresIn: int64(lifetime / time.Second), RefreshToken: out.refresh, Scope: strings.Join(out.scopes, " ")}
	authenticated := jwt.NewNumericDate(out.family.AuthenticatedAt)
	claims := c.newAccessClaims(ids.Format(out.family.User), out.resources, out.scopes, lifetime)
	claims.AuthTime, claims.Authorization = authenticated, ids.Format(out.family.ID)
	claims.ACR = out.family.Stated()
	_, claims.AMR = out.family.Proven()
	if answer.AccessToken, err = c.accessToken(access, claims); err != nil {
		return err
	}
	if out.about != nil {
		id := idClaims{
			Claims: jwt.Claims{
				Issuer: c.Content.Issuer, Subject: claims.Subject, Audience: jwt.Audience{c.client.ID}, IssuedAt: claims.IssuedAt, Expiry: claims.Expiry,
			},
			Nonce: out.family.Nonce, AuthTime: authenticated, ACR: claims.ACR, AMR: claims.AMR, AuthorizedParty: c.client.ID,
			AccessTokenHash: halfHash(answer.AccessToken), SessionID: ids.Format(out.family.Session),
		}
		if answer.IDToken, err = jwt.Signed(identity).Claims(out.about).Claims(id).Serialize(); err != nil {
			return fmt.Errorf("sign an ID token: %w", err)
		}
	}
	writeJSON(c.w, http.StatusOK, answer)
	return nil
}

// newAccessClaims returns the common claims of access tokens.
func (c *call) newAccessClaims(subject string, resources, scopes []string, lifetime time.Duration) bearer.AccessClaims {
	audience := jwt.Audience(resources)
	if len(audience) == 0 {
		audience = jwt.Audience{c.Content.Issuer}
	}
	return bearer.AccessClaims{
		Claims: jwt.Claims{
			Issuer: c.Content.Issuer, Subject: subject, Audience: audience, IssuedAt: jwt.NewNumericDate(c.now),
			Expiry: jwt.NewNumericDate(c.now.Add(lifetime)), ID: rand.Text(),
		},
		ClientID: c.client.ID, Scope: strings.Join(scopes, " "),
	}
}

// accessToken returns claims as an access token of the client: signed, or sealed so that only this server can read it.
func (c *call) accessToken(signer jose.Signer, claims bearer.AccessClaims) (string, error) {
	if c.client.OpaqueTokens {
		return bearer.SealAccess(c.Keyring, claims)
	}
	signed, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign an access token: %w", err)
	}
	return signed, nil
}

// idTokenAlgorithm returns the algorithm of the client's ID tokens.
func (c *call) idTokenAlgorithm() jose.SignatureAlgorithm {
	if own := c.client.IDTokenSigningAlg; own != "" {
		return jose.SignatureAlgorithm(own)
	}
	return jose.SignatureAlgorithm(c.Content.EffectiveIDTokenSigningAlg())
}

// halfHash returns the at_hash claim of an access token (OpenID Connect Core 3.1.3.6). Both algorithms use SHA-256.
func halfHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}

// about returns the claims about a user for the granted scopes (OpenID Connect Core 5.4).
func (c *call) about(u *account.Unit, p *consent.Subject, scopes []string) (map[string]any, error) {
	about := map[string]any{}
	for _, scope := range scopes {
		if _, declared := c.Scopes[scope]; declared {
			continue
		}
		switch scope {
		case consent.ScopeProfile:
			about["updated_at"] = p.User.UpdatedAt.Unix()
			name := strings.TrimSpace(p.User.FirstName + " " + p.User.LastName)
			for claim, value := range map[string]string{"given_name": p.User.FirstName, "family_name": p.User.LastName, "name": name} {
				if value != "" { // unknown claims are omitted (OpenID Connect Core 5.3.2)
					about[claim] = value
				}
			}
		case consent.ScopeEmail:
			if p.User.Email == "" {
				continue
			}
			address, found, err := u.Users().Email(people.FoldEmail(p.User.Email))
			if err != nil {
				return nil, err
			}
			about["email"], about["email_verified"] = p.User.Email, found && address.User == p.User.ID && !address.VerifiedAt.IsZero()
		case consent.ScopePhone:
			if p.User.Phone != "" {
				owner, found, err := u.Phones().PhoneOwner(p.User.Phone)
				if err != nil {
					return nil, err
				}
				about["phone_number"], about["phone_number_verified"] = p.User.Phone, found && owner == p.User.ID
			}
		case consent.ScopeGroups:
			about["groups"] = p.Place.Groups(u)
		}
	}
	organization, workspace, _ := c.Needs(scopes)
	if organization && p.Place.Member != nil {
		about["org_id"], about["org_slug"] = ids.Format(p.Place.Member.Organization.ID), p.Place.Member.Organization.Slug
	}
	if workspace && p.Place.Workspace != nil {
		about["workspace_id"] = ids.Format(p.Place.Workspace.Workspace.ID)
	}
	return about, nil
}
