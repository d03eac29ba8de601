package snapshot

import (
	"errors"
	"fmt"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
)

// builder makes the next snapshot from one and a list of changes.
type builder struct {
	entries *iradix.Txn[*Entry]
	slugs   *iradix.Txn[*Entry]
	hosts   *iradix.Txn[*Entry]
	keys    *iradix.Txn[*Key]
	ordered *iradix.Txn[*Entry]
	users   *iradix.Txn[*Entry]
	counts  *iradix.Txn[int]
}

func newBuilder(from *Snapshot) *builder {
	return &builder{
		entries: from.entries.Txn(), slugs: from.slugs.Txn(), hosts: from.hosts.Txn(), keys: from.keys.Txn(),
		ordered: from.ordered.Txn(), users: from.users.Txn(), counts: from.counts.Txn(),
	}
}

func (b *builder) commit(position store.Position) *Snapshot {
	return &Snapshot{
		position: position, entries: b.entries.Commit(), slugs: b.slugs.Commit(), hosts: b.hosts.Commit(), keys: b.keys.Commit(),
		ordered: b.ordered.Commit(), users: b.users.Commit(), counts: b.counts.Commit(), next: make(chan struct{}),
	}
}

// build returns the snapshot of all documents. Documents that cannot be read are left out and joined in the error: one
// must not keep the others from being served.
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
	// All removals come first: a key that moved from one document to another is then never taken from its new owner.
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
		return fmt.Errorf("%s is not served: %w", doc.Identity, err)
	}
	if e == nil {
		return nil
	}
	b.entries.Insert(identityKey(e.Identity), e)
	b.ordered.Insert(orderKey(e), e)
	b.count(e, +1)
	if e.Key != "" {
		b.slugs.Insert(joined(e.Kind, e.Deployment, e.Key), e)
	}
	for _, id := range e.refersTo {
		b.users.Insert(userKey(id, e), e)
	}
	switch content := e.Content.(type) {
	case *document.Deployment:
		for _, host := range content.FrontendHosts {
			b.hosts.Insert([]byte(host), e)
		}
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

func (b *builder) remove(id store.Identity) {
	e, found := b.entries.Delete(identityKey(id))
	if !found {
		return
	}
	b.ordered.Delete(orderKey(e))
	b.count(e, -1)
	if e.Key != "" {
		b.slugs.Delete(joined(e.Kind, e.Deployment, e.Key))
	}
	for _, referent := range e.refersTo {
		b.users.Delete(userKey(referent, e))
	}
	switch content := e.Content.(type) {
	case *document.Deployment:
		for _, host := range content.FrontendHosts {
			b.hosts.Delete([]byte(host))
		}
	case *document.APIKey:
		for _, verifier := range content.Verifiers {
			b.keys.Delete([]byte(verifier.ID))
		}
	}
}

func (b *builder) count(e *Entry, by int) {
	key := joined(e.Kind, e.Deployment)
	count, _ := b.counts.Get(key)
	b.counts.Insert(key, count+by)
}

func userKey(referent store.Identity, user *Entry) []byte {
	return append(append(identityKey(referent), 0), identityKey(user.Identity)...)
}

// decode reads a document. A kind this binary does not know is nil: a newer operator wrote it for newer servers.
func decode(doc *store.Document) (*Entry, error) {
	e := &Entry{Owner: doc.Owner, Generation: doc.Generation, Deployment: doc.Deployment, ID: doc.ID, Key: doc.Key}
	refer := func(kind, name string) {
		if name != "" {
			e.refersTo = append(e.refersTo, store.Identity{Kind: kind, Namespace: doc.Namespace, Name: name})
		}
	}
	var err error
	switch doc.Kind {
	case v1alpha1.KindIdentityDeployment:
		content := &document.Deployment{}
		e.Content = content
		e.Meta, err = document.Decode(doc.Payload, content)
		refer(v1alpha1.KindRateLimitScheme, content.DefaultScheme)
	case v1alpha1.KindRateLimitScheme:
		content := &document.RateLimitScheme{}
		e.Content = content
		if e.Meta, err = document.Decode(doc.Payload, content); err == nil {
			e.Body, err = RenderScheme(e.Meta, content)
		}
	case v1alpha1.KindAPIAuthApp:
		content := &App{}
		e.Content = content
		e.Meta, err = document.Decode(doc.Payload, &content.APIAuthApp)
		content.Ceiling = permission.NewSet(content.Permissions)
		refer(v1alpha1.KindRateLimitScheme, content.Scheme)
	case v1alpha1.KindAPIKey:
		content := &document.APIKey{}
		e.Content = content
		e.Meta, err = document.Decode(doc.Payload, content)
		refer(v1alpha1.KindAPIAuthApp, content.App)
		refer(v1alpha1.KindRateLimitScheme, content.Scheme)
	default:
		return nil, nil
	}
	return e, err
}
