package bearer

import (
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
)

// OfDirectory reports whether a token is one of a directory's tokens and has not expired.
func OfDirectory(d *document.Directory, token string, now time.Time) bool {
	key, err := apikey.Parse(token)
	if err != nil || key.Prefix() != document.DirectoryTokenPrefix {
		return false
	}
	for _, v := range d.Verifiers {
		if v.ID == key.ID() && v.Digest.Equal(key.Digest()) {
			return v.ExpiresAt == nil || now.Before(*v.ExpiresAt)
		}
	}
	return false
}
