package snapshot

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// builder makes the next snapshot from the current one and a list of changes.
type builder struct {
	indexes
	// touched are the OAuth apps that changed, or whose scopes or clients changed.
	touched     map[store.Identity]struct{}
	tools       *generation
	deployments int
	// prepared is shared by successive snapshots, because it is keyed by content.
	prepared *preparedClients
}

func newBuilder(from *Snapshot) *builder {
	b := &builder{
		indexes: from.indexes, tools: from.tools, prepared: from.prepared, touched: map[store.Identity]struct{}{}, deployments: from.deployments,
	}
	for _, index := range b.all() {
		index.begin()
	}
	return b
}

func (b *builder) commit(position store.Position) *Snapshot {
	b.updateServers()
	for _, index := range b.all() {
		index.commit()
	}
	return &Snapshot{
		indexes: b.indexes, position: position, tools: b.tools, deployments: b.deployments, prepared: b.prepared, next: make(chan struct{}),
	}
}

// build returns the snapshot of all documents. It omits documents that cannot be read, so that the others are served,
// and returns their errors joined.
func build(documents []store.Document, position store.Position) (*Snapshot, error) {
	b := newBuilder(empty())
	var faults []error
	for i := range documents {
		if err := b.put(&documents[i]); err != nil {
			faults = append(faults, err)
		}
	}
	return b.commit(position), errors.Join(faults...)
}

// apply returns the snapshot after changes.
func (s *Snapshot) apply(changes []store.Change, position store.Position) (*Snapshot, error) {
	b := newBuilder(s)
	var faults []error
	// Removals come first, so that a key that moved to another document is not removed from its new owner.
	for i := range changes {
		b.remove(changes[i].Document.Identity)
	}
	for i := range changes {
		if changes[i].Deleted {
			continue
		}
		if err := b.put(&changes[i].Document); err != nil {
			faults = append(faults, err)
		}
	}
	return b.commit(position), errors.Join(faults...)
}

func (b *builder) put(doc *store.Document) error {
	e, err := decode(doc)
	if err != nil {
		b.unread.Insert(identityKey(doc.Identity), unread{doc.Deployment, doc.ID})
		return fmt.Errorf("%s is not served: %w", doc.Identity, err)
	}
	if e == nil {
		return nil
	}
	b.changed(e)
	b.entries.Insert(identityKey(e.Identity), e)
	b.ordered.Insert(orderKey(e), e)
	b.ids.Insert(idKey(e.Kind, e.ID), e)
	b.count(e, +1)
	if e.Key != "" {
		b.slugs.Insert(joined(e.Kind, e.Deployment, e.Key), e)
	}
	for _, id := range e.refersTo {
		b.referrers.Insert(referrerKey(id, e), e)
	}
	switch content := e.Content.(type) {
	case *document.Deployment:
		for _, host := range content.FrontendHosts {
			b.hosts.Insert([]byte(host), e)
		}
		return b.putIssuers(e, content)
	case *document.OAuthApp:
		b.putIssuing(e, content)
	case *Connection:
		for _, key := range domainKeys(e, content) {
			b.byDomain.Insert(key, e)
		}
		b.byOrg.Insert(joined(e.Deployment, content.Organization, content.Slug), e)
	case *document.Directory:
		b.directories.Insert(joined(e.Deployment, content.Organization, content.Slug), e)
	case *document.APIKey:
		credential, err := newCredential(content)
		if err != nil {
			return fmt.Errorf("%s is not served: %w", doc.Identity, err)
		}
		for i := range content.Verifiers {
			verifier := &content.Verifiers[i]
			b.keys.Insert([]byte(verifier.ID), &Key{Entry: e, Content: content, Verifier: verifier, Credential: credential})
		}
	}
	return nil
}

// putIssuers indexes a deployment's issuers. It leaves out an unusable one, so its tokens are refused.
func (b *builder) putIssuers(e *Entry, content *document.Deployment) error {
	var faults []error
	for i := range content.JWTIssuers {
		if content.JWTIssuers[i].OAuthApp != "" {
			continue // OAuthIssuer finds it by the app
		}
		issuer, err := newIssuer(e, content, &content.JWTIssuers[i])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: issuer %q is not accepted: %w", e.Identity, content.JWTIssuers[i].Name, err))
			continue
		}
		for _, audience := range issuer.Audiences {
			b.issuers.Insert(joined(issuer.Issuer, audience), issuer)
		}
	}
	return errors.Join(faults...)
}

