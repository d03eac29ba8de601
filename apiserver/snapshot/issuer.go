package snapshot

import (
	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/internal/grant"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/store/document"
)

// Issuer is an issuer of tokens that a deployment accepts, prepared for requests.
type Issuer struct {
	*document.JWTIssuer
	Deployment *Entry
	Settings   *document.Deployment
	// Keys is the key set that came with the configuration, nil where keys come from elsewhere.
	Keys *jose.JSONWebKeySet
	// Expression grants permissions, nil where a claim does.
	Expression *grant.Expression
}

func newIssuer(e *Entry, settings *document.Deployment, declared *document.JWTIssuer) (issuer *Issuer, err error) {
	issuer = &Issuer{JWTIssuer: declared, Deployment: e, Settings: settings}
	if len(declared.JWKS) > 0 {
		if issuer.Keys, err = keyset.Parse(declared.JWKS); err != nil {
			return nil, err
		}
	}
	if declared.PermissionsExpression != "" {
		issuer.Expression, err = grant.Compile(declared.PermissionsExpression)
	}
	return issuer, err
}

// Permissions returns what a token's payload grants. An expression that fails on it grants nothing.
func (i *Issuer) Permissions(claims map[string]any) []string {
	if i.Expression == nil {
		return grant.FromClaim(claims, i.PermissionsClaim)
	}
	names, err := i.Expression.Permissions(claims)
	if err != nil {
		return nil
	}
	return names
}
