// Package migrations holds the schema of the SQL store: the migration steps to this binary's schema, and the check that
// a database has it.
package migrations

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

	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// files are the steps common to both engines in this folder, and the engine's own steps in its folder.
//
//go:embed *.sql sqlite/*.sql postgres/*.sql
var files embed.FS

// VersionTable is the table in which goose records the applied steps.
const VersionTable = "schema_version"

const (
	// maxMigrationTries bounds how often a step is tried while other transactions lock its tables: about two minutes.
	maxMigrationTries = 120
	// migrationPause is the least time between two tries, in which other transactions use the tables.
	migrationPause = 250 * time.Millisecond
)

// Up brings the tables to this binary's schema, and assigns an identity to a new store. Processes take turns: by
// an advisory lock on PostgreSQL, by the lock on the file on SQLite. Servers may use the store concurrently. A step
// that does not get a table soon is undone and tried again, so that no server waits behind it for long.
func Up(ctx context.Context, d *db.DB) error {
	pool := d.Writers
	if d.OpenMigrate != nil {
		pool = d.OpenMigrate()
		defer func() { _ = pool.Close() }()
	}
	provider, err := Provider(d, pool)
	if err != nil {
		return fmt.Errorf("migrate the store: %w", err)
	}
	if err := up(ctx, d, provider); err != nil {
		return fmt.Errorf("migrate the store: %w", db.Unavailable(ctx, err))
	}
	if err := initialize(ctx, d); err != nil {
		return fmt.Errorf("initialize the store: %w", err)
	}
	return nil
}

// up applies the pending steps. A step is one transaction; a step that was undone starts again.
func up(ctx context.Context, d *db.DB, provider *goose.Provider) error {
	for try := 1; ; try++ {
		_, err := provider.Up(ctx)
		if err == nil || try == maxMigrationTries || !d.Dialect.GivesWay(err) {
			return err
		}
		d.Logger.Info("A migration step was rolled back because its tables are in use; retrying", "try", try, "reason", err.Error())
		if pause.For(ctx, migrationPause+rand.N(migrationPause)) != nil {
			return err
		}
	}
}

// Latest returns the version of this binary's tables.
func Latest() (version int64, err error) {
	for _, folder := range []string{".", "postgres"} {
		entries, err := files.ReadDir(folder)
		if err != nil {
			return 0, err
		}
		for _, entry := range entries {
			var of int64
			if _, err := fmt.Sscanf(entry.Name(), "%d_", &of); err == nil {
				version = max(version, of)
			}
		}
	}
	return version, nil
}

// Provider returns the migrator of this binary. Creating it accesses no database.
func Provider(d *db.DB, pool *sql.DB) (*goose.Provider, error) {
	own, err := fs.Sub(files, d.Dialect.Migrations)
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithTableName(VersionTable), goose.WithDisableGlobalRegistry(true)}
	if d.Dialect.Locker != nil {
		locker, err := d.Dialect.Locker()
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	return goose.NewProvider(d.Dialect.Goose, pool, layered{files, own}, options...)
}

// initialize inserts the store row if there is none. Its revision 0 is in the feed's log, so that a reader of the empty
// store can continue from it.
func initialize(ctx context.Context, d *db.DB) error {
	tx, err := d.Writers.BeginTx(ctx, d.Dialect.WriteTx)
	if err != nil {
		return db.Unavailable(ctx, err)
	}
	// After the commit this does nothing.
	defer func() { _ = tx.Rollback() }()
	on := d.On(tx)
	tag := crand.Text()
	founded, err := on.Exec(ctx, `INSERT INTO store
		(id, store_id, epoch, install, install_beat, install_released, revision, tag) VALUES (1, ?, 0, '', 0, 0, 0, ?)
		ON CONFLICT (id) DO NOTHING`, crand.Text(), tag)
	if err != nil || founded == 0 {
		return err
	}
	_, err = on.Exec(ctx, `INSERT INTO feed (revision, tag, kind, namespace, name, deleted, written_at)
		VALUES (0, ?, '', '', '', 0, ?)`, tag, d.Clock().UnixMicro())
	if err != nil {
		return err
	}
	return db.Unavailable(ctx, tx.Commit())
}

// Check compares the tables with this binary. Unlike goose's own queries, it writes nothing.
func Check(ctx context.Context, d *db.DB) error {
	err := checkSchema(ctx, d)
	if err != nil && !errors.Is(err, store.ErrSchema) {
		return fmt.Errorf("check the schema: %w", err)
	}
	return err
}

func checkSchema(ctx context.Context, d *db.DB) error {
	provider, err := Provider(d, d.Writers)
	if err != nil {
		return err
	}
	var want, have int64
	for _, source := range provider.ListSources() {
		want = max(want, source.Version)
	}
	var name string
	exists, err := d.Reads().Row(ctx, []any{&name}, d.Dialect.TableExists, VersionTable)
	if err != nil {
		return err
	}
	if !exists {
		return store.ErrSchema
	}
	_, err = d.Reads().Row(ctx, []any{&have}, `SELECT COALESCE(MAX(version_id), 0) FROM `+VersionTable)
	if err != nil {
		return err
	}
	if have < want {
		return store.ErrSchema
	}
	_, err = db.ReadStoreRow(ctx, d.Reads(), "")
	return err
}
