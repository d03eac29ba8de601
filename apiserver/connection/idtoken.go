// Package connection signs people in by identity providers. Its decisions are pure functions over what a provider sent;
// the requests to providers are made by package upstream.
package connection

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/internal/document"
)

const (
	// skew is how far a provider's clock may differ.
	skew = time.Minute
	// maxAge is the age of an ID token at which it is no longer accepted.
	maxAge = 10 * time.Minute
	// MaxSubject bounds the length of a subject, in bytes.
	MaxSubject = 255
)

// Keys returns the provider's key with an id for tokens of an issuer, nil if there is none. The error says why the keys
// cannot be read.
type Keys func(ctx context.Context, issuer, keyID string) (*jose.JSONWebKey, error)

// Expected are the values that an ID token must have.
type Expected struct {
	ClientID string
	// Nonce is that of the attempt.
	Nonce string
	// AccessToken is the access token that came with it, "" if none came.
	AccessToken string
	// ResponseIssuer is the parameter iss of the authorization response, "" if it has none.
	ResponseIssuer string
	Now            time.Time
}

// Fault is why a response is not accepted, in words for the admin of the connection. It never contains a token.
type Fault struct {
	// Reason is a fixed word for metrics and tests.
	Reason string
	// Expected and Got are the values that differ, "" if there are none.
	Expected, Got string
}

// Error implements error.
func (f *Fault) Error() string {
	switch {
	case f.Expected == "" && f.Got == "":
		return f.Reason
	case f.Expected == "":
		return fmt.Sprintf("%s is %q", f.Reason, f.Got)
	}
	return fmt.Sprintf("%s is %q, the identity provider must send %q", f.Reason, f.Got, f.Expected)
}

// The reasons of faults.
const (
	ReasonForm      = "id_token"
	ReasonAlgorithm = "alg"
	ReasonKey       = "key"
	ReasonSignature = "signature"
	ReasonIssuer    = "iss"
	ReasonTenant    = "tid"
	ReasonAudience  = "aud"
	ReasonParty     = "azp"
	ReasonExpired   = "exp"
	ReasonIssuedAt  = "iat"
	ReasonNonce     = "nonce"
	ReasonSubject   = "sub"
	ReasonHash      = "at_hash"
	ReasonDomain    = "hd"
	// ReasonResponseIssuer is the parameter iss of an authorization response.
	ReasonResponseIssuer = "response_iss"
	ReasonAuthTime       = "auth_time"
	// ReasonLogoutForm is a logout token that does not have the form of one. ReasonEvents and ReasonTokenID are its
	// claims.
	ReasonLogoutForm = "form"
	ReasonEvents     = "events"
	ReasonTokenID    = "jti"
	// ReasonParameters are doubled, missing or too long parameters of an authorization response.
	ReasonParameters = "parameters"
	// ReasonTokens and ReasonUserinfo are of the responses of these endpoints. Got is the provider's error code, or what
	// is wrong with the response. ReasonUserinfoSubject is of one about another person than the ID token.
	ReasonTokens          = "token_response"
	ReasonUserinfo        = "userinfo"
	ReasonUserinfoSubject = "userinfo_sub"
)

// Person is what an ID token says about a person.
type Person struct {
	// Issuer and Subject identify the person at the connection.
	Issuer, Subject string
	// Claims are all claims of the token.
	Claims map[string]any
}

// VerifyIDToken verifies an ID token of a connection: its form, algorithm, signature and claims, in this order. The
// error is a *Fault, or that of keys if the provider's keys cannot be read.
func VerifyIDToken(ctx context.Context, c *document.Connection, raw string, keys Keys, want Expected) (Person, error) {
	token, err := bearer.Parse(raw)
	if err != nil || token.AccessToken {
		return Person{}, &Fault{Reason: ReasonForm}
	}
	if err := verifyToken(ctx, c, token, keys); err != nil {
		return Person{}, err
	}
	if err := checkClaims(token, want); err != nil {
		return Person{}, err
	}
	if err := checkHash(token, want.AccessToken); err != nil {
		return Person{}, err
	}
	subject, err := subjectOf(c, token)
	return Person{Issuer: token.Claims.Issuer, Subject: subject, Claims: token.Payload}, err
}

// verifyToken verifies the algorithm, the issuer and the signature of a provider's token.
func verifyToken(ctx context.Context, c *document.Connection, token *bearer.Token, keys Keys) error {
	if !slices.Contains(c.Provider.Algs, token.Algorithm) {
		return &Fault{Reason: ReasonAlgorithm, Got: token.Algorithm, Expected: fmt.Sprint(c.Provider.Algs)}
	}
	issuer, err := issuerOf(c, token)
	if err != nil {
		return err
	}
	key, err := keys(ctx, issuer, token.KeyID)
	if err != nil {
		return err
	}
	return verifySignature(token, key)
}

// verifySignature verifies a signature. A key that states an algorithm or a use serves that one alone.
func verifySignature(token *bearer.Token, key *jose.JSONWebKey) error {
	switch {
	case key == nil:
		return &Fault{Reason: ReasonKey, Got: token.KeyID}
	case key.Algorithm != "" && key.Algorithm != token.Algorithm, key.Use != "" && key.Use != "sig", !key.Valid(), !key.IsPublic():
		return &Fault{Reason: ReasonKey, Got: token.KeyID}
	}
	if _, err := token.Signature.Verify(key); err != nil {
		return &Fault{Reason: ReasonSignature}
	}
	return nil
}

