package sqlstore

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// wholeTable matches an SQLite plan that reads a whole table or index, or evaluates a list once per row.
var wholeTable = regexp.MustCompile(`SCAN (ended_connections|outbox|challenges|totp_authenticators|tool_calls|tool_approvals|connections|identities|sso_attempts|signins|attempts|upstream_documents|connection_failures|domains|setup_links|oauth_\w+|[gfectokpu])\b|CORRELATED LIST`)

// callIndex matches an index of the records of calls, or one of approvals, in a plan.
var callIndex = regexp.MustCompile(`tool_calls_(agent|tool|user|outcome)\b|tool_approvals_(waiting|agent|user|status|organization)\b`)

// connectionIndex matches the use of an index of connections, or of what belongs to them, in a plan.
var connectionIndex = regexp.MustCompile(`\b(identities|sso_attempts|connections|signins|domains|setup_links)_(subject|user|connection|state|slug|organization|identity|upstream|effective|name|hash|session|maker) \([^)]*\)`)

// connectionIndexes are the uses of indexes that some statement must have.
var connectionIndexes = []string{
	"sso_attempts_state (deployment=? AND state=?)", "identities_subject (deployment=? AND connection_id=? AND issuer=? AND subject=?)",
	"connections_slug (deployment=? AND slug=?)", "connections_organization (deployment=? AND organization_id=? AND id<?)",
	"domains_effective (deployment=? AND name=?)", "signins_connection (deployment=? AND connection_id=?)",
	"domains_name (deployment=? AND name=?)", "domains_organization (deployment=? AND organization_id=?)",
	"identities_user (deployment=? AND user_id=?)", "identities_connection (deployment=? AND connection_id=? AND id>?)", "sso_attempts_user (deployment=? AND user_id=?)",
	"setup_links_hash (deployment=? AND hash=?)", "setup_links_session (deployment=? AND session_id=?)", "setup_links_organization (deployment=? AND organization_id=?)",
	"setup_links_maker (deployment=? AND created_by=?)",
	"signins_identity (deployment=? AND identity_id=?)", "signins_upstream (deployment=? AND connection_id=? AND upstream_sid=?)",
}

