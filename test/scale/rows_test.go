package scale

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

const (
	rowsDeployment = "customer-1234/production"
	// rowsPerTransaction is how many rows of a kind one transaction inserts.
	rowsPerTransaction = 500
	rowsAgent          = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// filling inserts the rows of one thing, such as a session, through the store.
type filling struct {
	name string
	// bytes is the constant of the model for PostgreSQL.
	bytes  int
	insert func(tx people.Tx, f *filler, i int) error
}

// filler makes ids and hashes as servers do: ids ascend with time, hashes do not.
type filler struct {
	now  time.Time
	base time.Time
}

// id returns the id of row i of a kind. Rows are a second apart, so that ids ascend.
func (f *filler) id(kind, i int) int64 {
	id, err := ids.New(f.base.Add(time.Duration(kind)*400*24*time.Hour/100+time.Duration(i)*time.Second), rand.Reader)
	if err != nil {
		panic(err)
	}
	return id&^0x1fffff | int64(i)&0x1fffff // the same for the same row
}

func (f *filler) user(i int) int64 { return f.id(0, i) }

func hash(kind string, i int) []byte {
	sum := sha256.Sum256([]byte(kind + strconv.Itoa(i)))
	return sum[:]
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

var fillings = []filling{
	{"user with an email address and a password", bytesUser, func(tx people.Tx, f *filler, i int) error {
		id := f.user(i)
		secret := "$argon2id$v=19$m=19456,t=2,p=1$" + base64.RawStdEncoding.EncodeToString(hash("salt", i)[:16]) + "$" + base64.RawStdEncoding.EncodeToString(hash("password", i))
		email := people.Email{ID: f.id(1, i), User: id, Address: fmt.Sprintf("firstname.lastname%d@example.com", i), Primary: true, CreatedAt: f.now, VerifiedAt: f.now}
		return firstOf(tx.Users().InsertUser(people.User{ID: id, FirstName: "Firstname", LastName: "Lastname", CreatedAt: f.now, UpdatedAt: f.now}, email),
			tx.Users().PutCredential(id, people.CredentialPassword, secret, f.now))
	}},
	{"passkey", bytesPasskey, func(tx people.Tx, f *filler, i int) error {
		key := append(append(hash("key", i), hash("key2", i)...), make([]byte, 13)...) // a P-256 key in COSE form has 77 bytes
		return tx.Factors().InsertPasskey(people.Passkey{ID: f.id(2, i), User: f.user(i), RelyingParty: "login.customer.example", Credential: hash("credential", i), Handle: hash("handle", i),
			PublicKey: key, BackupEligible: 1, BackedUp: true, Verified: true, AAGUID: make([]byte, 16), Name: "Laptop", CreatedAt: f.now})
	}},
	{"membership of an organization, and a tenth of the organization", bytesMember, func(tx people.Tx, f *filler, i int) error {
		organization, workspace := f.id(3, i/10), f.id(4, i/10)
		if i%10 == 0 {
			slug := fmt.Sprintf("organization-%d", i/10)
			err := firstOf(tx.Organizations().InsertOrganization(people.Organization{ID: organization, Name: "Organization " + slug, Slug: slug, Workspace: workspace, CreatedAt: f.now}),
				tx.Organizations().InsertWorkspace(people.Workspace{ID: workspace, Organization: organization, Name: "Default", Slug: "default", CreatedAt: f.now}))
			if err != nil {
				return err
			}
		}
		return firstOf(tx.Organizations().InsertMember(people.Member{ID: f.id(5, i), Organization: people.Organization{ID: organization}, User: f.user(i), Owner: i%10 == 0, Workspace: workspace, CreatedAt: f.now}),
			tx.Organizations().InsertWorkspaceMember(people.WorkspaceMember{ID: f.id(6, i), Workspace: people.Workspace{ID: workspace, Organization: organization}, User: f.user(i), CreatedAt: f.now}))
	}},
	{"session with its sign-in, its token and its known client", bytesSession, func(tx people.Tx, f *filler, i int) error {
		session, signIn := f.id(7, i), f.id(8, i)
		address := fmt.Sprintf("198.51.%d.%d", i/250%250, i%250)
		return firstOf(tx.Sessions().InsertSession(people.Session{ID: session, ActiveSignIn: signIn, Address: address, UserAgent: rowsAgent, CreatedAt: f.now, UsedAt: f.now, ExpiresAt: f.now.Add(7 * 24 * time.Hour)}),
			tx.Sessions().InsertToken(people.Token{Hash: hash("token", i), Session: session, CreatedAt: f.now, UsedAt: f.now}),
			tx.Sessions().InsertSignIn(people.SignIn{ID: signIn, Session: session, User: f.user(i), Method: people.MethodPassword, Organization: f.id(3, i/10), Workspace: f.id(4, i/10), CreatedAt: f.now, ProvedAt: f.now}),
			tx.Limits().RememberClient(f.user(i), address, f.now))
	}},
	{"grant of an OAuth client, with a token family and two refresh tokens", bytesGrant, func(tx people.Tx, f *filler, i int) error {
		grant, family := f.id(9, i), f.id(10, i)
		scopes, expires := []string{"openid", "email", "orders:read"}, f.now.Add(30*24*time.Hour)
		_, err := tx.OAuth().PutGrant(people.Grant{ID: grant, App: 77, Client: "1844674407370955161", User: f.user(i), Scopes: scopes, CreatedAt: f.now, UpdatedAt: f.now}, 100)
		return firstOf(err,
			tx.OAuth().InsertTokenFamily(people.TokenFamily{ID: family, Grant: grant, App: 77, Client: "1844674407370955161", User: f.user(i), Session: f.id(7, i), SignIn: f.id(8, i), Scopes: scopes,
				Method: people.MethodPassword, AuthenticatedAt: f.now, CreatedAt: f.now, UsedAt: f.now, ExpiresAt: expires}, 100),
			tx.OAuth().InsertRefreshToken(people.RefreshToken{Hash: hash("refresh", 2*i), Family: family, Network: "198.51.100.0/24", CreatedAt: f.now, UsedAt: f.now, DiesAt: f.now, ExpiresAt: expires}),
			tx.OAuth().InsertRefreshToken(people.RefreshToken{Hash: hash("refresh", 2*i+1), Family: family, Parent: hash("refresh", 2*i), CreatedAt: f.now, ExpiresAt: expires}))
	}},
	{"runtime API key of a user", bytesKey, func(tx people.Tx, f *filler, i int) error {
		return tx.APIKeys().InsertAPIKey(people.APIKey{ID: f.id(11, i), PublicID: base64.RawURLEncoding.EncodeToString(hash("public", i)[:9]), Digest: [32]byte(hash("digest", i)), Prefix: "ck", Suffix: "abcd",
			App: "backend", Name: "Production key", Permissions: []string{"orders:read", "orders:write"}, Owner: f.user(i), CreatedAt: f.now, UpdatedAt: f.now})
	}},
	{"audit record", bytesAudit, func(tx people.Tx, f *filler, i int) error {
		return tx.Records().RecordAudit(people.Audit{ID: f.id(12, i), At: f.now.Add(time.Duration(i) * time.Millisecond), Actor: "user:" + ids.Format(f.user(i)), Action: "user.signed_in",
			Object: "user:" + ids.Format(f.user(i)), Session: f.id(7, i), Address: "198.51.100.7"})
	}},
	{"record of a tool's call", bytesToolCall, func(tx people.Tx, f *filler, i int) error {
		return tx.Records().InsertToolCall(people.ToolCall{ID: f.id(13, i), At: f.now, Agent: 1 << 60, Tool: 1<<60 + 1, AgentName: "support", ToolName: "find-order",
			Caller: people.ToolCaller{Kind: "session", ID: ids.Format(f.id(7, i)), User: f.user(i), Address: "198.51.100.7"}, Revision: "2025-06-18", Decision: "allowed",
			CallResult: people.CallResult{Outcome: people.CallSucceeded, Status: 200, Latency: 40 * time.Millisecond, Upstream: 38 * time.Millisecond, BytesIn: 300, BytesOut: 40},
			Digest:     base64.RawURLEncoding.EncodeToString(hash("arguments", i))})
	}},
	{"sign-in that is counted, rolled up, within the retention of addresses", bytesRecentSignIn, func(tx people.Tx, f *filler, i int) error {
		return tx.Records().RecordEvent(people.Event{ID: f.id(14, i), Kind: people.EventSignIn, At: f.now.Add(time.Duration(i) * time.Millisecond), User: f.user(i), Method: people.MethodPassword,
			Address: "198.51.100.7", UserAgent: rowsAgent})
	}},
}

// TestRows fills a PostgreSQL, and compares the bytes of a row, with its indexes, with the constants of the model. Few
// rows are compared roughly: CARDEA_SCALE_ROWS=20000 is the number that the constants come from.
func TestRows(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a store")
	}
	count := 1000
	if n, err := strconv.Atoi(os.Getenv("CARDEA_SCALE_ROWS")); err == nil {
		count = n
	}
	url := pgtest.ForTest(t)
	st, err := sqlstore.Open(t.Context(), url, sqlstore.Options{})
	check(t, err)
	defer st.Close() //nolint:errcheck // the database goes with it
	check(t, st.Migrate(t.Context()))
	day := time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour)
	f := &filler{now: day, base: day.Add(-400 * 24 * time.Hour)}
	for _, of := range fillings {
		t.Run(of.name, func(t *testing.T) {
			before := sizeOf(t, url)
			fill(t, st, of, f, count)
			got := (sizeOf(t, url) - before) / count
			fmt.Printf("| %s | %d bytes |\n", of.name, got)
			if got < of.bytes*6/10 || got > of.bytes*16/10 {
				t.Errorf("%d bytes, the model has %d", got, of.bytes)
			}
		})
	}
}

