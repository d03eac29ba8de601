// Package pgtest runs private PostgreSQL servers for tests and benchmarks. A server has its own data folder, a free
// port on 127.0.0.1 or on a Host, and no password. It ends with the process that started it. It is durable unless its
// settings say otherwise; the server that tests share is not (see Durable).
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a running PostgreSQL server.
type Server struct {
	folder    string
	host      *Host
	port      int
	settings  []string
	process   *os.Process
	exited    chan struct{}
	log       string
	databases atomic.Int64
}

const (
	// startTimeout bounds the wait until a new server accepts connections. stopTimeout bounds the wait for the server to
	// end after each signal.
	startTimeout = 30 * time.Second
	stopTimeout  = 10 * time.Second
	// maxStarts is how many ports are tried at most: another process may take a port after freePort found it and before
	// the server uses it.
	maxStarts = 3
)

// Start makes a data folder and starts a server on it. Settings are "name=value" as in postgresql.conf, such as
// "fsync=off". The caller stops it.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	return StartAt(ctx, nil, settings...)
}

// StartAt is Start on the given host. A nil host is this machine's loopback address.
func StartAt(ctx context.Context, host *Host, settings ...string) (*Server, error) {
	return start(ctx, host, settings, initialize)
}

// start makes a data folder with fill and starts a server on it.
func start(ctx context.Context, host *Host, settings []string, fill func(ctx context.Context, binaries, folder string, credential *syscall.Credential) error) (*Server, error) {
	binaries, err := findBinaries()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(parent(settings), fmt.Sprintf("%s%d-", folderPrefix, os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	credential, err := giveAway(folder)
	if err == nil {
		err = fill(ctx, binaries, folder, credential)
	}
	if err == nil && host != nil {
		err = acceptOthers(folder)
	}
	for try := 1; err == nil; try++ {
		server := &Server{folder: folder, host: host, settings: settings, log: filepath.Join(folder, "log")}
		if server.port, err = freePort(); err != nil {
			break
		}
		if err = server.launch(ctx, binaries, credential); err == nil {
			return server, nil
		}
		if try < maxStarts && ctx.Err() == nil {
			err = nil
		}
	}
	return nil, errors.Join(err, os.RemoveAll(folder))
}

// findBinaries returns the folder of initdb and postgres; Debian keeps them outside of PATH.
func findBinaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("these tests need a PostgreSQL server, and initdb is neither in PATH nor under " +
			"/usr/lib/postgresql: run `apt-get install postgresql` (the packaged service need not run)")
	}
	version := func(path string) int {
		number, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return number
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

// giveAway changes the owner of the folder to a user without root rights, because PostgreSQL refuses to run as root. It
// returns the credential of that user, or nil if this process does not run as root.
func giveAway(folder string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(account.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(account.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("start PostgreSQL as %s: %w", name, err)
		}
		if err := os.Chown(folder, int(uid), int(gid)); err != nil {
			return nil, fmt.Errorf("start PostgreSQL as %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("start PostgreSQL: it refuses to run as root, and there is no user postgres or nobody")
}

func dataFolder(folder string) string { return filepath.Join(folder, "data") }

func initialize(ctx context.Context, binaries, folder string, credential *syscall.Credential) error {
	command := exec.CommandContext(ctx, filepath.Join(binaries, "initdb"), "--pgdata", dataFolder(folder),
		"--auth", "trust", "--username", "postgres", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	command.Dir = folder
	command.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	return nil
}

// launch starts the server process and waits until it answers.
func (s *Server) launch(ctx context.Context, binaries string, credential *syscall.Credential) error {
	args := []string{"-D", dataFolder(s.folder), "-p", strconv.Itoa(s.port), "-k", s.folder, "-h", s.host.address()}
	for _, setting := range append([]string{"max_connections=300", "shared_buffers=64MB"}, s.settings...) {
		args = append(args, "-c", setting)
	}
	command := s.host.command(filepath.Join(binaries, "postgres"), credential, args...)
	command.Dir = s.folder
	// The server ends immediately when this process dies: its data is not needed again.
	command.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	command.Stdout, command.Stderr = log, log
	started := make(chan error)
	exited := make(chan struct{})
	go func() {
		// The kernel sends Pdeathsig when the thread that started the process ends, so this goroutine keeps its thread until
		// the server ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := errors.Join(command.Start(), log.Close())
		started <- err
		if err == nil {
			// The server's log says how it ended.
			_ = command.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	s.process, s.exited = command.Process, exited
	if err := s.waitReady(ctx); err != nil {
		return errors.Join(err, s.end())
	}
	return nil
}

// Halt stops the server and keeps its data, to simulate an outage. Start it again with Resume.
func (s *Server) Halt() error { return s.end() }

// Kill ends the server as kill -9 does, and keeps its data. Its children end with it. Start it again with Resume.
func (s *Server) Kill() error {
	if err := s.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	<-s.exited
	return nil
}

// Resume starts a halted or killed server again, on the same port and data.
func (s *Server) Resume(ctx context.Context) error {
	binaries, err := findBinaries()
	if err != nil {
		return err
	}
	credential, err := giveAway(s.folder)
	if err != nil {
		return err
	}
	return s.launch(ctx, binaries, credential)
}

// freePort returns a free port below the range of ephemeral ports. The system does not assign such a port to an
// outgoing connection, so the port of a halted server is still free when the server starts again.
func freePort() (int, error) {
	const lowest, count = 20000, 12000
	for range 100 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(count)))
		if err == nil {
			return listener.Addr().(*net.TCPAddr).Port, listener.Close()
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-retry.C:
		case <-s.exited:
			return fmt.Errorf("PostgreSQL ended at its start: %s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w: %s", err, s.Log())
		}
	}
}

// URL returns the address of a database of the server.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Address(), database)
}

// Address is host:port.
func (s *Server) Address() string { return net.JoinHostPort(s.host.address(), strconv.Itoa(s.port)) }

// Running reports whether the server process lives.
func (s *Server) Running() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// Pid is the id of the server process.
func (s *Server) Pid() int { return s.process.Pid }

// Log returns what the server logged so far.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// Do runs statements on a database of the server, as its superuser.
func (s *Server) Do(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	for _, statement := range statements {
		if _, err = conn.Exec(ctx, statement); err != nil {
			err = fmt.Errorf("PostgreSQL: %s: %w", statement, err)
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

// CreateDatabase makes a new empty database and returns its name.
func (s *Server) CreateDatabase(ctx context.Context) (string, error) {
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	return name, s.Do(ctx, "postgres", "CREATE DATABASE "+name)
}

// CopyDatabase copies a database that has no connections, and returns the name of the copy. It needs PostgreSQL 15.
func (s *Server) CopyDatabase(ctx context.Context, original string) (string, error) {
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	return name, s.Do(ctx, "postgres", "CREATE DATABASE "+name+" TEMPLATE "+original+" STRATEGY FILE_COPY")
}

// DropDatabase ends every connection to a database and removes it.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	return s.Do(ctx, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
}

// Stop ends the server and removes its data.
func (s *Server) Stop() error { return errors.Join(s.end(), os.RemoveAll(s.folder)) }

// end asks the server to disconnect its clients and to shut down. If it does not end in time, end kills it.
func (s *Server) end() error {
	for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		if err := s.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop PostgreSQL: %w", err)
		}
		select {
		case <-s.exited:
			return nil
		case <-time.After(stopTimeout):
		}
	}
	return fmt.Errorf("stop PostgreSQL: process %d does not end", s.Pid())
}
