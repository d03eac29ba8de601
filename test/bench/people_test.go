package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/argon2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

const (
	benchHost       = "localhost"
	benchDeployment = "bench/" + deployment
	benchPassword   = "correct horse battery staple"
	people8         = 8 // concurrent users
	peopleRounds    = 5
	peopleLength    = 2 * time.Second
)

// statement is one statement as the driver receives it.
type statement struct {
	query string
	args  []any
}

// recording keeps the statements of one goroutine's requests while it is on. It leaves out those of the server's
// background work, which numbers the events of requests meanwhile.
type recording struct {
	on         atomic.Bool
	mu         sync.Mutex
	statements []statement
}

func (r *recording) trace(query string, args []any) {
	if !r.on.Load() || inBackground() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = append(r.statements, statement{query, append([]any{}, args...)})
}

// inBackground reports whether the caller is work that the server does beside requests.
func inBackground() bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "/apiserver.(*Server).Follow.") {
			return true
		}
		if !more {
			return false
		}
	}
}

// of returns the statements that do executes.
func (r *recording) of(do func()) []statement {
	r.statements = nil
	r.on.Store(true)
	do()
	r.on.Store(false)
	return r.statements
}

// person is a signed-in user with two organizations.
type person struct {
	cookie        string
	organizations [2]string
	switched      int
}

// peopleWorld is the end-user API in this process, without sockets: Cardea's work is compared with the store's.
type peopleWorld struct {
	store   *sqlstore.Store
	filler  *filler
	keyring *seal.Keyring
	handler http.Handler
	// backend is the backend API.
	backend http.Handler
	// position is that of the configuration that the handler uses.
	position  func() store.Position
	recording *recording
	read      *sql.DB
	write     *sql.DB
	numbered  bool
	prepared  sync.Map
	persons   []*person
}

// TestBenchPeople compares requests that check a session with the same statements run bare on the same engine, by the
// same driver. The requests are GET /session, which reads, and switch-organization, which writes.
func TestBenchPeople(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		w := newPeopleWorld(t, engine)
		w.compare(t, engine, "GET /session", func(t *testing.T, p *person) { w.getSession(t, p) })
		w.compare(t, engine, "switch-organization", func(t *testing.T, p *person) { w.switchOrganization(t, p) })
		besideBusyLoops(t, func() {
			w.compare(t, engine+", with two busy loops", "GET /session", func(t *testing.T, p *person) { w.getSession(t, p) })
		})
	}
}

func newPeopleWorld(t *testing.T, engine string) *peopleWorld {
	t.Helper()
	w := newEmptyWorld(t, engine)
	hash, err := password.NewHasher(password.DefaultCost).Hash(t.Context(), password.Client{}, benchPassword)
	check(t, err)
	for i := range people8 {
		w.persons = append(w.persons, w.person(t, w.store, i, hash))
	}
	if engine == "PostgreSQL" {
		w.populate(t, w.store)
	}
	return w
}

// newEmptyWorld returns a peopleWorld without users.
func newEmptyWorld(t *testing.T, engine string) *peopleWorld {
	t.Helper()
	w := &peopleWorld{recording: &recording{}}
	url := pgtest.ForTest(t)
	if engine == "SQLite" {
		url = "sqlite://" + filepath.Join(t.TempDir(), "cardea.db")
	}
	st, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Clock: time.Now, Trace: w.recording.trace})
	check(t, err)
	t.Cleanup(func() { report(t, st.Close()) })
	check(t, st.Migrate(t.Context()))
	f := &filler{store: st, created: time.Unix(1_700_000_000, 0)}
	w.store, w.filler = st, f
	f.term, err = st.Acquire(t.Context(), "bench", time.Second)
	check(t, err)
	check(t, f.put(t.Context(), v1alpha1.KindIdentityDeployment, deployment, deployment, 1, document.Deployment{Mode: "Staging", FrontendHosts: []string{benchHost}}))
	check(t, f.put(t.Context(), v1alpha1.KindB2BSettings, "b2b", "b2b", 2, document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5}))
	w.serve(t, st)
	w.openBare(t, url)
	return w
}

