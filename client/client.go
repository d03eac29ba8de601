// Package client is the Go client of Cardea. Each API has its own package, generated from the OpenAPI document that the
// server serves:
//
//   - [github.com/cardea-iam/cardea/client/backend]: the backend API, with an API key or a token
//   - [github.com/cardea-iam/cardea/client/decision]: decisions about the requests that an application receives
//   - [github.com/cardea-iam/cardea/client/enduser]: the API that end users' browsers call, with a session
//
// [github.com/cardea-iam/cardea/client/guard] protects handlers of net/http. This package has the errors and options
// that all of them share.
package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/cardea-iam/cardea/client/internal/transport"
)

// Error is a response that refuses a request. Use errors.As to get it from an error.
type Error = transport.Error

// Fault is one fault of a request.
type Fault = transport.Fault

// ErrUnreachable is in the chain of an error if no complete response arrived. The request may have taken effect anyway.
var ErrUnreachable = transport.ErrUnreachable

// ErrArgument is in the chain of an error if no request was sent, because a value in the path was empty, "." or "..".
var ErrArgument = transport.ErrArgument

// Option configures a client.
type Option = func(*transport.Config)

// DefaultMaxBody bounds the body of a response, in bytes, unless WithMaxBody sets another bound.
const DefaultMaxBody = transport.DefaultMaxBody

// WithToken sends an API key, or a token that the deployment accepts, with each request.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource calls source for the credential of each request, so source should cache a token until the token
// expires. Many goroutines may call source at once. If source returns an error, the request fails.
func WithTokenSource(source func(context.Context) (string, error)) Option {
	return func(c *transport.Config) { c.Token = source }
}

// WithHTTPClient sends requests with a copy of sender that follows no redirect. The default is a client with a timeout
// of 30 seconds.
func WithHTTPClient(sender *http.Client) Option {
	return func(c *transport.Config) { c.HTTP = sender }
}

// WithMaxBody bounds the body of a response, in bytes. A longer body is an error.
func WithMaxBody(bytes int64) Option {
	return func(c *transport.Config) { c.MaxBody = bytes }
}

// WithUserAgent sets the User-Agent header, which identifies the program to the server.
func WithUserAgent(name string) Option {
	return func(c *transport.Config) { c.UserAgent = name }
}

// WithAnswer calls look with each response before its body is read: for headers such as Cardea-Synced, and for traces.
// look must not read or close the body.
func WithAnswer(look func(*http.Response)) Option {
	return func(c *transport.Config) { c.OnAnswer = look }
}

// IsStatus reports whether an error is a response with an HTTP status, such as http.StatusNotFound.
func IsStatus(err error, status int) bool {
	refused := (*Error)(nil)
	return errors.As(err, &refused) && refused.Status == status
}

// IsCode reports whether an error is a response with a code of the end-user API, such as INVALID_CODE.
func IsCode(err error, code string) bool {
	refused := (*Error)(nil)
	return errors.As(err, &refused) && refused.Code == code
}
