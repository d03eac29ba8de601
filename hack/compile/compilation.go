package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/hack/progress"
)

const (
	// every is the time between two lines of progress.
	every = 15 * time.Second
	// stopWithin is how long go build may take to end after an interrupt.
	stopWithin = 10 * time.Second
)

// program is a file that go build writes.
type program struct{ name, file string }

// compilation is a run of go build.
type compilation struct {
	goCommand string
	folder    string
	name      string
	counted   []string
	arguments []string
	programs  []program
	steps     *progress.Steps
	errors    io.Writer
	// ticks are the times at which the program looks for finished programs.
	ticks <-chan time.Time

	total, compiled, downloaded int
}

// run runs go build until it ends, or until ctx ends.
func (c *compilation) run(ctx context.Context) error {
	c.total = c.count(ctx)
	parts := len(c.programs) > 0
	command := exec.CommandContext(ctx, c.goCommand, append([]string{"build", "-v"}, c.arguments...)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.Dir = c.folder
	command.WaitDelay = stopWithin
	output, err := command.StderrPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	c.follow(linesOf(output))
	err = command.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		c.steps.Print("could not compile %s: go build ended with %v", c.name, err)
		return err
	}
	c.announce()
	if !parts {
		c.steps.Print("compiled %s", c.name)
	}
	return nil
}

// count returns the number of packages that go build compiles with an empty cache, or 0 if it is unknown. An error
// is not reported: go build then fails with the same error.
func (c *compilation) count(ctx context.Context) int {
	if len(c.counted) == 0 {
		return 0
	}
	command := exec.CommandContext(ctx, c.goCommand, append([]string{"list", "-deps"}, c.counted...)...)
	command.Dir = c.folder
	list, err := command.Output()
	if err != nil {
		return 0
	}
	return strings.Count(string(list), "\n")
}

// linesOf returns the lines of a stream. The channel is closed at the stream's end.
func linesOf(stream io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		reader := bufio.NewReader(stream)
		for {
			line, err := reader.ReadString('\n')
			if line != "" {
				lines <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// follow reads the lines of go build to their end, and prints the progress meanwhile.
func (c *compilation) follow(lines <-chan string) {
	var printed time.Time
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			c.read(line)
		case now := <-c.ticks:
			if printed.IsZero() {
				printed = now
			}
			if c.announce() {
				printed = now
			}
			if now.Sub(printed) >= every {
				printed = now
				c.steps.Print("%s", c.state())
			}
		}
	}
}

// read counts a line of go build that names a package or a download, and prints any other line.
func (c *compilation) read(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		c.downloaded++
	case line != "" && !strings.ContainsAny(line, " \t:"):
		c.compiled++
	default:
		_, _ = fmt.Fprintln(c.errors, line)
	}
}

// state returns the line of progress.
func (c *compilation) state() string {
	switch {
	case c.compiled == 0 && c.downloaded > 0:
		return fmt.Sprintf("downloading the source of %s: %d modules", c.name, c.downloaded)
	case c.total == 0:
		return fmt.Sprintf("compiling %s: %d packages", c.name, c.compiled)
	default:
		return fmt.Sprintf("compiling %s: %d of about %d packages", c.name, c.compiled, max(c.total, c.compiled))
	}
}

// announce prints a line for each program that is ready since the previous call, and reports whether it printed any.
func (c *compilation) announce() (printed bool) {
	var waiting []program
	for _, p := range c.programs {
		if info, err := os.Stat(p.file); err != nil || info.Size() == 0 {
			waiting = append(waiting, p)
			continue
		}
		c.steps.Print("compiled %s", p.name)
		printed = true
	}
	c.programs = waiting
	return printed
}
