package connection

import (
	"errors"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/internal/document"
)

// identityIssuer returns the issuer in the identities of a connection's users. tenant is the user's tenant, for
// Microsoft only. GitHub issues no ID tokens: its base URL stands for an issuer.
func identityIssuer(c *document.Connection, tenant string) string {
	switch c.Type {
	case TypeGitHub:
		return c.Provider.BaseURL
	case TypeMicrosoft:
		return microsoftOrigin + tenant + "/v2.0"
	}
	return c.Provider.Issuer
}

// GitHubPerson returns the person that the claims of a GitHub user are about.
func GitHubPerson(c *document.Connection, claims map[string]any) Person {
	subject, _ := claims["sub"].(string)
	return Person{Issuer: identityIssuer(c, ""), Subject: subject, Claims: claims}
}

// IdentityIssuer returns the issuer of the identity with which a sign-in by a connection looks for a subject. The error
// says, without the subject, why no sign-in by the connection has such a subject.
func IdentityIssuer(c *document.Connection, subject string) (string, error) {
	if subject == "" || len(subject) > MaxSubject {
		return "", errors.New("must have 1 to " + strconv.Itoa(MaxSubject) + " bytes")
	}
	tenant := ""
	switch c.Type {
	case TypeGitHub:
		if id, err := strconv.ParseInt(subject, 10, 64); err != nil || id <= 0 || strconv.FormatInt(id, 10) != subject {
			return "", errors.New("must be the number that GitHub has as the id of the user, not the login")
		}
	case TypeMicrosoft:
		var object string
		tenant, object, _ = strings.Cut(subject, "/")
		if !tenantPattern.MatchString(tenant) || !tenantPattern.MatchString(object) {
			return "", errors.New("must be <tid>/<oid>: the ids of the tenant and of the user in it, in lower case")
		}
		if !admits(&c.Provider, tenant) {
			return "", errors.New("is of a tenant that the connection does not admit: change its tenant or allowedTenants first")
		}
	case TypeSAML:
		if c.Provider.Issuer == "" {
			return "", errors.New("needs the entity ID of the provider: declare saml.entityID in the connection, or name the issuer")
		}
	}
	return identityIssuer(c, tenant), nil
}

// AssertsTwoFactors reports whether sign-ins by a connection can count as two factors everywhere. Those by one of an
// organization count in that organization at most.
func AssertsTwoFactors(c *document.Connection) bool {
	return c.Organization == "" && len(c.AMR)+len(c.ACR) > 0
}
