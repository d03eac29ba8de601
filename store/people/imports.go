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

// ImportedAPIKey is the kind of imported keys.
const ImportedAPIKey = "api_key"

// Imports are files of rows that are moved in from elsewhere.
type Imports interface {
	// LockImport returns how far a file came, from the beginning where there is nothing of it yet, and holds it: whoever asks for the same
	// one waits.
	LockImport(file string, now time.Time) (Import, error)
	Import(file string) (Import, bool, error)
	PutImport(Import) error
	// ImportedAs returns the id of the row that a line of a kind became.
	ImportedAs(kind, externalID string) (int64, bool, error)
	// RecordImported remembers it. ErrDuplicate: another line became a row under the same external id.
	RecordImported(kind, externalID string, id int64) error
	// DigestTaken tells whether any deployment has a key of a digest.
	DigestTaken(digest apikey.Digest) (bool, error)
}
