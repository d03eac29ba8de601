package storetest

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store/people"
)

// apiKey returns a key of the app shop. Its public id and digest, which are unique over all deployments, derive from
// the mark.
func apiKey(id int64, mark string) people.APIKey {
	return people.APIKey{
		ID: id, PublicID: "public-" + mark, Digest: apikey.Digest(sha256.Sum256([]byte(mark))), Prefix: "shop", Suffix: "wxyz", App: "shop", Name: "key of " + mark,
		Permissions: []string{"orders:read", "orders:write"}, Metadata: []byte(`{"plan":"` + mark + `"}`), Owner: 1, Organization: 1, Workspace: 1, Scheme: "free",
		ExpiresAt: after(time.Hour), CreatedAt: born, UpdatedAt: born,
	}
}

// bare returns a key without an owner.
func bare(id int64, mark string) people.APIKey {
	k := apiKey(id, mark)
	k.Owner, k.Organization, k.Workspace, k.Scheme, k.Metadata, k.Permissions, k.ExpiresAt = 0, 0, 0, "", nil, nil, time.Time{}
	return k
}

func (e *env) addKeys(keys ...people.APIKey) {
	e.t.Helper()
	for _, k := range keys {
		e.insert(func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(k) })
	}
}

func (e *env) lookUp(k people.APIKey) (people.BoundKey, bool) {
	e.t.Helper()
	found, there, err := e.store.APIKeyByDigest(e.ctx, k.Digest)
	e.ok(err)
	return found, there
}

func (e *env) keyPosition() people.KeyPosition {
	e.t.Helper()
	position, err := e.store.KeyPosition(e.ctx)
	e.ok(err)
	return position
}

// changedBy returns the keys that the feed reports after some writes.
func (e *env) changedBy(writes ...func(tx people.Tx) error) []apikey.Digest {
	e.t.Helper()
	before := e.keyPosition()
	e.insert(writes...)
	changes, err := e.store.KeyChanges(e.ctx, before)
	e.ok(err)
	e.Expect(changes.All).To(gomega.BeFalse())
	e.Expect(changes.Position).To(gomega.Equal(e.keyPosition()))
	return changes.Digests
}

// members makes user 1 a member of organization 1 and its workspace 1, with roles 100 and 200.
func (e *env) members() {
	e.t.Helper()
	m, w := member(1, 1, 1), workspaceMember(1, 1, 1, 1)
	m.Role, w.Role = 100, 200
	e.insert(func(tx people.Tx) error { return tx.Users().InsertUser(user(1)) }, func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(1)) },
		func(tx people.Tx) error { return tx.Organizations().InsertWorkspace(workspace(1, 1)) }, func(tx people.Tx) error { return tx.Organizations().InsertMember(m) },
		func(tx people.Tx) error { return tx.Organizations().InsertWorkspaceMember(w) })
}

