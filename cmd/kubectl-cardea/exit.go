package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes, as docs/kubectl-cardea.md promises them.
const (
	exitFault    = 1
	exitUsage    = 2
	exitNoAccess = 3
)

// faultFound ends a command that did what it was asked for, and whose answer is that something is not well: the output has told.
type faultFound struct{}

// Error implements error.
func (*faultFound) Error() string { return "something is not well" }

// usageError is a command line that cannot be meant.
type usageError struct{ message string }

// Error implements error.
func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}

// accessError is a cluster or server that is out of reach, or that refuses the caller.
type accessError struct {
	message string
	err     error
}

// Error implements error.
func (e *accessError) Error() string { return e.message }

// Unwrap gives the cause.
func (e *accessError) Unwrap() error { return e.err }

// runError is an error of a command that began to run: what comes before is about the command line.
type runError struct{ err error }

// Error implements error.
func (e *runError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *runError) Unwrap() error { return e.err }

// markRuns lets the errors of every command be told from those of the command line.
func markRuns(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := run(cmd, args); err != nil {
				return &runError{err: err}
			}
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		markRuns(child)
	}
}

func exitCode(err error) int {
	var ran *runError
	var usage *usageError
	var access *accessError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &ran), errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitFault // interrupted: nothing is known of who is out of reach
	case errors.As(err, &access):
		return exitNoAccess
	}
	return exitFault
}
