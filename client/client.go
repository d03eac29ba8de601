// Package client is how Go programs call Cardea. Each listener has a client of its own, generated from the document
// that the server serves:
//
//   - [github.com/cardea-iam/cardea/client/backend]: the backend API, with an API key or a token
//   - [github.com/cardea-iam/cardea/client/decision]: decisions about requests of others
//   - [github.com/cardea-iam/cardea/client/enduser]: what browsers of end users call, with their session
//
// [github.com/cardea-iam/cardea/client/guard] protects handlers of net/http. This package has what all of them share.
package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/cardea-iam/cardea/client/internal/transport"
)

// Error is an answer that refuses; get it by errors.As.
type Error = transport.Error

// Fault is one of the things that were wrong with a request.
type Fault = transport.Fault

// ErrUnreachable is in the chain of an error if no complete response came; the request may still have taken effect.
var ErrUnreachable = transport.ErrUnreachable

// ErrArgument is in the chain of an error where nothing was sent, because a value in the path was empty, or one or two
// dots.
var ErrArgument = transport.ErrArgument

// Option changes how a client asks.
type Option = func(*transport.Config)

// DefaultMaxBody bounds an answer's body, in bytes, unless WithMaxBody sets another bound.
const DefaultMaxBody = transport.DefaultMaxBody

// WithToken sends an API key, or a token that the deployment accepts, with each request.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource asks for the credential of each request: source is to remember a token for as long as it lives. It is
// called by many goroutines at once; its error fails the request.
func WithTokenSource(source func(context.Context) (string, error)) Option {
	return func(c *transport.Config) { c.Token = source }
}

// WithHTTPClient sends requests by another client than one with a timeout of 30 seconds. It is copied, and the copy
// follows no redirect.
func WithHTTPClient(sender *http.Client) Option {
	return func(c *transport.Config) { c.HTTP = sender }
}

// WithMaxBody bounds an answer's body, in bytes: a longer one is an error.
func WithMaxBody(bytes int64) Option {
	return func(c *transport.Config) { c.MaxBody = bytes }
}

// WithUserAgent names the program to the server.
func WithUserAgent(name string) Option {
	return func(c *transport.Config) { c.UserAgent = name }
}

// WithAnswer shows each answer to look before its body is read: for headers such as Cardea-Synced, and for traces. look
// must leave the body alone.
func WithAnswer(look func(*http.Response)) Option {
	return func(c *transport.Config) { c.OnAnswer = look }
}

// IsStatus reports whether an error is an answer with an HTTP status, such as http.StatusNotFound.
func IsStatus(err error, status int) bool {
	refused := (*Error)(nil)
	return errors.As(err, &refused) && refused.Status == status
}

// IsCode reports whether an error is an answer with a code of the end-user listener, such as INVALID_CODE.
func IsCode(err error, code string) bool {
	refused := (*Error)(nil)
	return errors.As(err, &refused) && refused.Code == code
}
