package sqlstore

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// wholeDirectoryTable matches a plan that reads a whole table of directories or memberships: of SQLite first, then of
// PostgreSQL. A table has the alias m, u, g or s in joins.
var wholeDirectoryTable = regexp.MustCompile(`SCAN (directories|runtime_directories|directory_tokens|scim_\w+|suspended_\w+|directory_accounts|organization_memberships|workspace_memberships|[mugsdr])\b|CORRELATED LIST` +
	`|Seq Scan on (directories|runtime_directories|directory_tokens|scim_\w+|suspended_\w+|directory_accounts|organization_memberships|workspace_memberships)`)

// fillDirectories writes directories of 40 deployments, one of which has a large one. PostgreSQL reads small tables
// whole, and decides by its statistics.
var fillDirectories = []string{
	`INSERT INTO directories SELECT 'apps/d' || d, i, 1, 0, 0, 0, '', '' FROM generate_series(0, 39) d, generate_series(1, 50) i`,
	`INSERT INTO runtime_directories SELECT 'apps/d' || d, i, 1 + i / 2, 'd-' || i, 0, '{}', 1, 0, 0, 0 FROM generate_series(0, 39) d, generate_series(1, 50) i`,
	`INSERT INTO directory_tokens SELECT 'apps/d' || d, i, i, 'token-' || i, ''::bytea, '', 0, 0, 0 FROM generate_series(0, 39) d, generate_series(1, 50) i`,
	`INSERT INTO scim_users SELECT 'apps/d' || d, 1, n, n, 'name-' || n, 'external-' || n, n || '@example.com', 1, 1, '{}', 0, 0
		FROM generate_series(0, 39) d, LATERAL generate_series(1, CASE d WHEN 0 THEN 20000 ELSE 200 END) n`,
	`UPDATE scim_users SET user_id = 0 WHERE id % 10 = 0`,
	`INSERT INTO scim_groups SELECT 'apps/d' || d, 1, n, 'Group ' || n, 'group ' || n, 'external-' || n, 1, 1, 0, 0
		FROM generate_series(0, 39) d, LATERAL generate_series(1, CASE d WHEN 0 THEN 10000 ELSE 200 END) n`,
	// A small directory of the deployment with the large one, which is cleared.
	`INSERT INTO scim_users SELECT 'apps/d0', 2, n, 0, 'name-' || n, '', n || '@example.org', 1, 1, '{}', 0, 0 FROM generate_series(1, 200) n`,
	`INSERT INTO scim_groups SELECT 'apps/d0', 2, n, 'Group ' || n, 'group ' || n, '', 1, 1, 0, 0 FROM generate_series(1, 50) n`,
	`INSERT INTO scim_members SELECT deployment, directory_id, 1 + (id * k) % 50, id FROM scim_users, generate_series(1, 2) k ON CONFLICT DO NOTHING`,
	`INSERT INTO organization_memberships SELECT 'apps/d' || d, n, CASE WHEN n <= 10000 THEN 1 ELSE n / 100 END, n, n % 5, 0, 0, 0
		FROM generate_series(0, 39) d, LATERAL generate_series(1, CASE d WHEN 0 THEN 20000 ELSE 200 END) n`,
	`INSERT INTO workspace_memberships SELECT deployment, id, 1, organization_id, user_id, 1, 0, 0 FROM organization_memberships`,
	`INSERT INTO suspended_memberships SELECT deployment, organization_id, user_id, 1 + id % 100 / 96, id, 1, 0, 0, 0, 0
		FROM organization_memberships WHERE id % 4 = 0`,
	`INSERT INTO suspended_workspace_memberships SELECT deployment, organization_id, user_id, id, 1, 1, 0, 0 FROM organization_memberships WHERE id % 4 = 0`,
	`INSERT INTO directory_accounts SELECT deployment, user_id, 1, 0 FROM organization_memberships`,
	`ANALYZE`,
}

