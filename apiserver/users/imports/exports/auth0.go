package exports

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
)

// auth0Record is a user of the users export, an authentication method, or a line of the export of password hashes.
type auth0Record struct {
	auth0Kind
	UserID        string            `json:"user_id"`
	Email         string            `json:"email"`
	EmailVerified bool              `json:"email_verified"`
	GivenName     string            `json:"given_name"`
	FamilyName    string            `json:"family_name"`
	Username      string            `json:"username"`
	PhoneNumber   string            `json:"phone_number"`
	PhoneVerified bool              `json:"phone_verified"`
	CreatedAt     string            `json:"created_at"`
	Blocked       bool              `json:"blocked"`
	Identities    []auth0Identity   `json:"identities"`
	Multifactor   []json.RawMessage `json:"multifactor"`
	Guardian      []json.RawMessage `json:"guardian_authenticators"`
	Factors       json.RawMessage   `json:"mfa_factors"`
	AppMetadata   json.RawMessage   `json:"app_metadata"`
	Metadata      json.RawMessage   `json:"user_metadata"`

	// The members of the export of password hashes.
	ID struct {
		OID string `json:"$oid"`
	} `json:"_id"`
	AltID        string `json:"alt_id"`
	PasswordHash string `json:"passwordHash"`
}

// auth0Identity is an identity of a user. Provider is the strategy, such as oidc, and Connection the name of one of its
// connections.
type auth0Identity struct {
	Provider string `json:"provider"`
	// UserID is a text or, for some providers, a number.
	UserID json.RawMessage `json:"user_id"`
	// Connection is a text.
	Connection json.RawMessage `json:"connection"`
}

// local reports whether users prove the identity to Auth0 itself.
func (i auth0Identity) local() bool {
	return i.Provider == "auth0" || i.Provider == "email" || i.Provider == "sms"
}

// login returns the login by the identity's provider. The user ids of enterprise connections begin with the connection.
func (i auth0Identity) login() login {
	connection := textOrNumber(i.Connection)
	return login{names: []string{connection, i.Provider}, subject: strings.TrimPrefix(textOrNumber(i.UserID), connection+"|")}
}

// auth0Database is the prefix of the ids of users with a password.
const auth0Database = "auth0|"

// auth0 reads the users export together with the export of password hashes, which Auth0's support makes. Both have one
// JSON object per line. Password hashes are kept in memory until their users are read, so the order of the files does
// not matter.
func auth0(files []File, to *Lines) error {
	hashes := map[string]string{}
	for _, f := range files { // two passes: the hashes, then the users
		err := jsonLines(f, to, func(string) {}, func(r *auth0Record) error { // the second pass reports what is left out
			if r.PasswordHash != "" {
				hashes[auth0Database+cmp.Or(r.AltID, r.ID.OID)] = r.PasswordHash
			}
			return nil
		})
		if err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	users, methods := 0, 0
	for _, f := range files {
		err := jsonLines(f, to, to.leave, func(r *auth0Record) error {
			if r.UserID == "" && r.ID.OID != "" {
				return nil // a password hash
			}
			if _, isMethod := r.method(len(r.Identities)); isMethod {
				methods++
				return nil
			}
			users++
			return to.auth0User(r, to.auth0Hash(r, hashes))
		})
		if err != nil {
			return err
		}
	}
	if users == 0 {
		return errors.New("the files contain no user of Auth0's users export: pass that file, together with the one with the password hashes")
	}
	if methods > 0 {
		if err := auth0Passkeys(files, to); err != nil {
			return err
		}
	}
	to.at = Source{}
	for range hashes {
		to.leave("a password hash without its user")
	}
	return nil
}

// auth0Hash returns a user's password hash: that of the user's id, or else that of a linked account with a password.
func (l *Lines) auth0Hash(r *auth0Record, hashes map[string]string) string {
	ids := []string{r.UserID}
	for _, identity := range r.Identities {
		var id string
		if identity.Provider == "auth0" && json.Unmarshal(identity.UserID, &id) == nil {
			ids = append(ids, auth0Database+id)
		}
	}
	taken := ""
	for _, id := range ids {
		hash, found := hashes[id]
		delete(hashes, id)
		switch {
		case found && taken == "":
			taken = hash
		case found:
			l.leave("a second password, of a linked account")
		}
	}
	return taken
}

func (l *Lines) auth0User(r *auth0Record, hash string) error {
	p := person{id: r.UserID, firstName: r.GivenName, lastName: r.FamilyName, password: hash, disabled: r.Blocked}
	if r.Email != "" {
		p.emails = []address{{value: r.Email, verified: r.EmailVerified}}
	}
	if r.PhoneNumber != "" {
		p.phones = []address{{value: r.PhoneNumber, verified: r.PhoneVerified}}
	}
	p.created, _ = time.Parse(time.RFC3339Nano, r.CreatedAt) // without a time, the account counts as created at the import
	for _, identity := range r.Identities {
		if !identity.local() {
			p.logins = append(p.logins, identity.login())
		}
	}
	l.auth0Factors(r, &p)
	for what, there := range map[string]bool{
		"a user name": r.Username != "", "metadata": len(r.AppMetadata)+len(r.Metadata) > len("{}{}"),
	} {
		if there {
			l.leave(what)
		}
	}
	return l.person(p)
}
