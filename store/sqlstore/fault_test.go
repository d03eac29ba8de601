package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/config"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// maxCalls is more calls to the database than any operation makes.
const maxCalls = 96

// content is everything that readers can see of a store.
type content struct {
	documents map[store.Identity]store.Stored
	position  store.Position
	users     []people.User
}

func contentOf(t *testing.T, s *Store) content {
	t.Helper()
	documents, position, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := content{documents: map[store.Identity]store.Stored{}, position: position}
	err = s.View(t.Context(), "apps/main", func(tx people.Tx) (err error) {
		c.users, _, err = tx.Users().ListUsers(people.UserFilter{}, 100, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		held, err := s.Stored(t.Context(), document.Identity)
		if err != nil {
			t.Fatal(err)
		}
		c.documents[document.Identity] = held
	}
	return c
}

func openFaulty(t *testing.T, url string) (*Store, *faults, store.Term) {
	t.Helper()
	f := &faults{}
	s := openAt(t, url, Options{wrapConnector: func(c driver.Connector) driver.Connector { return faultConnector{c, f} }})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	term, err := s.Acquire(t.Context(), "install", 0)
	if err != nil {
		t.Fatal(err)
	}
	return s, f, term
}

// faultyCalls contains every operation. Each one reads or changes rows of the store that failAtEachSite prepares.
var faultyCalls = map[string]func(ctx context.Context, s *Store, term store.Term) error{
	"Held": func(ctx context.Context, s *Store, _ store.Term) error {
		_, err := s.Stored(ctx, numbered("a", 1).Identity)
		return err
	},
	"Holders": func(ctx context.Context, s *Store, _ store.Term) error {
		_, err := s.ReservationOwners(ctx, []string{"slug/a"})
		return err
	},
	"Owners": func(ctx context.Context, s *Store, _ store.Term) error {
		_, err := s.Owners(ctx)
		return err
	},
	"Put": func(ctx context.Context, s *Store, term store.Term) error {
		put := numbered("new", 1)
		put.Reservations = append(put.Reservations, "slug/a")
		put.Displace = []store.Owner{numbered("a", 1).Owner}
		_, err := s.Put(ctx, term, put)
		return err
	},
	"Delete": func(ctx context.Context, s *Store, term store.Term) error {
		return s.Delete(ctx, term, numbered("b", 1).Owner)
	},
	"Retain": func(ctx context.Context, s *Store, term store.Term) error {
		return s.Retain(ctx, term, numbered("c", 1).Owner)
	},
	"Load": func(ctx context.Context, s *Store, _ store.Term) error {
		_, _, err := s.Load(ctx)
		return err
	},
	"Changes": func(ctx context.Context, s *Store, _ store.Term) error {
		_, _, err := s.Changes(ctx, store.Position{Revision: 1})
		if errors.Is(err, store.ErrFeedLost) {
			return nil
		}
		return err
	},
	"Take": func(ctx context.Context, s *Store, _ store.Term) error {
		_, err := s.Acquire(ctx, "install", 0)
		return err
	},
	"Beat": func(ctx context.Context, s *Store, term store.Term) error { return s.Heartbeat(ctx, term) },
	"Prune": func(ctx context.Context, s *Store, term store.Term) error {
		return s.Prune(ctx, term, 0)
	},
	"CheckSchema": func(ctx context.Context, s *Store, _ store.Term) error { return s.CheckSchema(ctx) },
	"View": func(ctx context.Context, s *Store, _ store.Term) error {
		return s.View(ctx, "apps/main", func(tx people.Tx) error {
			_, _, err := tx.Sessions().SessionByToken([]byte("hash"))
			return err
		})
	},
	"Change": func(ctx context.Context, s *Store, _ store.Term) error {
		return s.Change(ctx, "apps/main", func(tx people.Tx) error {
			if err := tx.Users().InsertUser(people.User{ID: 1}, people.Email{ID: 2, Address: "x@example.com", Primary: true}); err != nil {
				return err
			}
			_, err := tx.Limits().LockFailure("password", "x", time.UnixMicro(1))
			return err
		})
	},
	// A callback that ignores an error must not cause a partial commit.
	"Change that keeps errors to itself": func(ctx context.Context, s *Store, _ store.Term) error {
		return s.Change(ctx, "apps/main", func(tx people.Tx) error {
			_ = tx.Users().InsertUser(people.User{ID: 1}, people.Email{ID: 2, Address: "x@example.com", Primary: true})
			_ = tx.Users().InsertUser(people.User{ID: 3}, people.Email{ID: 4, Address: "y@example.com", Primary: true})
			return nil
		})
	},
	"Change of a directory": func(ctx context.Context, s *Store, _ store.Term) error {
		return s.Change(ctx, "apps/main", func(tx people.Tx) error {
			if _, err := tx.Directories().LockDirectory(1); err != nil {
				return err
			}
			if err := tx.SCIM().InsertSCIMUser(people.SCIMUser{ID: 1, Directory: 1, Name: "x"}); err != nil {
				return err
			}
			if err := tx.Users().InsertUser(people.User{ID: 1}, people.Email{ID: 2, Address: "x@example.com", Primary: true}); err != nil {
				return err
			}
			if err := tx.Organizations().InsertMember(people.Member{ID: 1, User: 1, Organization: people.Organization{ID: 1}}); err != nil {
				return err
			}
			if _, err := tx.Directories().SuspendMember(1, 1, 1, time.UnixMicro(1)); err != nil {
				return err
			}
			_, err := tx.Directories().RestoreMember(1, 1)
			return err
		})
	},
	"ListDirectories": func(ctx context.Context, s *Store, _ store.Term) error {
		_, err := s.ListDirectories(ctx, people.DirectoryRef{}, 1)
		return err
	},
	"LeaseMessages": func(ctx context.Context, s *Store, _ store.Term) error {
		_, err := s.LeaseMessages(ctx, time.UnixMicro(1), time.Minute, people.Claim{Limit: 1})
		return err
	},
	"AckMessage": func(ctx context.Context, s *Store, _ store.Term) error {
		_, err := s.AckMessage(ctx, people.Message{ID: 1}, people.Outcome{State: people.MessageSent})
		return err
	},
	"Purge": func(ctx context.Context, s *Store, _ store.Term) error {
		_, err := s.Purge(ctx, time.UnixMicro(1), people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 1)
		return err
	},
	"AbandonToolCalls": func(ctx context.Context, s *Store, _ store.Term) error {
		_, err := s.AbandonToolCalls(ctx, time.UnixMicro(1), 1)
		return err
	},
	"Erase": func(ctx context.Context, s *Store, term store.Term) error {
		_, err := s.Erase(ctx, term, "apps/other", 1)
		return err
	},
	"Summarize": func(ctx context.Context, s *Store, _ store.Term) error {
		period := people.Period{From: time.UnixMicro(1), To: time.UnixMicro(2)}
		_, err := s.Summarize(ctx, "apps/main", period, period, 1)
		return err
	},
}

// TestFaultAtEveryCallSite fails each operation at its first, second, ... call to the database, until an attempt makes
// fewer calls. A failed operation must return ErrUnavailable with its cause and change nothing.
func TestFaultAtEveryCallSite(t *testing.T) {
	t.Parallel()
	for engine, newURL := range tabled {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			for name, call := range faultyCalls {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					failAtEachSite(t, newURL(t), call)
				})
			}
		})
	}
}

