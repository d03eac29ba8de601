package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/store"
)

var modelStories = []story{
	{name: "any run of writes leaves what the contract says", run: func(e *env) {
		e.begin()
		var runs atomic.Int64
		_, position, err := e.store.Load(e.ctx)
		e.ok(err)
		rapid.Check(e.t, func(rt *rapid.T) {
			m := &model{documents: map[string]modelled{}, space: fmt.Sprintf("run%d", runs.Add(1))}
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				m.step(e, rt)
			}
			m.compare(e, rt)
			position = m.replay(e, rt, position)
		})
	}},
}

// model implements the contract as simply as possible: documents by name, each with its reservations. Each model uses
// its own namespace, so that runs can share a store.
type model struct {
	space     string
	documents map[string]modelled
}

type modelled struct {
	document     store.Document
	reservations []string
}

func (m *model) owner(name, uid string) store.Owner {
	return store.Owner{Identity: store.Identity{Kind: "Role", Namespace: m.space, Name: name}, UID: uid}
}

// holder returns the name of the document that holds a reservation.
func (m *model) holder(key string) string {
	for name, d := range m.documents {
		if slices.Contains(d.reservations, key) {
			return name
		}
	}
	return ""
}

// step runs one random operation on the store and on the model, and compares the results.
func (m *model) step(e *env, rt *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")
	uids := rapid.SampledFrom([]string{"u1", "u2"})
	uid := uids.Draw(rt, "uid")
	recorded, found := m.documents[name]
	switch rapid.SampledFrom([]string{"put", "put", "put", "delete", "retain"}).Draw(rt, "verb") {
	case "put":
		m.put(e, rt, name, uid, uids)
	case "delete":
		m.expect(rt, e.store.Delete(e.ctx, e.term, m.owner(name, uid)), nil)
		if found && recorded.document.UID == uid {
			delete(m.documents, name)
		}
	case "retain":
		m.expect(rt, e.store.Retain(e.ctx, e.term, m.owner(name, uid)), nil)
		if found && recorded.document.UID == uid {
			recorded.document.Retained = true
			m.documents[name] = recorded
		}
	}
}

func (m *model) put(e *env, rt *rapid.T, name, uid string, uids *rapid.Generator[string]) {
	recorded := m.documents[name].document
	put := putOf(name, uid, rapid.Int64Range(1, 3).Draw(rt, "generation"))
	put.Namespace = m.space
	put.SeenUID = recorded.UID
	if rapid.IntRange(0, 5).Draw(rt, "blind") == 0 {
		put.SeenUID = rapid.SampledFrom([]string{"", "u1", "u2"}).Draw(rt, "seen")
	}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 2, rapid.ID).Draw(rt, "reservations") {
		put.Reservations = append(put.Reservations, m.space+"/"+key)
	}
	for _, other := range []string{"a", "b", "c"} {
		if other != name && rapid.IntRange(0, 2).Draw(rt, "displace") == 0 {
			put.Displace = append(put.Displace, m.owner(other, uids.Draw(rt, "displaced")))
		}
	}
	displaced, want := m.decide(put, recorded)
	revision, err := e.store.Put(e.ctx, e.term, put)
	m.expect(rt, err, want)
	if want != nil {
		return
	}
	for _, other := range displaced {
		delete(m.documents, other)
	}
	document := put.Document
	document.Revision = revision
	m.documents[name] = modelled{document, slices.Sorted(slices.Values(put.Reservations))}
}

// decide returns the expected error of a put, and the documents that it displaces.
func (m *model) decide(put store.Put, recorded store.Document) (displaced []string, want error) {
	if recorded.UID != put.SeenUID || (recorded.UID == put.UID && recorded.Generation > put.Generation) {
		return nil, store.ErrStale
	}
	held := &store.ReservedError{Reservations: map[string]store.Owner{}}
	for _, key := range put.Reservations {
		other := m.holder(key)
		if other == "" || other == put.Name {
			continue
		}
		if owner := m.documents[other].document.Owner; slices.Contains(put.Displace, owner) {
			displaced = append(displaced, other)
		} else {
			held.Reservations[key] = owner
		}
	}
	if len(held.Reservations) > 0 {
		return nil, held
	}
	return displaced, nil
}

func (m *model) expect(rt *rapid.T, err, want error) {
	var held, wantHeld *store.ReservedError
	switch {
	case errors.As(want, &wantHeld):
		if !errors.As(err, &held) || !maps.Equal(held.Reservations, wantHeld.Reservations) {
			rt.Fatalf("got %v, want %v", err, want)
		}
	case !errors.Is(err, want):
		rt.Fatalf("got %v, want %v", err, want)
	}
}

// compare compares each document and its reservations with the model.
func (m *model) compare(e *env, rt *rapid.T) {
	g := gomega.NewWithT(rt)
	for _, name := range []string{"a", "b", "c"} {
		held, err := e.store.Stored(e.ctx, m.owner(name, "").Identity)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		want, found := m.documents[name]
		g.Expect(held.Found).To(gomega.Equal(found))
		g.Expect(held.Reservations).To(gomega.HaveLen(len(want.reservations)))
		for _, key := range want.reservations {
			g.Expect(held.Reservations).To(gomega.ContainElement(key))
		}
		// Retain writes a new revision of the document, which it does not return.
		if want.document.Retained {
			want.document.Revision = held.Document.Revision
		}
		g.Expect(held.Document).To(gomega.Equal(want.document))
	}
}

// replay reads what the run changed from the feed and expects the model's documents.
func (m *model) replay(e *env, rt *rapid.T, after store.Position) store.Position {
	g := gomega.NewWithT(rt)
	changes, next, err := e.store.Changes(e.ctx, after)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	alive := map[string]string{}
	for _, change := range changes {
		if change.Document.Namespace == m.space && !change.Deleted {
			alive[change.Document.Name] = change.Document.Hash
		}
	}
	want := map[string]string{}
	for name, d := range m.documents {
		want[name] = d.document.Hash
	}
	g.Expect(alive).To(gomega.Equal(want))
	return next
}
