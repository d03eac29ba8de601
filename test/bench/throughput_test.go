package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/hack/controlplane"
	"github.com/cardea-iam/cardea/hack/process"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	// bareAddress and bareBody make this binary the server of comparison.
	bareAddress = "CARDEA_BENCH_BARE_ADDRESS"
	bareBody    = "CARDEA_BENCH_BARE_BODY"
	// bareTimeouts gives it the time limits of Cardea's listener, which no server on a network can do without.
	bareTimeouts = "CARDEA_BENCH_BARE_TIMEOUTS"
)

// serveBare is the least a net/http server does to answer these bytes.
func serveBare(address string) {
	body := []byte(os.Getenv(bareBody))
	contentType := []string{"application/json"}
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = contentType
		_, _ = w.Write(body)
	})}
	if os.Getenv(bareTimeouts) != "" {
		server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = 10*time.Second, 30*time.Second, 30*time.Second, 2*time.Minute
	}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

// TestBenchThroughput compares GET of one scheme, authentication included, with a bare handler of the same bytes: each a
// process of its own with one processor, the generator on the other, in alternating rounds.
func TestBenchThroughput(t *testing.T) {
	w := newWorld(t)
	url := pgtest.ForTest(t)
	w.start(t, testkit.Launch{Role: "operator", Store: url})
	w.tenant(t)
	server := w.start(t, testkit.Launch{Role: "server", Store: url, Env: []string{"GOMAXPROCS=1"}})
	created, err := testkit.Do("POST", server.Backend+schemesPath, w.key, `{"slug":"gold","name":"Gold","description":"For customers with a contract.","rules":[`+
		`{"unit":"second","duration":1,"max_requests":50,"mode":"per_key","endpoints":["/v1/*"],"priority":1},`+
		`{"unit":"minute","duration":1,"max_requests":1200,"mode":"per_key","endpoints":["/v1/*","POST /v1/orders"],"priority":2},`+
		`{"unit":"day","duration":1,"max_requests":250000,"mode":"per_app","endpoints":["*"],"priority":3}]}`)
	check(t, err)
	if created.Status != http.StatusOK {
		t.Fatal(created.Status, string(created.Raw))
	}

	subjects := []*subject{
		w.startBare(t, "bare", created.Raw),
		w.startBare(t, "bare-timeouts", created.Raw, bareTimeouts+"=1"),
		{name: "cardea", pid: server.PID(), address: strings.TrimPrefix(server.Backend, "http://")},
	}
	for _, s := range subjects {
		s.body = created.Raw
		s.request = fmt.Appendf(nil, "GET %s/gold HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: application/json\r\n\r\n", schemesPath, s.address, w.key)
		await(t, time.Minute, 10*time.Millisecond, func() bool { _, err := s.measure(1, 0); return err == nil })
	}
	if runtime.NumCPU() < 2 {
		t.Skip("needs a processor for the server and one for the generator")
	}
	all := fmt.Sprintf("0-%d", runtime.NumCPU()-1)
	t.Run("one processor each", func(t *testing.T) {
		for _, s := range subjects {
			pin(t, s.pid, "0")
		}
		pin(t, os.Getpid(), "1")
		defer pin(t, os.Getpid(), all)
		compare(t, subjects, "server on one processor, generator on the other")
	})
	t.Run("shared processors", func(t *testing.T) {
		for _, s := range subjects {
			pin(t, s.pid, all)
		}
		compare(t, subjects, "server (GOMAXPROCS 1) and generator share both")
	})
}

