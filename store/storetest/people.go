package storetest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// furnish writes a row of every kind, all with id 1, that tell by a mark whose they are.
func furnish(tx people.Tx, mark string) error {
	u, address := user(1)
	u.FirstName, u.Organization, address.Address = mark, 1, mark+"@example.com"
	p, s, t, g, a, c, f := phone(1, 1), session(1), tokenOf(1, 1), signIn(1, 1, 1), attempt(1, 1), challenge(1, 1), people.Failure{Scope: "password", Subject: "1"}
	p.Region, s.UserAgent, s.ActiveSignIn, g.Method, a.FirstName, c.KeyID = mark, mark, 1, mark, mark, mark
	g.Organization, g.Workspace = 1, 1
	o, w, m, wm, i := organization(1), workspace(1, 1), member(1, 1, 1), workspaceMember(1, 1, 1, 1), invitation(1, 1)
	o.Name, w.Name, i.Email = mark, mark, mark+"@example.com"
	m.Role, wm.Role = int64(len(mark)), int64(len(mark))
	f.Count, f.UpdatedAt = len(mark), born
	body := message(1)
	body.Sealed = mark
	for _, err := range []error{
		tx.InsertUser(u, address), tx.PutCredential(1, people.CredentialPassword, mark, born), tx.InsertPhone(p),
		tx.InsertSession(s), tx.InsertToken(t), tx.InsertSignIn(g), tx.InsertAttempt(a), tx.InsertChallenge(c), tx.InsertMessage(body),
		tx.InsertOrganization(o), tx.InsertWorkspace(w), tx.InsertMember(m), tx.InsertWorkspaceMember(wm), tx.InsertInvitation(i),
		tx.RecordEvent(event(1, people.EventSignIn, 1)), tx.RecordAudit(audit(1)),
	} {
		if err != nil {
			return err
		}
	}
	if _, err := tx.LockFailure(f.Scope, f.Subject, born); err != nil {
		return err
	}
	sent := send(1)
	sent.Recipient = mark
	if err := errors.Join(tx.RecordSend(sent), tx.RememberClient(1, mark, born)); err != nil {
		return err
	}
	for range len(mark) {
		if _, err := tx.Count("mail", "1", born, after(time.Hour)); err != nil {
			return err
		}
	}
	return tx.PutFailure(f)
}

