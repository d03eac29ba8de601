package consent

import (
	"net/url"
	"strings"
)

// maxDocumentID is the longest client id that is a metadata address, in bytes.
const maxDocumentID = 2048

// IsDocumentID reports whether a client id is the address of its metadata document: an https URL with a path, in its
// normalized form, without a fragment, user or dot segments (OAuth Client ID Metadata Document 3).
func IsDocumentID(id string) bool {
	if !strings.HasPrefix(id, "https://") || len(id) > maxDocumentID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' || r == '\\' }) {
		return false
	}
	u, err := url.Parse(id)
	if err != nil || u.Host == "" || u.Host != strings.ToLower(u.Host) || u.User != nil || u.Path == "" || u.Path == "/" || u.String() != id {
		return false
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." {
			return false
		}
	}
	return true
}