// removeIssuers undoes putIssuers. It leaves the issuers of other deployments: an entry with an OAuth app has no issuer
// of its own, and its audiences are not reserved, so another deployment may have them.
func (b *builder) removeIssuers(e *Entry, content *document.Deployment) {
	for _, issuer := range content.JWTIssuers {
		for _, audience := range issuer.Audiences {
			key := joined(issuer.Issuer, audience)
			if known, found := b.issuers.Get(key); found && known.Deployment.Identity == e.Identity {
				b.issuers.Delete(key)
			}
		}
	}
}

// changed records that an entry was added, removed or changed.
func (b *builder) changed(e *Entry) {
	if e.Kind == v1alpha1.KindAITool {
		b.tools = &generation{}
	}
	b.states.Insert([]byte(e.Deployment), &State{})
	b.touch(e)
}

func (b *builder) remove(id store.Identity) {
	b.unread.Delete(identityKey(id))
	e, found := b.entries.Delete(identityKey(id))
	if !found {
		return
	}
	b.changed(e)
	b.ordered.Delete(orderKey(e))
	b.ids.Delete(idKey(e.Kind, e.ID))
	b.count(e, -1)
	if e.Key != "" {
		b.slugs.Delete(joined(e.Kind, e.Deployment, e.Key))
	}
	for _, referent := range e.refersTo {
		b.referrers.Delete(referrerKey(referent, e))
	}
	switch content := e.Content.(type) {
	case *document.Deployment:
		b.states.Delete([]byte(e.Deployment))
		for _, host := range content.FrontendHosts {
			b.hosts.Delete([]byte(host))
		}
		b.removeIssuers(e, content)
	case *document.OAuthApp:
		if known, found := b.issuing.Get(issuingKey(content.Issuer)); found && known.Identity == e.Identity {
			b.issuing.Delete(issuingKey(content.Issuer))
		}
	case *Connection:
		for _, key := range domainKeys(e, content) {
			b.byDomain.Delete(key)
		}
		b.byOrg.Delete(joined(e.Deployment, content.Organization, content.Slug))
	case *document.Directory:
		b.directories.Delete(joined(e.Deployment, content.Organization, content.Slug))
	case *document.APIKey:
		for _, verifier := range content.Verifiers {
			b.keys.Delete([]byte(verifier.ID))
		}
	}
}

// putIssuing indexes an app by its issuer. If another app has the same issuer, an app whose issuer is about to change
// does not replace it.
func (b *builder) putIssuing(e *Entry, app *document.OAuthApp) {
	if app.Issuer == "" {
		return
	}
	key := issuingKey(app.Issuer)
	if known, found := b.issuing.Get(key); found && known.Identity != e.Identity && !settled(app) {
		return
	}
	b.issuing.Insert(key, e)
}

// issuingKey returns an issuer without its scheme and port, which do not identify its owner.
func issuingKey(issuer string) []byte {
	_, rest, _ := strings.Cut(issuer, "://")
	host, path, _ := strings.Cut(rest, "/")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return joined(host, path)
}

// settled reports whether an app's issuer is the one that its declared host and slug result in. While a change of the
// issuer is announced, the app still has the previous issuer.
func settled(app *document.OAuthApp) bool {
	if app.FQDN != "" {
		return app.Issuer == "https://"+app.FQDN
	}
	return app.Issuer == app.FrontendURL+"/oauth/"+app.Slug
}

func (b *builder) count(e *Entry, by int) {
	if e.Kind == v1alpha1.KindIdentityDeployment {
		b.deployments += by
	}
	key := joined(e.Kind, e.Deployment)
	count, _ := b.counts.Get(key)
	b.counts.Insert(key, count+by)
	if agent, ok := e.Content.(*Agent); ok && agent.Active {
		key = joined(e.Kind, e.Deployment, activeCount)
		count, _ = b.counts.Get(key)
		b.counts.Insert(key, count+by)
	}
}

func referrerKey(referent store.Identity, referrer *Entry) []byte {
	return append(append(identityKey(referent), 0), identityKey(referrer.Identity)...)
}
