package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/test/testkit"
)

// movedUsers is how many users are imported, with five sign-ins each; CARDEA_IMPORT_USERS replaces it.
const movedUsers = 4000

// signedIn is one sign-in of the file, from which the test computes the expected counts.
type signedIn struct {
	at   time.Time
	user int
}

// history is a file of users with its contents.
type history struct {
	path    string
	lines   int
	signUps []time.Time
	signIns []signedIn
}

// writeHistory writes users with emails and sign-ins at random times of the year 2024.
func writeHistory(dir string, users int) history {
	GinkgoHelper()
	random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 1))
	h := history{path: filepath.Join(dir, "people.jsonl")}
	begin := time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)
	moment := func() time.Time {
		return begin.Add(time.Duration(random.Int64N(int64(366 * 24 * time.Hour)))).Truncate(time.Microsecond)
	}
	var out bytes.Buffer
	write := func(format string, values ...any) {
		fmt.Fprintf(&out, format+"\n", values...)
		h.lines++
	}
	for i := range users {
		at := moment()
		h.signUps = append(h.signUps, at)
		write(`{"type":"user","external_id":"u%d","first_name":"First","last_name":"Last","created_at":%q}`, i, at.Format(time.RFC3339Nano))
		write(`{"type":"email","external_id":"e%d","user":"u%d","email":"person%d@example.com","verified_at":%q}`, i, i, i, at.Format(time.RFC3339Nano))
		for n := range 5 {
			in := signedIn{moment(), random.IntN(i + 1)}
			h.signIns = append(h.signIns, in)
			// Offsets in the file vary; the import must respect them.
			zone := time.FixedZone("", (random.IntN(27)-12)*3600)
			write(`{"type":"signin","external_id":"s%d-%d","user":"u%d","signed_in_at":%q,"method":"password","ip_address":"192.0.2.1"}`, i, n, in.user, in.at.In(zone).Format(time.RFC3339Nano))
		}
	}
	Expect(os.WriteFile(h.path, out.Bytes(), 0o600)).To(Succeed())
	return h
}

// count returns the sign-ins and sign-ups that the file has in a period.
func (h history) count(from, to time.Time) (uniqueSignIns, signUps int) {
	within := func(at time.Time) bool { return !at.Before(from) && at.Before(to) }
	users := map[int]bool{}
	for _, in := range h.signIns {
		if within(in.at) {
			users[in.user] = true
		}
	}
	for _, at := range h.signUps {
		if within(at) {
			signUps++
		}
	}
	return len(users), signUps
}

// gate is a proxy in front of the backend API. It calls before[n] before it forwards the nth batch, and after[n]
// afterwards.
type gate struct {
	*httptest.Server
	batches atomic.Int64
	mu      sync.Mutex
	before  map[int64]func()
	after   map[int64]func()
}

func newGate(target string) *gate {
	GinkgoHelper()
	to, err := url.Parse(target)
	Expect(err).NotTo(HaveOccurred())
	g := &gate{before: map[int64]func(){}, after: map[int64]func(){}}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int64(0)
		if r.Method == http.MethodPost {
			n = g.batches.Add(1)
		}
		g.call(g.before, n)
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		g.call(g.after, n)
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	DeferCleanup(g.Close)
	return g
}

func (g *gate) call(held map[int64]func(), n int64) {
	g.mu.Lock()
	do := held[n]
	g.mu.Unlock()
	if do != nil {
		do()
	}
}

