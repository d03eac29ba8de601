package exports

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// keycloakUser is a user in the format of `kc.sh export`.
type keycloakUser struct {
	ID               string               `json:"id"`
	Username         string               `json:"username"`
	CreatedTimestamp int64                `json:"createdTimestamp"`
	Enabled          *bool                `json:"enabled"`
	Email            string               `json:"email"`
	EmailVerified    bool                 `json:"emailVerified"`
	FirstName        string               `json:"firstName"`
	LastName         string               `json:"lastName"`
	Credentials      []keycloakCredential `json:"credentials"`
	ServiceAccount   string               `json:"serviceAccountClientId"`
	Federated        []struct {
		Provider string          `json:"identityProvider"`
		UserID   json.RawMessage `json:"userId"`
	} `json:"federatedIdentities"`
	Federation string          `json:"federationLink"`
	Required   []string        `json:"requiredActions"`
	Groups     []string        `json:"groups"`
	Attributes json.RawMessage `json:"attributes"`
}

// keycloakCredential contains JSON in strings.
type keycloakCredential struct {
	ID             string          `json:"id"`
	Type           string          `json:"type"`
	UserLabel      json.RawMessage `json:"userLabel"`
	CreatedDate    json.RawMessage `json:"createdDate"`
	SecretData     string          `json:"secretData"`
	CredentialData string          `json:"credentialData"`
}

// keycloak reads a realm's export with users: one file, or the user files of a folder.
func keycloak(files []File, to *Lines) error {
	for _, f := range files {
		if err := users(f, to, to.keycloakUser); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lines) keycloakUser(u *keycloakUser) error {
	if u.ServiceAccount != "" {
		l.leave("a service account, which is not a user")
		return nil
	}
	p := person{
		id: u.ID, firstName: u.FirstName, lastName: u.LastName, disabled: u.Enabled != nil && !*u.Enabled, created: millis(u.CreatedTimestamp),
	}
	if u.Email != "" {
		p.emails = []address{{value: u.Email, verified: u.EmailVerified}}
	}
	for _, credential := range u.Credentials {
		switch {
		case credential.Type == "password-history":
			l.leave("earlier passwords")
		case credential.Type != "password":
			l.keycloakFactor(credential, &p)
		case slices.Contains(u.Required, "UPDATE_PASSWORD"):
			l.leave("a temporary password, which its user must replace")
		default:
			if p.password = credential.encoded(); p.password == "" {
				l.leave("a password whose hash has an unsupported form, or parameters that are out of bounds")
			}
		}
	}
	for _, federated := range u.Federated {
		p.logins = append(p.logins, login{names: []string{federated.Provider}, subject: textOrNumber(federated.UserID)})
	}
	for what, there := range map[string]bool{
		"groups": len(u.Groups) > 0, "a password of a user federation, such as LDAP": u.Federation != "", "attributes": len(u.Attributes) > len("{}"), "a user name": u.Username != "" && !strings.EqualFold(u.Username, u.Email),
	} {
		if there {
			l.leave(what)
		}
	}
	return l.person(p)
}

// encoded returns a password's hash in the import format, "" if its form is not supported.
func (c keycloakCredential) encoded() string {
	var secret struct{ Value, Salt string }
	var data struct {
		HashIterations int                 `json:"hashIterations"`
		Algorithm      string              `json:"algorithm"`
		Parameters     map[string][]string `json:"additionalParameters"`
	}
	if json.Unmarshal([]byte(c.SecretData), &secret) != nil || json.Unmarshal([]byte(c.CredentialData), &data) != nil {
		return ""
	}
	switch data.Algorithm {
	case "pbkdf2":
		return fmt.Sprintf("$pbkdf2-sha1$i=%d$%s$%s", data.HashIterations, secret.Salt, secret.Value)
	case "pbkdf2-sha256", "pbkdf2-sha512":
		return fmt.Sprintf("$%s$i=%d$%s$%s", data.Algorithm, data.HashIterations, secret.Salt, secret.Value)
	case "argon2":
		one := func(name string) string {
			if values := data.Parameters[name]; len(values) == 1 {
				return values[0]
			}
			return ""
		}
		if one("type") != "id" || one("version") != "1.3" {
			return ""
		}
		return fmt.Sprintf("$argon2id$v=19$m=%s,t=%d,p=%s$%s$%s", one("memory"), data.HashIterations, one("parallelism"), secret.Salt, secret.Value)
	}
	return ""
}
