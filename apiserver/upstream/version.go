package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// freshFor is how long a fetched document needs no other fetch.
	freshFor = time.Hour
	// overdueAfter is how long a document that needs another fetch is used meanwhile, if no fetch failed.
	overdueAfter = time.Hour
	// usedFor is how long the last document of a provider that no longer serves it is used.
	usedFor = 7 * 24 * time.Hour
	// unknownKeyAfter is the shortest time between two fetches of a key set because of an unknown key id.
	unknownKeyAfter = 30 * time.Second
	// neededAfter is the shortest time between two fetches for sign-ins that have no document to use. Metadata of SAML
	// that were refused are fetched for them as seldom as for periodic checks, because their XML is costly to read.
	neededAfter = time.Second
)

// retryAfter returns when a document is fetched again after a number of failures in a row.
func retryAfter(failures int) time.Duration {
	switch failures {
	case 1:
		return 5 * time.Second
	case 2:
		return 30 * time.Second
	}
	return time.Minute
}

// source is where a document is fetched, and how it is read.
type source struct {
	// kind is people.UpstreamDiscovery, people.UpstreamJWKS or people.UpstreamSAML.
	kind, url string
	// media is the value of the header Accept.
	media string
	// inline is the document itself, which is not fetched; "" for all others.
	inline string
	// parse reads a text that the store has.
	parse func(text string) (content, error)
	// accept reads a text that was fetched. before is the content of the last good one from the same URL, zero if there is
	// none. It is nil for documents that are stored as they were fetched.
	accept func(text string, before content, now time.Time) (accepted, error)
	// fits reports whether a content is one of the connection. The issuer may have changed without the URL.
	fits func(content) bool
}

// accepted is a fetched document that can be used.
type accepted struct {
	content content
	// text is what is stored, and sha256 the hash by which a change is noticed.
	text, sha256 string
	freshFor     time.Duration
}

// take reads a fetched text.
func (s source) take(text string, before content, now time.Time) (accepted, error) {
	if s.accept != nil {
		return s.accept(text, before, now)
	}
	parsed, err := s.parse(text)
	sum := sha256.Sum256([]byte(text))
	return accepted{content: parsed, text: text, sha256: hex.EncodeToString(sum[:]), freshFor: freshFor}, err
}

// content is a parsed document. One of its members is set.
type content struct {
	metadata *Metadata
	keys     *keySet
	saml     *saml.Metadata
}

// bytes returns an upper estimate of the memory of a content.
func (c content) bytes() (bytes int64) {
	if m := c.metadata; m != nil {
		bytes += int64(len(m.Issuer) + len(m.AuthorizationURL) + len(m.TokenURL) + len(m.UserinfoURL) + len(m.JWKSURL) + len(m.EndSessionURL))
	}
	if c.keys != nil {
		bytes += c.keys.bytes()
	}
	if c.saml != nil {
		bytes += samlBytes(c.saml)
	}
	return bytes
}

// version is a state of a document. It is never changed.
type version struct {
	// content is of the last document that was fetched from url, zero if there is none. sha256 is the hash of its text.
	content     content
	url, sha256 string
	// The others are those of people.UpstreamDocument.
	fetchedAt, validUntil, triedAt, leasedUntil time.Time
	failures                                    int
	failure                                     string
	// tried is the URL of the last fetch by this server, "" if it made none.
	tried string
}

// versionOf returns the version of a row, without its content.
func versionOf(row people.UpstreamDocument) version {
	return version{
		sha256: row.SHA256, fetchedAt: row.FetchedAt, validUntil: row.ValidUntil, triedAt: row.TriedAt, leasedUntil: row.LeasedUntil,
		failures: row.Failures, failure: row.Error,
	}
}

// usable reports whether a document can be used at a time. Documents of former URLs cannot: another provider's keys
// must not verify tokens.
func (v *version) usable(src source, now time.Time) bool {
	if v.content.saml != nil && expired(v.content.saml, now) {
		return false
	}
	return v.content != content{} && v.url == src.url && now.Before(v.fetchedAt.Add(usedFor)) && src.fits(v.content)
}

// due returns when another fetch is due, zero for now.
func (v *version) due(src source, now time.Time) time.Time {
	switch {
	case v.failures > 0:
		return v.triedAt.Add(retryAfter(v.failures))
	case !v.usable(src, now):
		return time.Time{}
	}
	return v.validUntil
}

// wish is what a caller wants of a document.
type wish struct {
	// issuer and keyID name a key that the document must have; keyID is ignored for a discovery document.
	issuer, keyID string
	// periodic wants a document that is not due for another fetch. If since is not zero, it must not have been fetched
	// before that time: its URL changed.
	periodic bool
	since    time.Time
}

// key returns the key that is wanted, nil if the document does not have it.
func (w wish) key(v *version) *jose.JSONWebKey {
	if v.content.keys == nil {
		return nil
	}
	return v.content.keys.find(w.issuer, w.keyID)
}

// satisfied reports whether a document has what is wanted.
func (w wish) satisfied(v *version, src source, now time.Time) bool {
	return v.usable(src, now) && (src.kind != people.UpstreamJWKS || w.key(v) != nil)
}

// fetchAt returns from when on a document may be fetched for what is wanted, and is not there.
func (w wish) fetchAt(v *version, src source, now time.Time) time.Time {
	switch {
	case w.periodic && v.triedAt.Before(w.since):
		return time.Time{}
	case w.periodic:
		return v.due(src, now)
	case v.failures == 0 && v.url != "" && v.url != src.url: // the last fetch was of another provider
		return time.Time{}
	case !v.usable(src, now) && v.failures > 0 && src.kind == people.UpstreamSAML && v.tried == src.url:
		return v.triedAt.Add(retryAfter(v.failures))
	case !v.usable(src, now):
		return v.triedAt.Add(neededAfter)
	}
	return earlier(v.due(src, now), v.triedAt.Add(unknownKeyAfter))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