// directoryStatements runs each statement over directories, the large one of the deployment.
func directoryStatements(tx people.Tx, now time.Time) error {
	users := make([]int64, 200)
	for i := range users {
		users[i] = int64(i)*7 + 3
	}
	d, s := tx.Directories(), tx.SCIM()
	for _, run := range []func() error{
		func() error { _, err := d.LockDirectory(1); return err },
		func() error { _, err := d.LockDirectory(99); return err },
		func() error { _, _, err := d.Directory(1); return err },
		func() error { return d.UpdateDirectory(people.Directory{ID: 1}) },
		func() error {
			return d.InsertRuntimeDirectory(people.RuntimeDirectory{ID: 99, Organization: 1, Slug: "d-99"})
		},
		func() error { _, _, err := d.RuntimeDirectory(1); return err },
		func() error { _, _, err := d.LockRuntimeDirectory(1); return err },
		func() error { return d.UpdateRuntimeDirectory(people.RuntimeDirectory{ID: 1}) },
		func() error { _, err := d.DeleteRuntimeDirectory(3); return err },
		func() error { _, err := d.ListRuntimeDirectories(people.RuntimeDirectoryFilter{}, 10); return err },
		func() error {
			_, err := d.ListRuntimeDirectories(people.RuntimeDirectoryFilter{Organization: 1, Before: 40}, 10)
			return err
		},
		func() error {
			return d.InsertDirectoryToken(people.DirectoryToken{ID: 99, Directory: 1, Public: "new"})
		},
		func() error { _, err := d.DirectoryTokens([]int64{1, 2}); return err },
		func() error { _, _, err := d.DirectoryToken(1, "token-1"); return err },
		func() error { _, err := d.UseDirectoryToken(1, 1, now, now); return err },
		func() error { _, err := d.DeleteDirectoryToken(1, 1); return err },
		func() error { _, err := d.SuspendMember(1, 5, 1, now); return err },
		func() error { _, _, err := d.SuspendedMember(1, 5); return err },
		func() error { _, err := d.RestoreMember(1, 5); return err },
		func() error { _, err := d.DropSuspended(1, 8); return err },
		func() error { _, err := d.CountSuspended(5); return err },
		func() error { _, err := d.AnySuspended(1); return err },
		func() error { _, err := d.DirectoryAccount(5); return err },
		func() error { return d.PutDirectoryAccount(people.DirectoryAccount{User: 5}) },
		func() error { return s.InsertSCIMUser(people.SCIMUser{ID: 50_000, Directory: 1, Name: "new"}) },
		func() error { _, _, err := s.SCIMUser(1, 5); return err },
		func() error {
			return s.UpdateSCIMUser(people.SCIMUser{ID: 5, Directory: 1, User: 5, Name: "changed"})
		},
		func() error { _, err := s.TieSCIMUser(1, 10, 10); return err },
		func() error { _, err := s.SCIMUsersOf(7); return err },
		func() error { _, err := s.WaitingSCIMUsers("20@example.com", 10); return err },
		func() error { _, err := s.FirstWaitingSCIMUsers([]int64{1, 2, 3}, "20@example.com"); return err },
		func() error { _, err := d.RuntimeDirectoriesOf([]int64{1, 2, 3}); return err },
		func() error { _, err := s.CountRuntimeSCIMUsers(); return err },
		func() error { _, err := s.CountSCIMMemberships(2); return err },
		func() error { _, err := s.SCIMAccounts(1, users); return err },
		func() error {
			return s.InsertSCIMGroup(people.SCIMGroup{ID: 50_000, Directory: 1, DisplayName: "new"})
		},
		func() error { _, _, err := s.SCIMGroup(1, 5); return err },
		func() error {
			return s.UpdateSCIMGroup(people.SCIMGroup{ID: 5, Directory: 1, DisplayName: "changed"})
		},
		func() error { _, err := s.AddSCIMMembers(1, 900, users); return err },
		func() error { _, err := s.RemoveSCIMMembers(1, 900, users); return err },
		func() error { _, err := s.SCIMMembers(1, 3, 100, 100); return err },
		func() error { _, err := s.SCIMMemberIDs(1, 3); return err },
		func() error { _, err := s.SCIMGroupsOf(1, 7, 10); return err },
		func() error { _, err := s.SCIMMembersNamed(1, []string{"Group 3", "Group 9"}, users); return err },
		func() error { _, err := s.SetMemberRoles(1, 77, users); return err },
		func() error { _, err := s.DeleteSCIMUser(1, 9); return err },
		func() error { _, err := s.DeleteSCIMGroup(1, 9); return err },
		func() error { return tx.Users().DeleteUser(11) },
		func() error { return tx.Organizations().DeleteOrganization(150) },
	} {
		if err := run(); err != nil {
			return err
		}
	}
	for _, filter := range []people.SCIMFilter{
		{}, {Waiting: true, After: 7}, {ID: 5}, {Name: "name-6"}, {ExternalID: "external-7"}, {Email: "8@example.com"}, {Member: 7}, {Member: 7, ExternalID: "external-8"},
	} {
		if _, err := s.FindSCIMUsers(1, filter, 0, 100); err != nil {
			return err
		}
		if _, err := s.FindSCIMGroups(1, filter, 0, 100); err != nil {
			return err
		}
	}
	for {
		n, err := d.ClearDirectory(2, 500)
		if err != nil || n == 0 {
			return err
		}
	}
}