// startBare runs this binary as a server of comparison.
func (w *world) startBare(t *testing.T, name string, body []byte, env ...string) *subject {
	t.Helper()
	port, err := controlplane.FreePort()
	check(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	self, err := os.Executable()
	check(t, err)
	bare, err := w.processes.Group().Start(process.Spec{
		// The folder, which it does not read, lets a later group know it for a leftover.
		Name: name, Path: self, Args: []string{w.processes.Path("")},
		Env: append(env, bareAddress+"="+address, bareBody+"="+string(body), "GOMAXPROCS=1"),
	})
	check(t, err)
	t.Cleanup(bare.Kill)
	return &subject{name: name, pid: bare.PID(), address: address}
}

// compare runs alternating rounds and prints the median of the ratios of neighbours.
func compare(t *testing.T, subjects []*subject, setting string) {
	const rounds, length = 7, 2 * time.Second
	const connections = 8
	rates := make([][]float64, len(subjects))
	shares := make([][]float64, len(subjects))
	var own []float64
	for round := range rounds + 1 {
		for i, s := range subjects {
			before, mine := cpuTime(t, s.pid), cpuTime(t, os.Getpid())
			rate, err := s.measure(connections, length)
			check(t, err)
			if round == 0 {
				continue // warm-up
			}
			rates[i] = append(rates[i], rate)
			shares[i] = append(shares[i], float64(cpuTime(t, s.pid)-before)/float64(length))
			own = append(own, float64(cpuTime(t, os.Getpid())-mine)/float64(length))
		}
	}
	cardea := len(subjects) - 1
	for i, against := range []string{"bare net/http", "bare net/http with the same timeouts"} {
		var ratios, efforts []float64
		for round := range rates[i] {
			ratios = append(ratios, rates[cardea][round]/rates[i][round])
			efforts = append(efforts, shares[i][round]/rates[i][round]/(shares[cardea][round]/rates[cardea][round]))
		}
		row("GET of one scheme, authentication included, to "+against+"; "+setting, ">= 0.7",
			"%.2f, by processor time a request %.2f (%.0f to %.0f a second, %d bytes; processor shares: cardea %.0f %%, bare %.0f %%, generator %.0f %%)",
			median(ratios), median(efforts), median(rates[cardea]), median(rates[i]), len(subjects[0].body), 100*median(shares[cardea]), 100*median(shares[i]), 100*median(own))
	}
}

// subject is a server under load.
type subject struct {
	name    string
	pid     int
	address string
	request []byte
	body    []byte
}

// measure loads the server over keep-alive connections for a time, at least one request on each, and returns the answers
// a second. The generator is as lean as can be, so that it is not what is measured: a request is one write, and an
// answer is read by its length. Every answer must be 200 with the whole body.
func (s *subject) measure(connections int, length time.Duration) (float64, error) {
	var answers atomic.Int64
	faults := make(chan error, connections)
	var group sync.WaitGroup
	begin := time.Now()
	for range connections {
		group.Go(func() {
			n, err := s.load(begin.Add(length))
			answers.Add(n)
			if err != nil {
				faults <- err
			}
		})
	}
	group.Wait()
	took := time.Since(begin)
	close(faults)
	return float64(answers.Load()) / took.Seconds(), <-faults
}

func (s *subject) load(until time.Time) (int64, error) {
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	size, err := s.first(conn)
	if err != nil {
		return 0, err
	}
	buffer := make([]byte, size)
	answers := int64(1)
	for ; answers%64 != 0 || time.Now().Before(until); answers++ {
		if _, err := conn.Write(s.request); err != nil {
			return answers, err
		}
		if _, err := io.ReadFull(conn, buffer); err != nil {
			return answers, err
		}
		if !bytes.HasPrefix(buffer, []byte("HTTP/1.1 200 ")) || !bytes.HasSuffix(buffer, s.body) {
			return answers, fmt.Errorf("%s answered something else: %q", s.name, buffer)
		}
	}
	return answers, nil
}

// first reads one answer with its headers, whose length the others share.
func (s *subject) first(conn net.Conn) (int, error) {
	if _, err := conn.Write(s.request); err != nil {
		return 0, err
	}
	reader := bufio.NewReaderSize(conn, 1<<16)
	size := 0
	length := -1
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return 0, err
		}
		size += len(line)
		if name, value, found := strings.Cut(strings.TrimSpace(line), ": "); found && strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(value); err != nil {
				return 0, err
			}
		}
		if line == "\r\n" {
			break
		}
	}
	if length != len(s.body) {
		return 0, errors.New("the answers of both servers are not of one length")
	}
	_, err := io.CopyN(io.Discard, reader, int64(length))
	return size + length, err
}