var apiKeyStories = []story{
	{name: "a key is read as written", run: func(e *env) {
		e.begin()
		full, none := apiKey(1, "full"), bare(2, "none")
		full.RetiresAt, full.LastUsedAt, full.RevokedAt, full.RevokedReason, full.RotatedFrom = after(1), after(2), after(3), "leaked", 9
		full.RetiresAt, full.LastUsedAt, full.RevokedAt = full.RetiresAt.Truncate(time.Microsecond), full.LastUsedAt.Truncate(time.Microsecond), full.RevokedAt.Truncate(time.Microsecond)
		e.addKeys(full, none)
		for _, want := range []people.APIKey{full, none} {
			got, _ := one(e, func(tx people.Tx) (people.APIKey, bool, error) { return tx.APIKeys().APIKey(want.ID) })
			e.Expect(got).To(gomega.Equal(want))
			got, _ = one(e, func(tx people.Tx) (people.APIKey, bool, error) { return tx.APIKeys().APIKeyByPublicID(want.PublicID) })
			e.Expect(got).To(gomega.Equal(want))
			e.insert(func(tx people.Tx) error {
				locked, _, err := tx.APIKeys().LockAPIKey(want.ID)
				e.Expect(locked).To(gomega.Equal(want))
				return err
			})
			bound, found := e.lookUp(want)
			e.Expect(found).To(gomega.BeTrue())
			e.Expect(bound.APIKey).To(gomega.Equal(want))
			e.Expect(bound.Deployment).To(gomega.Equal(home))
		}
		_, found := e.lookUp(bare(3, "nobody"))
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "ids, public ids and digests are single, the last two in the whole install; imported keys have no public id", run: func(e *env) {
		e.begin()
		e.addKeys(bare(1, "a"))
		for _, wrong := range []func(k *people.APIKey){
			func(k *people.APIKey) { k.ID = 1 },
			func(k *people.APIKey) { k.PublicID = bare(1, "a").PublicID },
			func(k *people.APIKey) { k.Digest = bare(1, "a").Digest },
		} {
			k := bare(2, "b")
			wrong(&k)
			e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(k) })
			if k.ID == 2 {
				e.fails(e.store.Change(e.ctx, "apps/other", func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(k) }), people.ErrDuplicate)
			}
		}
		changes, err := e.store.KeyChanges(e.ctx, e.keyPosition())
		e.ok(err)
		e.Expect(changes.Imported).To(gomega.BeFalse())
		first, second := bare(2, "first import"), bare(3, "second import")
		first.PublicID, second.PublicID = "", ""
		e.addKeys(first, second)
		changes, err = e.store.KeyChanges(e.ctx, e.keyPosition())
		e.ok(err)
		e.Expect(changes.Imported).To(gomega.BeTrue())
		bound, _ := e.lookUp(second)
		e.Expect(bound.APIKey).To(gomega.Equal(second))
		_, found := one(e, func(tx people.Tx) (people.APIKey, bool, error) { return tx.APIKeys().APIKeyByPublicID("") })
		e.Expect(found).To(gomega.BeFalse())
		e.Expect(e.store.View(e.ctx, "apps/other", func(tx people.Tx) error {
			_, found, err := tx.APIKeys().APIKeyByPublicID(bare(1, "a").PublicID)
			e.Expect(found).To(gomega.BeFalse(), "of another deployment")
			return err
		})).To(gomega.Succeed())
	}},
	{name: "keys are listed by app, owner, organization and activity, the newest first, page after page", run: func(e *env) {
		e.begin()
		other, expired, retired, revoked, owned := bare(2, "other"), bare(3, "expired"), bare(4, "retired"), bare(5, "revoked"), apiKey(6, "owned")
		other.App, expired.ExpiresAt, retired.RetiresAt, revoked.RevokedAt = "other", born, born, after(time.Hour)
		e.addKeys(bare(1, "one"), other, expired, retired, revoked, owned)
		ids := func(filter people.APIKeyFilter, limit int) (ids []int64) {
			for _, k := range all(e, func(tx people.Tx) ([]people.APIKey, error) { return tx.APIKeys().ListAPIKeys(filter, limit) }) {
				ids = append(ids, k.ID)
				e.Expect(k.Active(filter.ActiveAt) || filter.ActiveAt.IsZero()).To(gomega.BeTrue())
			}
			return ids
		}
		e.Expect(ids(people.APIKeyFilter{}, 10)).To(gomega.Equal([]int64{6, 5, 4, 3, 2, 1}))
		e.Expect(ids(people.APIKeyFilter{App: "shop"}, 2)).To(gomega.Equal([]int64{6, 5}))
		e.Expect(ids(people.APIKeyFilter{App: "shop", Before: 5}, 10)).To(gomega.Equal([]int64{4, 3, 1}))
		e.Expect(ids(people.APIKeyFilter{App: "shop", ActiveAt: born}, 10)).To(gomega.Equal([]int64{6, 1}))
		e.Expect(ids(people.APIKeyFilter{Owner: 1}, 10)).To(gomega.Equal([]int64{6}))
		e.Expect(ids(people.APIKeyFilter{Organization: 1, App: "shop"}, 10)).To(gomega.Equal([]int64{6}))
		e.Expect(ids(people.APIKeyFilter{Owner: 2}, 10)).To(gomega.BeEmpty())
	}},
	{name: "an update changes what may change, and the feed tells; a new key is not told", run: func(e *env) {
		e.begin()
		k := apiKey(1, "one")
		e.Expect(e.changedBy(func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(k) })).To(gomega.BeEmpty())
		changed := k
		changed.Name, changed.Permissions, changed.Metadata, changed.Scheme = "new", []string{"*"}, nil, ""
		changed.ExpiresAt, changed.RetiresAt, changed.UpdatedAt, changed.RevokedAt, changed.RevokedReason = time.Time{}, after(time.Minute), after(time.Second), after(time.Second), "why"
		asked := changed
		asked.App, asked.Owner, asked.Digest = "other", 7, bare(2, "two").Digest
		e.Expect(e.changedBy(func(tx people.Tx) error { return tx.APIKeys().UpdateAPIKey(asked) })).To(gomega.Equal([]apikey.Digest{k.Digest}))
		bound, _ := e.lookUp(k)
		e.Expect(bound.APIKey).To(gomega.Equal(changed))
		e.Expect(e.changedBy(func(tx people.Tx) error { k := k; k.ID = 2; return tx.APIKeys().UpdateAPIKey(k) })).To(gomega.BeEmpty(), "no such key")
		e.Expect(e.changedBy(func(tx people.Tx) error {
			deleted, err := tx.APIKeys().DeleteAPIKey(1)
			e.Expect(deleted).To(gomega.BeTrue())
			return err
		})).To(gomega.Equal([]apikey.Digest{k.Digest}))
		e.Expect(e.changedBy(func(tx people.Tx) error {
			deleted, err := tx.APIKeys().DeleteAPIKey(1)
			e.Expect(deleted).To(gomega.BeFalse())
			return err
		})).To(gomega.BeEmpty())
	}},
	{name: "a bound key is read with its role, and is orphaned by what happens to its owner", run: func(e *env) {
		e.begin()
		e.members()
		own, inOrganization, inWorkspace, foreign := apiKey(1, "own"), apiKey(2, "organization"), apiKey(3, "workspace"), apiKey(4, "foreign")
		own.Organization, own.Workspace, inOrganization.Workspace, foreign.Owner = 0, 0, 0, 2
		e.addKeys(own, inOrganization, inWorkspace, foreign)
		told := func(k people.APIKey) []any {
			bound, found := e.lookUp(k)
			return []any{found, bound.Orphaned, bound.Role, bound.OwnsIt}
		}
		e.Expect(told(own)).To(gomega.Equal([]any{true, false, int64(0), false}))
		e.Expect(told(inOrganization)).To(gomega.Equal([]any{true, false, int64(100), false}))
		e.Expect(told(inWorkspace)).To(gomega.Equal([]any{true, false, int64(200), false}))
		e.Expect(told(foreign)[:2]).To(gomega.Equal([]any{true, true}), "no such user")

		mine := []any{own.Digest, inOrganization.Digest, inWorkspace.Digest}
		disable := func(disabled bool) func(people.Tx) error {
			return func(tx people.Tx) error {
				u, _ := user(1)
				u.Disabled = disabled
				return tx.Users().UpdateUser(u)
			}
		}
		e.Expect(e.changedBy(disable(true))).To(gomega.ConsistOf(mine...))
		e.Expect(told(own)[1]).To(gomega.BeTrue())
		e.Expect(e.changedBy(disable(false))).To(gomega.ConsistOf(mine...))
		e.Expect(told(own)[1]).To(gomega.BeFalse())

		m := member(1, 1, 1)
		m.Role, m.Owner = 101, true
		e.Expect(e.changedBy(func(tx people.Tx) error { return tx.Organizations().UpdateMember(m) })).To(gomega.ContainElement(inOrganization.Digest))
		e.Expect(told(inOrganization)).To(gomega.Equal([]any{true, false, int64(101), true}))
		e.Expect(e.changedBy(func(tx people.Tx) error { return tx.Organizations().SetWorkspaceMemberRole(1, 201) })).To(gomega.Equal([]apikey.Digest{inWorkspace.Digest}))
		e.Expect(told(inWorkspace)).To(gomega.Equal([]any{true, false, int64(201), false}))
	}},
	{name: "keys die with the membership, the user and the deployment, and the feed tells", run: func(e *env) {
		e.begin()
		e.members()
		own, inOrganization, inWorkspace, free := apiKey(1, "own"), apiKey(2, "organization"), apiKey(3, "workspace"), bare(4, "free")
		own.Organization, own.Workspace, inOrganization.Workspace = 0, 0, 0
		e.addKeys(own, inOrganization, inWorkspace, free)
		e.Expect(e.changedBy(func(tx people.Tx) error { _, err := tx.Organizations().DeleteMember(1, 1); return err })).
			To(gomega.ConsistOf(inOrganization.Digest, inWorkspace.Digest))
		e.Expect(e.changedBy(func(tx people.Tx) error { return tx.Users().DeleteUser(1) })).To(gomega.Equal([]apikey.Digest{own.Digest}))
		for _, dead := range []people.APIKey{own, inOrganization, inWorkspace} {
			_, found := e.lookUp(dead)
			e.Expect(found).To(gomega.BeFalse())
		}
		_, found := e.lookUp(free)
		e.Expect(found).To(gomega.BeTrue())
		before := e.keyPosition()
		_, err := e.store.Erase(e.ctx, e.term, home, 100)
		e.ok(err)
		changes, err := e.store.KeyChanges(e.ctx, before)
		e.ok(err)
		e.Expect(changes.All).To(gomega.BeTrue())
		_, found = e.lookUp(free)
		e.Expect(found).To(gomega.BeFalse())
		before = e.keyPosition()
		_, err = e.store.Erase(e.ctx, e.term, home, 100)
		e.ok(err)
		e.Expect(e.keyPosition()).To(gomega.Equal(before), "nothing was erased")
	}},
	{name: "a change that fails tells the feed nothing", run: func(e *env) {
		e.begin()
		e.addKeys(bare(1, "one"))
		before := e.keyPosition()
		e.fails(e.store.Change(e.ctx, home, func(tx people.Tx) error {
			if _, err := tx.APIKeys().DeleteAPIKey(1); err != nil {
				return err
			}
			return errUndo
		}), errUndo)
		e.Expect(e.keyPosition()).To(gomega.Equal(before))
	}},
	{name: "a reader of the empty feed goes on from there; a position of another history, or one forgotten, is lost", run: func(e *env) {
		e.begin()
		start := e.keyPosition()
		e.addKeys(bare(1, "one"), bare(2, "two"))
		e.insert(func(tx people.Tx) error { _, err := tx.APIKeys().DeleteAPIKey(1); return err })
		middle := e.keyPosition()
		e.insert(func(tx people.Tx) error { _, err := tx.APIKeys().DeleteAPIKey(2); return err })
		changes, err := e.store.KeyChanges(e.ctx, start)
		e.ok(err)
		e.Expect(changes.Digests).To(gomega.Equal([]apikey.Digest{bare(1, "one").Digest, bare(2, "two").Digest}), "in the order of the commits")
		for _, wrong := range []people.KeyPosition{{Revision: middle.Revision, Tag: "other"}, {Revision: middle.Revision + 9, Tag: middle.Tag}} {
			_, err = e.store.KeyChanges(e.ctx, wrong)
			e.fails(err, people.ErrKeyFeedLost)
		}
		_, err = e.store.Purge(e.ctx, time.Now().Add(30*time.Minute), people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 100)
		e.ok(err)
		_, err = e.store.KeyChanges(e.ctx, middle)
		e.ok(err)
		_, err = e.store.Purge(e.ctx, time.Now().Add(2*time.Hour), people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 100)
		e.ok(err)
		_, err = e.store.KeyChanges(e.ctx, middle)
		e.fails(err, people.ErrKeyFeedLost)
		changes, err = e.store.KeyChanges(e.ctx, e.keyPosition())
		e.ok(err)
		e.Expect(changes.Digests).To(gomega.BeEmpty(), "the newest entry is never forgotten")
	}},
	{name: "the feed is in the order of the commits, whoever writes", run: func(e *env) {
		e.begin()
		const writers = 24
		for i := range writers {
			e.addKeys(bare(int64(i+1), fmt.Sprint("key ", i)))
		}
		position := e.keyPosition()
		var mu sync.Mutex
		dead, stop := map[apikey.Digest]bool{}, make(chan struct{})
		var reading sync.WaitGroup
		reading.Go(func() {
			for done := false; !done; {
				select {
				case <-stop:
					done = true // after one last read
				default:
				}
				changes, err := e.store.KeyChanges(e.ctx, position)
				if err != nil {
					e.t.Error(err)
					return
				}
				position = changes.Position
				mu.Lock()
				for _, digest := range changes.Digests {
					dead[digest] = true
				}
				mu.Unlock()
			}
		})
		together(writers, func(i int) {
			if err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
				_, err := tx.APIKeys().DeleteAPIKey(int64(i + 1))
				return err
			}); err != nil {
				e.t.Error(err)
			}
		})
		close(stop)
		reading.Wait()
		e.Expect(dead).To(gomega.HaveLen(writers), "a reader between two commits must miss none")
	}},
	{name: "a change signals the feed of keys, and not that of configuration", run: func(e *env) {
		e.begin()
		e.addKeys(bare(1, "one"))
		signals := e.store.KeySignals(e.ctx)
		e.insert(func(tx people.Tx) error { _, err := tx.APIKeys().DeleteAPIKey(1); return err })
		e.Eventually(signals).Should(gomega.Receive())
	}},
	{name: "another process hears of a change", pair: true, run: func(e *env) {
		e.begin()
		e.addKeys(bare(1, "one"))
		signals := e.suite.second(e.t, e.store).KeySignals(e.ctx)
		e.Eventually(signals).Should(gomega.Receive(), "connected")
		e.insert(func(tx people.Tx) error { _, err := tx.APIKeys().DeleteAPIKey(1); return err })
		e.Eventually(signals).Should(gomega.Receive(), "the commit")
	}},
	{name: "when a key was used is written at most once a minute, and never backwards", run: func(e *env) {
		e.begin()
		e.addKeys(bare(1, "one"), bare(2, "two"))
		before := e.keyPosition()
		use := func(at time.Time, ids ...int64) {
			var uses []people.KeyUse
			for _, id := range ids {
				uses = append(uses, people.KeyUse{Deployment: home, ID: id, At: at}, people.KeyUse{Deployment: "apps/other", ID: id, At: after(time.Hour)})
			}
			e.ok(e.store.RecordKeyUses(e.ctx, uses))
		}
		used := func(id int64) time.Time {
			k, _ := one(e, func(tx people.Tx) (people.APIKey, bool, error) { return tx.APIKeys().APIKey(id) })
			return k.LastUsedAt
		}
		use(born, 1, 2, 3)
		use(after(59*time.Second), 1)
		use(after(-time.Hour), 1)
		use(after(time.Minute), 2)
		e.Expect(used(1)).To(gomega.Equal(born))
		e.Expect(used(2)).To(gomega.Equal(after(time.Minute)))
		e.Expect(e.keyPosition()).To(gomega.Equal(before), "a use is no change")
	}},
}
