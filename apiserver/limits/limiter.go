// Package limits applies the declared rate-limit schemes: it finds the schemes that bind a credential, keeps them
// compiled as the configuration changes, and asks the engine.
package limits

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
)

// Limiter decides by the schemes of the configuration. It is safe for concurrent use.
type Limiter struct {
	engine *engine.Engine
	clock  func() engine.Instant
	// shared counts together with other replicas, nil for a single replica.
	shared Shared
	// refusals learns of refused requests, nil for nothing.
	refusals Refusals
	// current is the newest state of the configuration.
	current func() *snapshot.Snapshot

	mu sync.RWMutex
	// schemes are the compiled schemes by the id of their resource; see retire.
	schemes map[int64]*active
	// compiled counts the compiled schemes.
	compiled int64
}

// active is a compiled scheme with its source.
type active struct {
	scheme *engine.Scheme
	// entry is the scheme's resource, nil after its deletion until the scheme is used again.
	entry *snapshot.Entry
	// deployment and slug are those of the resource.
	deployment, slug string
	// order is the scheme's position by the time of its first compilation.
	order int64
	// For a deleted scheme, until is when all its counters have expired, in microseconds of the steady clock, and bytes
	// its memory.
	deleted      bool
	until, bytes int64
}

// Shared decides by counters that replicas share.
type Shared interface {
	Decide(ctx context.Context, r *engine.Request, out *engine.Result)
	Peek(r *engine.Request, out *engine.Result)
}

// New returns a Limiter that counts in an engine and, if shared is not nil, together with other replicas. current
// returns the newest state of the configuration.
func New(counters *engine.Engine, clock func() engine.Instant, shared Shared, current func() *snapshot.Snapshot) *Limiter {
	return &Limiter{engine: counters, clock: clock, shared: shared, current: current, schemes: map[int64]*active{}}
}

// Binding is what limits a credential: the schemes and the counting subjects.
type Binding struct {
	// Scheme limits the credential, nil for no limit. The rules of App for the whole app apply in addition.
	Scheme, App *engine.Scheme
	// Key and AppID are the subjects of per_key and per_app rules.
	Key, AppID uint64
	// whole reports that all rules of App apply, not only those for the whole app.
	whole bool
	// SchemeSlug and AppSlug name the schemes, and SchemeFrom says what Scheme is attached to: key, app or deployment.
	SchemeSlug, AppSlug, SchemeFrom string
}

// MissingError means that a referenced scheme is not known on this server. It never means that there is no limit.
type MissingError struct{ Scheme string }

// Error implements error.
func (e *MissingError) Error() string {
	return fmt.Sprintf("the rate-limit scheme %q is not known yet", e.Scheme)
}

// Bind returns the binding of a principal: the scheme of its key, else that of the key's app, else the deployment's
// default. In addition to a key's own scheme, the app's rules for the whole app apply. The error is a MissingError.
func (l *Limiter) Bind(s *snapshot.Snapshot, p *credential.Principal) (b Binding, err error) {
	var own, app *snapshot.Entry
	b.Key = keySubject(p)
	switch {
	case p.Declared != nil:
		own, err = byName(s, p.Deployment, p.Declared.Content.Scheme)
	case p.Runtime != nil:
		own, err = bySlug(s, p.Deployment, p.Runtime.Scheme)
	case p.Client != "":
		own, err = byName(s, p.Deployment, p.Scheme)
	}
	if err == nil && p.App != nil {
		b.AppID = uint64(p.App.ID)
		app, err = byName(s, p.Deployment, snapshot.ContentOf[snapshot.App](p.App).Scheme)
	}
	scheme, from := own, "key"
	if err == nil && scheme == nil {
		scheme, from, app = app, "app", nil
	}
	if err == nil && scheme == nil {
		from = "deployment"
		scheme, err = byName(s, p.Deployment, p.Settings.DefaultScheme)
	}
	if err != nil {
		return Binding{}, err
	}
	if scheme != nil {
		b.Scheme, b.SchemeSlug, b.SchemeFrom = l.scheme(s, scheme), scheme.Key, from
	}
	if app != nil {
		b.App, b.AppSlug = l.scheme(s, app), app.Key
	}
	return b, nil
}

