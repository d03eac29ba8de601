package consent

import "context"

// Refused is what a client asked for wrongly that nobody vouches for. Who can register can send anybody's browser here: were it led on to the
// client at once, our host would lead wherever a stranger likes (RFC 9700 4.11.2). A page tells the person, who may go there.
type Refused struct {
	// Client is what it calls itself, and Host where Back leads.
	Client, Host string
	// Reason is what is wrong, in the protocol's words, "" where nothing is: the client wants the person back after a sign-out. Back is where the
	// link leads.
	Reason, Back string
}

type refusedKey struct{}

// WithRefused hands a refusal to the pages.
func WithRefused(ctx context.Context, r Refused) context.Context {
	return context.WithValue(ctx, refusedKey{}, r)
}

// RefusedIn returns the refusal that a page is to show, if there is one.
func RefusedIn(ctx context.Context) (Refused, bool) {
	r, found := ctx.Value(refusedKey{}).(Refused)
	return r, found
}