func failAtEachSite(t *testing.T, url string, call func(context.Context, *Store, store.Term) error) {
	s, f, term := openFaulty(t, url)
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.Put(t.Context(), term, numbered(name, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for nth := int64(1); nth <= maxCalls; nth++ {
		before := contentOf(t, s)
		f.arm(nth, errInjected)
		err := call(t.Context(), s, term)
		f.left.Store(0)
		if !f.fired.Load() {
			if err != nil {
				t.Fatalf("without a fault: %v", err)
			}
			if nth == 1 {
				t.Fatal("no call site was reached")
			}
			return
		}
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errInjected) {
			t.Errorf("call %d: got %v, want unavailable with its cause", nth, err)
		}
		if after := contentOf(t, s); !reflect.DeepEqual(before, after) {
			t.Errorf("call %d: the refused operation left %+v, before %+v", nth, after, before)
		}
	}
	t.Fatalf("still failing after %d calls", maxCalls)
}

// TestFailedCommitFailsTheWholeBatch fails the commit of a shared transaction, before and after the database commits
// it.
func TestFailedCommitFailsTheWholeBatch(t *testing.T) {
	t.Parallel()
	for engine, newURL := range tabled {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(engine, " done ", after), func(t *testing.T) {
				t.Parallel()
				s, f, term := openFaulty(t, newURL(t))
				ops := make([]config.Op, 5)
				for i := range ops {
					ops[i] = config.Op{Verb: config.VerbPut, Term: term, Put: numbered(fmt.Sprint("d", i), 1)}
				}
				f.armCommit(errInjected, after)
				for i, r := range config.CommitBatch(t.Context(), s.Documents, ops) {
					if !errors.Is(r.Err, store.ErrUnavailable) || !errors.Is(r.Err, errInjected) {
						t.Errorf("op %d: %v", i, r.Err)
					}
				}
				want := 0
				if after {
					want = len(ops)
				}
				if got := len(contentOf(t, s).documents); got != want {
					t.Errorf("%d documents, want %d", got, want)
				}
			})
		}
	}
}

func TestUndoneTransactionIsRetried(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s, f, term := openFaulty(t, tabled["postgres"](t))
			for nth := int64(2); nth <= 9; nth++ {
				f.arm(nth, &pgconn.PgError{Code: code})
				if _, err := s.Put(t.Context(), term, numbered(fmt.Sprint("d", nth), 1)); err != nil {
					t.Errorf("call %d: %v", nth, err)
				}
				if !f.fired.Load() {
					t.Errorf("call %d was not reached", nth)
				}
			}
			if got := contentOf(t, s).position.Revision; got != 8 {
				t.Errorf("revision %d after 8 puts", got)
			}
		})
	}
}

func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	s, _, _ := openFaulty(t, tabled["postgres"](t))
	attempts := 0
	undone := db.Unavailable(t.Context(), &pgconn.PgError{Code: "40001"})
	err := s.db.Write(t.Context(), func(db.Session, db.StoreRow) (bool, error) {
		attempts++
		return false, undone
	})
	if !errors.Is(err, store.ErrUnavailable) || attempts != db.MaxAttempts {
		t.Errorf("%d attempts, %v", attempts, err)
	}
}

// TestWriteEndsWithItsContext: while another writer holds the store row, a write waits no longer than its caller.
func TestWriteEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for engine, newURL := range tabled {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s, _, term := openFaulty(t, newURL(t))
			err := s.db.Write(t.Context(), func(db.Session, db.StoreRow) (bool, error) {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_, err := s.Put(ctx, term, numbered("a", 1))
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("put: %v", err)
				}
				if err := s.Heartbeat(ctx, term); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("heartbeat: %v", err)
				}
				return false, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
