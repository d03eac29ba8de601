package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pressly/goose/v3"
	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteReaders is the number of connections for reads concurrent with the one writer.
const sqliteReaders = 4

// sqliteDialect: write transactions are exclusive, and a read transaction sees the snapshot of its first statement.
var sqliteDialect = Dialect{
	name:        "sqlite",
	among:       amongJSON,
	OneOf:       " IN (SELECT value FROM json_each(?))",
	ListOf:      jsonOf,
	insertMany:  insertFromJSON,
	listed:      rowOfValues,
	updatedRows: 1,
	rowsFrom:    jsonRows,
	EventOrder:  "rowid",
	JSONList:    "json_group_array",
	TableExists: `SELECT name FROM sqlite_master WHERE type = 'table' AND name = ?`,
	// SQLITE_MAX_VARIABLE_NUMBER is 32766.
	MaxParameters: 30000,
	Variable:      func(args []any) []any { return args },
	Planned:       func(args ...any) []any { return args },
	retryable:     func(error) bool { return false },
	GivesWay:      func(error) bool { return false },
	duplicate: func(err error) bool {
		var refused *sqlitedriver.Error
		return errors.As(err, &refused) && (refused.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || refused.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
	},
	Migrations: "sqlite",
	Goose:      goose.DialectSQLite3,
}

// openSQLite opens or creates the file of a URL. location is the URL without "sqlite:".
func openSQLite(ctx context.Context, location string, opts Options) (_ *DB, err error) {
	path, err := SQLitePath(location)
	if err != nil {
		return nil, err
	}
	held, err := LockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	opened := &DB{Dialect: sqliteDialect, lock: held}
	defer func() {
		if err == nil {
			return
		}
		for _, db := range []*sql.DB{opened.Readers, opened.Writers} {
			if db != nil {
				_ = db.Close()
			}
		}
		_ = held.Close()
	}()
	// SQLite gives its side files the mode of the main file.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	// An import touches pages all over the indexes. With a connection's default cache of 2 MB, they would be written and
	// read again and again.
	opened.Writers = OpenPool(path, 1, opts, "_txlock=immediate", "_pragma=journal_mode(WAL)", "_pragma=cache_size(-65536)")
	var journal string
	if err := opened.Writers.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, Unavailable(ctx, err))
	}
	if journal != "wal" {
		return nil, fmt.Errorf("open the store %s: its file system does not support a write-ahead log (journal mode %q): "+
			"use a local disk", path, journal)
	}
	opened.Readers = OpenPool(path, sqliteReaders, opts, "_pragma=query_only(1)")
	return opened, nil
}

// OpenPool opens connections that flush every commit to the disk and wait 10 s for a lock.
func OpenPool(path string, conns int, opts Options, params ...string) *sql.DB {
	params = append(params, "_pragma=busy_timeout(10000)", "_pragma=synchronous(FULL)", "_pragma=foreign_keys(1)")
	name := (&url.URL{Scheme: "file", Path: path}).String() + "?" + strings.Join(params, "&")
	db := sql.OpenDB(opts.wrap(sqliteConnector{name}))
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// sqliteConnector opens connections of one name.
type sqliteConnector struct{ name string }

// Connect opens a connection.
func (c sqliteConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.Driver().Open(c.name)
	if err != nil {
		return nil, err
	}
	return newSQLiteConn(conn)
}

// Driver returns the driver.
func (c sqliteConnector) Driver() driver.Driver { return &sqlitedriver.Driver{} }

// SQLitePath returns the absolute path of a location without symbolic links, so that one file has one lock, and
// creates its folder.
func SQLitePath(location string) (string, error) {
	if strings.ContainsAny(location, "?#") {
		return "", errors.New("open the store: a sqlite: URL takes no options")
	}
	path := location
	if rest, slashes := strings.CutPrefix(location, "//"); slashes {
		if path = rest; !strings.HasPrefix(rest, "/") {
			return "", errors.New("open the store: write sqlite:///absolute/path.db or sqlite:relative/path.db")
		}
	}
	if path == "" || strings.HasSuffix(path, "/") || strings.HasPrefix(path, ":") {
		return "", errors.New("open the store: the sqlite: URL names no file: write sqlite:///absolute/path.db")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open the store: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("open the store: %w", err)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target, nil
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("open the store: %w", err)
	}
	return filepath.Join(folder, filepath.Base(path)), nil
}
