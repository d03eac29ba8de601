package bench

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

// importUsers is how many users the file has, each with five sign-ins; CARDEA_IMPORT_USERS replaces it.
const importUsers = 50_000

// TestBenchImport measures `cardea import` of users, of their emails and of their sign-ins, over HTTP, on both engines.
func TestBenchImport(t *testing.T) {
	users := importUsers
	if n, err := strconv.Atoi(os.Getenv("CARDEA_IMPORT_USERS")); err == nil {
		users = n
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t)
			launches := []testkit.Launch{{Role: "standalone", Store: w.sqliteURL()}}
			if engine == "PostgreSQL" {
				url := pgtest.ForTest(t)
				launches = []testkit.Launch{{Role: "operator", Store: url}, {Role: "server", Store: url}}
			}
			var server *testkit.Cardea
			for _, launch := range launches {
				server = w.start(t, launch)
			}
			w.tenant(t)
			for _, part := range []struct {
				what, target string
				lines        int
				line         func(i int, random *rand.Rand) string
			}{
				{"users", "10,000 a second", users, importedUser},
				{"emails", "-", users, importedEmail},
				{"sign-ins", "50,000 a second", 5 * users, func(i int, random *rand.Rand) string { return importedSignIn(i, 5*users, users, random) }},
			} {
				file := w.importFile(t, part.lines, part.line)
				took := w.runImport(t, server, file)
				row(fmt.Sprintf("import of %d %s, %s", part.lines, part.what, engine), part.target, "%.0f a second (%s)", float64(part.lines)/took.Seconds(), took.Round(time.Millisecond))
			}
		})
	}
}

func importedUser(i int, _ *rand.Rand) string {
	return fmt.Sprintf(`{"type":"user","external_id":"user_%07d","first_name":"First","last_name":"Last %d","created_at":%q}`, i, i, imported(i, importUsers))
}

func importedEmail(i int, _ *rand.Rand) string {
	return fmt.Sprintf(`{"type":"email","external_id":"email_%07d","user":"user_%07d","email":"person%d@example.com","verified_at":"2024-01-01T00:00:00Z"}`, i, i, i)
}

func importedSignIn(i, of, users int, random *rand.Rand) string {
	return fmt.Sprintf(`{"type":"signin","external_id":"signin_%08d","user":"user_%07d","signed_in_at":%q,"method":"password","ip_address":"192.0.2.%d"}`,
		i, random.IntN(users), imported(i, of), random.IntN(256))
}

// imported returns the time of line i of a number of lines, evenly spread over the year 2024.
func imported(i, of int) string {
	year := 365 * 24 * time.Hour
	return time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(float64(year) * float64(i%of) / float64(of))).Format(time.RFC3339Nano)
}

func (w *world) importFile(t *testing.T, lines int, line func(int, *rand.Rand) string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "*.jsonl")
	check(t, err)
	out, random := bufio.NewWriter(f), rand.New(rand.NewPCG(1, 2))
	for i := range lines {
		_, err := out.WriteString(line(i, random) + "\n")
		check(t, err)
	}
	check(t, out.Flush())
	check(t, f.Close())
	return f.Name()
}

// runImport runs the command and returns how long it took.
func (w *world) runImport(t *testing.T, server *testkit.Cardea, file string) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.processes.Binary(), "import", "--base-url", server.Backend, file)
	cmd.Env = append(os.Environ(), "CARDEA_API_KEY="+w.key)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil || !strings.Contains(string(out), " 0 present, 0 rejected") {
		t.Fatalf("%v: %s", err, out)
	}
	return took
}