// others is how many further users the deployment has.
const others = 2000

// populate adds users with a session and an organization each, and then the statistics of the tables, which PostgreSQL
// otherwise computes some time later. Without rows and statistics, its plans vary from run to run.
func (w *peopleWorld) populate(t *testing.T, st *sqlstore.Store) {
	t.Helper()
	now := time.Now()
	add := func(tx people.Tx, id int64) error {
		hash, address := sha256.Sum256(strconv.AppendInt(nil, id, 10)), fmt.Sprintf("other%d@example.com", id)
		organization, workspace := people.Organization{ID: id, Name: address, Slug: address, Workspace: id, CreatedAt: now}, people.Workspace{ID: id, Organization: id, CreatedAt: now}
		for _, err := range []error{
			tx.Users().InsertUser(people.User{ID: id, CreatedAt: now}, people.Email{ID: id, Address: address, Primary: true, CreatedAt: now}),
			tx.Organizations().InsertOrganization(organization),
			tx.Organizations().InsertWorkspace(workspace),
			tx.Organizations().InsertMember(people.Member{ID: id, Organization: organization, User: id, Owner: true, Workspace: id, CreatedAt: now}),
			tx.Organizations().InsertWorkspaceMember(people.WorkspaceMember{ID: id, Workspace: workspace, User: id, Owner: true, CreatedAt: now}),
			tx.Sessions().InsertSession(people.Session{ID: id, ActiveSignIn: id, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(time.Hour)}),
			tx.Sessions().InsertToken(people.Token{Hash: hash[:], Session: id, CreatedAt: now}),
			tx.Sessions().InsertSignIn(people.SignIn{ID: id, Session: id, User: id, Method: people.MethodPassword, Organization: id, Workspace: id, CreatedAt: now, ProvedAt: now}),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	}
	check(t, st.Change(t.Context(), benchDeployment, func(tx people.Tx) error {
		for i := range int64(others) {
			if err := add(tx, 100_000+i); err != nil {
				return err
			}
		}
		return nil
	}))
	_, err := w.write.ExecContext(t.Context(), "ANALYZE")
	check(t, err)
}

// serve makes the handler.
func (w *peopleWorld) serve(t *testing.T, st *sqlstore.Store) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "root.key")
	check(t, os.WriteFile(file, bytes.Repeat([]byte{7}, 32), 0o600))
	var err error
	w.keyring, err = seal.Load([]string{file})
	check(t, err)
	server, err := apiserver.New(apiserver.Options{
		Feed: st, People: st, Keyring: w.keyring, Clock: time.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		EgressAllowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, // the tools of agents
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = server.Follow(ctx) })
	t.Cleanup(func() { cancel(); following.Wait() })
	await(t, time.Minute, 10*time.Millisecond, server.Ready)
	w.handler, w.backend, w.position = server.Frontend(), server.Backend(), server.Position
}

// openBare opens the database independently of Cardea, with the same driver and settings.
func (w *peopleWorld) openBare(t *testing.T, url string) {
	t.Helper()
	if path, isSQLite := strings.CutPrefix(url, "sqlite://"); isSQLite {
		open := func(parameters string, conns int) *sql.DB {
			db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"+parameters)
			check(t, err)
			db.SetMaxOpenConns(conns)
			db.SetMaxIdleConns(conns)
			t.Cleanup(func() { report(t, db.Close()) })
			return db
		}
		w.read, w.write = open("&_pragma=query_only(1)", 4), open("&_txlock=immediate", 1)
		return
	}
	config, err := pgx.ParseConfig(url)
	check(t, err)
	w.read = stdlib.OpenDB(*config)
	w.read.SetMaxOpenConns(20)
	w.read.SetMaxIdleConns(20)
	w.write, w.numbered = w.read, true
	t.Cleanup(func() { report(t, w.read.Close()) })
}