// writes are the methods of a Tx that change something, each by a call that does where a deployment is furnished.
var writes = map[string]func(tx people.Tx) error{
	"InsertUser": func(tx people.Tx) error { return tx.InsertUser(user(2)) },
	"UpdateUser": func(tx people.Tx) error {
		return tx.UpdateUser(people.User{ID: 1, FirstName: "New", Disabled: true, UpdatedAt: born})
	},
	"SetLastOrganization": func(tx people.Tx) error { return tx.SetLastOrganization(1, 5) },
	"DeleteUser":          func(tx people.Tx) error { return tx.DeleteUser(1) },
	"PutCredential":       func(tx people.Tx) error { return tx.PutCredential(1, people.CredentialPassword, "new", born) },
	"DeleteCredential":    func(tx people.Tx) error { _, err := tx.DeleteCredential(1, people.CredentialPassword); return err },

	"InsertPhone": func(tx people.Tx) error { return tx.InsertPhone(phone(2, 1)) },
	"VerifyPhone": func(tx people.Tx) error { return tx.VerifyPhone(1, born) },
	"MakePrimary": func(tx people.Tx) error { return tx.MakePrimary(1, 1) },
	"DeletePhone": func(tx people.Tx) error { return tx.DeletePhone(1) },

	"InsertSession": func(tx people.Tx) error { s := session(2); s.Anonymous = true; return tx.InsertSession(s) },
	"UpdateSession": func(tx people.Tx) error {
		return tx.UpdateSession(people.Session{ID: 1, ExpiresAt: after(time.Minute)})
	},
	"EndSession":            func(tx people.Tx) error { return tx.EndSession(1) },
	"EndSessionsOf":         func(tx people.Tx) error { _, err := tx.EndSessionsOf(1); return err },
	"LeaveSession":          func(tx people.Tx) error { return tx.LeaveSession(signIn(1, 1, 1)) },
	"InsertToken":           func(tx people.Tx) error { return tx.InsertToken(tokenOf(2, 1)) },
	"UseToken":              func(tx people.Tx) error { return tx.UseToken(tokenOf(1, 1), born, born) },
	"ReplaceTokens":         func(tx people.Tx) error { return tx.ReplaceTokens(1, born) },
	"TrimTokens":            func(tx people.Tx) error { return tx.TrimTokens(1, nil, 0, born, born) },
	"InsertSignIn":          func(tx people.Tx) error { return tx.InsertSignIn(signIn(2, 1, 2)) },
	"DeleteSignIn":          func(tx people.Tx) error { return tx.DeleteSignIn(1) },
	"SetActiveOrganization": func(tx people.Tx) error { return tx.SetActiveOrganization(1, 5, 6) },
	"LeaveOrganization":     func(tx people.Tx) error { return tx.LeaveOrganization(1, 1) },

	"InsertAttempt":   func(tx people.Tx) error { return tx.InsertAttempt(attempt(2, 1)) },
	"CompleteAttempt": func(tx people.Tx) error { _, err := tx.CompleteAttempt(1); return err },

	"InsertChallenge":  func(tx people.Tx) error { return tx.InsertChallenge(challenge(2, 1)) },
	"CountTry":         func(tx people.Tx) error { _, err := tx.CountTry(1, 5, born); return err },
	"ConsumeChallenge": func(tx people.Tx) error { _, err := tx.ConsumeChallenge(1, born); return err },
	"VoidChallenges":   func(tx people.Tx) error { return tx.VoidChallenges(people.PurposePhone, 1) },
	"LockFailure":      func(tx people.Tx) error { _, err := tx.LockFailure("password", "2", after(time.Hour)); return err },
	"PutFailure": func(tx people.Tx) error {
		return tx.PutFailure(people.Failure{Scope: "password", Subject: "1", Count: 99, UpdatedAt: born})
	},
	"InsertMessage": func(tx people.Tx) error { return tx.InsertMessage(message(2)) },
	"Count": func(tx people.Tx) error {
		_, err := tx.Count("mail", "1", born, after(time.Hour))
		return err
	},
	"Uncount":        func(tx people.Tx) error { return tx.Uncount("mail", "1", born) },
	"RecordSend":     func(tx people.Tx) error { return tx.RecordSend(send(2)) },
	"RememberClient": func(tx people.Tx) error { return tx.RememberClient(1, "192.0.2.2", born) },

	"InsertOrganization":    func(tx people.Tx) error { return tx.InsertOrganization(organization(2)) },
	"SetDefaultWorkspace":   func(tx people.Tx) error { return tx.SetDefaultWorkspace(1, 5) },
	"InsertWorkspace":       func(tx people.Tx) error { return tx.InsertWorkspace(workspace(2, 1)) },
	"InsertMember":          func(tx people.Tx) error { return tx.InsertMember(member(2, 1, 2)) },
	"SetMemberWorkspace":    func(tx people.Tx) error { return tx.SetMemberWorkspace(1, 1, 5) },
	"DeleteMember":          func(tx people.Tx) error { _, err := tx.DeleteMember(1, 1); return err },
	"InsertWorkspaceMember": func(tx people.Tx) error { return tx.InsertWorkspaceMember(workspaceMember(2, 1, 1, 2)) },
	"InsertInvitation":      func(tx people.Tx) error { return tx.InsertInvitation(invitation(2, 1)) },
	"AcceptInvitation":      func(tx people.Tx) error { _, err := tx.AcceptInvitation(1, born); return err },
	"RevokeInvitation":      func(tx people.Tx) error { _, err := tx.RevokeInvitation(1, born); return err },

	"RecordEvent": func(tx people.Tx) error { return tx.RecordEvent(event(2, people.EventSignIn, 1)) },
	"RecordAudit": func(tx people.Tx) error { return tx.RecordAudit(audit(2)) },
}

// unseen are the writes whose rows no method of a Tx reads.
var unseen = []string{"InsertMessage", "RecordEvent", "RecordAudit"}

// optional is a row that may be there.
func optional[T any](row T, found bool, err error) (any, error) {
	if !found {
		return nil, err
	}
	return row, err
}

func value[T any](v T, err error) (any, error) { return v, err }

