// Command compile runs `go build -v` and prints its progress in few lines: a line for each program that is ready, and a
// line every 15 seconds with the number of compiled packages. It prints errors of the compiler as they are, and exits
// with the status of go build. Arguments after the flags are those of go build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cardea-iam/cardea/hack/progress"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ticker := time.NewTicker(time.Second)
	c := compilation{
		goCommand: "go",
		steps:     progress.New(os.Stdout, os.Getenv(progress.StartVariable), time.Now),
		errors:    os.Stderr,
		ticks:     ticker.C,
	}
	err := c.parse(os.Args[1:])
	if err == nil {
		err = c.run(ctx)
	}
	stop()
	var failed *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &failed) && failed.ExitCode() > 0:
		os.Exit(failed.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "compile:", err)
		os.Exit(1)
	}
}

// parse reads the flags and the arguments of go build.
func (c *compilation) parse(args []string) error {
	flags := flag.NewFlagSet("compile", flag.ContinueOnError)
	flags.StringVar(&c.name, "name", "", "name of what is compiled, for the lines of progress")
	flags.StringVar(&c.folder, "folder", "", "folder that go build runs in (default: the current one)")
	count := flags.String("count", "", "packages whose dependencies are counted, separated by spaces; empty: the lines name no total")
	flags.Func("program", "NAME=FILE: a program that go build writes, which is absent before; may be repeated", func(value string) error {
		name, file, ok := strings.Cut(value, "=")
		if !ok || name == "" || file == "" {
			return errors.New("must be NAME=FILE")
		}
		c.programs = append(c.programs, program{name: name, file: file})
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if c.name == "" {
		return errors.New("-name is missing")
	}
	c.counted, c.arguments = strings.Fields(*count), flags.Args()
	return nil
}
