package enduser

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// signInsAtOnce is how many sign-ins one transaction ends.
	signInsAtOnce = 100
	// maxIdleLogouts is how many logout tokens that end no sign-in are accepted of one connection in an hour.
	maxIdleLogouts   = 1000
	scopeLogouts     = "logout-tokens"
	scopeIdleLogouts = "logout-tokens-idle"
)

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
	if conn.SAML != nil {
		return c.answerTo(account.ErrConnectionUnknown)
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
	err = endSignInsBy(c, conn, logout)
	var wait *account.WaitError
	switch {
	case errors.Is(err, errLogoutUsed):
		return logoutRefused(c, errLogoutUsed.Error())
	case errors.As(err, &wait): // a logout that failed is a 400, as the standard has no other
		c.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(max(wait.Wait, time.Second).Seconds()))))
		return logoutRefused(c, wait.Reason.Error())
	case err != nil:
		return c.answerTo(err)
	}
	c.Header().Set("Cache-Control", "no-store")
	c.WriteHeader(http.StatusOK)
	return nil
}

var (
	// errLogoutUsed rolls back what a repeated logout token would end.
	errLogoutUsed = errors.New("the logout token was used already")
	// errTooManyLogouts is the reason of a WaitError.
	errTooManyLogouts = fmt.Errorf("more than %d logout tokens of this hour ended no sign-in: send the token again later", maxIdleLogouts)
)

// endSignInsBy ends the sign-ins of a logout, in batches. The last batch uses the token: if an earlier one fails, the
// provider can send the token again, and the next request ends what is left.
func endSignInsBy(c *call, conn account.Connection, logout connection.Logout) error {
	sum := sha256.Sum256([]byte(format(conn.ID) + "\x00" + logout.Issuer + "\x00" + logout.TokenID))
	key := hex.EncodeToString(sum[:])
	total := 0
	for {
		ended := 0
		err := c.request.Change(c.r.Context(), func(u *account.Unit) (err error) {
			if err := requireUnused(u, key); err != nil {
				return err
			}
			ended, err = endBatch(u, conn, logout)
			if err != nil || ended == signInsAtOnce {
				return err
			}
			return useLogout(u, conn.ID, key, logout, total+ended == 0)
		})
		if err != nil || ended < signInsAtOnce {
			return err
		}
		total += ended
	}
}

// requireUnused returns errLogoutUsed if a logout token was used before. Requests with the same token wait for each
// other. No transaction that holds a session waits for that lock, so it may come before the locks of sessions.
func requireUnused(u *account.Unit, key string) error {
	if err := u.Limits().Lock(scopeLogouts + ":" + key); err != nil {
		return err
	}
	used, err := u.Limits().Counted(scopeLogouts, key, u.Now)
	if err == nil && used.Count > 0 {
		err = errLogoutUsed
	}
	return err
}

// useLogout records that a logout token was used. Tokens that ended no sign-in are bounded by the connection, because
// each leaves a row: a provider can sign any number of them. The others are bounded by the sign-ins.
func useLogout(u *account.Unit, conn int64, key string, logout connection.Logout, idle bool) error {
	if idle {
		n, err := u.Limits().Count(scopeIdleLogouts, format(conn), u.Now, u.Now.Add(time.Hour))
		if err == nil && n.Count > maxIdleLogouts {
			err = &account.WaitError{Reason: errTooManyLogouts, Wait: n.Ends.Sub(u.Now)}
		}
		if err != nil {
			return err
		}
	}
	_, err := u.Limits().Count(scopeLogouts, key, u.Now, logout.ExpiresAt)
	return err
}

// endBatch ends at most signInsAtOnce sign-ins of a logout, and returns how many it ended. A session of a provider is
// one of the token's issuer: a connection may accept several.
func endBatch(u *account.Unit, conn account.Connection, logout connection.Logout) (int, error) {
	filter := people.UpstreamFilter{Connection: conn.ID, SessionID: logout.SessionID, Issuer: logout.Issuer}
	if logout.Subject != "" {
		i, found, err := u.Identities().IdentityOf(conn.ID, logout.Issuer, logout.Subject)
		if err != nil || !found {
			return 0, err
		}
		filter.Identity = i.ID
	}
	ended, err := u.Sessions().EndSignInsBy(filter, signInsAtOnce)
	if err != nil {
		return 0, err
	}
	account.LogEnds(u, ended, "connection:"+conn.Slug, events.ByConnection)
	for _, g := range ended {
		if err := u.AuditAs("connection:"+conn.Slug, "session.ended_upstream", "signin:"+format(g.ID), g.Session); err != nil {
			return 0, err
		}
	}
	return len(ended), nil
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
