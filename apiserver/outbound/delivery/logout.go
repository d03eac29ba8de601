package delivery

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// logout notifies clients of an authorization server that a sign-in ended (OpenID Connect Back-Channel Logout 1.0,
// 2.5).
type logout struct{ transport *Transport }

// NewLogout returns a Sender of logout tokens. The message's To is the client's logout URL, and its Body is the token.
func NewLogout(transport *Transport) Sender { return &logout{transport} }

// logoutWithin bounds one notification. Clients choose their logout URLs, and a client that does not respond must not
// delay the notifications of others.
const logoutWithin = 3 * time.Second

// Send implements Sender.
func (s *logout) Send(ctx context.Context, m Message) (Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, logoutWithin)
	defer cancel()
	a, err := s.transport.post(ctx, m.To, url.Values{"logout_token": {m.Body}}.Encode(), 0, func(request *http.Request) {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	})
	switch {
	case err != nil:
		return Receipt{}, err
	case a.status == http.StatusOK || a.status == http.StatusNoContent:
		return Receipt{}, nil
	case a.status == http.StatusTooManyRequests:
		return Receipt{}, a.throttled(s.transport.clock())
	case a.status >= 500, a.status == http.StatusRequestTimeout:
		return Receipt{}, Transient("the client answered " + strconv.Itoa(a.status))
	}
	return Receipt{}, Permanent(a.code(), "the client refuses the logout token")
}
