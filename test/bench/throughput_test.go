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

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	// bareAddress and bareBody make this binary run the bare server that Cardea is compared with.
	bareAddress = "CARDEA_BENCH_BARE_ADDRESS"
	bareBody    = "CARDEA_BENCH_BARE_BODY"
	// bareTimeouts gives the bare server the time limits of Cardea's listener, which every server on a network needs.
	bareTimeouts = "CARDEA_BENCH_BARE_TIMEOUTS"
)

// serveBare runs the smallest net/http server that returns the bytes of bareBody.
func serveBare(address string) {
	body := []byte(os.Getenv(bareBody))
	contentType, length := []string{"application/json"}, []string{strconv.Itoa(len(body))}
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = contentType
		w.Header()["Content-Length"] = length // otherwise net/http sends long bodies in chunks
		_, _ = w.Write(body)
	})}
	if os.Getenv(bareTimeouts) != "" {
		server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = 10*time.Second, 30*time.Second, 30*time.Second, 2*time.Minute
	}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

// TestBenchThroughput compares GET of one scheme, authentication included, with a bare handler that returns the same
// bytes. Each server is a process on one processor, the generator uses the other processor, and rounds alternate.
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

	subjects := w.besideBare(t, &subject{
		pid: server.PID(), address: strings.TrimPrefix(server.Backend, "http://"), path: schemesPath + "/gold", credential: w.key, body: created.Raw,
	})
	if runtime.NumCPU() < 2 {
		t.Skip("needs a processor for the server and one for the generator")
	}
	const what = "GET of one scheme, authentication included"
	all := fmt.Sprintf("0-%d", runtime.NumCPU()-1)
	t.Run("one processor each", func(t *testing.T) {
		for _, s := range subjects {
			pin(t, s.pid, "0")
		}
		pin(t, os.Getpid(), "1")
		defer pin(t, os.Getpid(), all)
		compare(t, subjects, what, ">= 0.7", "server on one processor, generator on the other")
	})
	t.Run("shared processors", func(t *testing.T) {
		for _, s := range subjects {
			pin(t, s.pid, all)
		}
		compare(t, subjects, what, ">= 0.7", "server (GOMAXPROCS 1) and generator share both")
	})
}

// startBare runs this binary as a bare server that returns a subject's bytes.
func (w *world) startBare(t *testing.T, name string, like *subject, env ...string) *subject {
	t.Helper()
	port, err := controlplane.FreePort()
	check(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	self, err := os.Executable()
	check(t, err)
	bare, err := w.processes.Group().Start(process.Spec{
		// The server ignores the folder argument; it lets a later group recognize a leftover process.
		Name: "bare-" + strconv.Itoa(port), Path: self, Args: []string{w.processes.Path("")},
		Env: append(env, bareAddress+"="+address, bareBody+"="+string(like.body), "GOMAXPROCS=1"),
	})
	check(t, err)
	t.Cleanup(bare.Kill)
	s := &subject{name: name, pid: bare.PID(), address: address, path: like.path, credential: like.credential, body: like.body}
	s.ready(t)
	return s
}

// compare runs alternating rounds. For each subject but the last it prints the median, over adjacent rounds, of the
// last subject's rate divided by that subject's rate.
func compare(t *testing.T, subjects []*subject, what, target, setting string) {
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
	last := len(subjects) - 1
	for i, against := range subjects[:last] {
		var ratios, efforts []float64
		for round := range rates[i] {
			ratios = append(ratios, rates[last][round]/rates[i][round])
			efforts = append(efforts, shares[i][round]/rates[i][round]/(shares[last][round]/rates[last][round]))
		}
		row(what+", to "+against.name+"; "+setting, target,
			"%.2f, by processor time a request %.2f (%.0f to %.0f a second, %d bytes; processor shares: %s %.0f %%, %s %.0f %%, generator %.0f %%)",
			median(ratios), median(efforts), median(rates[last]), median(rates[i]), len(subjects[0].body),
			subjects[last].name, 100*median(shares[last]), against.name, 100*median(shares[i]), 100*median(own))
	}
}

// subject is a server under load.
type subject struct {
	name             string
	pid              int
	address          string
	path, credential string
	body             []byte
	request          []byte
}

// ready sets the subject's request and waits until the server answers it.
func (s *subject) ready(t *testing.T) {
	t.Helper()
	s.request = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: application/json\r\n\r\n", s.path, s.address, s.credential)
	await(t, time.Minute, 10*time.Millisecond, func() bool { _, err := s.measure(1, 0); return err == nil })
}

// besideBare returns two bare servers with the same bytes, one with the time limits of Cardea's listener, and the
// subject last. All are ready.
func (w *world) besideBare(t *testing.T, cardea *subject) []*subject {
	t.Helper()
	cardea.name = "cardea"
	cardea.ready(t)
	return []*subject{w.startBare(t, "bare net/http", cardea), w.startBare(t, "bare net/http with our time limits", cardea, bareTimeouts+"=1"), cardea}
}

// measure loads the server over keep-alive connections for a time, with at least one request on each. It returns the
// responses per second. The generator does as little work as possible, so that it does not limit the result: a request
// is one write, and a response is read by its length. Every response must be 200 with the whole body.
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

// first reads one response with its headers; later responses have the same length.
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
