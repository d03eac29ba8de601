package credential

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/claimpermission"
	"github.com/cardea-iam/cardea/internal/document"
)

// SessionToken is a verified token of an end user's session: the user, and the active organization and workspace.
type SessionToken struct {
	Principal *Principal
	// Session is the session's id.
	Session string
	// Organization and Workspace are ids, "" if none is active.
	Organization, Workspace string
	ExpiresAt               time.Time
	// ACR is the assurance level of the sign-in, ProvenAt the time of its newest proof; "" and zero in tokens of earlier
	// versions.
	ACR      string
	ProvenAt time.Time
}

// ErrExpired is the cause of a 401 for an expired token that was not verified further. It does not count as a failed
// attempt.
var ErrExpired = errors.New("the token has expired")

// SessionToken verifies a token that a deployment issued to one of its sessions. The deployment need not declare itself
// as a JWT issuer: that declaration only lets such tokens access the management API. The error is a 401, whose cause
// may be ErrExpired.
func (t *Tokens) SessionToken(ctx context.Context, s *snapshot.Snapshot, raw string) (SessionToken, error) {
	return t.SessionTokenFor(ctx, s, raw, "")
}

// SessionTokenFor is SessionToken for an audience, "" for the deployment itself.
func (t *Tokens) SessionTokenFor(ctx context.Context, s *snapshot.Snapshot, raw, audience string) (SessionToken, error) {
	token, err := bearer.Parse(raw)
	if err != nil {
		return SessionToken{}, apierror.InvalidToken()
	}
	host, isURL := strings.CutPrefix(token.Claims.Issuer, "https://")
	deployment, found := s.ByHost(host)
	if !isURL || !found {
		return SessionToken{}, apierror.InvalidToken()
	}
	issuer, err := sessionIssuer(deployment, t.clock())
	if err == nil && audience != "" {
		issuer.Audiences = []string{audience}
	}
	if err == nil && token.Claims.Expiry != nil && !t.clock().Before(token.Claims.Expiry.Time()) {
		return SessionToken{}, Expired()
	}
	if err != nil || !token.Claims.Audience.Contains(issuer.Audiences[0]) || token.Claims.Subject == "" || !timely(issuer, &token.Claims, t.clock()) {
		return SessionToken{}, apierror.InvalidToken()
	}
	if err := t.verify(ctx, issuer, token); err != nil {
		return SessionToken{}, apierror.InvalidToken()
	}
	text := func(claim string) string {
		value, _ := token.Payload[claim].(string)
		return value
	}
	provenAt := time.Time{}
	if seconds, stated := token.Payload["auth_time"].(float64); stated {
		provenAt = time.Unix(int64(seconds), 0)
	}
	return SessionToken{
		Principal: newTokenPrincipal(issuer, token.Claims.Subject, claimpermission.FromClaim(token.Payload, "permissions")),
		Session:   text("sid"), Organization: text("organization"), Workspace: text("workspace"), ExpiresAt: token.Claims.Expiry.Time(),
		ACR: text("acr"), ProvenAt: provenAt,
	}, nil
}

// Expired returns the refusal of an expired token.
func Expired() error {
	refused := apierror.InvalidToken()
	refused.Cause = ErrExpired
	return refused
}

// sessionIssuer returns a deployment as the issuer of its session tokens, with the signing keys that are valid at a
// time.
func sessionIssuer(deployment *snapshot.Entry, now time.Time) (*snapshot.Issuer, error) {
	settings := snapshot.ContentOf[document.Deployment](deployment)
	issuer := &snapshot.Issuer{
		JWTIssuer: &document.JWTIssuer{
			OwnSessions: true, Algorithms: []string{string(jose.ES256)}, Audiences: []string{"cardea:" + deployment.Namespace + ":" + deployment.Name},
		},
		Deployment: deployment, Settings: settings, Keys: &jose.JSONWebKeySet{},
	}
	for _, signing := range settings.SigningKeys {
		if signing.ExpiresAt != nil && !now.Before(*signing.ExpiresAt) {
			continue
		}
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(signing.Public); err != nil {
			return nil, err
		}
		issuer.Keys.Keys = append(issuer.Keys.Keys, key)
	}
	return issuer, nil
}
