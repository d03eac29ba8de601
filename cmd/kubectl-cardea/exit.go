package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// Exit codes, as documented in docs/kubectl-cardea.md.
const (
	exitFault    = 1
	exitUsage    = 2
	exitNoAccess = 3
)

// faultFound ends a command that succeeded and found a fault, which its output describes.
type faultFound struct{}

// Error implements error.
func (*faultFound) Error() string { return "something is not well" }

// usageError is an invalid command line.
type usageError struct{ message string }

// Error implements error.
func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}

// accessError is a cluster or server that is unreachable, or refuses the caller.
type accessError struct {
	message string
	err     error
	// passing reports whether the same request may succeed later.
	passing bool
}

// Error implements error.
func (e *accessError) Error() string { return e.message }

// Unwrap returns the cause.
func (e *accessError) Unwrap() error { return e.err }

// refusedError is a refusal that says nothing about access.
type refusedError struct {
	message string
	status  int
}

// Error implements error.
func (e *refusedError) Error() string { return e.message }

// passes reports whether the request that failed may succeed later.
func passes(err error) bool {
	var access *accessError
	var refused *refusedError
	return errors.As(err, &access) && access.passing || errors.As(err, &refused) && refused.status == http.StatusTooManyRequests
}

// runError is an error of a command that started to run. Errors before that are about the command line.
type runError struct{ err error }

// Error implements error.
func (e *runError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *runError) Unwrap() error { return e.err }

// markRuns wraps the errors of every command in runError, to distinguish them from those of the command line.
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
		return exitFault // interrupted: it is not known whether the cluster is unreachable
	case errors.As(err, &access):
		return exitNoAccess
	}
	return exitFault
}
