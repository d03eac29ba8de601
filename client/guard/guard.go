// Package guard protects handlers of net/http by Cardea:
//
//   - [Keys] asks the decision API about each request of an API key: permissions, limits and revocation count at once.
//   - [Tokens] verifies session tokens and OAuth access tokens by the issuer's published keys, without a call for each request. What a token says
//     may be out of date for as long as it lives: a minute for session tokens.
//
// Both refuse what they cannot judge, and tell the handler who calls by [From]. Neither reads a credential from the query, and neither takes
// more than one: which of two the handler would go by is a guess.
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

// Identity is who makes a request. What does not apply is empty.
type Identity struct {
	// KeyID is an API key's public id, KeyName and App its name and its app's slug. Metadata is what was given to it.
	KeyID, KeyName, App string
	Metadata            map[string]any
	// Subject is whom a token is about: a user's id, or a client's own.
	Subject string
	// UserID is the person whom the credential acts for.
	UserID string
	// DeploymentID is the deployment's; decisions tell it.
	DeploymentID string
	// OrganizationID and WorkspaceID are where the person is active, or what the key is bound to.
	OrganizationID, WorkspaceID string
	// SessionID is the session of a session token, ClientID the client of an access token.
	SessionID, ClientID string
	// Permissions are what the credential may do; * is everything. Scopes are those of an access token.
	Permissions, Scopes []string
	// ExpiresAt is when the token ends.
	ExpiresAt time.Time
}

// Can reports whether all of the permissions are granted, or are scopes of the token. Nobody can anything.
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

// From returns who makes the request of a context, nil where no guard knows: before a guard, or where one admits while Cardea is away.
func From(ctx context.Context) *Identity {
	who, _ := ctx.Value(identityKey{}).(*Identity)
	return who
}

// admit passes a request on with who makes it.
func admit(next http.Handler, w http.ResponseWriter, r *http.Request, who *Identity) {
	r = r.WithContext(context.WithValue(r.Context(), identityKey{}, who))
	r.Header = withoutClaims(r.Header)
	next.ServeHTTP(w, r)
}

// withoutClaims drops the headers by which gateways tell an identity: from a client they are a claim that nobody proved. A name with underscores is
// the same to what speaks CGI.
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

// maxCredential is the longest credential that is looked at, in bytes; Cardea takes no longer one either.
const maxCredential = 16 << 10

// bearer reads the one credential of a request: `Authorization: Bearer`, and X-API-Key where keys are taken; "" is none that can be taken.
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
		return "" // a comma: two lines that something between joined
	}
	return value
}

// Refusal is why a request is not let through.
type Refusal struct {
	// Status is 400, 401, 403, 429 or 503.
	Status int
	// Message is a sentence for the client.
	Message string
	// Header is what is sent with it, such as Retry-After.
	Header http.Header
	// RequestID is the decision's, "" where there was none.
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
	raw, _ := json.Marshal(struct { // strings and numbers cannot fail
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
		_, _ = w.Write(raw) // the client is gone
	}
}

// unauthorized refuses a credential: the same for every reason.
func unauthorized(challenge string) *Refusal {
	return &Refusal{
		Status: http.StatusUnauthorized, Message: "the credential is missing or not accepted: send one that is known and not expired, once, as Authorization: Bearer",
		Header: http.Header{"Www-Authenticate": {challenge}},
	}
}

// unavailable refuses while it cannot be judged.
func unavailable(message string) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Message: message, Header: http.Header{"Retry-After": {"1"}}}
}

// lacks refuses for a missing permission.
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