// connectionStatements runs the statements of sign-ins by connections, of their ends, and of domains.
func connectionStatements(tx people.Tx, now time.Time) error {
	for _, run := range []func() error{
		func() error { _, _, err := tx.Connections().SSOAttemptByState([]byte{1}); return err },
		func() error { _, _, err := tx.Connections().LockConnectionShared(1); return err },
		func() error { _, _, err := tx.Identities().IdentityOf(1, "https://idp.example", "subject"); return err },
		func() error { _, err := tx.Connections().CompleteSSOAttempt(1, "", now); return err },
		func() error { _, err := tx.Connections().CountSSOTry(1, 3, now); return err },
		func() error { _, err := tx.Connections().ReturnSSOTry(1, now); return err },
		func() error { return tx.Identities().UseIdentity(1, "", now) },
		func() error { _, _, err := tx.Connections().ConnectionBySlug("globex"); return err },
		func() error {
			_, err := tx.Connections().ListConnections(people.ConnectionFilter{Organization: 1, Before: 9}, 5)
			return err
		},
		func() error { _, err := tx.Connections().CountConnections(1); return err },
		func() error { _, _, err := tx.Domains().EffectiveDomain("globex.example"); return err },
		func() error { _, err := tx.Domains().AddressesIn(1, 7); return err },
		func() error { _, _, _, err := tx.Domains().UserIn(1, 7); return err },
		func() error { _, err := tx.Domains().DomainsNamed("globex.example"); return err },
		func() error { _, err := tx.Domains().DomainsOf(1); return err },
		func() error { _, _, err := tx.SetupLinks().SetupLinkByHash([]byte{1}); return err },
		func() error { _, _, err := tx.SetupLinks().SetupLinkOfSession(1); return err },
		func() error { _, err := tx.SetupLinks().SetupLinksOf(1, now, 20); return err },
		func() error { _, err := tx.SetupLinks().ProveSetupLink(1, 1, now); return err },
		func() error { return tx.Users().DeleteUser(1) },
		func() error { _, err := tx.Domains().ClaimLookup(1, now, now); return err },
		func() error { _, err := tx.Identities().IdentitiesOf(7); return err },
		func() error {
			_, err := tx.Bulk().SubjectsTaken(1, "https://idp.example", []string{"subject"})
			return err
		},
		func() error { _, err := tx.Bulk().IdentityCounts([]int64{7}); return err },
		func() error { _, err := tx.Identities().ListIdentities(1, 5, 10); return err },
		func() error { _, err := tx.Identities().CountIdentities(1); return err },
		func() error { _, err := tx.Identities().DeleteIdentitiesOf(1, 10); return err },
		func() error {
			_, err := tx.Connections().LeaseUpstreamDocument(1, people.UpstreamJWKS, "lease", now, now, now)
			return err
		},
		func() error { _, _, err := tx.Connections().UpstreamDocument(1, people.UpstreamJWKS); return err },
		func() error {
			return tx.Connections().RecordConnectionFailure(people.ConnectionFailure{ID: 1, Connection: 1, At: now})
		},
		func() error { _, err := tx.Connections().ConnectionFailures(1, 10); return err },
		func() error { return tx.Sessions().EndSession(1) },
		func() error {
			_, err := tx.Sessions().EndSignInsBy(people.UpstreamFilter{Connection: 1}, 10)
			return err
		},
		func() error {
			_, err := tx.Sessions().EndSignInsBy(people.UpstreamFilter{Connection: 1, Identity: 1}, 10)
			return err
		},
		func() error {
			_, err := tx.Sessions().EndSignInsBy(people.UpstreamFilter{Connection: 1, SessionID: "sid"}, 10)
			return err
		},
		func() error {
			_, err := tx.Sessions().EndSignInsBy(people.UpstreamFilter{Connection: 1, SessionID: "sid", Issuer: "https://idp.example"}, 10)
			return err
		},
		func() error { return tx.Connections().InsertConnection(people.Connection{ID: 1, Organization: 1}) },
		func() error { _, err := tx.Connections().DeleteConnection(1); return err },
	} {
		if err := run(); err != nil {
			return err
		}
	}
	return nil
}

