// Package translation turns resources into the content of config documents. The operator uses it to fill the store. The
// server uses it to compare a live resource with a request, and to answer from the resource while the store lags.
package translation

import (
	"encoding/json"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/internal/text"
)

// Keys are the parts of a deployment's content that come from outside its spec.
type Keys struct {
	// Sets are the key sets of issuers with a ConfigMap or with own sessions, by the name of their entry in
	// spec.jwtIssuers.
	Sets map[string]json.RawMessage
	// Signing are the deployment's own keys, the current one first.
	Signing []document.SigningKey
	// Webhooks are the keys that sign calls of tools, the current one first.
	Webhooks []document.SigningKey
	// Sealed are the sealed values of the Secrets that the spec names, by the kind under which they are sealed.
	Sealed map[string]string
}

// Deployment translates an IdentityDeployment.
func Deployment(d *v1alpha1.IdentityDeployment, keys Keys) document.Deployment {
	management := ptr.Deref(d.Spec.Management, v1alpha1.ManagementPolicy{})
	catalog := ptr.Deref(d.Spec.PermissionCatalog, v1alpha1.PermissionCatalog{})
	return document.Deployment{
		DisplayName:      named(d.Spec.DisplayName, d.Name),
		Mode:             string(ptr.Deref(d.Spec.Mode, v1alpha1.DeploymentModeProduction)),
		FrontendHosts:    words(d.Spec.FrontendHosts),
		DefaultScheme:    schemeName(d.Spec.DefaultRateLimitSchemeRef),
		FieldConflicts:   string(ptr.Deref(management.FieldConflicts, v1alpha1.FieldConflictsReject)),
		ManagementWrites: string(ptr.Deref(management.Writes, v1alpha1.ManagementWritesEnabled)),
		JWTIssuers:       issuers(d, keys.Sets),
		SigningKeys:      keys.Signing,
		WebhookKeys:      keys.Webhooks,
		AllowedOrigins:   words(d.Spec.AllowedOrigins),

		OrganizationPermissions: words(catalog.Organization),
		WorkspacePermissions:    words(catalog.Workspace),

		Session: session(d.Spec.Session),
		SignIn:  signIn(d.Spec.SignIn),
		Email:   email(d, keys.Sealed),
		SMS:     sms(d.Spec.SMS, keys.Sealed),
		Pages:   pages(d.Spec.Pages),

		Connections:          connections(d.Spec.Connections),
		AddressRetentionDays: addressRetentionDays(d.Spec.Analytics),

		Assurance: strong(d),
	}
}

// allAlgorithms are the algorithms of an issuer that names none.
var allAlgorithms = []string{"RS256", "PS256", "ES256", "EdDSA"}

func issuers(d *v1alpha1.IdentityDeployment, keySets map[string]json.RawMessage) []document.JWTIssuer {
	var out []document.JWTIssuer
	for _, declared := range d.Spec.JWTIssuers {
		issuer := document.JWTIssuer{
			Name: declared.Name, Issuer: Issuer(d, declared), Audiences: Audiences(d, declared), Algorithms: words(declared.Algorithms),
			JWKSURL: ptr.Deref(declared.JWKSURL, ""), JWKS: keySets[declared.Name], Kubernetes: declared.Kubernetes != nil,
			OwnSessions: declared.OwnSessions != nil, MaxLifetimeSeconds: ptr.Deref(declared.MaxLifetimeSeconds, 0),
			PermissionsClaim: ptr.Deref(declared.PermissionsClaim, ""), PermissionsExpression: ptr.Deref(declared.PermissionsExpression, ""),
		}
		if declared.OAuthApp != nil {
			issuer.OAuthApp = declared.OAuthApp.Name
			if issuer.PermissionsClaim == "" && issuer.PermissionsExpression == "" {
				issuer.PermissionsClaim = "permissions"
			}
		}
		if declared.OwnSessions != nil {
			issuer.Algorithms = []string{"ES256"} // the algorithm of the deployment's own keys
		}
		if issuer.Algorithms == nil {
			issuer.Algorithms = allAlgorithms
		}
		out = append(out, issuer)
	}
	return out
}

// Issuer returns the effective issuer, "" for the Kubernetes API.
func Issuer(d *v1alpha1.IdentityDeployment, issuer v1alpha1.JWTIssuer) string {
	if issuer.OwnSessions != nil && len(d.Spec.FrontendHosts) > 0 {
		return "https://" + string(d.Spec.FrontendHosts[0])
	}
	return ptr.Deref(issuer.Issuer, "")
}

