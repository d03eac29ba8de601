package verification

import (
	"errors"
	"fmt"
)

// Errors of the rules. ErrTooManySends, ErrTooManyTries and ErrBudgetSpent are returned in an account.WaitError.
var (
	ErrExpired      = errors.New("there is no valid code")
	ErrTooManySends = errors.New("too many codes were requested")
	ErrTooManyTries = errors.New("too many wrong codes")
	ErrBudgetSpent  = errors.New("the budget for texts is spent")
)

// WrongCodeError refuses a wrong code.
type WrongCodeError struct {
	// Left is how many codes may still be tried.
	Left int
}

func (e *WrongCodeError) Error() string { return fmt.Sprintf("wrong code, %d tries left", e.Left) }