// TestDeletionsUseIndexes: a deletion that reads a whole large table blocks every other writer. The list of users by
// their factors looks the factors up by their index, and a list of sealed secrets continues within the key. Lists and
// sums of calls read the records of one agent, tool, user or outcome only. Lists of approvals do the same, and the
// count of waiting approvals reads those that have not ended. Sign-ins by connections, their ends and domains are found
// by their indexes.
func TestDeletionsUseIndexes(t *testing.T) {
	t.Parallel()
	type statement struct {
		text string
		args []any
	}
	var traced []statement
	on := false
	s := openAt(t, migratedSQLite(t), Options{Trace: func(query string, args []any) {
		if on && query != "BEGIN" && query != "COMMIT" {
			traced = append(traced, statement{query, args})
		}
	}})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	client := people.OAuthClient{App: 1, Client: "c", Content: "{}", CreatedAt: now, UsedAt: now}
	on = true
	err := s.Change(t.Context(), "acme/home", func(tx people.Tx) error {
		if err := tx.OAuthClients().InsertOAuthClient(client); err != nil {
			return err
		}
		for n := range int64(3) {
			if _, err := tx.OAuth().PutGrant(people.Grant{ID: n + 1, App: 1, Client: "c", User: 7, Organization: n, CreatedAt: now, UpdatedAt: now}, 2); err != nil {
				return err
			}
		}
		if _, _, err := tx.OAuthClients().UngrantedOAuthClient(1); err != nil {
			return err
		}
		if _, _, err := tx.OAuthClients().UsedOAuthClients(1, ""); err != nil {
			return err
		}
		if _, _, err := tx.OAuthClients().UsedOAuthClients(1, "n"); err != nil {
			return err
		}
		if _, err := tx.OAuthClients().LargestClientNetwork(1, true); err != nil {
			return err
		}
		if _, err := tx.OAuthClients().DeleteOAuthClient(1, "c", now); err != nil {
			return err
		}
		if _, err := tx.OAuth().GrantsOf(7); err != nil {
			return err
		}
		for _, level := range []assurance.Level{assurance.None, assurance.TwoFactors, assurance.PhishingResistant} {
			factors := people.FactorFilter{Level: level, Authenticators: true, Texts: true, RelyingParty: "acme.example", Passwords: true}
			if _, _, err := tx.Users().ListUsers(people.UserFilter{Factors: &factors}, 10, 0); err != nil {
				return err
			}
		}
		for _, filter := range []people.ToolCallFilter{{}, {Agent: 1}, {Tool: 2}, {User: 7}, {Outcome: people.CallFailed}, {Since: now, OldestFirst: true}} {
			if _, err := tx.Records().ListToolCalls(filter, 10); err != nil {
				return err
			}
		}
		if _, err := tx.Records().SummarizeToolCalls(1, people.Period{From: now, To: now.Add(time.Hour)}); err != nil {
			return err
		}
		if _, err := tx.Records().SettleToolCalls([]people.ToolCall{{ID: 1}, {ID: 2}}); err != nil {
			return err
		}
		if _, err := tx.Approvals().PendingApprovals(1, 7, "", now); err != nil {
			return err
		}
		for _, filter := range []people.ApprovalFilter{{}, {Agent: 1}, {User: 7}, {Status: people.ApprovalPending}, {Organization: 3}} {
			if _, err := tx.Approvals().ListApprovals(filter, 10); err != nil {
				return err
			}
		}
		if err := connectionStatements(tx, now); err != nil {
			return err
		}
		return tx.Users().DeleteUser(7)
	})
	if err == nil {
		_, err = s.Purge(t.Context(), now, people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 10)
	}
	if err == nil {
		_, err = s.SealedSecrets(t.Context(), people.SealedSecret{Deployment: "acme/home", ID: 1}, 10)
	}
	if err == nil {
		_, _, err = s.NextUpstreamConnection(t.Context(), people.UpstreamConnection{Deployment: "acme/home", ID: 1})
	}
	if err == nil {
		_, err = s.PendingNotices(t.Context(), people.PendingNotice{Deployment: "acme/home", Organization: 1}, 10)
	}
	if on = false; err != nil {
		t.Fatal(err)
	}
	seen := false
	calls, used := map[string]bool{}, map[string]bool{}
	for _, one := range traced {
		rows, err := s.db.Writers.Query("EXPLAIN QUERY PLAN "+one.text, one.args...)
		if err != nil {
			t.Fatalf("%v: %s", err, one.text)
		}
		var plan strings.Builder
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&plan, detail)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		if wholeTable.MatchString(plan.String()) {
			t.Errorf("%s\n%s", one.text, &plan)
		}
		if strings.HasPrefix(one.text, "UPDATE tool_calls AS t") && !strings.Contains(plan.String(), "(deployment=? AND id=?)") {
			t.Errorf("a call is not settled by its id: %s\n%s", one.text, &plan)
		}
		seen = seen || strings.Contains(one.text, "DELETE FROM outbox")
		for _, index := range callIndex.FindAllString(plan.String(), -1) {
			calls[index] = true
		}
		for _, index := range connectionIndex.FindAllString(plan.String(), -1) {
			used[index] = true
		}
	}
	if len(calls) != 4+5 {
		t.Errorf("the lists of calls and of approvals use %v, want an index for each of what selects them", calls)
	}
	for _, index := range connectionIndexes {
		if !used[index] {
			t.Errorf("no statement uses the index %s: used are %v", index, slices.Sorted(maps.Keys(used)))
		}
	}
	if !seen {
		t.Error("no traced statement deletes from outbox: this test no longer checks the deletion of a user's messages")
	}
}
