package storetest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// furnish writes a row of every kind with id 1. The mark in each row shows its deployment.
func furnish(tx people.Tx, mark string) error {
	u, address := user(1)
	u.FirstName, u.Organization, address.Address = mark, 1, mark+"@example.com"
	p, s, t, g, a, c, f := phone(1, 1), session(1), tokenOf(1, 1), signIn(1, 1, 1), attempt(1, 1), challenge(1, 1), people.Failure{Scope: "password", Subject: "1"}
	p.Primary, a.User = true, 1
	p.Region, s.UserAgent, s.ActiveSignIn, g.Method, a.FirstName, c.KeyID = mark, mark, 1, mark, mark, mark
	g.Organization, g.Workspace, g.Upstream = 1, 1, people.Upstream{Connection: 1, Identity: 1, SessionID: mark}
	o, w, m, wm, i := organization(1), workspace(1, 1), member(1, 1, 1), workspaceMember(1, 1, 1, 1), invitation(1, 1)
	o.Name, w.Name, i.Email = mark, mark, mark+"@example.com"
	m.Role, wm.Role = int64(len(mark)), int64(len(mark))
	f.Count, f.UpdatedAt = len(mark), born
	body := message(1)
	body.Sealed = mark
	called := startedCall(1)
	called.AgentName = mark
	for _, err := range []error{
		tx.Users().InsertUser(u, address), tx.Bulk().InsertEmails([]people.Email{{ID: 1003, User: 1, Address: "unproven-" + address.Address, CreatedAt: born}}), tx.Users().PutCredential(1, people.CredentialPassword, mark, born), tx.Phones().InsertPhone(p),
		tx.Sessions().InsertSession(s), tx.Sessions().InsertToken(t), tx.Sessions().InsertSignIn(g), tx.Attempts().InsertAttempt(a), tx.Challenges().InsertChallenge(c), tx.Challenges().InsertMessage(body),
		tx.Organizations().InsertOrganization(o), tx.Organizations().InsertWorkspace(w), tx.Organizations().InsertMember(m), tx.Organizations().InsertWorkspaceMember(wm), tx.Organizations().InsertInvitation(i),
		tx.APIKeys().InsertAPIKey(apiKey(1, mark)), furnishEvents(tx, mark), furnishWebhooks(tx, mark), furnishFactors(tx, mark), furnishConnections(tx, mark), furnishDirectories(tx, mark),
		tx.Records().RecordEvent(event(1, people.EventSignIn, 1)), tx.Records().RecordAudit(audit(1)), tx.Records().InsertToolCall(called), insertApproval(marked(approval(1), mark))(tx),
	} {
		if err != nil {
			return err
		}
	}
	if _, err := tx.Limits().LockFailure(f.Scope, f.Subject, born); err != nil {
		return err
	}
	sent := send(1)
	sent.Recipient = mark
	if err := errors.Join(tx.Limits().RecordSend(sent), tx.Limits().RememberClient(1, mark, born)); err != nil {
		return err
	}
	for range len(mark) {
		if _, err := tx.Limits().Count("mail", "1", born, after(time.Hour)); err != nil {
			return err
		}
	}
	begun, err := tx.Imports().LockImport("file", born)
	begun.Imported = int64(len(mark))
	if err := errors.Join(err, tx.Imports().PutImport(begun), tx.Imports().RecordImported([]people.ImportedRow{{Kind: people.ImportedAPIKey, ExternalID: mark, ID: 1}})); err != nil {
		return err
	}
	asked, granted, family := authorizationRequest(1), grantOf(1, 1), tokenFamily(1, 1)
	asked.Parameters, granted.Scopes, family.Nonce, family.Backchannel = mark, []string{mark}, mark, true
	code, refresh := authorizationCode(1, 1), refreshToken(1, 1)
	code.Challenge, refresh.Network = mark, mark
	waiting := device(1)
	waiting.Parameters = mark
	itself := oauthClient(1)
	itself.Content = mark
	gone := oauthClient(9)
	gone.UsedAt = born
	if err := errors.Join(insertOAuthClient(itself)(tx), insertDevice(waiting)(tx), tx.OAuth().InsertAuthorizationRequest(asked, atMost(9)), putGrant(granted)(tx), tx.OAuth().InsertTokenFamily(family, 9), tx.OAuth().InsertAuthorizationCode(code), tx.OAuth().InsertRefreshToken(refresh)); err != nil {
		return err
	}
	if err := insertOAuthClient(gone)(tx); err != nil {
		return err
	}
	if _, err := tx.OAuthClients().DeleteOAuthClient(gone.App, gone.Client, born); err != nil {
		return err
	}
	return tx.Limits().PutFailure(f)
}

var errUndo = errors.New("the story changed its mind")

