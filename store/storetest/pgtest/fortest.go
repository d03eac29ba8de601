package pgtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the one server of a test binary, started by the first test that asks. It is state of the binary, as the
// binary's flags are: tests of several packages never meet here.
var shared struct {
	mu       sync.Mutex
	settings []string
	server   *Server
	err      error
	// filled is the database that Copy copies.
	filled    sync.Once
	original  string
	filledErr error
}

// Durable makes the shared server wait for the disk, as one in production does: a setting for Main, for what measures.
const Durable = "fsync=on"

// Shared returns the test binary's server, which Main stops. Unless it is Durable, what it committed outlives every
// process but not the machine, which no test stops: to make and drop a database takes a third of the time so.
func Shared() (*Server, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Start(context.Background(), append([]string{"fsync=off"}, shared.settings...)...)
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

// Copy returns the URL of a new database that is dropped when the test ends: a copy of one that fill filled, once for
// the test binary. To make every table anew takes many times as long. fill closes what it opens.
func Copy(t testing.TB, fill func(ctx context.Context, url string) error) string {
	t.Helper()
	server, err := Shared()
	if err != nil {
		t.Fatal(err)
	}
	shared.filled.Do(func() {
		ctx := context.Background() // of the binary, not of the first test
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

// Main runs the tests of a binary and stops the server they shared: func TestMain(m *testing.M) {
// os.Exit(pgtest.Main(m)) }. Settings are the server's, as those of Start; benchmarks (go test -bench) have a Durable
// one.
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
