package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// inlineURL stands for the URL of metadata that a ConfigMap has.
const inlineURL = "inline:"

// samlMedia is what is asked of a server of metadata.
const samlMedia = "application/samlmetadata+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.1"

// SAML returns the metadata of a connection's provider of type SAML. If they are not cached, it waits for a fetch. It
// returns ErrUnavailable if there are none of the last 7 days, or if the provider has withdrawn them.
func (p *Providers) SAML(ctx context.Context, c Connection) (*saml.Metadata, error) {
	if given := c.Connection.SAML.Given; given != nil {
		metadata, err := saml.OfDocument(*given)
		switch {
		case err != nil:
			return nil, fail(invalidMetadata, "%v", err)
		case expired(metadata, p.Clock()):
			return nil, fail(invalidMetadata, "the metadata is not valid since %s", metadata.ValidUntil.Format(time.RFC3339))
		}
		return metadata, nil
	}
	if samlOrigin(c.Connection) == "" {
		return nil, unavailable("the connection has no metadata yet")
	}
	v, err := p.documents.get(ctx, c, samlSource(c.Connection), wish{})
	if err != nil {
		return nil, err
	}
	return v.content.saml, nil
}

// NewerSAML returns metadata for a response that a key signed which the known metadata do not have: the provider may
// have changed its keys. It waits for a fetch, at most every 30 s. The metadata are the known ones if there are no
// others.
func (p *Providers) NewerSAML(ctx context.Context, c Connection, known *saml.Metadata) *saml.Metadata {
	if c.Connection.SAML.Given != nil || c.Connection.SAML.MetadataURL == "" {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	src := samlSource(c.Connection)
	v, err := p.documents.wait(ctx, c, src, wish{periodic: true, since: p.Clock().Add(-unknownKeyAfter)})
	if err != nil || !v.usable(src, p.Clock()) {
		return known
	}
	return v.content.saml
}

// SAMLKeys returns the keys of a connection of type SAML: the first one signs, all of them decrypt.
func (p *Providers) SAMLKeys(c Connection) (keys []saml.Key, err error) {
	for _, key := range c.Connection.SAML.Keys {
		private, err := p.open(c, key.Sealed)
		if err != nil {
			return nil, fmt.Errorf("%w: its key: %w", ErrUnavailable, err)
		}
		parsed, err := saml.ParseKey(private, []byte(key.Certificate))
		if err != nil {
			return nil, fmt.Errorf("%w: its key: %w", ErrUnavailable, err)
		}
		keys = append(keys, parsed)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: it has no key yet", ErrUnavailable)
	}
	return keys, nil
}

func expired(m *saml.Metadata, now time.Time) bool {
	return !m.ValidUntil.IsZero() && !now.Before(m.ValidUntil)
}

// samlSource returns the source of the metadata of a connection. Metadata that the connection itself has is read as if
// it was fetched, so that an invalid one is reported in the same way and leaves the last good one in use.
func samlSource(c *document.Connection) source {
	src := source{kind: people.UpstreamSAML, url: c.SAML.MetadataURL, media: samlMedia, parse: parseSAML}
	if src.url == "" {
		src.url, src.inline = inlineURL, c.SAML.Metadata
	}
	src.accept = func(text string, before content, now time.Time) (accepted, error) {
		return acceptSAML(c, text, before, now)
	}
	src.fits = func(has content) bool {
		return has.saml != nil && (c.SAML.EntityID == "" || has.saml.EntityID == c.SAML.EntityID)
	}
	return src
}

// samlOrigin returns where the metadata of a connection begins: another one is read at once. It is "" if no metadata
// are fetched or read.
func samlOrigin(c *document.Connection) string {
	switch {
	case c.SAML.Given != nil, c.SAML.MetadataURL == "" && c.SAML.Metadata == "":
		return ""
	case c.SAML.MetadataURL != "":
		return c.SAML.MetadataURL + " " + c.SAML.EntityID
	}
	return inlineURL + c.SAML.EntityID
}

// acceptSAML reads metadata as XML. A document of another entity than the one before is refused unless the connection
// names the entity: a party that controls the URL must not replace the provider.
func acceptSAML(c *document.Connection, text string, before content, now time.Time) (accepted, error) {
	want := saml.MetadataWanted{EntityID: c.SAML.EntityID, Now: now}
	if before.saml != nil && want.EntityID == "" {
		want.Before = before.saml.EntityID
	}
	metadata, err := saml.ParseMetadata([]byte(text), want)
	var fault *connection.Fault
	if errors.As(err, &fault) {
		return accepted{}, fail(invalidMetadata, "%s: it has %q, expected %q", fault.Reason, fault.Got, fault.Expected)
	}
	if err != nil {
		return accepted{}, fail(invalidMetadata, "%v", err)
	}
	stored := metadata.Document()
	raw, err := json.Marshal(stored)
	if err != nil {
		return accepted{}, err
	}
	return accepted{content: content{saml: metadata}, text: string(raw), sha256: saml.Digest(stored), freshFor: metadata.RefreshIn(now)}, nil
}

// parseSAML reads metadata as the store has them.
func parseSAML(text string) (content, error) {
	var stored document.SAMLMetadata
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return content{}, fail(invalidMetadata, "the stored metadata is not JSON")
	}
	metadata, err := saml.OfDocument(stored)
	if err != nil {
		return content{}, fail(invalidMetadata, "%v", err)
	}
	return content{saml: metadata}, nil
}

// samlBytes returns an upper estimate of the memory of metadata.
func samlBytes(m *saml.Metadata) (bytes int64) {
	bytes = int64(len(m.EntityID))
	for _, endpoints := range [][]saml.Endpoint{m.SignOn, m.Logout} {
		for _, e := range endpoints {
			bytes += int64(len(e.Binding)+len(e.URL)+len(e.ResponseURL)) + 64
		}
	}
	for _, certificate := range m.Certificates {
		bytes += 3*int64(len(certificate.Raw)) + 1<<10 // a parsed certificate refers to its bytes, and copies some of them
	}
	return bytes
}