// pictureOf returns, as text, everything that can be read of a deployment. It rolls its transaction back.
func (e *env) pictureOf(deployment string) string {
	e.t.Helper()
	pictured := map[string]any{}
	err := e.store.Change(e.ctx, deployment, func(tx people.Tx) (err error) {
		for name, read := range joined(allReads, allLocks) {
			if pictured[name], err = read(tx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		for _, subject := range []string{"1", "2"} {
			failure, err := tx.Limits().LockFailure("password", subject, born)
			if err != nil {
				return err
			}
			pictured["failure "+subject] = failure
		}
		return errUndo
	})
	e.fails(err, errUndo)
	text := ""
	for _, name := range slices.Sorted(maps.Keys(pictured)) {
		text += fmt.Sprintf("%s: %+v\n", name, pictured[name])
	}
	return text
}

// The methods of a Tx, each called once.
var (
	allReads  = joined(reads, connectionReads, directoryReads, eventReads, webhookReads)
	allLocks  = joined(locks, connectionLocks, directoryLocks)
	allWrites = joined(writes, connectionWrites, directoryWrites, eventWrites, webhookWrites)
)

func joined[V any](of ...map[string]V) map[string]V {
	whole := map[string]V{}
	for _, part := range of {
		maps.Copy(whole, part)
	}
	return whole
}

// everyMethodStories are those of RunEveryMethod.
var everyMethodStories = []story{
	neverMix(0), neverMix(1), neverMix(2), neverMix(3),
	{name: "a change that fails leaves nothing, whatever it wrote", run: func(e *env) {
		e.begin()
		e.change(home, func(tx people.Tx) error { return furnish(tx, "before") })
		before := e.pictureOf(home)
		for name, write := range allWrites {
			err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
				if err := write(tx); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return errUndo
			})
			e.Expect(err).To(gomega.BeIdenticalTo(errUndo), name)
			e.Expect(e.pictureOf(home)).To(gomega.Equal(before), name)
		}
		claimed, err := e.store.LeaseMessages(e.ctx, after(time.Hour), time.Minute, people.Claim{Limit: 10})
		e.ok(err)
		e.Expect(claimed).To(gomega.HaveLen(1))
		summary, err := e.store.Summarize(e.ctx, home, people.Period{From: born, To: after(time.Hour)}, people.Period{}, 10)
		e.ok(err)
		e.Expect(summary.RecentSignIns).To(gomega.HaveLen(1))
		erased, err := e.store.Erase(e.ctx, e.term, home, 100)
		e.ok(err)
		e.Expect(erased).To(gomega.BeEquivalentTo(63), "one row of every table, two of emails")
	}},
}

var peopleStories = []story{
	{name: "the stories of every method know every method of a Tx", run: func(e *env) {
		var methods []string
		for group := range reflect.TypeFor[people.Tx]().Methods() {
			for method := range group.Type.Out(0).Methods() {
				methods = append(methods, method.Name)
			}
		}
		known := slices.Sorted(maps.Keys(joined(allReads, allLocks)))
		known = append(known, slices.Collect(maps.Keys(allWrites))...)
		e.Expect(known).To(gomega.ConsistOf(methods))
	}},
	{name: "a view reads, and neither writes nor locks", run: func(e *env) {
		e.begin()
		e.change(home, func(tx people.Tx) error { return furnish(tx, "before") })
		before := e.pictureOf(home)
		for name, write := range allWrites {
			e.Expect(e.store.View(e.ctx, home, write)).NotTo(gomega.Succeed(), name)
		}
		for name, lock := range allLocks {
			e.Expect(e.store.View(e.ctx, home, func(tx people.Tx) error { _, err := lock(tx); return err })).NotTo(gomega.Succeed(), name)
		}
		for name, read := range allReads {
			e.Expect(e.store.View(e.ctx, home, func(tx people.Tx) error { _, err := read(tx); return err })).To(gomega.Succeed(), name)
		}
		e.Expect(e.pictureOf(home)).To(gomega.Equal(before))
		e.Expect(e.store.View(e.ctx, home, func(people.Tx) error { return errUndo })).To(gomega.BeIdenticalTo(errUndo))
	}},
	{name: "a statement of a view sees what was committed when it began", run: func(e *env) {
		e.begin()
		e.ok(e.store.View(e.ctx, home, func(tx people.Tx) error {
			_, found, err := tx.Users().User(1)
			e.Expect(found).To(gomega.BeFalse())
			e.insert(func(tx people.Tx) error { return tx.Users().InsertUser(user(1)) })
			if err == nil {
				_, found, err = tx.Users().User(1)
			}
			e.Expect(found).To(gomega.BeTrue())
			return err
		}))
	}},
	{name: "a change that collides runs once more and can see the row", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error { return tx.Users().InsertUser(user(1)) })
		runs := 0
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error {
			runs++
			return tx.Users().InsertUser(user(1))
		})
		e.Expect(runs).To(gomega.Equal(2))

		var made, found atomic.Int64
		together(20, func(i int) {
			err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
				_, address := user(2)
				if _, there, err := tx.Users().UserByEmail(people.FoldEmail(address.Address)); err != nil || there {
					found.Add(1)
					return err
				}
				mine, _ := user(2)
				mine.ID, address.ID, address.User = int64(100+i), int64(2000+i), int64(100+i)
				err := tx.Users().InsertUser(mine, address)
				if err == nil {
					made.Add(1)
				}
				return err
			})
			if err != nil {
				e.t.Error(err)
			}
		})
		e.Expect(made.Load()).To(gomega.BeEquivalentTo(1))
		e.Expect(found.Load()).To(gomega.BeEquivalentTo(19))
	}},
	{name: "a collision that a change keeps to itself commits nothing all the same", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error { return tx.Users().InsertUser(user(1)) })
		before := e.pictureOf(home)
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error {
			if err := tx.Organizations().InsertOrganization(organization(1)); err != nil {
				return err
			}
			_ = tx.Users().InsertUser(user(1))
			return nil
		})
		e.Expect(e.pictureOf(home)).To(gomega.Equal(before))
	}},
	{name: "an engine that is away is unavailable, not a collision", run: func(e *env) {
		e.begin()
		e.ok(e.store.Close())
		for name, write := range allWrites {
			e.Expect(e.store.Change(e.ctx, home, write)).To(gomega.MatchError(store.ErrUnavailable), name)
		}
		for name, read := range allReads {
			e.Expect(e.store.View(e.ctx, home, func(tx people.Tx) error { _, err := read(tx); return err })).To(gomega.MatchError(store.ErrUnavailable), name)
		}
	}},
	{name: "whoever locks a row waits for its holder, and no update is lost", run: func(e *env) {
		e.begin()
		counters(e, e.store, e.store)
	}},
	{name: "whoever locks a row waits for its holder in another process", pair: true, run: func(e *env) {
		e.begin()
		counters(e, e.store, e.suite.second(e.t, e.store))
	}},
}

