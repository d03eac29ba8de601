package connection

import (
	"context"
	"time"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/internal/document"
)

// logoutEvent is the event that a logout token must have (OpenID Connect Back-Channel Logout 1.0, 2.4).
const logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

// maxTokenID bounds the claim jti, in bytes.
const maxTokenID = 255

// Logout is what a provider ends: all sessions of a subject, one session, or both claims together.
type Logout struct {
	Issuer string
	// Subject and SessionID are "" if the token does not have them. One of them is set.
	Subject, SessionID string
	// TokenID is the claim jti. A token is accepted once.
	TokenID string
	// ExpiresAt is until when a repetition of the token must be detected: until its age alone makes it invalid.
	ExpiresAt time.Time
}

// VerifyLogoutToken verifies a logout token of a connection. The error is a *Fault, or that of keys.
func VerifyLogoutToken(ctx context.Context, c *document.Connection, raw string, keys Keys, now time.Time) (Logout, error) {
	token, err := bearer.ParseLogout(raw)
	if err != nil {
		return Logout{}, &Fault{Reason: ReasonLogoutForm}
	}
	if err := verifyToken(ctx, c, token, keys); err != nil {
		return Logout{}, err
	}
	if err := checkTimes(token, now); err != nil {
		return Logout{}, err
	}
	if err := checkAudience(token, c.Client.ID); err != nil {
		return Logout{}, err
	}
	events, _ := token.Payload["events"].(map[string]any)
	event, _ := events[logoutEvent].(map[string]any)
	_, hasNonce := token.Payload["nonce"]
	switch {
	case event == nil:
		return Logout{}, &Fault{Reason: ReasonEvents}
	case hasNonce: // an ID token must not pass for a logout token
		return Logout{}, &Fault{Reason: ReasonNonce}
	case token.Claims.ID == "" || len(token.Claims.ID) > maxTokenID:
		return Logout{}, &Fault{Reason: ReasonTokenID}
	}
	out := Logout{Issuer: token.Claims.Issuer, TokenID: token.Claims.ID, SessionID: bounded(token.Payload, "sid"), ExpiresAt: now.Add(maxAge + 2*skew)}
	if _, has := token.Payload["sub"]; has {
		if out.Subject, err = subjectOf(c, token); err != nil {
			return Logout{}, err
		}
	}
	if out.Subject == "" && out.SessionID == "" {
		return Logout{}, &Fault{Reason: ReasonSubject}
	}
	return out, nil
}
