package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// leftoverEnd bounds the wait for the end of a killed leftover.
const leftoverEnd = 5 * time.Second

func (g *Group) pidDir() string { return filepath.Join(g.dir, "pids") }

// record notes the child's pid and executable. The executable is read back from the system, not taken from the spec:
// what runs may be an interpreter or the target of a link.
func (g *Group) record(p *Process) error {
	line := fmt.Sprintf("%d %s\n", p.PID(), executable(p.PID()))
	return os.WriteFile(filepath.Join(g.pidDir(), p.Name), []byte(line), 0o600)
}

func (g *Group) forget(p *Process) { _ = os.Remove(filepath.Join(g.pidDir(), p.Name)) }

// endLeftovers ends the recorded children of a killed run. A pid alone proves nothing, for the system reuses them: only
// a process that runs the recorded executable and names our folder in its command line is ours. All programs of a group
// are crash-safe, so leftovers are killed.
func (g *Group) endLeftovers() error {
	entries, err := os.ReadDir(g.pidDir())
	if err != nil {
		return err
	}
	var failures []error
	for _, entry := range entries {
		path := filepath.Join(g.pidDir(), entry.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if err := g.endLeftover(string(content)); err != nil {
			failures = append(failures, fmt.Errorf("end the leftover %s: %w", entry.Name(), err))
			continue
		}
		failures = append(failures, os.Remove(path))
	}
	return errors.Join(failures...)
}

func (g *Group) endLeftover(record string) error {
	number, exe, ok := strings.Cut(strings.TrimSpace(record), " ")
	pid, err := strconv.Atoi(number)
	if !ok || err != nil {
		return nil // half-written: the parent died while it wrote, and the child with it
	}
	// The handle is taken before the check and bound to this very process (a pidfd where the system has one), so
	// that a pid reused in between is not hit.
	handle, err := os.FindProcess(pid)
	if err != nil {
		return nil
	}
	defer handle.Release() //nolint:errcheck // nothing depends on it
	if !g.ours(pid, exe) {
		return nil
	}
	if err := handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	for deadline := time.Now().Add(leftoverEnd); g.ours(pid, exe); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("pid %d lives on %s after SIGKILL", pid, leftoverEnd)
		}
	}
	return nil
}

// ours reports whether pid runs exe with our folder, or a path in it, in its command line.
func (g *Group) ours(pid int, exe string) bool {
	if exe == "" || executable(pid) != exe {
		return false
	}
	for _, argument := range commandLine(pid) {
		if argument == g.dir || strings.Contains(argument, g.dir+string(filepath.Separator)) {
			return true
		}
	}
	return false
}