// counters lets many callers concurrently increment a number in a lockable row of each kind, through two handles. It
// expects that no increment is lost.
func counters(e *env, first, second store.Store) {
	const callers = 50
	e.insert(func(tx people.Tx) error { return tx.Users().InsertUser(user(1)) }, func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(1)) },
		func(tx people.Tx) error { return tx.Sessions().InsertSession(session(1)) }, func(tx people.Tx) error { return tx.Sessions().InsertToken(tokenOf(1, 1)) },
		insertDomain(domain(1, 1)), insertConnection(people.Connection{ID: 1, Slug: "counted", Settings: "0"}))
	for name, count := range map[string]func(tx people.Tx) (int64, error){
		"session": func(tx people.Tx) (int64, error) {
			s, _, err := tx.Sessions().LockSession(hashOf(1))
			s.ActiveSignIn++
			return s.ActiveSignIn, errors.Join(err, tx.Sessions().UpdateSession(s))
		},
		"failure": func(tx people.Tx) (int64, error) {
			f, err := tx.Limits().LockFailure("password", "x", born)
			f.Count++
			return int64(f.Count), errors.Join(err, tx.Limits().PutFailure(f))
		},
		"user": func(tx people.Tx) (int64, error) {
			u, _, err := tx.Users().LockUser(1)
			return u.Organization + 1, errors.Join(err, tx.Users().SetLastOrganization(1, u.Organization+1))
		},
		"organization": func(tx people.Tx) (int64, error) {
			o, _, err := tx.Organizations().LockOrganization(1)
			return o.Workspace + 1, errors.Join(err, tx.Organizations().SetDefaultWorkspace(1, o.Workspace+1))
		},
		"domain": func(tx people.Tx) (int64, error) {
			d, _, err := tx.Domains().LockDomain(1)
			d.Failures++
			return int64(d.Failures), errors.Join(err, tx.Domains().UpdateDomain(d))
		},
		"directory": func(tx people.Tx) (int64, error) {
			d, err := tx.Directories().LockDirectory(1)
			d.Users++
			return d.Users, errors.Join(err, tx.Directories().UpdateDirectory(d))
		},
		"connection": func(tx people.Tx) (int64, error) {
			c, _, err := tx.Connections().LockConnection(1)
			n, malformed := strconv.ParseInt(c.Settings, 10, 64)
			c.Settings = strconv.FormatInt(n+1, 10)
			return n + 1, errors.Join(err, malformed, tx.Connections().UpdateConnection(c))
		},
	} {
		counted := make([]int64, callers)
		together(callers, func(i int) {
			handle := first
			if i%2 == 1 {
				handle = second
			}
			err := handle.Change(e.ctx, home, func(tx people.Tx) (err error) {
				counted[i], err = count(tx)
				return err
			})
			if err != nil {
				e.t.Errorf("%s: %v", name, err)
			}
		})
		slices.Sort(counted)
		for i, n := range counted {
			e.Expect(n).To(gomega.BeEquivalentTo(i+1), "%s: every increment must be applied exactly once: %v", name, counted)
		}
	}
}
