package process

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func openGroup(t *testing.T, dir string) *Group {
	t.Helper()
	g, err := NewGroup(dir)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestStopEndsAChildAndForgetsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := openGroup(t, dir)
	p, err := g.Start(Spec{Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "echo hello; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pids", "sleeper")); err != nil {
		t.Errorf("no pid record of a running child: %v", err)
	}
	if err := p.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pids", "sleeper")); !os.IsNotExist(err) {
		t.Errorf("the pid record outlives the child: %v", err)
	}
	select {
	case p := <-g.Deaths():
		t.Errorf("%s was stopped by us and is reported as dead", p.Name)
	default:
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func TestKillGroupEndsWhatAShellStarted(t *testing.T) {
	t.Parallel()
	g := openGroup(t, t.TempDir())
	defer g.Close() //nolint:errcheck // not the subject
	// The end of file shows that the last writer has ended.
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := g.Start(Spec{Name: "shell", Path: "/bin/sh", Args: []string{"-c", "exec 3>'" + pipe + "'; sleep 1000; true"}})
	if err != nil {
		t.Fatal(err)
	}
	read, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close() //nolint:errcheck // only read
	p.KillGroup()
	if _, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the child of the shell lives: %v", err)
	}
}

func TestStopKillsAChildThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	g := openGroup(t, t.TempDir())
	defer g.Close() //nolint:errcheck // not the subject
	// exec keeps ignored signals ignored.
	p, err := g.Start(Spec{Name: "stubborn", Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; echo ready; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the trap", func() bool { return Tail(p.LogPath, 1) == "ready" })
	if err := p.Stop(50 * time.Millisecond); err == nil {
		t.Error("Stop returned no error although it killed the child")
	}
}

func TestDeathTellsNameAndLog(t *testing.T) {
	t.Parallel()
	g := openGroup(t, t.TempDir())
	defer g.Close() //nolint:errcheck // not the subject
	if _, err := g.Start(Spec{Name: "short", Path: "/bin/sh", Args: []string{"-c", "echo out of luck; exit 3"}}); err != nil {
		t.Fatal(err)
	}
	select {
	case p := <-g.Deaths():
		got := p.ExitError().Error()
		for _, want := range []string{"short", "exit status 3", "out of luck", p.LogPath} {
			if !strings.Contains(got, want) {
				t.Errorf("%q does not name %q", got, want)
			}
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the death was not reported")
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	g := openGroup(t, t.TempDir())
	defer g.Close() //nolint:errcheck // not the subject
	if err := g.Run(t.Context(), Spec{Name: "good", Path: "/bin/true"}); err != nil {
		t.Error(err)
	}
	if err := g.Run(t.Context(), Spec{Name: "bad", Path: "/bin/false"}); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("a child that failed: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := g.Run(ctx, Spec{Name: "long", Path: "/bin/sleep", Args: []string{"1000"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a child that outlasts its context: %v", err)
	}
	select {
	case p := <-g.Deaths():
		t.Errorf("the end of %s is reported as a death", p.Name)
	default:
	}
}

func TestAFolderHasOneGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := openGroup(t, dir)
	if _, err := NewGroup(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second group: %v", err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	// A child that a parallel test is starting holds a copy of the lock until it has become its own program.
	deadline := time.Now().Add(10 * time.Second)
	for {
		again, err := NewGroup(dir)
		if err == nil {
			if err := again.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
