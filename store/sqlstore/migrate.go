package sqlstore

import (
	"context"
	crand "crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/cardea-iam/cardea/store"
)

// migrationFiles are one text for both engines in migrations, and what really differs in the folder of an engine.
//
//go:embed migrations/*.sql migrations/sqlite/*.sql migrations/postgres/*.sql
var migrationFiles embed.FS

// versionTable is where goose records what it applied.
const versionTable = "schema_version"

const (
	// maxMigrationTries bounds how often a migration is tried that gives way to those who use the tables: for two minutes, about.
	maxMigrationTries = 120
	// migrationPause is how long it leaves the tables to them, at least.
	migrationPause = 250 * time.Millisecond
)

// Migrate brings the tables to this binary's schema, and gives a new store its identity. On PostgreSQL an advisory
// lock makes processes wait for their turn; on SQLite the lock on the file does. Servers may use the store meanwhile: a step that does not get
// a table soon is undone and tried again, so that nobody waits behind it for long.
func migrateDB(ctx context.Context, d *DB) error {
	db := d.writers
	if d.openMigrate != nil {
		db = d.openMigrate()
		defer func() { _ = db.Close() }()
	}
	provider, err := migrations(d, db)
	if err != nil {
		return fmt.Errorf("migrate the store: %w", err)
	}
	if err := up(ctx, d, provider); err != nil {
		return fmt.Errorf("migrate the store: %w", unavailable(ctx, err))
	}
	if err := found(ctx, d); err != nil {
		return fmt.Errorf("found the store: %w", err)
	}
	return nil
}

// up applies what is not applied yet. A step is one transaction: one that was undone is begun again.
func up(ctx context.Context, d *DB, provider *goose.Provider) error {
	for try := 1; ; try++ {
		_, err := provider.Up(ctx)
		if err == nil || try == maxMigrationTries || !d.dialect.givesWay(err) {
			return err
		}
		d.logger.Info("The migration gave way to others and is tried again", "try", try, "reason", err.Error())
		if pause(ctx, migrationPause+rand.N(migrationPause)) != nil {
			return err
		}
	}
}

// migrations returns the migrator of this binary. It touches no database by itself.
func migrations(d *DB, db *sql.DB) (*goose.Provider, error) {
	common, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	own, err := fs.Sub(common, d.dialect.migrations)
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true)}
	if d.dialect.locker != nil {
		locker, err := d.dialect.locker()
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	return goose.NewProvider(d.dialect.goose, db, layered{common, own}, options...)
}

// found writes the store row if there is none. Its revision 0 is in the feed's log, so that a reader of the empty
// store can go on from there.
func found(ctx context.Context, d *DB) error {
	tx, err := d.writers.BeginTx(ctx, d.dialect.writeTx)
	if err != nil {
		return unavailable(ctx, err)
	}
	// After the commit this does nothing.
	defer func() { _ = tx.Rollback() }()
	on := session{d.dialect, tx}
	tag := crand.Text()
	founded, err := on.exec(ctx, `INSERT INTO store
		(id, store_id, epoch, install, install_beat, install_released, revision, tag) VALUES (1, ?, 0, '', 0, 0, 0, ?)
		ON CONFLICT (id) DO NOTHING`, crand.Text(), tag)
	if err != nil || founded == 0 {
		return err
	}
	_, err = on.exec(ctx, `INSERT INTO feed (revision, tag, kind, namespace, name, deleted, written_at)
		VALUES (0, ?, '', '', '', 0, ?)`, tag, d.clock().UnixMicro())
	if err != nil {
		return err
	}
	return unavailable(ctx, tx.Commit())
}

// CheckSchema compares the tables with this binary. It writes nothing, unlike goose's own questions.
func checkDB(ctx context.Context, d *DB) error {
	err := checkSchema(ctx, d)
	if err != nil && !errors.Is(err, store.ErrSchema) {
		return fmt.Errorf("check the schema: %w", err)
	}
	return err
}

func checkSchema(ctx context.Context, d *DB) error {
	provider, err := migrations(d, d.writers)
	if err != nil {
		return err
	}
	var want, have int64
	for _, source := range provider.ListSources() {
		want = max(want, source.Version)
	}
	var name string
	exists, err := d.reads().row(ctx, []any{&name}, d.dialect.tableExists, versionTable)
	if err != nil {
		return err
	}
	if !exists {
		return store.ErrSchema
	}
	_, err = d.reads().row(ctx, []any{&have}, `SELECT COALESCE(MAX(version_id), 0) FROM `+versionTable)
	if err != nil {
		return err
	}
	if have < want {
		return store.ErrSchema
	}
	_, err = readStoreRow(ctx, d.reads(), "")
	return err
}