// reads are the methods of a Tx that read, each by calls that find what furnish and the writes leave.
var reads = map[string]func(tx people.Tx) (any, error){
	"User":        func(tx people.Tx) (any, error) { return optional(tx.User(1)) },
	"UserByEmail": func(tx people.Tx) (any, error) { return optional(tx.UserByEmail("person2@example.com")) },
	"ListUsers": func(tx people.Tx) (any, error) {
		users, total, err := tx.ListUsers("", 10, 0)
		return []any{users, total}, err
	},
	"Credential":     func(tx people.Tx) (any, error) { return optional(tx.Credential(1, people.CredentialPassword)) },
	"Phone":          func(tx people.Tx) (any, error) { return optional(tx.Phone(1)) },
	"PhonesOf":       func(tx people.Tx) (any, error) { return value(tx.PhonesOf(1)) },
	"PhoneOwner":     func(tx people.Tx) (any, error) { return optional(tx.PhoneOwner(phone(1, 1).Number)) },
	"SessionByToken": func(tx people.Tx) (any, error) { return both(tx.SessionByToken) },
	"PendingFrom":    func(tx people.Tx) (any, error) { return value(tx.PendingFrom("192.0.2.1", born)) },
	"SignInsOf": func(tx people.Tx) (any, error) {
		first, err := tx.SignInsOf(1)
		second, more := tx.SignInsOf(2)
		return append(first, second...), errors.Join(err, more)
	},
	"Attempt":       func(tx people.Tx) (any, error) { return optional(tx.Attempt(1)) },
	"AttemptsOf":    func(tx people.Tx) (any, error) { return value(tx.AttemptsOf(1, born)) },
	"LiveChallenge": func(tx people.Tx) (any, error) { return optional(tx.LiveChallenge(people.PurposePhone, 1)) },
	"Failure":       func(tx people.Tx) (any, error) { return value(tx.Failure("password", "1")) },
	"Counted":       func(tx people.Tx) (any, error) { return value(tx.Counted("mail", "1", born)) },
	"Sends": func(tx people.Tx) (any, error) {
		return value(tx.Sends(people.SendFilter{Channel: people.ChannelSMS}, born))
	},
	"SendsOn": func(tx people.Tx) (any, error) { return value(tx.SendsOn(people.ChannelSMS, "US", born)) },
	"KnownClient": func(tx people.Tx) (any, error) {
		return value(tx.KnownClient(1, "192.0.2.2", born.Add(-time.Hour)))
	},
	"Organization":  func(tx people.Tx) (any, error) { return optional(tx.Organization(1)) },
	"SlugTaken":     func(tx people.Tx) (any, error) { return value(tx.SlugTaken(organization(2).Slug)) },
	"Workspace":     func(tx people.Tx) (any, error) { return optional(tx.Workspace(1)) },
	"WorkspacesIn":  func(tx people.Tx) (any, error) { return value(tx.WorkspacesIn(1)) },
	"Member":        func(tx people.Tx) (any, error) { return optional(tx.Member(1, 2)) },
	"MembershipsOf": func(tx people.Tx) (any, error) { return value(tx.MembershipsOf(1)) },
	"WorkspaceMember": func(tx people.Tx) (any, error) {
		return optional(tx.WorkspaceMember(1, 2))
	},
	"WorkspaceMembershipsOf": func(tx people.Tx) (any, error) { return value(tx.WorkspaceMembershipsOf(1, 0)) },
	"InvitationByToken":      func(tx people.Tx) (any, error) { return optional(tx.InvitationByToken(hashOf(2))) },
	"Invitation":             func(tx people.Tx) (any, error) { return optional(tx.Invitation(1)) },
	"OpenInvitations":        func(tx people.Tx) (any, error) { return value(tx.OpenInvitations(1, born)) },
	"OwnedOrganizations":     func(tx people.Tx) (any, error) { return value(tx.OwnedOrganizations(1)) },
	"SessionsOf":             func(tx people.Tx) (any, error) { return value(tx.SessionsOf(1)) },
	"InvitationsSince": func(tx people.Tx) (any, error) {
		to, by, err := tx.InvitationsSince("guest1@example.com", 1, born)
		return []int{to, by}, err
	},
}

