package consent

import "context"

// Refused is a refusal that a page shows instead of a redirect, for a client that is not trusted. Anyone can register a
// client and send any user's browser here, so an immediate redirect would make this host an open redirector (RFC 9700
// 4.11.2). The page lets the user follow the link.
type Refused struct {
	// Client is the client's own name, and Host the host of Back.
	Client, Host string
	// Reason is the error in the protocol's words, "" if the client only wants the browser back after a sign-out. Back
	// is the link.
	Reason, Back string
}

type refusedKey struct{}

// WithRefused returns a context that passes a refusal to the pages.
func WithRefused(ctx context.Context, r Refused) context.Context {
	return context.WithValue(ctx, refusedKey{}, r)
}

// RefusedIn returns the refusal of a context, and whether there is one.
func RefusedIn(ctx context.Context) (Refused, bool) {
	r, found := ctx.Value(refusedKey{}).(Refused)
	return r, found
}