// fill inserts rows of a thing, and rolls events up.
func fill(t *testing.T, st *sqlstore.Store, of filling, f *filler, count int) {
	t.Helper()
	for i := 0; i < count; i += rowsPerTransaction {
		check(t, st.Change(t.Context(), rowsDeployment, func(tx people.Tx) error {
			for n := i; n < min(i+rowsPerTransaction, count); n++ {
				if err := of.insert(tx, f, n); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	rollUp(t.Context(), t, st)
}

// rollUp rolls up all waiting events.
func rollUp(ctx context.Context, t *testing.T, st *sqlstore.Store) {
	t.Helper()
	waiting, err := st.Waiting(ctx)
	check(t, err)
	for _, w := range waiting {
		for rolledUp := int64(1); rolledUp > 0; {
			rolledUp, err = st.RollUpDay(ctx, w, w.Day.Add(-30*24*time.Hour), 50_000)
			check(t, err)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sizeOf returns the size of a database without the space that deleted rows left.
func sizeOf(t *testing.T, url string) (size int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	check(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // only this function used it
	_, err = conn.Exec(t.Context(), "VACUUM ANALYZE")
	check(t, err)
	check(t, conn.QueryRow(t.Context(), "SELECT pg_database_size(current_database())").Scan(&size))
	return size
}
