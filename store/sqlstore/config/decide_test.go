package config

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

var here = store.Term{StoreID: "s", Epoch: 3}

// pictureOf returns a batch state with the documents and reservations of the puts, each with revision 7.
func pictureOf(puts ...store.Put) *batchState {
	documents, reservations := map[store.Identity]store.Document{}, map[string]store.Owner{}
	for _, put := range puts {
		put.Revision = 7
		documents[put.Identity] = put.Document
		for _, key := range put.Reservations {
			reservations[key] = put.Owner
		}
	}
	return newBatchState(db.StoreRow{Term: here, Position: store.Position{Revision: 7, Tag: "t"}}, documents, reservations)
}

// with changes a copy of a put.
func with(put store.Put, change func(*store.Put)) store.Put {
	change(&put)
	return put
}

func TestDecide(t *testing.T) {
	t.Parallel()
	a, b := numberedPut("a", 5), numberedPut("b", 5)
	seen := func(p *store.Put) { p.SeenUID = "u" }
	retained := with(a, func(p *store.Put) { p.Retained = true })
	held := func(key string, by store.Put) error {
		return &store.ReservedError{Reservations: map[string]store.Owner{key: by.Owner}}
	}
	next := with(numberedPut("a", 6), seen)
	steal := with(a, func(p *store.Put) { p.Reservations = []string{"slug/a", "slug/b"} })
	stealing := with(steal, func(p *store.Put) { p.Displace = []store.Owner{b.Owner} })
	otherKind := with(b, func(p *store.Put) { p.Kind = "OAuthApp" })
	stealingFromOtherKind := with(steal, func(p *store.Put) { p.Displace = []store.Owner{otherKind.Owner} })
	newLife := with(a, func(p *store.Put) { p.UID, p.SeenUID = "u2", "u" })
	bare := with(next, func(p *store.Put) { p.Reservations = nil })
	for name, c := range map[string]struct {
		holds []store.Put
		op    Op
		want  decision
	}{
		"put of another epoch is fenced":     {nil, Op{VerbPut, store.Term{StoreID: "s", Epoch: 2}, a}, decision{err: store.ErrFenced}},
		"put on another store is fenced":     {nil, Op{VerbPut, store.Term{StoreID: "r", Epoch: 3}, a}, decision{err: store.ErrFenced}},
		"delete of nothing is fenced too":    {nil, Op{VerbDelete, store.Term{}, a}, decision{err: store.ErrFenced}},
		"first put writes":                   {nil, Op{VerbPut, here, a}, decision{write: &a.Document, reservations: a.Reservations}},
		"put that saw nothing is stale":      {[]store.Put{a}, Op{VerbPut, here, a}, decision{err: store.ErrStale}},
		"put that saw what is gone is stale": {nil, Op{VerbPut, here, next}, decision{err: store.ErrStale}},
		"older generation is stale":          {[]store.Put{a}, Op{VerbPut, here, with(numberedPut("a", 4), seen)}, decision{err: store.ErrStale}},
		"older generation of a new life writes": {[]store.Put{a}, Op{VerbPut, here, with(newLife, func(p *store.Put) { p.Generation = 1 })},
			decision{write: &ofGeneration(newLife, 1).Document, reservations: a.Reservations}},
		"equal put is unchanged":         {[]store.Put{a}, Op{VerbPut, here, with(a, seen)}, decision{revision: 7}},
		"equal put over retained writes": {[]store.Put{retained}, Op{VerbPut, here, with(a, seen)}, decision{write: &a.Document, reservations: a.Reservations}},
		"newer generation writes":        {[]store.Put{a}, Op{VerbPut, here, next}, decision{write: &next.Document, reservations: next.Reservations}},
		"reservations may end":           {[]store.Put{a}, Op{VerbPut, here, bare}, decision{write: &bare.Document}},
		"held reservation refuses":       {[]store.Put{b}, Op{VerbPut, here, steal}, decision{err: held("slug/b", b)}},
		"held reservation of the displaced moves": {[]store.Put{b}, Op{VerbPut, here, stealing},
			decision{displace: []store.Identity{b.Identity}, write: &stealing.Document, reservations: stealing.Reservations}},
		"held reservation of another kind never moves": {[]store.Put{otherKind}, Op{VerbPut, here, stealingFromOtherKind}, decision{err: held("slug/b", otherKind)}},
		"displacing no owner needs nothing":            {nil, Op{VerbPut, here, stealing}, decision{write: &stealing.Document, reservations: stealing.Reservations}},
		"delete removes":                               {[]store.Put{a}, Op{VerbDelete, here, a}, decision{remove: true}},
		"delete of another life":                       {[]store.Put{a}, Op{VerbDelete, here, newLife}, decision{}},
		"delete of nothing":                            {nil, Op{VerbDelete, here, a}, decision{}},
		"retain marks":                                 {[]store.Put{a}, Op{VerbRetain, here, a}, decision{write: marked(a), keepReservations: true}},
		"retain twice":                                 {[]store.Put{retained}, Op{VerbRetain, here, a}, decision{}},
		"retain of another life":                       {[]store.Put{a}, Op{VerbRetain, here, newLife}, decision{}},
	} {
		if got := decide(pictureOf(c.holds...), c.op); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// ofGeneration returns a copy of a put with another generation.
func ofGeneration(put store.Put, generation int64) *store.Put {
	put.Generation = generation
	return &put
}

// marked returns the recorded document of a put, marked as retained.
func marked(put store.Put) *store.Document {
	put.Revision, put.Retained = 7, true
	return &put.Document
}

func TestPictureShowsEachOpToTheNext(t *testing.T) {
	t.Parallel()
	a, b := numberedPut("a", 1), numberedPut("b", 1)
	thief := with(numberedPut("c", 1), func(p *store.Put) {
		p.Reservations, p.Displace = []string{"slug/a"}, []store.Owner{a.Owner}
	})
	held := pictureOf(a)
	held.reservationsBefore["slug/more"], held.reservations["slug/more"] = a.Owner, a.Owner
	held.own("slug/more", a.Owner)
	var tags int
	tag := func() string { tags++; return fmt.Sprint("t", tags) }
	for i, step := range []struct {
		op       Op
		revision int64
		refused  bool
	}{
		{Op{VerbPut, here, thief}, 9, false},
		{Op{VerbPut, here, b}, 10, false},
		{Op{VerbPut, here, with(numberedPut("d", 1), func(p *store.Put) { p.Reservations = []string{"slug/more"} })}, 11, false},
		{Op{VerbPut, here, with(numberedPut("e", 1), func(p *store.Put) { p.Reservations = []string{"slug/b"} })}, 0, true},
		{Op{VerbDelete, here, b}, 12, false},
		{Op{VerbDelete, here, b}, 0, false},
	} {
		decided := decide(held, step.op)
		revision := held.apply(decided, step.op.Put.Identity, tag)
		var refused *store.ReservedError
		if revision != step.revision || errors.As(decided.err, &refused) != step.refused {
			t.Errorf("step %d: revision %d, %v", i, revision, decided.err)
		}
	}
	diff := held.difference()
	if len(diff.written) != 2 || len(diff.deleted) != 1 || diff.deleted[0] != a.Identity {
		t.Errorf("wrote %v, deleted %v", diff.written, diff.deleted)
	}
	if len(diff.reserved) != 2 || len(diff.released) != 0 {
		t.Errorf("reserved %v, released %v: slug/a and slug/more move, slug/b came and went", diff.reserved, diff.released)
	}
	if len(diff.feed) != 5 || diff.feed[4].position != held.position || held.position.Revision != 12 {
		t.Errorf("feed %v at %v", diff.feed, held.position)
	}
}

func TestDecideTake(t *testing.T) {
	t.Parallel()
	mine := candidate{install: "mine"}
	watching := candidate{install: "mine", watched: true, foreignInstall: "other", foreignBeat: 4}
	patient := watching
	patient.patient = true
	for name, c := range map[string]struct {
		row  db.StoreRow
		by   candidate
		want acquiring
	}{
		"new store":                         {db.StoreRow{}, mine, acquireStore},
		"own store":                         {db.StoreRow{Install: "mine", Beat: 9}, mine, acquireStore},
		"foreign store":                     {db.StoreRow{Install: "other", Beat: 4}, mine, watchBeat},
		"silent so far":                     {db.StoreRow{Install: "other", Beat: 4}, watching, watchBeat},
		"silent all along":                  {db.StoreRow{Install: "other", Beat: 4}, patient, acquireStore},
		"beats":                             {db.StoreRow{Install: "other", Beat: 5}, watching, refuseStore},
		"beats at the last moment":          {db.StoreRow{Install: "other", Beat: 5}, patient, refuseStore},
		"a third install came":              {db.StoreRow{Install: "third", Beat: 4}, watching, refuseStore},
		"a sibling took it while we looked": {db.StoreRow{Install: "mine", Beat: 5}, watching, acquireStore},
	} {
		if got := decideAcquire(c.row, c.by); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// numberedPut returns a put of a document at generation n, with a reservation of its name.
func numberedPut(name string, n int64) store.Put {
	return store.Put{
		Document: store.Document{
			Owner:      store.Owner{Identity: store.Identity{Kind: "Role", Namespace: "apps", Name: name}, UID: "u"},
			Generation: n, Deployment: "apps/main", ID: n + 1, Key: name, Hash: fmt.Sprint(n), Payload: []byte(`{"v":1}`),
		},
		Reservations: []string{"slug/" + name},
	}
}
