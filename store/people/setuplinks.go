package people

import "time"

// SetupLinks are the links by which users without an account set up connections, domains and directories of an
// organization.
type SetupLinks interface {
	InsertSetupLink(SetupLink) error
	SetupLinkByHash(hash []byte) (SetupLink, bool, error)
	// SetupLinkOfSession returns the link whose code was entered in a session.
	SetupLinkOfSession(session int64) (SetupLink, bool, error)
	// SetupLinksOf returns up to limit links of an organization that end after a time, the newest first.
	SetupLinksOf(organization int64, now time.Time, limit int) ([]SetupLink, error)
	// ProveSetupLink records that the code of a link was entered in a session. The link has no other session from then on,
	// and the session no other link. It reports whether there is the link.
	ProveSetupLink(id, session int64, now time.Time) (bool, error)
	// DeleteSetupLink deletes a link of an organization, and reports whether there was one.
	DeleteSetupLink(organization, id int64) (bool, error)
}

// The intents of setup links.
const (
	SetupSSO     = "sso"
	SetupDomains = "domains"
	// SetupDirectory permits to set up directories.
	SetupDirectory = "directory"
)

// SetupLink is a link by which a user without an account sets up what an organization needs.
type SetupLink struct {
	ID, Organization int64
	// Hash is the SHA-256 of the token.
	Hash []byte
	// Email is the address to which the code is mailed.
	Email string
	// Intents are what the link permits: SetupSSO, SetupDomains, SetupDirectory.
	Intents []string
	// CreatedBy is the user that made it, 0: a backend.
	CreatedBy            int64
	CreatedAt, ExpiresAt time.Time
	// Session is the session in which the code was entered last, at ProvedAt. 0: none.
	Session  int64
	ProvedAt time.Time
}