// bindCall returns what limits a call of an agent's tool: the schemes of the agent and of the tool. Rules that count by
// key count the subject of keySubject; rules that count by app count the key's app, else the agent.
func (l *Limiter) bindCall(s *snapshot.Snapshot, p *credential.Principal, agent *snapshot.Entry, schemes [2]string) (b Binding, err error) {
	b.whole, b.Key = true, keySubject(p)
	if b.AppID = subjectOf("agent " + ids.Format(agent.ID)); p.App != nil {
		b.AppID = uint64(p.App.ID)
	}
	var compiled [2]*engine.Scheme
	var slugs [2]string
	for i, name := range schemes {
		entry, err := byName(s, p.Deployment, name)
		if err != nil {
			return b, err
		}
		if entry != nil {
			compiled[i], slugs[i] = l.scheme(s, entry), entry.Key
		}
	}
	b.SchemeSlug, b.AppSlug = slugs[0], slugs[1]
	if b.Scheme, b.App = compiled[0], compiled[1]; b.Scheme == nil {
		b.Scheme, b.App, b.SchemeSlug, b.AppSlug = b.App, nil, b.AppSlug, ""
	}
	return b, nil
}

// keySubject returns the counting subject of rules that count by key: the key, the client with its user, or the user.
func keySubject(p *credential.Principal) uint64 {
	switch {
	case p.Declared != nil:
		return uint64(p.Declared.Entry.ID)
	case p.Runtime != nil:
		return uint64(p.Runtime.ID)
	case p.Client != "":
		return subjectOf(p.Client + " " + p.Subject)
	}
	return subjectOf(p.Subject)
}

// subjectOf returns the counting subject of a token: the digest of its subject. The highest bit separates it from key
// ids.
func subjectOf(subject string) uint64 {
	sum := sha256.Sum256([]byte(subject))
	return binary.BigEndian.Uint64(sum[:8]) | 1<<63
}

func byName(s *snapshot.Snapshot, deployment *snapshot.Entry, name string) (*snapshot.Entry, error) {
	if name == "" {
		return nil, nil
	}
	entry, found := s.Get(store.Identity{Kind: v1alpha1.KindRateLimitScheme, Namespace: deployment.Namespace, Name: name})
	if !found {
		return nil, &MissingError{name}
	}
	return entry, nil
}

func bySlug(s *snapshot.Snapshot, deployment *snapshot.Entry, slug string) (*snapshot.Entry, error) {
	if slug == "" {
		return nil, nil
	}
	entry, found := s.BySlug(v1alpha1.KindRateLimitScheme, deployment.Deployment, slug)
	if !found {
		return nil, &MissingError{slug}
	}
	return entry, nil
}

// scheme returns the compiled scheme of an entry. A configuration other than the newest changes nothing: it belongs to
// a request that began earlier. Positions of the feed cannot be compared here, because those of a restored store begin
// again.
func (l *Limiter) scheme(s *snapshot.Snapshot, entry *snapshot.Entry) *engine.Scheme {
	l.mu.RLock()
	known := l.schemes[entry.ID]
	l.mu.RUnlock()
	if known != nil && known.entry == entry {
		return known.scheme
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known = l.schemes[entry.ID]; known != nil && (known.entry == entry || l.current() != s) {
		return known.scheme
	}
	compiled := l.engine.SchemeOf(entry.Deployment, uint64(entry.ID), snapshot.ContentOf[document.RateLimitScheme](entry).Rules)
	order := l.compiled
	if known != nil {
		order = known.order
	}
	l.compiled++
	l.schemes[entry.ID] = &active{scheme: compiled, entry: entry, deployment: entry.Deployment, slug: entry.Key, order: order}
	l.retire()
	return compiled
}

// Decide evaluates a request of a credential. path is canonical; address comes from engine.AddressOf.
func (l *Limiter) Decide(ctx context.Context, b *Binding, method, path string, address uint64, out *engine.Result) {
	if l.shared != nil {
		request := b.request(method, path, address)
		l.shared.Decide(ctx, &request, out)
		l.report(b, out)
		return
	}
	request := b.request(method, path, address) // a separate value, which stays on the stack
	l.engine.Decide(l.clock(), &request, out)
	l.report(b, out)
}

// Peek returns the decision that Decide would make, and charges nothing. The result has what is left before the
// request.
func (l *Limiter) Peek(b *Binding, method, path string, address uint64, out *engine.Result) {
	request := b.request(method, path, address)
	if l.shared != nil {
		l.shared.Peek(&request, out)
		return
	}
	l.engine.Peek(l.clock(), &request, out)
}

func (b *Binding) request(method, path string, address uint64) engine.Request {
	return engine.Request{
		Method: method, Path: path, Key: b.Key, App: b.AppID, Address: address, Scheme: b.Scheme, AppScheme: b.App, WholeAppScheme: b.whole,
	}
}