// locks are the methods of a Tx that read and lock a row there is.
var locks = map[string]func(tx people.Tx) (any, error){
	"LockUser":         func(tx people.Tx) (any, error) { return optional(tx.LockUser(1)) },
	"LockSession":      func(tx people.Tx) (any, error) { return both(tx.LockSession) },
	"LockOrganization": func(tx people.Tx) (any, error) { return optional(tx.LockOrganization(1)) },
	"Lock":             func(tx people.Tx) (any, error) { return nil, tx.Lock("name") },
}

// both reads the sessions of the two tokens there may be.
func both(read func([]byte) (people.Session, bool, error)) (any, error) {
	var found []people.Session
	for n := range int64(2) {
		s, ok, err := read(hashOf(n + 1))
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, s)
		}
	}
	return found, nil
}

var errUndo = errors.New("the story changed its mind")

// pictureOf is all that can be read of a deployment. Nothing of the reading stays.
func (e *env) pictureOf(deployment string) string {
	e.t.Helper()
	pictured := map[string]any{}
	err := e.store.Change(e.ctx, deployment, func(tx people.Tx) (err error) {
		for name, read := range joined(reads, locks) {
			if pictured[name], err = read(tx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		for _, subject := range []string{"1", "2"} {
			failure, err := tx.LockFailure("password", subject, born)
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

func joined[V any](of ...map[string]V) map[string]V {
	whole := map[string]V{}
	for _, part := range of {
		maps.Copy(whole, part)
	}
	return whole
}

var peopleStories = []story{
	{name: "the stories below know every method of a Tx", run: func(e *env) {
		var methods []string
		for method := range reflect.TypeFor[people.Tx]().Methods() {
			methods = append(methods, method.Name)
		}
		known := slices.Sorted(maps.Keys(joined(reads, locks)))
		known = append(known, slices.Collect(maps.Keys(writes))...)
		e.Expect(known).To(gomega.ConsistOf(methods))
	}},
	{name: "rows of one id in two deployments never mix", run: func(e *env) {
		e.begin()
		empty := e.pictureOf("apps/empty")
		e.change("apps/b", func(tx people.Tx) error { return furnish(tx, "b") })
		other := e.pictureOf("apps/b")
		e.Expect(e.pictureOf("apps/empty")).To(gomega.Equal(empty))
		for name, write := range writes {
			deployment := "apps/b-" + name
			e.change(deployment, func(tx people.Tx) error { return furnish(tx, name) })
			e.Expect(e.pictureOf("apps/b")).To(gomega.Equal(other), "furnished for %s", name)
			before := e.pictureOf(deployment)
			e.change(deployment, write)
			e.Expect(e.pictureOf("apps/b")).To(gomega.Equal(other), "%s reached another deployment", name)
			if !slices.Contains(unseen, name) {
				e.Expect(e.pictureOf(deployment)).NotTo(gomega.Equal(before), "%s did nothing, so that this story proves nothing", name)
			}
		}
		e.Expect(e.pictureOf("apps/empty")).To(gomega.Equal(empty))
	}},
	{name: "a change that fails leaves nothing, whatever it wrote", run: func(e *env) {
		e.begin()
		e.change(home, func(tx people.Tx) error { return furnish(tx, "before") })
		before := e.pictureOf(home)
		for name, write := range writes {
			err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
				if err := write(tx); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return errUndo
			})
			e.Expect(err).To(gomega.BeIdenticalTo(errUndo), name)
			e.Expect(e.pictureOf(home)).To(gomega.Equal(before), name)
		}
		claimed, err := e.store.LeaseMessages(e.ctx, after(time.Hour), time.Minute, 10)
		e.ok(err)
		e.Expect(claimed).To(gomega.HaveLen(1))
		summary, err := e.store.Summarize(e.ctx, home, people.Period{From: born, To: after(time.Hour)}, people.Period{}, 10)
		e.ok(err)
		e.Expect(summary.RecentSignIns).To(gomega.HaveLen(1))
		erased, err := e.store.Erase(e.ctx, e.term, home, 100)
		e.ok(err)
		e.Expect(erased).To(gomega.BeEquivalentTo(21), "one row of every table")
	}},
	{name: "a view reads, and neither writes nor locks", run: func(e *env) {
		e.begin()
		e.change(home, func(tx people.Tx) error { return furnish(tx, "before") })
		before := e.pictureOf(home)
		for name, write := range writes {
			e.Expect(e.store.View(e.ctx, home, write)).NotTo(gomega.Succeed(), name)
		}
		for name, lock := range locks {
			e.Expect(e.store.View(e.ctx, home, func(tx people.Tx) error { _, err := lock(tx); return err })).NotTo(gomega.Succeed(), name)
		}
		for name, read := range reads {
			e.Expect(e.store.View(e.ctx, home, func(tx people.Tx) error { _, err := read(tx); return err })).To(gomega.Succeed(), name)
		}
		e.Expect(e.pictureOf(home)).To(gomega.Equal(before))
		e.Expect(e.store.View(e.ctx, home, func(people.Tx) error { return errUndo })).To(gomega.BeIdenticalTo(errUndo))
	}},
	{name: "a statement of a view sees what was committed when it began", run: func(e *env) {
		e.begin()
		e.ok(e.store.View(e.ctx, home, func(tx people.Tx) error {
			_, found, err := tx.User(1)
			e.Expect(found).To(gomega.BeFalse())
			e.insert(func(tx people.Tx) error { return tx.InsertUser(user(1)) })
			if err == nil {
				_, found, err = tx.User(1)
			}
			e.Expect(found).To(gomega.BeTrue())
			return err
		}))
	}},
	{name: "a change that collides runs once more and can see the row", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error { return tx.InsertUser(user(1)) })
		runs := 0
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error {
			runs++
			return tx.InsertUser(user(1))
		})
		e.Expect(runs).To(gomega.Equal(2))

		var made, found atomic.Int64
		together(20, func(i int) {
			err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
				_, address := user(2)
				if _, there, err := tx.UserByEmail(people.FoldEmail(address.Address)); err != nil || there {
					found.Add(1)
					return err
				}
				mine, _ := user(2)
				mine.ID, address.ID, address.User = int64(100+i), int64(2000+i), int64(100+i)
				err := tx.InsertUser(mine, address)
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
		e.insert(func(tx people.Tx) error { return tx.InsertUser(user(1)) })
		before := e.pictureOf(home)
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error {
			if err := tx.InsertOrganization(organization(1)); err != nil {
				return err
			}
			_ = tx.InsertUser(user(1))
			return nil
		})
		e.Expect(e.pictureOf(home)).To(gomega.Equal(before))
	}},
	{name: "an engine that is away is unavailable, not a collision", run: func(e *env) {
		e.begin()
		e.ok(e.store.Close())
		for name, write := range writes {
			e.Expect(e.store.Change(e.ctx, home, write)).To(gomega.MatchError(store.ErrUnavailable), name)
		}
		for name, read := range reads {
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

// counters lets many count at once, through two handles, in a row of each kind that can be locked.
func counters(e *env, first, second store.Store) {
	const callers = 50
	e.insert(func(tx people.Tx) error { return tx.InsertUser(user(1)) }, func(tx people.Tx) error { return tx.InsertOrganization(organization(1)) },
		func(tx people.Tx) error { return tx.InsertSession(session(1)) }, func(tx people.Tx) error { return tx.InsertToken(tokenOf(1, 1)) })
	for name, count := range map[string]func(tx people.Tx) (int64, error){
		"session": func(tx people.Tx) (int64, error) {
			s, _, err := tx.LockSession(hashOf(1))
			s.ActiveSignIn++
			return s.ActiveSignIn, errors.Join(err, tx.UpdateSession(s))
		},
		"failure": func(tx people.Tx) (int64, error) {
			f, err := tx.LockFailure("password", "x", born)
			f.Count++
			return int64(f.Count), errors.Join(err, tx.PutFailure(f))
		},
		"user": func(tx people.Tx) (int64, error) {
			u, _, err := tx.LockUser(1)
			return u.Organization + 1, errors.Join(err, tx.SetLastOrganization(1, u.Organization+1))
		},
		"organization": func(tx people.Tx) (int64, error) {
			o, _, err := tx.LockOrganization(1)
			return o.Workspace + 1, errors.Join(err, tx.SetDefaultWorkspace(1, o.Workspace+1))
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
			e.Expect(n).To(gomega.BeEquivalentTo(i+1), "%s: each caller must count on from the one before: %v", name, counted)
		}
	}
}
