package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
	"github.com/cardea-iam/cardea/store/sqlstore/migrations"
)

// ErrNotEmpty means that a restore would overwrite a store.
var ErrNotEmpty = errors.New("the store is not empty")

// Copied describes a copy of a store.
type Copied struct {
	// Engine is "sqlite" or "postgres".
	Engine string
	// Schema is the version of the tables, StoreID the identity of the store.
	Schema  int64
	StoreID string
}

// Engine returns the engine of a URL: "sqlite", "postgres", or "" for any other.
func Engine(location string) string {
	switch scheme, _, _ := strings.Cut(location, ":"); scheme {
	case "sqlite":
		return "sqlite"
	case "postgres", "postgresql":
		return "postgres"
	default:
		return ""
	}
}

// Folder returns the folder in which a copy of the store at a URL is unpacked: that of an SQLite file, otherwise ""
// (the system's folder for temporary files).
func Folder(location string) string {
	if Engine(location) != "sqlite" {
		return ""
	}
	path, err := db.SQLitePath(strings.TrimPrefix(location, "sqlite:"))
	if err != nil {
		return ""
	}
	return filepath.Dir(path)
}

var errNoEngine = errors.New("the store's URL names neither SQLite nor PostgreSQL: use sqlite: or postgres://")

// Schema returns the version of this binary's tables.
func Schema() (int64, error) { return migrations.Latest() }

// Copy writes the store's content of one moment into a new file, in the engine's own format: an SQLite file, or
// pg_dump's custom format. The store may be in use. For PostgreSQL, Copy runs pg_dump from PATH, which must not be
// older than the server.
func Copy(ctx context.Context, location, file string) (Copied, error) {
	switch Engine(location) {
	case "postgres":
		return copyPostgres(ctx, location, file)
	case "":
		return Copied{}, errNoEngine
	}
	path, err := db.SQLitePath(strings.TrimPrefix(location, "sqlite:"))
	if err != nil {
		return Copied{}, err
	}
	if _, err := os.Stat(path); err != nil {
		return Copied{}, fmt.Errorf("there is no store to back up: %w", err)
	}
	pool := db.OpenPool(path, 1, Options{}.withDefaults())
	defer func() { _ = pool.Close() }()
	if _, err := pool.ExecContext(ctx, "VACUUM INTO ?", file); err != nil {
		return Copied{}, fmt.Errorf("copy the store %s: %w", path, err)
	}
	taken := db.OpenPool(file, 1, Options{}.withDefaults())
	defer func() { _ = taken.Close() }()
	return copiedFrom(ctx, taken, "sqlite")
}

// hostsOf returns the hosts of a URL and their ports in libpq's form, separated by commas, in the order in which they
// are tried.
func hostsOf(config *pgx.ConnConfig) (hosts, ports string) {
	type place struct {
		host string
		port uint16
	}
	places := []place{{config.Host, config.Port}}
	for _, fallback := range config.Fallbacks { // a host is listed twice if it is tried with TLS and without
		if at := (place{fallback.Host, fallback.Port}); !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	var names, numbers []string
	for _, at := range places {
		names, numbers = append(names, at.host), append(numbers, strconv.Itoa(int(at.port)))
	}
	return strings.Join(names, ","), strings.Join(numbers, ",")
}

func copiedFrom(ctx context.Context, pool *sql.DB, engine string) (Copied, error) {
	c := Copied{Engine: engine}
	if err := pool.PingContext(ctx); err != nil {
		return c, fmt.Errorf("the store cannot be reached: %w", err)
	}
	err := pool.QueryRowContext(ctx, "SELECT MAX(version_id) FROM "+migrations.VersionTable).Scan(&c.Schema)
	if err == nil {
		err = pool.QueryRowContext(ctx, "SELECT store_id FROM store").Scan(&c.StoreID)
	}
	if err != nil {
		return c, fmt.Errorf("this database is not a Cardea store: %w", err)
	}
	return c, nil
}

func copyPostgres(ctx context.Context, location, file string) (Copied, error) {
	pool, err := plainPostgres(location)
	if err != nil {
		return Copied{}, err
	}
	defer func() { _ = pool.Close() }()
	before, err := copiedFrom(ctx, pool, "postgres")
	if err != nil {
		return Copied{}, err
	}
	if err := runPostgresTool(ctx, location, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", "--file="+file); err != nil {
		return Copied{}, err
	}
	after, err := copiedFrom(ctx, pool, "postgres")
	if err == nil && after != before {
		err = errors.New("the store was migrated or replaced during the backup: try again")
	}
	return after, err
}

// Restore writes a copy of a store into an empty one: a file that does not exist, or a database without tables. Restore
// first checks that the destination is empty, and then writes everything or nothing. For PostgreSQL, it runs pg_restore
// from PATH. Errors: ErrNotEmpty.
func Restore(ctx context.Context, location, file string) error {
	if Engine(location) == "postgres" {
		return restorePostgres(ctx, location, file)
	}
	path, err := db.SQLitePath(strings.TrimPrefix(location, "sqlite:"))
	if err != nil {
		return err
	}
	held, err := db.LockFile(path + ".lock")
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	for _, part := range []string{path, path + "-wal"} {
		if _, err := os.Stat(part); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%w: %s exists: move it away first, or use another file", ErrNotEmpty, part)
		}
	}
	if err := moveDurably(file, path); err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	return nil
}

