package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/hack/progress"
)

// goStub returns the path of a go command that lists three packages, and whose build is a shell script.
func goStub(t *testing.T, build string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "go")
	text := "#!/bin/sh\ncase \"$1\" in\nlist) printf 'fmt\\nexample.com/a\\nexample.com/b\\n' ;;\nbuild)\n" + build + "\n;;\nesac\n"
	// A process that another test forks meanwhile would hold the file open for writing, and it could not run.
	syscall.ForkLock.RLock()
	err := os.WriteFile(file, []byte(text), 0o755) //nolint:gosec // a program
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// epoch is the start of every test's clock, which does not advance by itself.
var epoch = time.Unix(1000, 0)

func newCompilation(t *testing.T, build string) (c *compilation, out, problems *strings.Builder) {
	t.Helper()
	out, problems = &strings.Builder{}, &strings.Builder{}
	return &compilation{
		goCommand: goStub(t, build), name: "Cardea", counted: []string{"./..."}, errors: problems,
		steps: progress.New(out, "", func() time.Time { return epoch }),
	}, out, problems
}

func TestSuccessfulCompilationPrintsOneLine(t *testing.T) {
	t.Parallel()
	c, out, problems := newCompilation(t, `echo fmt >&2; echo example.com/a >&2`)
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out.String() != "[0:00] compiled Cardea\n" || problems.String() != "" {
		t.Errorf("printed %q, errors %q", out, problems)
	}
	if c.compiled != 2 || c.total != 3 {
		t.Errorf("counted %d of %d packages, want 2 of 3", c.compiled, c.total)
	}
}

func TestEveryProgramHasALineWhenItIsReady(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	etcd, kubectl := filepath.Join(dir, "etcd"), filepath.Join(dir, "kubectl")
	c, out, _ := newCompilation(t, `shift 2; for file; do echo program >"$file"; done`)
	c.arguments = []string{etcd, kubectl}
	c.programs = []program{{"etcd", etcd}, {"kubectl", kubectl}}
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "[0:00] compiled etcd\n[0:00] compiled kubectl\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}

func TestErrorsOfTheCompilerArePrintedWithTheStatusOfGoBuild(t *testing.T) {
	t.Parallel()
	c, out, problems := newCompilation(t, `echo fmt >&2; echo '# example.com/a' >&2; echo 'a/a.go:3:5: undefined: x' >&2; exit 7`)
	var failed *exec.ExitError
	if err := c.run(t.Context()); !errors.As(err, &failed) || failed.ExitCode() != 7 {
		t.Errorf("error %v, want exit status 7", err)
	}
	if want := "# example.com/a\na/a.go:3:5: undefined: x\n"; problems.String() != want {
		t.Errorf("errors %q, want %q", problems, want)
	}
	if want := "[0:00] could not compile Cardea: go build ended with exit status 7\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}

func TestCompilationEndsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	c, out, _ := newCompilation(t, `trap 'exit 1' INT; : >"`+ready+`"; while :; do read -r line <"`+ready+`" || true; done`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ticks := make(chan time.Time)
	c.ticks = ticks
	go func() {
		for { // until the stub runs
			if _, err := os.Stat(ready); err == nil {
				cancel()
				return
			}
			ticks <- epoch
		}
	}()
	if err := c.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if strings.Contains(out.String(), "compiled Cardea") {
		t.Errorf("printed %q", out)
	}
}

// follows returns what a compilation prints for lines of go build and ticks, both in their order. A tick is a number of
// seconds since epoch.
func follows(t *testing.T, c *compilation, events ...any) {
	t.Helper()
	lines, ticks, done := make(chan string), make(chan time.Time), make(chan struct{})
	c.ticks = ticks
	go func() {
		defer close(done)
		c.follow(lines)
	}()
	for _, event := range events {
		switch event := event.(type) {
		case string:
			lines <- event
		case int:
			ticks <- epoch.Add(time.Duration(event) * time.Second)
		case func():
			event()
		}
	}
	close(lines)
	<-done
}

func TestProgressIsALineEveryFifteenSeconds(t *testing.T) {
	t.Parallel()
	etcd := filepath.Join(t.TempDir(), "etcd")
	write := func() {
		if err := os.WriteFile(etcd, []byte("program"), 0o600); err != nil {
			t.Error(err)
		}
	}
	for name, tt := range map[string]struct {
		total    int
		programs []program
		events   []any
		want     string
	}{
		"less than 15 seconds": {total: 3, events: []any{1, "fmt", 2, "example.com/a", 15}},
		"packages":             {total: 3, events: []any{1, "fmt", "example.com/a", 15, 16, 17, "example.com/b", 31}, want: "compiling Cardea: 2 of about 3 packages\ncompiling Cardea: 3 of about 3 packages\n"},
		"downloads":            {total: 3, events: []any{1, "go: downloading example.com/a v1.0.0", "go: downloading example.com/b v1.0.0", 16}, want: "downloading the source of Cardea: 2 modules\n"},
		"no total":             {events: []any{1, "fmt", 16}, want: "compiling Cardea: 1 packages\n"},
		"a program is ready":   {total: 3, programs: []program{{"etcd", etcd}}, events: []any{1, "fmt", write, 15, 16, 29, 30}, want: "compiled etcd\ncompiling Cardea: 1 of about 3 packages\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, out, problems := newCompilation(t, "")
			c.total, c.programs = tt.total, tt.programs
			follows(t, c, tt.events...)
			if got := strings.ReplaceAll(out.String(), "[0:00] ", ""); got != tt.want || problems.String() != "" {
				t.Errorf("printed %q, errors %q, want %q", got, problems, tt.want)
			}
		})
	}
}

func TestFlagsNameWhatIsCompiled(t *testing.T) {
	t.Parallel()
	var c compilation
	if err := c.parse([]string{"-name", "x", "-count", "./a ./b", "-program", "etcd=bin/server", "-trimpath", "./a"}); err == nil {
		t.Error("a flag of go build before -- was accepted")
	}
	c = compilation{}
	if err := c.parse([]string{"-name", "x", "-count", "./a ./b", "-program", "etcd=bin/server", "--", "-trimpath", "./a"}); err != nil {
		t.Fatal(err)
	}
	if len(c.counted) != 2 || len(c.programs) != 1 || strings.Join(c.arguments, " ") != "-trimpath ./a" {
		t.Errorf("parsed %+v", c)
	}
	for _, args := range [][]string{{}, {"-name", "x", "-program", "etcd"}} {
		if err := new(compilation).parse(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
