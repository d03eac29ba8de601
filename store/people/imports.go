package people

import (
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
)

// Import is the progress of the import of a file.
type Import struct {
	// File is the SHA-256 of the whole file, in hexadecimal digits.
	File string
	// Done is how many bytes of the file are processed.
	Done int64
	// Imported, Present and Rejected count its lines.
	Imported, Present, Rejected int64
	CreatedAt                   time.Time
	// CompletedAt is zero until the whole file is processed.
	CompletedAt time.Time
}

// UnfinishedImportFor is how long an uncompleted import is kept, from its first batch.
const UnfinishedImportFor = 30 * 24 * time.Hour

// The kinds of imported rows.
const (
	ImportedUser         = "user"
	ImportedEmail        = "email"
	ImportedPhone        = "phone"
	ImportedOrganization = "organization"
	ImportedWorkspace    = "workspace"
	ImportedMembership   = "membership"
	ImportedSignIn       = "signin"
	ImportedAPIKey       = "api_key"
	ImportedTOTP         = "totp"
	ImportedPasskey      = "passkey"
	ImportedIdentity     = "identity"
)

// ImportedRow is the row created from a line of an import.
type ImportedRow struct {
	Kind, ExternalID string
	ID               int64
}

// Imports are files of rows imported from other systems.
type Imports interface {
	// LockImport returns the progress of a file, zero progress if the file is new, and locks it. Other transactions
	// that lock the same file wait.
	LockImport(file string, now time.Time) (Import, error)
	Import(file string) (Import, bool, error)
	PutImport(Import) error
	// UnfinishedImports returns how many imports were started and not completed.
	UnfinishedImports() (int64, error)
	// ImportedAs returns the ids of the rows created from lines of a kind, by their external ids. External ids without a
	// row are absent.
	ImportedAs(kind string, externalIDs []string) (map[string]int64, error)
	// RecordImported records imported rows. ErrDuplicate: another line was imported under the same external id.
	RecordImported([]ImportedRow) error
	// DigestTaken reports whether any deployment has a key with a digest.
	DigestTaken(digest apikey.Digest) (bool, error)
}
