package chaos

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/test/testkit"
)

// TestChaos kills, freezes and stops every process of an install at random for CARDEA_CHAOS_MINUTES, under load, and
// then looks for lost writes. The same CARDEA_CHAOS_SEED draws the same faults. CARDEA_CHAOS_JOURNAL is the path of the
// journal, by default in the test's temporary folder.
func TestChaos(t *testing.T) {
	minutes, err := strconv.ParseFloat(os.Getenv("CARDEA_CHAOS_MINUTES"), 64)
	if err != nil || minutes <= 0 {
		t.Skip("CARDEA_CHAOS_MINUTES says how long: make chaos")
	}
	seed := uint64(time.Now().UnixNano())
	if told := os.Getenv("CARDEA_CHAOS_SEED"); told != "" {
		if seed, err = strconv.ParseUint(told, 10, 64); err != nil {
			t.Fatalf("CARDEA_CHAOS_SEED: %v", err)
		}
	}
	path := os.Getenv("CARDEA_CHAOS_JOURNAL")
	if path == "" {
		path = filepath.Join(t.TempDir(), "journal.jsonl")
	}
	length := time.Duration(minutes * float64(time.Minute))
	blows := schedule(seed, length)
	t.Logf("seed %d: %d blows in %s", seed, len(blows), length)

	in, err := newInstall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.close(); err != nil {
			t.Error(err)
		}
	})
	j, err := newJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{install: in, journal: j, people: make(chan *testkit.Visitor, 200)}
	suffered(t, l, blows, length)
	lost, took := l.missing(t.Context(), convergesWithin)
	accounts, _ := j.count("person")
	t.Logf("%d writes acknowledged (%d accounts), %d unknown, refused %v; %d reads; active %s after the last process was back",
		j.acknowledged, accounts, j.unknown, j.refusals, l.answered.Load(), took.Round(100*time.Millisecond))
	for _, fault := range append(j.faults, lost...) {
		t.Error(fault)
	}
	for _, fault := range panics(t, in) {
		t.Error(fault)
	}
	if j.acknowledged < int(minutes*100) {
		t.Errorf("only %d writes were acknowledged, too few for a result", j.acknowledged)
	}
	if !t.Failed() {
		expectToBeSeen(t, l)
	}
	if t.Failed() {
		t.Logf("result: the install lost data. To repeat the run: make chaos SEED=%d MINUTES=%v", seed, minutes)
	} else {
		t.Log("result: nothing was lost")
	}
}

// suffered applies the faults to an install under load, and returns when every process is back and the load has ended.
func suffered(t *testing.T, l *load, blows []blow, length time.Duration) {
	loading, endLoad := context.WithCancel(t.Context())
	striking, endBlows := context.WithTimeout(t.Context(), length)
	defer endBlows()
	l.start(loading)
	begin := time.Now()
	var group sync.WaitGroup
	for _, target := range l.targets {
		group.Go(func() {
			if err := target.suffer(striking, begin, of(target.name, blows), l.journal); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	endLoad()
	l.group.Wait()
}

// expectToBeSeen removes a scheme, an account and a key without the journal's knowledge, and expects missing to report
// each of them.
func expectToBeSeen(t *testing.T, l *load) {
	t.Helper()
	take := func(kind string) (name string) {
		for _, object := range l.objects(kind) {
			if sure := l.compare(object, absent, ""); sure != "" {
				_, name = split(object)
				return name
			}
		}
		t.Fatalf("no existing %s is left to delete", kind)
		return ""
	}
	server := l.servers[0]
	send := func(method, path, body string) testkit.Answer {
		answer, err := testkit.Do(method, server.Backend+path, l.key, body)
		if err != nil || answer.Status >= 300 {
			t.Fatalf("%s %s: %d %s %v", method, path, answer.Status, answer.Raw, err)
		}
		return answer
	}
	scheme, email := take("scheme"), take("person")
	send("DELETE", schemesPath+"/"+scheme, "")
	users, _ := send("GET", "/users?search="+url.QueryEscape(email), "").JSON["data"].([]any)
	user, _ := users[0].(map[string]any)
	send("DELETE", "/users/"+user["id"].(string), "")
	made := send("POST", keysPath, `{"name": "never acknowledged as revoked", "permissions": ["orders:read"]}`)
	id, secret := keyOf(made)
	l.acknowledge("key/"+secret, "accepted")
	send("POST", keysPath+"/"+id+"/revoke", `{"reason": "a test"}`)
	lost, _ := l.missing(t.Context(), time.Second)
	text := strings.Join(lost, "\n")
	for _, want := range []string{"scheme/" + scheme, "person/" + email, "a key is"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not reported as lost: the check cannot fail\n%s", want, text)
		}
	}
}

// panicked matches the beginning of a crash of Go's runtime in a log.
var panicked = regexp.MustCompile(`(?m)^(panic:|fatal error:|goroutine \d+ \[running\])|"panic`)

// panics returns the crashes in the logs of Cardea's processes, and the logs that hold a secret.
func panics(t *testing.T, in *install) (faults []string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(in.Processes.Group().LogDir(), "*.log"))
	if err != nil || len(logs) < 4 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	for _, file := range logs {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if at := panicked.FindIndex(text); at != nil {
			faults = append(faults, filepath.Base(file)+": "+string(text[at[0]:min(len(text), at[0]+2000)]))
		}
		for _, secret := range []string{in.key, testkit.VisitorPassword} {
			if strings.Contains(string(text), secret) {
				faults = append(faults, filepath.Base(file)+" holds a secret")
			}
		}
	}
	return faults
}
