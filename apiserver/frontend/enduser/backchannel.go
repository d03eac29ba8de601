package enduser

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// signInsAtOnce is how many sign-ins one transaction ends.
const signInsAtOnce = 500

// backchannelLogout ends the sign-ins that a provider's logout token names (OpenID Connect Back-Channel Logout 1.0).
// Its responses are those of that standard: 200 without content, or 400 with a JSON error.
func backchannelLogout(c *call) error {
	id, err := ids.Parse(c.r.PathValue("connection_id"))
	if err != nil {
		return c.answerTo(account.ErrConnectionUnknown)
	}
	conn, err := activeConnection(c, id)
	if err != nil {
		return err
	}
	form, err := readForm(c, body.MaxEndUserBytes)
	if err != nil {
		return err
	}
	if len(form["logout_token"]) != 1 {
		return logoutRefused(c, "logout_token is required, once")
	}
	keys := func(ctx context.Context, issuer, keyID string) (*jose.JSONWebKey, error) {
		return c.Providers.Key(ctx, upstreamOf(c, conn), issuer, keyID)
	}
	logout, err := connection.VerifyLogoutToken(c.r.Context(), conn.Connection, form.Get("logout_token"), keys, c.now)
	var fault *connection.Fault
	if errors.As(err, &fault) {
		return logoutRefused(c, fault.Reason+" of the logout token is not accepted")
	}
	if err != nil {
		return c.answerTo(err)
	}
	first, err := endSignInsBy(c, conn, logout)
	if err != nil {
		return c.answerTo(err)
	}
	if !first {
		return logoutRefused(c, "the logout token was used already")
	}
	c.Header().Set("Cache-Control", "no-store")
	c.WriteHeader(http.StatusOK)
	return nil
}

// endSignInsBy ends the sign-ins of a logout, in batches, and reports whether its token was not used before. The first
// batch uses the token, so that a provider can send it again if nothing was ended.
func endSignInsBy(c *call, conn account.Connection, logout connection.Logout) (first bool, err error) {
	more := false
	err = c.request.Change(c.r.Context(), func(u *account.Unit) (err error) {
		if more, err = endBatch(u, conn, logout); err == nil { // sessions are locked before limits
			first, err = useLogout(u, conn.ID, logout)
		}
		if err == nil && !first {
			err = errLogoutUsed
		}
		return err
	})
	if errors.Is(err, errLogoutUsed) {
		return false, nil
	}
	for err == nil && more {
		err = c.request.Change(c.r.Context(), func(u *account.Unit) (err error) {
			more, err = endBatch(u, conn, logout)
			return err
		})
	}
	return first, err
}

// errLogoutUsed rolls back what a repeated logout token would end.
var errLogoutUsed = errors.New("the logout token was used already")

// useLogout reports whether a logout token was not used before.
func useLogout(u *account.Unit, id int64, logout connection.Logout) (bool, error) {
	sum := sha256.Sum256([]byte(format(id) + "\x00" + logout.Issuer + "\x00" + logout.TokenID))
	n, err := u.Limits().Count("logout-tokens", hex.EncodeToString(sum[:]), u.Now, logout.ExpiresAt)
	return n.Count == 1, err
}

// endBatch ends at most signInsAtOnce sign-ins of a logout, and reports whether there may be more.
func endBatch(u *account.Unit, conn account.Connection, logout connection.Logout) (more bool, err error) {
	filter := people.UpstreamFilter{Connection: conn.ID, SessionID: logout.SessionID}
	if logout.Subject != "" {
		i, found, err := u.Identities().IdentityOf(conn.ID, logout.Issuer, logout.Subject)
		if err != nil || !found {
			return false, err
		}
		filter.Identity = i.ID
	}
	ended, err := u.Sessions().EndSignInsBy(filter, signInsAtOnce)
	if err != nil {
		return false, err
	}
	for _, g := range ended {
		if err := u.AuditAs("connection:"+conn.Slug, "session.ended_upstream", "signin:"+format(g.ID), g.Session); err != nil {
			return false, err
		}
	}
	return len(ended) == signInsAtOnce, nil
}

// logoutRefused sends a refusal of a logout token.
func logoutRefused(c *call, description string) error {
	raw, err := json.Marshal(map[string]string{"error": "invalid_request", "error_description": description})
	if err != nil {
		return err
	}
	header := c.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(raw)))
	c.WriteHeader(http.StatusBadRequest)
	_, _ = c.Write(raw) // an error means that the client disconnected
	return nil
}
