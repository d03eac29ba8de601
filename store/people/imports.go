package people

import (
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
)

// Import is how far the import of a file came.
type Import struct {
	// File is the SHA-256 of the whole file, in hexadecimal digits.
	File string
	// Done is how many of its bytes are done.
	Done int64
	// Imported, Present and Rejected count its lines.
	Imported, Present, Rejected int64
	CreatedAt                   time.Time
	// CompletedAt is zero until the whole file is done.
	CompletedAt time.Time
}

// UnfinishedImportFor is how long an import is kept that is not completed, from its first batch.
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
)

// ImportedRow is the row that a line of a kind became.
type ImportedRow struct {
	Kind, ExternalID string
	ID               int64
}

// Imports are files of rows that are moved in from elsewhere.
type Imports interface {
	// LockImport returns how far a file came, from the beginning where there is nothing of it yet, and holds it: whoever asks for the same
	// one waits.
	LockImport(file string, now time.Time) (Import, error)
	Import(file string) (Import, bool, error)
	PutImport(Import) error
	// UnfinishedImports returns how many files were begun and not completed.
	UnfinishedImports() (int64, error)
	// ImportedAs returns the ids of the rows that lines of a kind became, by their external ids, as far as there are such.
	ImportedAs(kind string, externalIDs []string) (map[string]int64, error)
	// RecordImported remembers them. ErrDuplicate: another line became a row under the same external id.
	RecordImported([]ImportedRow) error
	// DigestTaken reports whether any deployment has a key of a digest.
	DigestTaken(digest apikey.Digest) (bool, error)
}
