package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Process is a running or ended child.
type Process struct {
	Name    string
	LogPath string

	cmd      *exec.Cmd
	stopping atomic.Bool
	done     chan struct{}
	waitErr  error // set before done is closed
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the child has ended and been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the child has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop asks the child to end and kills it if it has not ended within grace. It returns when the child has ended: nil,
// or an error that says that the child had to be killed. Stopping an ended child does nothing.
func (p *Process) Stop(grace time.Duration) error {
	p.stopping.Store(true)
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	p.signal(os.Kill)
	<-p.done
	return fmt.Errorf("%s did not end within %s and was killed", p.Name, grace)
}

// Kill ends the child at once, as `kill -9` does, and returns once it has ended.
func (p *Process) Kill() {
	p.stopping.Store(true)
	p.signal(os.Kill)
	<-p.done
}

// KillGroup is Kill for a child that starts processes itself, such as a shell. It also kills all processes that are
// still in the child's process group.
func (p *Process) KillGroup() {
	p.stopping.Store(true)
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // an error means that no process is left
	<-p.done
}

// signal ignores the error: it means that the child has ended, which done reports.
func (p *Process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// ExitError describes the end of a child that should have lived, with the last lines of its log. The child must
// have ended.
func (p *Process) ExitError() error {
	how := "exit status 0"
	if p.waitErr != nil {
		how = p.waitErr.Error()
	}
	return fmt.Errorf("%s ended (%s); the end of its log, %s:\n%s", p.Name, how, p.LogPath, Tail(p.LogPath, 20))
}

// Tail returns the last lines of a file, at most 16 KiB of them, or why they cannot be read.
func Tail(path string, lines int) string {
	const most = 16 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close() //nolint:errcheck // only read
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	tail := make([]byte, min(size, most))
	if _, err := file.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(tail), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
