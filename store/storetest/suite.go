// Package storetest tests an implementation against the contract of package store. It uses a store only through its
// interface. Tests that an engine cannot run are skipped, counted and logged.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
)

// patience is how long a test waits for a condition, far above what any machine needs.
const patience = 30 * time.Second

// Option extends what Run can test.
type Option func(*suite)

// WithSecond gives the suite a way to open the database of a store a second time, as another process would.
func WithSecond(second func(t *testing.T, first store.Store) store.Store) Option {
	return func(s *suite) { s.second = second }
}

// WithTables gives the suite a way to open a new store that has its tables already, for the stories that do not test
// the migration.
func WithTables(open func(t *testing.T) store.Store) Option {
	return func(s *suite) { s.tables = open }
}

type suite struct {
	open   func(t *testing.T) store.Store
	tables func(t *testing.T) store.Store
	second func(t *testing.T, first store.Store) store.Store
}

// sectionSchema names the stories that test the migration. They get a store without tables.
const sectionSchema = "schema"

// story tests one promise of the contract.
type story struct {
	name string
	// pair reports whether the story needs a second handle on the database.
	pair bool
	run  func(e *env)
}

// section is stories that belong together.
type section struct {
	name    string
	stories []story
}

// sections are the stories of Run.
func sections() []section {
	return []section{
		{sectionSchema, schemaStories}, {"documents", documentStories}, {"fences", fenceStories}, {"reservations", reservationStories},
		{"concurrency", concurrencyStories}, {"feed", feedStories}, {"term", termStories}, {"faults", faultStories},
		{"model", modelStories}, {"people", peopleStories}, {"users", userStories}, {"sessions", sessionStories}, {"oauth", oauthStories}, {"challenges", challengeStories},
		{"organizations", organizationStories}, {"factors", factorStories}, {"listings", listingStories}, {"events", slices.Concat(eventStories, eventWriterStories)}, {"configuration events", configurationStories}, {"webhooks", webhookStories}, {"replays", replayStories}, {"account", accountStories}, {"outbox", outboxStories}, {"upkeep", upkeepStories}, {"analytics", analyticsStories},
		{"roll-up", rollUpStories},
		{"API keys", apiKeyStories}, {"imports", importStories}, {"many rows", bulkStories}, {"calls of tools", toolCallStories}, {"approvals", approvalStories},
		{"connections", connectionStories}, {"documents of providers", upstreamStories}, {"SSO", ssoStories}, {"identities", identityStories}, {"domains", domainStories}, {"setup links", setupLinkStories},
		{"directories", directoryStories}, {"directories of organizations", runtimeDirectoryStories}, {"suspended members", suspensionStories}, {"users of directories", scimUserStories}, {"groups of directories", scimGroupStories},
	}
}

// Run tests the stores that open returns: each new, empty, without tables, and closed by open's own cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store, options ...Option) {
	run(t, sections(), open, options)
}

// RunEveryMethod tests such stores as Run does, by every method of a Tx: it compares all that can be read before and
// after each method that writes, which takes long.
func RunEveryMethod(t *testing.T, open func(t *testing.T) store.Store, options ...Option) {
	run(t, []section{{"every method", everyMethodStories}}, open, options)
}

func run(t *testing.T, sections []section, open func(t *testing.T) store.Store, options []Option) {
	s := suite{open: open}
	for _, option := range options {
		option(&s)
	}
	var mu sync.Mutex
	var skipped []string
	t.Cleanup(func() {
		slices.Sort(skipped)
		t.Logf("skipped %d: this engine has no second handle: %s", len(skipped), strings.Join(skipped, ", "))
	})
	for _, section := range sections {
		t.Run(section.name, func(t *testing.T) {
			t.Parallel()
			for _, story := range section.stories {
				t.Run(story.name, func(t *testing.T) {
					t.Parallel()
					if story.pair && s.second == nil {
						mu.Lock()
						skipped = append(skipped, section.name+"/"+story.name)
						mu.Unlock()
						t.Skip("needs a second handle on the database")
					}
					if open := s.tables; open != nil && section.name != sectionSchema {
						story.run(newEnv(t, s, open))
						return
					}
					story.run(newEnv(t, s, s.open))
				})
			}
		})
	}
}

// env is what a story works with: a store, and after begin its tables and a term.
type env struct {
	*gomega.WithT
	t     *testing.T
	ctx   context.Context
	suite suite
	store store.Store
	term  store.Term
}

func newEnv(t *testing.T, s suite, open func(*testing.T) store.Store) *env {
	ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
	t.Cleanup(cancel)
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	return &env{WithT: g, t: t, ctx: ctx, suite: s, store: open(t)}
}

// begin migrates the store and acquires a term.
func (e *env) begin() {
	e.t.Helper()
	e.ok(e.store.Migrate(e.ctx))
	e.term = e.acquire(e.store, "install")
}

func (e *env) acquire(s store.Store, install string) store.Term {
	e.t.Helper()
	term, err := s.Acquire(e.ctx, install, patience)
	e.ok(err)
	return term
}

func (e *env) ok(err error) {
	e.t.Helper()
	e.Expect(err).NotTo(gomega.HaveOccurred())
}

func (e *env) fails(err, want error) {
	e.t.Helper()
	e.Expect(err).To(gomega.MatchError(want))
}

// owner returns the owner of a Role in the namespace apps.
func owner(name, uid string) store.Owner {
	return store.Owner{Identity: store.Identity{Kind: "Role", Namespace: "apps", Name: name}, UID: uid}
}

// putOf returns a put of a new document; its content follows from the arguments.
func putOf(name, uid string, generation int64, reservations ...string) store.Put {
	content := fmt.Sprintf("%s/%s/%d", name, uid, generation)
	return store.Put{
		Document: store.Document{
			Owner: owner(name, uid), Generation: generation, Deployment: "apps/main", ID: 1 + int64(len(name)),
			Key: name, Hash: "hash of " + content, Payload: []byte(`{"v":1,"content":"` + content + `"}`),
		},
		Reservations: reservations,
	}
}

// again returns a copy of a put that replaces the document of a UID.
func again(put store.Put, seen string) store.Put {
	put.SeenUID = seen
	return put
}

func (e *env) put(put store.Put) int64 {
	e.t.Helper()
	revision, err := e.store.Put(e.ctx, e.term, put)
	e.ok(err)
	return revision
}

func (e *env) held(id store.Identity) store.Stored {
	e.t.Helper()
	held, err := e.store.Stored(e.ctx, id)
	e.ok(err)
	return held
}

func (e *env) position() store.Position {
	e.t.Helper()
	_, position, err := e.store.Load(e.ctx)
	e.ok(err)
	return position
}

func (e *env) changes(after store.Position) ([]store.Change, store.Position) {
	e.t.Helper()
	changes, position, err := e.store.Changes(e.ctx, after)
	e.ok(err)
	return changes, position
}

// written returns the document that a put stores at a revision.
func written(put store.Put, revision int64) store.Document {
	document := put.Document
	document.Revision = revision
	return document
}
