package verification

import (
	"errors"
	"fmt"
)

// What the rules refuse. ErrTooManySends, ErrTooManyTries and ErrBudgetSpent come in an account.WaitError.
var (
	ErrExpired      = errors.New("there is no code that is still valid")
	ErrTooManySends = errors.New("too many codes were asked for")
	ErrTooManyTries = errors.New("too many wrong codes")
	ErrBudgetSpent  = errors.New("the budget of texts is spent")
)

// WrongCodeError refuses a code that is not the one that was sent.
type WrongCodeError struct {
	// Left is how many codes may still be tried.
	Left int
}

func (e *WrongCodeError) Error() string { return fmt.Sprintf("a wrong code, %d tries left", e.Left) }