// moveDurably renames a file within its file system, and returns when content and name are on the disk.
func moveDurably(from, to string) error {
	content, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(content.Sync(), content.Close()); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func restorePostgres(ctx context.Context, location, file string) error {
	pool, err := plainPostgres(location)
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	var tables int
	err = pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')").Scan(&tables)
	if err != nil {
		return fmt.Errorf("count the tables of the database: %w", err)
	}
	if tables > 0 {
		return fmt.Errorf("%w: the database has %d tables: use a database without tables", ErrNotEmpty, tables)
	}
	return runPostgresTool(ctx, location, "pg_restore", "--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges", file)
}

// plainPostgres opens a PostgreSQL database without the timeouts and connection limits that db.Open sets.
func plainPostgres(location string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(location)
	if err != nil {
		return nil, errors.New("--store: the PostgreSQL URL cannot be parsed") // the parser's error may repeat the password
	}
	return stdlib.OpenDB(*config), nil
}

// libpqParameters are the parameters of a URL that PostgreSQL's programs accept, besides host, user and database.
// Others are pgx's own, or session settings.
var libpqParameters = []string{
	"sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "ssl_min_protocol_version", "ssl_max_protocol_version", "connect_timeout", "target_session_attrs",
	"channel_binding", "gssencmode", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count",
}

// runPostgresTool runs one of PostgreSQL's programs on the same database that pgx uses for a URL. The password is only
// in its environment, because every local user can read command lines.
func runPostgresTool(ctx context.Context, location, program string, args ...string) error {
	config, err := pgx.ParseConfig(location)
	if err != nil {
		return errors.New("--store: the PostgreSQL URL cannot be parsed") // the parser's error may repeat the password
	}
	at, err := url.Parse(location)
	if err != nil {
		return errors.New("--store: the PostgreSQL URL cannot be parsed")
	}
	query := url.Values{}
	for _, name := range libpqParameters {
		if value := at.Query().Get(name); value != "" {
			query.Set(name, value)
		}
	}
	hosts, ports := hostsOf(config)
	options := os.Getenv("PGOPTIONS")
	if path := config.RuntimeParams["search_path"]; path != "" {
		options = "-c search_path=" + path
	}
	args = append([]string{"--no-password", "--dbname=" + (&url.URL{Scheme: "postgres", Path: "/", RawQuery: query.Encode()}).String()}, args...)
	environment := append(os.Environ(), "PGHOST="+hosts, "PGPORT="+ports, "PGUSER="+config.User, "PGDATABASE="+config.Database,
		"PGPASSWORD="+config.Password, "PGOPTIONS="+options, "PGAPPNAME=cardea")
	run := exec.CommandContext(ctx, program, args...)
	run.Env = environment
	var said bytes.Buffer
	run.Stderr = &said
	err = run.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not in PATH: install PostgreSQL's client programs of the server's version or a later one, or run this command on a machine that has them", program)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(said.String()))
	}
	return nil
}