// person inserts an account into the store and signs in over HTTP.
func (w *peopleWorld) person(t *testing.T, st *sqlstore.Store, i int, hash string) *person {
	t.Helper()
	email, id := fmt.Sprintf("user%d@example.com", i), int64(1000+i)
	check(t, st.Change(t.Context(), benchDeployment, func(tx people.Tx) error {
		if err := tx.Users().InsertUser(people.User{ID: id, CreatedAt: time.Now()}, people.Email{ID: id, Address: email, Primary: true, CreatedAt: time.Now()}); err != nil {
			return err
		}
		return tx.Users().PutCredential(id, people.CredentialPassword, hash, time.Now())
	}))
	p := &person{}
	w.do(t, p, "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%q,"password":%q}`, email, benchPassword))
	for n := range p.organizations {
		data := w.do(t, p, "POST", "/organizations", fmt.Sprintf(`{"name":"Organization %d of %d"}`, n, i))
		p.organizations[n] = data["organization"].(map[string]any)["id"].(string)
	}
	return p
}

// do sends a request as a person and keeps the cookie of the response.
func (w *peopleWorld) do(t *testing.T, p *person, method, path, body string) map[string]any {
	recorder := w.ask(p, method, path, body)
	var answer struct{ Data map[string]any }
	if recorder.Code != http.StatusOK {
		t.Fatalf("%s %s: %s", method, path, recorder.Body)
	}
	check(t, json.Unmarshal(recorder.Body.Bytes(), &answer))
	return answer.Data
}

func (w *peopleWorld) ask(p *person, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+benchHost+path, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequest(method, "http://"+benchHost+path, http.NoBody)
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if p.cookie != "" {
		r.Header.Set("Cookie", "__session="+p.cookie)
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	for _, c := range recorder.Result().Cookies() {
		p.cookie = c.Value
	}
	return recorder
}

func (w *peopleWorld) getSession(t *testing.T, p *person) {
	if recorder := w.ask(p, "GET", "/session", ""); recorder.Code != http.StatusOK {
		t.Errorf("GET /session: %s", recorder.Body)
	}
}

func (w *peopleWorld) switchOrganization(t *testing.T, p *person) {
	p.switched++
	body := `{"organization_id":"` + p.organizations[p.switched%2] + `"}`
	if recorder := w.ask(p, "POST", "/session/switch-organization", body); recorder.Code != http.StatusOK {
		t.Errorf("switch-organization: %s", recorder.Body)
	}
}

// compare measures requests and their statements in alternating rounds, prints the medians, and returns the median of
// the ratio. The rows that a round needs are prepared outside the measured time.
func (w *peopleWorld) compare(t *testing.T, engine, what string, request func(*testing.T, *person), prepare ...func()) float64 {
	t.Helper()
	ready := func() {
		for _, do := range prepare {
			do()
		}
	}
	ready()
	for range 20 { // reach the steady state: session tokens trimmed, statements prepared
		for _, p := range w.persons {
			request(t, p)
		}
	}
	var scripts [][]statement
	for _, p := range w.persons {
		request(t, p)
		scripts = append(scripts, w.recording.of(func() { request(t, p) }))
	}
	var rates, bareRates, ratios []float64
	var took, bareTook []time.Duration
	for range peopleRounds {
		ready()
		rate, times := atOnce(func(i int) { request(t, w.persons[i]) })
		bareRate, bareTimes := atOnce(func(i int) { check(t, w.replay(scripts[i])) })
		rates, bareRates, ratios = append(rates, rate), append(bareRates, bareRate), append(ratios, rate/bareRate)
		took, bareTook = append(took, times...), append(bareTook, bareTimes...)
	}
	row(engine+", "+what+": ratio to its "+fmt.Sprint(len(scripts[0]))+" statements run bare", "0.6", "%.2f", median(ratios))
	row(engine+", "+what+": a second", "-", "%.0f (bare %.0f)", median(rates), median(bareRates))
	row(engine+", "+what+": p50 and p99", "-", "%s, %s (bare %s, %s)", ms(quantile(took, 0.5)), ms(quantile(took, 0.99)), ms(quantile(bareTook, 0.5)), ms(quantile(bareTook, 0.99)))
	return median(rates)
}

// atOnce runs work for every person concurrently for peopleLength. It returns the rate per second and the time of each
// call.
func atOnce(work func(i int)) (float64, []time.Duration) {
	var mu sync.Mutex
	var all []time.Duration
	var group sync.WaitGroup
	begin := time.Now()
	for i := range people8 {
		group.Go(func() {
			var took []time.Duration
			for time.Since(begin) < peopleLength {
				start := time.Now()
				work(i)
				took = append(took, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	group.Wait()
	return float64(len(all)) / time.Since(begin).Seconds(), all
}

// fresh numbers the keys of inserted rows, so that each is new.
var fresh atomic.Int64

// freshID returns an id that no row of the store has.
func freshID() int64 { return 1<<40 + fresh.Add(1) }

// replay runs recorded statements, each transaction whole; inserted rows get new keys.
func (w *peopleWorld) replay(script []statement) error {
	ctx := context.Background()
	var tx *sql.Tx
	defer func() {
		if tx != nil {
			_ = tx.Rollback() // a statement failed
		}
	}()
	if err := w.prepare(script); err != nil {
		return err
	}
	for _, s := range script {
		var err error
		switch {
		case s.query == "BEGIN":
			tx, err = w.write.BeginTx(ctx, nil)
		case s.query == "COMMIT":
			err, tx = tx.Commit(), nil
		case strings.HasPrefix(s.query, "SELECT"):
			err = drain(ctx, w.statement(tx, s.query), s.args)
		default:
			_, err = w.statement(tx, s.query).ExecContext(ctx, renewed(s)...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.query, err)
		}
	}
	return nil
}

// runner runs one statement.
type runner interface {
	ExecContext(ctx context.Context, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, args ...any) (*sql.Rows, error)
}

// unprepared is a statement whose driver keeps prepared statements itself.
type unprepared struct {
	on interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
	query string
}

func (u unprepared) ExecContext(ctx context.Context, args ...any) (sql.Result, error) {
	return u.on.ExecContext(ctx, u.query, args...)
}

func (u unprepared) QueryContext(ctx context.Context, args ...any) (*sql.Rows, error) {
	return u.on.QueryContext(ctx, u.query, args...)
}

// preparedKey identifies a prepared statement.
type preparedKey struct {
	pool  *sql.DB
	query string
}

// prepare prepares the statements of a script for SQLite, as connections of Cardea do. No transaction may be open here:
// the pool for writes has one connection.
func (w *peopleWorld) prepare(script []statement) error {
	pool := w.read
	for _, s := range script {
		key := preparedKey{pool, s.query}
		switch _, found := w.prepared.Load(key); {
		case w.numbered:
			return nil
		case s.query == "BEGIN":
			pool = w.write
		case s.query == "COMMIT":
			pool = w.read
		case !found:
			made, err := pool.Prepare(s.query)
			if err != nil {
				return err
			}
			w.prepared.Store(key, made)
		}
	}
	return nil
}

// statement returns a statement of a transaction, or of the pool for reads if there is none.
func (w *peopleWorld) statement(tx *sql.Tx, query string) runner {
	switch {
	case w.numbered && tx != nil:
		return unprepared{tx, query}
	case w.numbered:
		return unprepared{w.read, query}
	case tx != nil:
		made, _ := w.prepared.Load(preparedKey{w.write, query})
		return tx.Stmt(made.(*sql.Stmt))
	}
	made, _ := w.prepared.Load(preparedKey{w.read, query})
	return made.(*sql.Stmt)
}

func drain(ctx context.Context, of runner, args []any) error {
	rows, err := of.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(any)
	}
	for rows.Next() {
		if err := rows.Scan(values...); err != nil {
			return err
		}
	}
	return rows.Err()
}

// renewed returns the arguments of a statement; an INSERT gets a new key.
func renewed(s statement) []any {
	args := append([]any{}, s.args...)
	switch {
	case strings.HasPrefix(s.query, "INSERT INTO session_tokens"):
		_, hash, _ := session.Mint(strings.NewReader(fmt.Sprintf("%032d", fresh.Add(1))))
		args[0], args[1] = hash, int64(1) // session 1 does not exist: the measured sessions stay unchanged
	case strings.HasPrefix(s.query, "INSERT INTO oauth_refresh_tokens"):
		_, hash, _ := session.Mint(strings.NewReader(fmt.Sprintf("%032d", fresh.Add(1))))
		args[0], args[1] = hash, int64(1) // family 1 does not exist
	case strings.HasPrefix(s.query, "INSERT INTO audit"):
		args[1] = freshID()
	case strings.HasPrefix(s.query, "INSERT INTO events"):
		args[2] = freshID()
	case strings.HasPrefix(s.query, "INSERT INTO scim_users"):
		args[0], args[2], args[3] = freshID(), freshID(), fmt.Sprint(freshID())
	case strings.HasPrefix(s.query, "INSERT INTO users"), strings.HasPrefix(s.query, "INSERT INTO directory_accounts"):
		args[0] = freshID()
	case strings.HasPrefix(s.query, "INSERT INTO emails"):
		address := fmt.Sprintf("%d@replayed.example", freshID())
		args[0], args[1], args[2], args[3] = freshID(), freshID(), address, address
	case strings.HasPrefix(s.query, "INSERT INTO organization_memberships"):
		args[0], args[2] = freshID(), freshID()
	case strings.HasPrefix(s.query, "INSERT INTO workspace_memberships"):
		args[0], args[3] = freshID(), freshID()
	case strings.HasPrefix(s.query, "INSERT INTO signins"):
		args[0], args[1], args[2] = freshID(), freshID(), int64(1) // of no session and no user
	case strings.Contains(s.query, " INTO event_log_new "):
		renewEvents(args)
	}
	return args
}

// renewEvents gives inserted events new ids. They are the first values: of one row, of rows in JSON, or the first list.
func renewEvents(args []any) {
	if _, one := args[0].(int64); one {
		args[0] = freshID()
		return
	}
	for i, arg := range args {
		switch of := arg.(type) {
		case []int64:
			ids := make([]int64, len(of))
			for n := range ids {
				ids[n] = freshID()
			}
			args[i] = ids
			return
		case string:
			var rows [][]json.RawMessage
			if json.Unmarshal([]byte(of), &rows) != nil || len(rows) == 0 {
				continue
			}
			for _, row := range rows {
				row[0] = strconv.AppendInt(nil, freshID(), 10)
			}
			text, err := json.Marshal(rows)
			if err != nil {
				panic(err)
			}
			args[i] = string(text)
			return
		}
	}
}

// TestBenchPasswords measures sign-ins by password on one processor, and how much of their time the hash alone takes.
func TestBenchPasswords(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	w := newPeopleWorld(t, "SQLite")
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	const each = 15
	salt := make([]byte, 16)
	var rates, shares []float64
	for range peopleRounds {
		begin := time.Now()
		for i := range each {
			p := &person{}
			w.do(t, p, "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"user%d@example.com","password":%q}`, i%people8, benchPassword))
		}
		whole := time.Since(begin)
		begin = time.Now()
		for range each {
			argon2.IDKey([]byte(benchPassword), salt, 2, 19*1024, 1, 32)
		}
		hash := time.Since(begin)
		rates, shares = append(rates, each/whole.Seconds()), append(shares, hash.Seconds()/whole.Seconds())
	}
	row("SQLite, sign-ins by password a second and processor", "-", "%.1f", median(rates))
	row("SQLite, share of a sign-in's time that argon2id alone takes", "0.9", "%.2f", median(shares))
}