// Audiences returns the effective audiences of an issuer of a deployment.
func Audiences(d *v1alpha1.IdentityDeployment, issuer v1alpha1.JWTIssuer) []string {
	if len(issuer.Audiences) == 0 {
		return []string{"cardea:" + d.Namespace + ":" + d.Name}
	}
	return words(issuer.Audiences)
}

// RateLimitScheme translates a RateLimitScheme.
func RateLimitScheme(s *v1alpha1.RateLimitScheme) document.RateLimitScheme {
	return document.RateLimitScheme{
		Slug:        string(s.Spec.Slug),
		Name:        named(s.Spec.DisplayName, string(s.Spec.Slug)),
		Description: described(s.Spec.Description),
		Rules:       Rules(s.Spec.Rules),
	}
}

// Rules translates declared rules to rules as sent.
func Rules(declared []v1alpha1.RateLimitRule) []scheme.Rule {
	out := make([]scheme.Rule, len(declared))
	for i, rule := range declared {
		out[i] = scheme.Rule{
			Unit: string(rule.Unit), Duration: int64(rule.Duration), MaxRequests: int64(rule.MaxRequests),
			Mode: string(ptr.Deref(rule.Mode, "")), Endpoints: words(rule.Endpoints),
		}
		if rule.Priority != nil {
			out[i].Priority = ptr.To(int64(*rule.Priority))
		}
	}
	return out
}

// DeclareRules is the inverse of Rules, for rules that scheme.Validate found no fault in.
func DeclareRules(rules []scheme.Rule) []v1alpha1.RateLimitRule {
	out := make([]v1alpha1.RateLimitRule, len(rules))
	for i, rule := range rules {
		out[i] = v1alpha1.RateLimitRule{Unit: v1alpha1.RateLimitUnit(rule.Unit), Duration: int32(rule.Duration), MaxRequests: int32(rule.MaxRequests)}
		if rule.Mode != "" {
			out[i].Mode = ptr.To(v1alpha1.RateLimitMode(rule.Mode))
		}
		for _, endpoint := range rule.Endpoints {
			out[i].Endpoints = append(out[i].Endpoints, v1alpha1.EndpointPattern(endpoint))
		}
		if rule.Priority != nil {
			out[i].Priority = ptr.To(int32(*rule.Priority))
		}
	}
	return out
}

// APIAuthApp translates an APIAuthApp.
func APIAuthApp(a *v1alpha1.APIAuthApp) document.APIAuthApp {
	return document.APIAuthApp{
		Slug:        string(a.Spec.Slug),
		Name:        named(a.Spec.DisplayName, string(a.Spec.Slug)),
		Description: described(a.Spec.Description),
		Permissions: words(a.Spec.Permissions),
		Active:      ptr.Deref(a.Spec.Active, true),
		Scheme:      schemeName(a.Spec.RateLimitSchemeRef),
		KeyPrefix:   string(ptr.Deref(a.Spec.KeyPrefix, "")),
		SelfService: keySelfService(a.Spec.SelfService),
	}
}

// defaultKeysPerUser is how many keys of an app a user may have by default.
const defaultKeysPerUser = 10

// keySelfService translates the settings of users' own keys, nil for none.
func keySelfService(s *v1alpha1.KeySelfService) *document.KeySelfService {
	if s == nil || !ptr.Deref(s.Enabled, false) {
		return nil
	}
	return &document.KeySelfService{MaxKeysPerUser: int(ptr.Deref(s.MaxKeysPerUser, defaultKeysPerUser)), Permissions: words(s.Permissions)}
}

// APIKey translates an APIKey with the verifiers of its keys.
func APIKey(key *v1alpha1.APIKey, verifiers []document.Verifier) document.APIKey {
	return document.APIKey{
		App:          key.Spec.AppRef.Name,
		Name:         named(key.Spec.DisplayName, key.Name),
		Permissions:  words(key.Spec.Permissions),
		AllowedCIDRs: words(key.Spec.AllowedCIDRs),
		Scheme:       schemeName(key.Spec.RateLimitSchemeRef),
		Verifiers:    verifiers,
	}
}

// named returns the name to serve: the declared name in its normal form, otherwise the fallback.
func named(declared *v1alpha1.DisplayName, fallback string) string {
	if declared == nil {
		return fallback
	}
	return text.Normal(string(*declared))
}

// described returns the description to serve, in its normal form, nil if none is declared.
func described(declared *v1alpha1.Description) *string {
	if declared == nil {
		return nil
	}
	return ptr.To(text.Normal(string(*declared)))
}

func schemeName(ref *v1alpha1.RateLimitSchemeReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

func words[S ~string](declared []S) []string {
	var out []string
	for _, word := range declared {
		out = append(out, string(word))
	}
	return out
}
