package exports

import (
	"encoding/json"
	"strings"
)

// clerkRecord is a user of Clerk's Backend API. The export of users has everything but its logins.
type clerkRecord struct {
	ID       string         `json:"id"`
	External []clerkAccount `json:"external_accounts"`
}

// clerkAccount is a login by an identity provider.
type clerkAccount struct {
	// Provider is such as oauth_github. Accounts at Google can have GoogleID instead of it and UserID.
	Provider string          `json:"provider"`
	UserID   json.RawMessage `json:"provider_user_id"`
	GoogleID json.RawMessage `json:"google_id"`
	Email    json.RawMessage `json:"email_address"`
	// Verification is absent or null for an account that needed none.
	Verification *struct {
		Status string `json:"status"`
	} `json:"verification"`
}

// clerkPrefix begins the names of Clerk's providers in some of its interfaces.
const clerkPrefix = "oauth_"

func (a clerkAccount) login() login {
	name, subject := strings.TrimPrefix(a.Provider, clerkPrefix), textOrNumber(a.UserID)
	if name == "" && subject == "" {
		if subject = textOrNumber(a.GoogleID); subject != "" {
			name = "google"
		}
	}
	return login{names: []string{name, clerkPrefix + name}, subject: subject, email: textOrNumber(a.Email)}
}

// clerkLogins writes the logins of a user.
func (l *Lines) clerkLogins(r *clerkRecord) error {
	if r.ID == "" {
		l.leave("users without an id")
		return nil
	}
	var all []login
	for _, account := range r.External {
		if account.Verification != nil && account.Verification.Status != "verified" {
			l.leave("a login that Clerk has not verified")
			continue
		}
		all = append(all, account.login())
	}
	return l.logins(r.ID, all)
}
