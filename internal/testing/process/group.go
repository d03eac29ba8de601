// Package process runs the child processes of the local run and of tests. On Linux, the kernel kills the children of a
// Group when this process ends for any reason. The output of a child goes to a log file. The pid of a child is
// recorded, so that the next run in the same folder can kill children of a killed run.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

// Group is a set of children that share a folder. It is safe for concurrent use.
type Group struct {
	dir    string
	logDir string
	lock   *os.File
	starts chan func()
	deaths chan *Process

	closing sync.Once
	mu      sync.Mutex
	logged  map[string]bool // names whose log this group has begun
}

// NewGroup opens the group of dir, creating the folder if necessary, and kills children that an earlier, killed run
// left running there. Logs go to dir/logs. NewGroup fails if another run is using dir.
func NewGroup(dir string) (*Group, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	g := &Group{
		dir:    dir,
		logDir: filepath.Join(dir, "logs"),
		starts: make(chan func()),
		deaths: make(chan *Process, 16),
		logged: map[string]bool{},
	}
	for _, folder := range []string{dir, g.logDir, g.pidDir()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	if g.lock, err = lockFolder(dir); err != nil {
		return nil, err
	}
	if err := g.endLeftovers(); err != nil {
		return nil, errors.Join(err, g.lock.Close())
	}
	go g.launch()
	return g, nil
}

// lockFolder takes the folder's lock. The kernel releases it when this process ends, and children do not inherit it.
// After the lock is taken, any child that still runs in the folder is therefore a child of a run that has ended.
func lockFolder(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by another run; stop that one first, or use another folder", dir)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return file, nil
}

// launch starts every child from one OS thread. The kernel sends the parent-death signal when the thread that started
// the child ends, not when the process ends, and the Go runtime can end other threads at any time. The thread is never
// unlocked, so it lives exactly as long as this loop.
func (g *Group) launch() {
	runtime.LockOSThread()
	for start := range g.starts {
		start()
	}
}

// Close ends the group. Stop every child first. On Linux, a child that still runs is killed, because the launching
// thread ends. Closing twice does nothing.
func (g *Group) Close() (err error) {
	g.closing.Do(func() {
		close(g.starts)
		err = g.lock.Close()
	})
	return err
}

// LogDir is the folder of the logs.
func (g *Group) LogDir() string { return g.logDir }

// Deaths delivers each child that ended unexpectedly. A child is not delivered if the channel is full.
func (g *Group) Deaths() <-chan *Process { return g.deaths }

// Spec says what to run. Env nil means the environment of this process.
type Spec struct {
	Name string // of the log file and the pid record; unique among the group's running children
	Path string
	Args []string
	Env  []string
	Dir  string // working directory; "": this process'
	// Ends says that the child is expected to end by itself, so that Deaths does not deliver it. See Run.
	Ends bool
}

// Start runs a child. Its output is appended to its log; the first start of each name in this group truncates the log.
func (g *Group) Start(spec Spec) (*Process, error) {
	logFile, err := g.openLog(spec.Name)
	if err != nil {
		return nil, err
	}
	defer logFile.Close() //nolint:errcheck // the child holds its own descriptor
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = childAttributes()

	started := make(chan error)
	g.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p := &Process{Name: spec.Name, LogPath: logFile.Name(), cmd: cmd, done: make(chan struct{})}
	p.stopping.Store(spec.Ends)
	if err := g.record(p); err != nil {
		p.signal(os.Kill)
		return nil, errors.Join(fmt.Errorf("record the pid of %s: %w", spec.Name, err), cmd.Wait())
	}
	go g.reap(p)
	return p, nil
}

// Run runs a child to its end. It returns the child's ExitError if the child fails. If ctx ends first, it kills the
// child and returns an error.
func (g *Group) Run(ctx context.Context, spec Spec) error {
	spec.Ends = true
	p, err := g.Start(spec)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s was killed: %w; its log: %s", p.Name, ctx.Err(), p.LogPath)
	}
	if p.waitErr != nil {
		return p.ExitError()
	}
	return nil
}

func (g *Group) openLog(name string) (*os.File, error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	g.mu.Lock()
	if !g.logged[name] {
		flags |= os.O_TRUNC
		g.logged[name] = true
	}
	g.mu.Unlock()
	return os.OpenFile(filepath.Join(g.logDir, name+".log"), flags, 0o600)
}

func (g *Group) reap(p *Process) {
	p.waitErr = p.cmd.Wait()
	g.forget(p)
	unasked := !p.stopping.Load()
	close(p.done)
	if !unasked {
		return
	}
	select {
	case g.deaths <- p:
	default: // no receiver; Done and ExitError also report the death
	}
}