// freePort returns a port that is free now, for a server that restarts at the same address.
func freePort() int {
	GinkgoHelper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

var _ = Describe("Moving in", Ordered, func() {
	var (
		cardea    *testkit.Cardea
		launch    testkit.Launch
		base, key string
		people    history
		dir       string
	)
	command := func(ctx context.Context, at string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, processes.Binary(), append([]string{"import", "--base-url", at}, args...)...)
		cmd.Env = []string{"CARDEA_API_KEY=" + key, "TMPDIR=" + dir}
		return cmd
	}
	imports := func(ctx context.Context, at string, code int, args ...string) (out, problems string) {
		GinkgoHelper()
		cmd := command(ctx, at, args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil {
			Expect(errors.As(err, &exit)).To(BeTrue())
		}
		Expect(cmd.ProcessState.ExitCode()).To(Equal(code), "%s%s", stdout.String(), stderr.String())
		return stdout.String(), stderr.String()
	}
	write := func(name, content string) string {
		GinkgoHelper()
		path := filepath.Join(dir, name)
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		return path
	}

	BeforeAll(func(ctx context.Context) {
		port := freePort()
		base, dir = fmt.Sprintf("http://127.0.0.1:%d", port), GinkgoT().TempDir()
		launch = testkit.Launch{Role: "standalone", Store: "sqlite://" + processes.Path("moving.db"), Flags: append([]string{fmt.Sprintf("--backend-address=127.0.0.1:%d", port)}, serving...)}
		cardea = start(ctx, launch)
		namespace, err := cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, secretsRoleBinding(namespace))
		apply(ctx, staging(namespace, "moving.localhost", startCarrier(), ""))
		expectAllReady(ctx, namespace)
		key = cluster.APIKey(ctx, namespace, "people-key")
		Eventually(func() (testkit.Answer, error) { return testkit.Do("GET", base+schemesPath, key, "") }).Should(haveStatus(200))
		users := movedUsers
		if n, err := strconv.Atoi(os.Getenv("CARDEA_IMPORT_USERS")); err == nil {
			users = n
		}
		people = writeHistory(dir, users)
	})
	AfterAll(func() { processes.KillAll() })

	It("validates a file without sending anything", func(ctx context.Context) {
		out, problems := imports(ctx, "http://127.0.0.1:1", 0, "--dry-run", people.path)
		Expect(out).To(HaveSuffix(fmt.Sprintf(": %d good, 0 rejected; nothing was sent\n", people.lines)))
		Expect(problems).To(BeEmpty())
		bad := write("dry.jsonl", `{"type":"signin","external_id":"x","user":"nobody","signed_in_at":"2024-01-01T00:00:00Z"}`+"\n\n"+`{"type":"user"}`+"\n")
		out, problems = imports(ctx, "http://127.0.0.1:1", 1, "--dry-run", bad)
		Expect(out).To(ContainSubstring("0 good, 2 rejected"))
		Expect(problems).To(And(ContainSubstring(bad+":1: /user: "), ContainSubstring(bad+":3: /external_id: ")))
	})

	It("continues after the command was killed twice, and imports each line once", func(ctx context.Context) {
		for _, when := range []string{"before a batch", "after a batch"} {
			g := newGate(base)
			cmd := command(ctx, g.URL, people.path)
			kill := func() { _ = cmd.Process.Kill() }
			g.mu.Lock()
			if when == "before a batch" {
				g.before[2] = kill // whether the batch still reaches the server depends on when the connection ends
			} else {
				g.after[1] = kill
			}
			Expect(cmd.Start()).To(Succeed())
			g.mu.Unlock()
			Expect(cmd.Wait()).NotTo(Succeed(), "killed %s", when)
		}
		out, problems := imports(ctx, base, 0, people.path)
		Expect(out).To(HaveSuffix(fmt.Sprintf(": %d imported, 0 present, 0 rejected\n", people.lines)))
		Expect(problems).NotTo(ContainSubstring("rejected: correct"))
		out, _ = imports(ctx, base, 0, people.path)
		Expect(out).To(HaveSuffix(": already imported\n"))
	})

	countsWhatTheFileSays := func() {
		GinkgoHelper()
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 2))
		begin := time.Date(2023, time.December, 1, 0, 0, 0, 0, time.UTC)
		for range 20 {
			from := begin.Add(time.Duration(random.Int64N(int64(400 * 24 * time.Hour)))).Truncate(time.Microsecond)
			to := from.Add(time.Duration(1 + random.Int64N(int64(400*24*time.Hour)))).Truncate(time.Microsecond).Add(time.Microsecond)
			signIns, signUps := people.count(from, to)
			query := url.Values{"from": {from.Format(time.RFC3339Nano)}, "to": {to.Format(time.RFC3339Nano)}}
			// A server with millions of events to roll up responds with 503 and Retry-After, so retry.
			var answer testkit.Answer
			Eventually(func(g Gomega) {
				var err error
				answer, err = testkit.Do("GET", base+"/analytics?"+query.Encode(), key, "")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(answer.Status).NotTo(Equal(http.StatusServiceUnavailable))
			}).WithTimeout(10 * time.Minute).Should(Succeed())
			Expect(answer).To(And(haveMember("unique_signins", float64(signIns)), haveMember("signups", float64(signUps)), HaveField("JSON", HaveKey("total_signups"))), query.Encode())
			days, signUpsOfDays := answer.JSON["daily_metrics"].([]any), 0
			for _, day := range days {
				signUpsOfDays += int(day.(map[string]any)["signups"].(float64))
			}
			Expect(signUpsOfDays).To(Equal(signUps))
		}
	}
	It("counts over twenty periods as the file does", func() {
		countsWhatTheFileSays()
		answer, err := testkit.Do("GET", base+"/analytics?from=2024-01-01T00:00:00Z&to=2025-01-01T00:00:00Z", key, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(answer).To(haveMember("total_signups", float64(len(people.signUps))))
	})

	It("reports invalid lines by their numbers and members, and imports the others", func(ctx context.Context) {
		file := write("bad.jsonl", strings.Join([]string{
			`{"type":"user","external_id":"good"}`, `{"type":"user","external_id":"b1","password_hash":"plain-secret"}`, `not JSON`, ``,
			`{"type":"email","external_id":"b2","user":"good","email":"person1@example.com"}`, `{"type":"signin","external_id":"b3","user":"later","signed_in_at":"2024-01-01T00:00:00Z"}`,
			`{"type":"user","external_id":"later"}`, `{"type":"unknown","external_id":"b4"}`, `{"type":"user","external_id":"b5","admin":true}`,
		}, "\n"))
		out, problems := imports(ctx, base, 1, file)
		Expect(out).To(HaveSuffix(": 2 imported, 0 present, 6 rejected\n"))
		for line, member := range map[int]string{2: "/password_hash: ", 3: "", 5: "/email: ", 6: "/user: ", 8: "/type: ", 9: "/admin: "} {
			Expect(problems).To(ContainSubstring(fmt.Sprintf("%s:%d: %s", file, line, member)))
		}
		Expect(problems).NotTo(ContainSubstring("plain-secret"))
		out, _ = imports(ctx, base, 0, write("corrected.jsonl", `{"type":"user","external_id":"good"}`+"\n"+`{"type":"user","external_id":"b1"}`+"\n"))
		Expect(out).To(HaveSuffix(": 1 imported, 1 present, 0 rejected\n"))
	})

	// lines returns users with external ids that begin with a name, more than one batch holds.
	lines := func(name string) string {
		var out strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&out, `{"type":"user","external_id":"%s-%d","created_at":"2020-01-01T00:00:00Z"}`+"\n", name, i)
		}
		return out.String()
	}

	It("lets two commands import one file concurrently", func(ctx context.Context) {
		file := write("both.jsonl", lines("both"))
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				defer GinkgoRecover()
				out, _ := imports(ctx, base, 0, file)
				Expect(out).To(Or(HaveSuffix(": 20000 imported, 0 present, 0 rejected\n"), HaveSuffix(": already imported\n")))
			})
		}
		both.Wait()
	})

	It("waits for a server that was killed, and loses and doubles nothing", func(ctx context.Context) {
		file := write("restarted.jsonl", lines("restarted"))
		g := newGate(base)
		g.mu.Lock()
		g.before[2] = cardea.Kill
		g.mu.Unlock()
		done := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(done)
			out, _ := imports(ctx, g.URL, 0, file)
			Expect(out).To(HaveSuffix(": 20000 imported, 0 present, 0 rejected\n"))
		}()
		Eventually(cardea.Done()).Should(BeClosed())
		cardea = start(ctx, launch)
		Eventually(done).WithTimeout(time.Minute).Should(BeClosed())
		answer, err := testkit.Do("GET", base+"/analytics?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z", key, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(answer).To(haveMember("signups", 40_000.0))
	})

	It("rolls up the imported days, continues after a kill, and keeps its counts", func(ctx context.Context) {
		sealed := func() (string, error) {
			answer, err := testkit.Do("GET", base+"/analytics/verification", key, "")
			return string(answer.Raw), err
		}
		Eventually(sealed).WithTimeout(2 * time.Minute).Should(ContainSubstring(`{"day":"2020-01-01","events":40000,"fault":null}`))
		cardea.Kill()
		Eventually(cardea.Done()).Should(BeClosed())
		cardea = start(ctx, launch)
		countsWhatTheFileSays()
		answer, err := testkit.Do("GET", base+"/analytics/export?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z&format=csv", key, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(answer.Raw)).To(HaveSuffix("\r\n2020-01-01,0,40000,0,0\r\n"))
		verify := exec.CommandContext(ctx, processes.Binary(), "analytics", "verify", "--base-url", base)
		verify.Env = []string{"CARDEA_API_KEY=" + key}
		out, err := verify.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		Expect(string(out)).To(MatchRegexp(`^[1-9]\d* rolled-up days verified, 0 differ\n$`))
	})

	It("left an audit that each export contains once", func(ctx context.Context) {
		file := filepath.Join(dir, "audit.jsonl")
		exports := func(args ...string) string {
			GinkgoHelper()
			stdout, problems, err := run(ctx, []string{"CARDEA_API_KEY=" + key, "CARDEA_BASE_URL=" + base}, append([]string{"audit", "export"}, args...)...)
			Expect(err).NotTo(HaveOccurred(), problems)
			return stdout
		}
		until := time.Now().UTC().Format(time.RFC3339)
		exports("--file", file) // only records older than a minute
		var backwards []string
		for cursor := ""; ; {
			answer, err := testkit.Do("GET", base+"/audit?limit=100&until="+until+"&cursor="+cursor, key, "")
			Expect(err).NotTo(HaveOccurred())
			var page struct {
				Data       []json.RawMessage
				NextCursor string `json:"next_cursor"`
			}
			Expect(json.Unmarshal(answer.Raw, &page)).To(Succeed())
			for _, record := range page.Data {
				backwards = append(backwards, string(record))
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		slices.Reverse(backwards)
		Expect(len(backwards)).To(BeNumerically(">", 4))
		// An export leaves out the records of the last minute, so retry.
		var whole string
		Eventually(func() []string {
			whole = exports("--until", until)
			return strings.Split(strings.TrimSuffix(whole, "\n"), "\n")
		}).WithTimeout(2 * time.Minute).WithPolling(5 * time.Second).Should(Equal(backwards))
		exports("--file", file, "--until", until)
		exports("--file", file, "--until", until)
		Expect(os.ReadFile(file)).To(BeEquivalentTo(whole))
	})

	It("imports the export of another system, and reports omissions", func(ctx context.Context) {
		testdata := filepath.Join(testkit.Root(), "apiserver", "users", "imports", "exports", "testdata")
		out, problems := imports(ctx, base, 0, "--from", "keycloak", filepath.Join(testdata, "keycloak.json"))
		Expect(out).To(HaveSuffix(": 10 imported, 0 present, 0 rejected\n"))
		Expect(problems).To(And(ContainSubstring("left out: an authenticator app"), ContainSubstring("left out: a login by google")))
		Expect(os.ReadDir(dir)).NotTo(ContainElement(HaveField("Name()", HavePrefix("cardea-import-"))))
	})
})