// checkAudience checks the audience of a token. A further audience is accepted only from a token that names the client
// as its authorized party.
func checkAudience(token *bearer.Token, client string) error {
	audience := []string(token.Claims.Audience)
	party, _ := token.Payload["azp"].(string)
	_, named := token.Payload["azp"]
	switch {
	case !slices.Contains(audience, client):
		return &Fault{Reason: ReasonAudience, Got: fmt.Sprint(audience), Expected: client}
	case (len(audience) > 1 || named) && party != client:
		return &Fault{Reason: ReasonParty, Got: party, Expected: client}
	}
	return nil
}

// checkTimes checks when a token was issued, and until when it is valid if it says so.
func checkTimes(token *bearer.Token, now time.Time) error {
	switch {
	case token.Claims.Expiry != nil && !now.Before(token.Claims.Expiry.Time().Add(skew)):
		return &Fault{Reason: ReasonExpired}
	case token.Claims.IssuedAt == nil, token.Claims.IssuedAt.Time().After(now.Add(skew)), token.Claims.IssuedAt.Time().Before(now.Add(-maxAge - skew)):
		return &Fault{Reason: ReasonIssuedAt}
	case token.Claims.NotBefore != nil && token.Claims.NotBefore.Time().After(now.Add(skew)):
		return &Fault{Reason: ReasonIssuedAt}
	}
	return nil
}

// checkClaims checks the claims that are the same for all types. The response states the issuer of the token (RFC 9207
// 2.4): of Microsoft, whose issuers for several tenants are not known before, no other tenant's.
func checkClaims(token *bearer.Token, want Expected) error {
	if want.ResponseIssuer != "" && want.ResponseIssuer != token.Claims.Issuer {
		return &Fault{Reason: ReasonResponseIssuer, Got: want.ResponseIssuer, Expected: token.Claims.Issuer}
	}
	if err := checkAudience(token, want.ClientID); err != nil {
		return err
	}
	if token.Claims.Expiry == nil {
		return &Fault{Reason: ReasonExpired}
	}
	if err := checkTimes(token, want.Now); err != nil {
		return err
	}
	nonce, _ := token.Payload["nonce"].(string)
	if want.Nonce == "" || subtle.ConstantTimeCompare([]byte(nonce), []byte(want.Nonce)) != 1 {
		return &Fault{Reason: ReasonNonce}
	}
	return nil
}

// checkHash compares at_hash, if there is one, with the access token (OpenID Connect Core 3.1.3.6).
func checkHash(token *bearer.Token, access string) error {
	sent, found := token.Payload["at_hash"]
	if !found || access == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(access))
	half := base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
	if stated, _ := sent.(string); token.Algorithm != string(jose.EdDSA) && stated != half {
		return &Fault{Reason: ReasonHash}
	}
	return nil
}

// tenantPattern matches the id of a tenant of Microsoft.
var tenantPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Values of Microsoft's tenants.
const (
	microsoftOrigin    = "https://login.microsoftonline.com/"
	microsoftConsumers = "9188040d-6c67-4c5b-b112-36a304b66dad"
)

// issuerOf returns the issuer of a token, which is a part of the person's identity. Google's domains are checked here
// too, and Microsoft's issuer is that of the token's own tenant.
func issuerOf(c *document.Connection, token *bearer.Token) (string, error) {
	tenant, _ := token.Payload["tid"].(string)
	if c.Type == TypeMicrosoft && !(tenantPattern.MatchString(tenant) && admits(&c.Provider, tenant)) {
		return "", &Fault{Reason: ReasonTenant, Got: tenant, Expected: c.Provider.Tenant}
	}
	want := identityIssuer(c, tenant)
	if token.Claims.Issuer != want {
		return "", &Fault{Reason: ReasonIssuer, Got: token.Claims.Issuer, Expected: want}
	}
	if domain, _ := token.Payload["hd"].(string); len(c.Provider.HostedDomains) > 0 && !slices.Contains(c.Provider.HostedDomains, domain) {
		return "", &Fault{Reason: ReasonDomain, Got: domain, Expected: fmt.Sprint(c.Provider.HostedDomains)}
	}
	return want, nil
}

// admits reports whether people of a tenant of Microsoft may sign in.
func admits(p *document.UpstreamProvider, tenant string) bool {
	if len(p.AllowedTenants) > 0 && !slices.Contains(p.AllowedTenants, tenant) {
		return false
	}
	switch p.Tenant {
	case "common":
		return true
	case "organizations":
		return tenant != microsoftConsumers
	case "consumers":
		return tenant == microsoftConsumers
	}
	return tenant == p.Tenant
}

// subjectOf returns the subject of a token. Microsoft's sub is another for each client, so the subject is the object id
// in its tenant.
func subjectOf(c *document.Connection, token *bearer.Token) (string, error) {
	subject := token.Claims.Subject
	if c.Type == TypeMicrosoft {
		object, _ := token.Payload["oid"].(string)
		tenant, _ := token.Payload["tid"].(string)
		if subject = tenant + "/" + object; !tenantPattern.MatchString(object) {
			return "", &Fault{Reason: ReasonSubject}
		}
	}
	if subject == "" || len(subject) > MaxSubject {
		return "", &Fault{Reason: ReasonSubject}
	}
	return subject, nil
}
