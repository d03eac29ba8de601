// Package guard is middleware that lets Cardea protect net/http handlers:
//
//   - [Keys] asks the decision API about each request with an API key: permissions, limits and revocation take effect
//     at once.
//   - [Tokens] verifies session tokens and OAuth access tokens by the issuer's published keys, without a call for
//     each request. A token's claims may be outdated for as long as it lives: a minute for session tokens.
//
// Both refuse what they cannot verify, and pass the caller's identity to the handler by [From]. Neither reads a
// credential from the query, and neither accepts more than one, because it would be undefined which one applies.
package guard

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Identity is the identity of a request's caller. Fields that do not apply are empty.
type Identity struct {
	// KeyID is an API key's public id, KeyName and App its name and its app's slug. Metadata is the key's metadata.
	KeyID, KeyName, App string
	Metadata            map[string]any
	// Subject is the subject of a token: the user's id, or the client's id if the client acts for itself.
	Subject string
	// UserID is the user that the credential acts for.
	UserID string
	// DeploymentID is the deployment's id, which only decisions return.
	DeploymentID string
	// OrganizationID and WorkspaceID are the user's active ones, or those that the key is bound to.
	OrganizationID, WorkspaceID string
	// SessionID is the session of a session token, ClientID the client of an access token.
	SessionID, ClientID string
	// Actor is the agent that acts for the user, nil if the credential is not that of an agent's call.
	Actor *Actor
	// Permissions are the credential's permissions; * grants all. Scopes are those of an access token.
	Permissions, Scopes []string
	// ExpiresAt is when the token ends.
	ExpiresAt time.Time
	// ACR is the assurance level that the token states about its user, "1", "2" or "phr", and ProvenAt the time of the
	// newest proof of it. Both are empty if the token states none.
	ACR      string
	ProvenAt time.Time
}

// Can reports whether all of the permissions are granted, or are scopes of the token. A nil Identity has none.
func (i *Identity) Can(permissions ...string) bool {
	if i == nil {
		return false
	}
	for _, name := range permissions {
		if !slices.Contains(i.Permissions, name) && !slices.Contains(i.Permissions, "*") && !slices.Contains(i.Scopes, name) {
			return false
		}
	}
	return true
}

type identityKey struct{}

// From returns the caller's identity from a request's context. It is nil if no guard set it: outside of a guard, or
// where a guard admits requests while Cardea is unavailable.
func From(ctx context.Context) *Identity {
	who, _ := ctx.Value(identityKey{}).(*Identity)
	return who
}

// admit passes a request on with the caller's identity.
func admit(next http.Handler, w http.ResponseWriter, r *http.Request, who *Identity) {
	r = r.WithContext(context.WithValue(r.Context(), identityKey{}, who))
	r.Header = withoutClaims(r.Header)
	next.ServeHTTP(w, r)
}

// withoutClaims deletes the headers by which gateways pass an identity, because a client can send them too. CGI does
// not distinguish underscores from hyphens, so both spellings are deleted.
func withoutClaims(header http.Header) http.Header {
	isClaim := func(name string) bool {
		return strings.HasPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "x-cardea-")
	}
	for name := range header {
		if isClaim(name) {
			kept := header.Clone()
			for name := range header {
				if isClaim(name) {
					delete(kept, name)
				}
			}
			return kept
		}
	}
	return header
}

// maxCredential is the longest credential, in bytes. Cardea also refuses longer ones.
const maxCredential = 16 << 10

// bearer returns the only credential of a request, from `Authorization: Bearer` or, if keys is set, X-API-Key. It
// returns "" if the request has no credential, several, or a malformed one.
func bearer(header http.Header, keys bool) string {
	authorization, own := header["Authorization"], header["X-Api-Key"]
	if !keys {
		own = nil
	}
	if len(authorization)+len(own) != 1 {
		return ""
	}
	value := ""
	if len(own) == 1 {
		value = own[0]
	} else if scheme, rest, _ := strings.Cut(authorization[0], " "); strings.EqualFold(scheme, "Bearer") {
		value = rest
	}
	if len(value) > maxCredential || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
		return "" // a comma may join two header lines into one
	}
	return value
}

// Refusal is the response to a request that a guard does not let through.
type Refusal struct {
	// Status is 400, 401, 403, 429 or 503.
	Status int
	// Message is a sentence for the client.
	Message string
	// Header has the additional headers of the response, such as Retry-After.
	Header http.Header
	// RequestID is the id of the decision request, "" if there is no decision.
	RequestID string
}

// Send answers with a refusal in the form of Cardea's errors.
func (f *Refusal) Send(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	for name, values := range f.Header {
		header[name] = values
	}
	type fault struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
	raw, _ := json.Marshal(struct { // strings and numbers can always be encoded
		Message   string  `json:"message"`
		Errors    []fault `json:"errors"`
		RequestID string  `json:"request_id,omitempty"`
	}{f.Message, []fault{{f.Message, f.Status}}, f.RequestID})
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(raw)))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(f.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(raw) // an error means that the client disconnected
	}
}

// unauthorized returns the refusal of a credential. Its message is the same for every reason.
func unauthorized(challenge string) *Refusal {
	return &Refusal{
		Status: http.StatusUnauthorized, Message: "the credential is missing or not accepted: send one that is known and not expired, once, as Authorization: Bearer",
		Header: http.Header{"Www-Authenticate": {challenge}},
	}
}

// unavailable returns the refusal while no decision is available.
func unavailable(message string) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Message: message, Header: http.Header{"Retry-After": {"1"}}}
}

// lacks returns the refusal for a missing permission.
func lacks(permission string) *Refusal {
	return &Refusal{
		Status: http.StatusForbidden, Message: "the credential lacks the permission " + permission,
		Header: http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope"`}},
	}
}

// Bearer challenges (RFC 6750 3).
const (
	challengeNone = "Bearer"
	challengeBad  = `Bearer error="invalid_token"`
)