// TestDirectoriesUseIndexes: a directory has up to a million users, and each request of an identity provider changes
// one of them.
func TestDirectoriesUseIndexes(t *testing.T) {
	t.Parallel()
	for engine, newURL := range tabled {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			type statement struct {
				text string
				args []any
			}
			var traced []statement
			on := false
			s := openAt(t, newURL(t), Options{Trace: func(query string, args []any) {
				if on && strings.Contains(query, " ") {
					traced = append(traced, statement{query, args})
				}
			}})
			if s.db.Dialect.Numbered {
				for _, fill := range fillDirectories {
					if _, err := s.db.Writers.Exec(fill); err != nil {
						t.Fatalf("%v: %s", err, fill)
					}
				}
			}
			undo := fmt.Errorf("undo")
			on = true
			err := s.Change(t.Context(), "apps/d0", func(tx people.Tx) error {
				if err := directoryStatements(tx, time.Now()); err != nil {
					t.Error(err)
				}
				return undo // the plans are to be those for the filled tables
			})
			if err != undo {
				t.Fatal(err)
			}
			if _, err := s.ListDirectories(t.Context(), people.DirectoryRef{Deployment: "apps/d0", ID: 3}, 10); err != nil {
				t.Fatal(err)
			}
			on = false
			seen := map[string]bool{}
			for _, one := range traced {
				if seen[one.text] {
					continue
				}
				seen[one.text] = true
				expectIndexes(t, s, one.text, one.args)
				// A small batch of the large directory: PostgreSQL reads the table whole for batches that are a larger part of it.
				if strings.HasPrefix(one.text, "DELETE") && strings.Contains(one.text, "LIMIT") {
					expectIndexes(t, s, one.text, []any{int64(1), int64(1), 20, "apps/d0"})
				}
			}
			if len(seen) < 60 {
				t.Errorf("%d statements: this test no longer checks all of them", len(seen))
			}
		})
	}
}

// filteredByKey matches a step of a PostgreSQL plan that reads all users or members of a directory to find one by its
// id. Comparing each with a whole list (= ANY) reads them once.
var filteredByKey = regexp.MustCompile(`Filter: .*\b(id|member_id) = [^A]`)

// TestDirectoriesUseKeysWithoutStatistics: PostgreSQL has no statistics of a table directly after its rows were
// inserted or restored. A request with thousands of members looks each up by its id anyway.
func TestDirectoriesUseKeysWithoutStatistics(t *testing.T) {
	t.Parallel()
	type statement struct {
		text string
		args []any
	}
	var traced []statement
	s := openAt(t, tabled["postgres"](t), Options{Trace: func(query string, args []any) {
		if strings.Contains(query, " scim_") {
			traced = append(traced, statement{query, args})
		}
	}})
	for _, fill := range []string{
		`ALTER TABLE scim_users SET (autovacuum_enabled = off)`,
		`ALTER TABLE scim_members SET (autovacuum_enabled = off)`,
		`INSERT INTO scim_users SELECT 'apps/d0', 1, n, 0, 'name-' || n, '', '', 1, 1, '{}', 0, 0 FROM generate_series(1, 20000) n`,
		`INSERT INTO scim_members SELECT 'apps/d0', 1, 1 + n % 50, n FROM generate_series(1, 20000) n`,
	} {
		if _, err := s.db.Writers.Exec(fill); err != nil {
			t.Fatalf("%v: %s", err, fill)
		}
	}
	users := []int64{3, 7, 20_000}
	err := s.Change(t.Context(), "apps/d0", func(tx people.Tx) error {
		for _, run := range []func() error{
			func() error { _, _, err := tx.SCIM().SCIMUser(1, 3); return err },
			func() error { _, err := tx.SCIM().TieSCIMUser(1, 3, 3); return err },
			func() error { _, err := tx.SCIM().SCIMAccounts(1, users); return err },
			func() error { _, err := tx.SCIM().AddSCIMMembers(1, 900, users); return err },
			func() error { _, err := tx.SCIM().RemoveSCIMMembers(1, 900, users); return err },
			func() error { _, err := tx.SCIM().SCIMMembers(1, 3, 100, 100); return err },
			func() error { _, err := tx.SCIM().SCIMGroupsOf(1, 7, 10); return err },
		} {
			if err := run(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(traced) != 10 {
		t.Errorf("%d statements, not 10: this test no longer checks all of them", len(traced))
	}
	for _, one := range traced {
		if plan := planOf(t, s, one.text, one.args); filteredByKey.MatchString(plan) {
			t.Errorf("%v: %s\n%s", one.args, one.text, plan)
		}
	}
}

func expectIndexes(t *testing.T, s *Store, text string, args []any) {
	t.Helper()
	if plan := planOf(t, s, text, args); wholeDirectoryTable.MatchString(plan) {
		t.Errorf("%v: %s\n%s", args, text, plan)
	}
}

// planOf returns the plan of a statement, as a text of one line per step.
func planOf(t *testing.T, s *Store, text string, args []any) string {
	t.Helper()
	explain := "EXPLAIN QUERY PLAN "
	if s.db.Dialect.Numbered {
		explain = "EXPLAIN (COSTS OFF) "
	}
	rows, err := s.db.Writers.Query(explain+text, args...)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	defer rows.Close() //nolint:errcheck // read to the end
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		row := make([]any, len(columns))
		for i := range row {
			row[i] = new(any)
		}
		if err := rows.Scan(row...); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&plan, *row[len(row)-1].(*any))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return plan.String()
}
