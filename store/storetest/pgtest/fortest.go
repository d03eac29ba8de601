package pgtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the server of a test binary. The first test that needs the server starts it. The tests of each package run
// in their own binary, so they never share a server with those of another package.
var shared struct {
	mu       sync.Mutex
	settings []string
	server   *Server
	err      error
	// filled runs once to create and fill original, the database that Copy copies.
	filled    sync.Once
	original  string
	filledErr error
}

// Durable makes the shared server wait for the disk, as a production server does. It is a setting for Main, for tests
// that measure.
const Durable = "fsync=on"

// Shared returns the test binary's server, which Main stops. Unless the server is Durable, it does not wait for the
// disk and keeps its data in memory (see parent): committed data survives a crash of any process but not of the
// machine, which no test stops.
func Shared() (*Server, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Start(context.Background(), append([]string{"fsync=off", "max_wal_size=128MB", "wal_level=minimal", "max_wal_senders=0"}, shared.settings...)...)
	}
	return shared.server, shared.err
}

// ForTest returns the URL of a new empty database, which is dropped when the test ends.
func ForTest(t testing.TB) string {
	t.Helper()
	server, err := Shared()
	if err != nil {
		t.Fatal(err)
	}
	name, err := server.CreateDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dropAfter(t, server, name)
	return server.URL(name)
}

// Copy returns the URL of a new database, which is dropped when the test ends. It is a copy of a database that fill
// fills once for the test binary: creating every table for each test takes many times as long. fill must close what it
// opens.
func Copy(t testing.TB, fill func(ctx context.Context, url string) error) string {
	t.Helper()
	server, err := Shared()
	if err != nil {
		t.Fatal(err)
	}
	shared.filled.Do(func() {
		ctx := context.Background() // the database outlives the first test
		if shared.original, shared.filledErr = server.CreateDatabase(ctx); shared.filledErr == nil {
			shared.filledErr = fill(ctx, server.URL(shared.original))
		}
	})
	if shared.filledErr != nil {
		t.Fatal(shared.filledErr)
	}
	name, err := server.CopyDatabase(t.Context(), shared.original)
	if err != nil {
		t.Fatal(err)
	}
	dropAfter(t, server, name)
	return server.URL(name)
}

func dropAfter(t testing.TB, server *Server, name string) {
	t.Cleanup(func() {
		// The test's own context has ended.
		if err := server.DropDatabase(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
}

// Main runs the tests of a binary and stops the server that they shared:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// The settings are those of the shared server, as for Start. For benchmarks (go test -bench), the server is Durable.
func Main(m *testing.M, settings ...string) int {
	flag.Parse()
	if benchmarks := flag.Lookup("test.bench"); benchmarks != nil && benchmarks.Value.String() != "" {
		settings = append(settings, Durable)
	}
	shared.settings = settings
	code := m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}
