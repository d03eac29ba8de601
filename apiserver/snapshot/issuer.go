package snapshot

import (
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/internal/claimpermission"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/keyset"
)

// Issuer is an issuer of tokens that a deployment accepts, prepared for requests.
type Issuer struct {
	*document.JWTIssuer
	Deployment *Entry
	Settings   *document.Deployment
	// App is the issuing OAuth app, nil for other issuers.
	App *Entry
	// Client is the OAuth client to which the verified token was issued, nil if App is nil. The caller of OAuthIssuer sets
	// it.
	Client *Entry
	// Keys is the key set from the configuration, nil if keys are fetched.
	Keys *jose.JSONWebKeySet
	// Expression grants permissions, nil if a claim grants them.
	Expression *claimpermission.Expression
}

func newIssuer(e *Entry, settings *document.Deployment, declared *document.JWTIssuer) (issuer *Issuer, err error) {
	issuer = &Issuer{JWTIssuer: declared, Deployment: e, Settings: settings}
	if len(declared.JWKS) > 0 {
		// An older operator may have accepted a set that exceeds the current limits. Such a set is replaced by an empty one,
		// which verifies no token, so that the rest of the deployment is still served.
		if issuer.Keys, err = keyset.Parse(declared.JWKS, keyset.MaxBytes); err != nil {
			issuer.Keys = &jose.JSONWebKeySet{}
		}
		err = nil
	}
	if declared.PermissionsExpression != "" {
		issuer.Expression, err = claimpermission.Compile(declared.PermissionsExpression)
	}
	return issuer, err
}

// Permissions returns the permissions that a token's payload grants. An expression that fails grants nothing.
func (i *Issuer) Permissions(claims map[string]any) []string {
	if i.Expression == nil {
		return claimpermission.FromClaim(claims, i.PermissionsClaim)
	}
	names, err := i.Expression.Permissions(claims)
	if err != nil {
		return nil
	}
	return names
}

// OAuthIssuer returns the issuer of an OAuth app's tokens. Its settings are from the jwtIssuers entry of the app's
// deployment that names the app and has one of the audiences. Its keys are those that have not expired at now. It
// returns false if there is no such entry, if the app is not active, or if the entry's expression does not compile.
func (s *Snapshot) OAuthIssuer(app *Entry, audiences []string, now time.Time) (*Issuer, bool) {
	deployment, found := s.Deployment(app.Deployment)
	content := ContentOf[document.OAuthApp](app)
	if !found || !content.Active {
		return nil, false
	}
	settings := ContentOf[document.Deployment](deployment)
	for i := range settings.JWTIssuers {
		declared := &settings.JWTIssuers[i]
		if declared.OAuthApp != app.Name || !slices.ContainsFunc(audiences, func(audience string) bool { return slices.Contains(declared.Audiences, audience) }) {
			continue
		}
		issuer, err := newIssuer(deployment, settings, declared)
		if err != nil {
			return nil, false
		}
		issuer.App, issuer.Keys = app, &jose.JSONWebKeySet{}
		for _, signing := range content.SigningKeys {
			var key jose.JSONWebKey
			if (signing.ExpiresAt == nil || now.Before(*signing.ExpiresAt)) && key.UnmarshalJSON(signing.Public) == nil {
				issuer.Keys.Keys = append(issuer.Keys.Keys, key)
			}
		}
		return issuer, true
	}
	return nil, false
}
