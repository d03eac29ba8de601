// Package passkey holds the rules of passkeys and security keys (Web Authentication Level 3): the options that browsers
// get, the challenges in them, and the verification of the answers. It keeps nothing: callers look credentials up and
// spend challenges in the store.
package passkey

import (
	"errors"
	"fmt"
	"time"
)

const (
	// MaxBytes is the longest credential in JSON.
	MaxBytes = 16 << 10
	// MaxIDBytes is the longest credential id (Web Authentication 4, credential id).
	MaxIDBytes = 1023
	// UserHandleBytes is the length of a new user handle.
	UserHandleBytes = 32
	// maxUserHandleBytes is the longest user handle (Web Authentication 5.4.3).
	maxUserHandleBytes = 64
)

// Ceremony is what an answer of an authenticator is for.
type Ceremony string

// The ceremonies. A challenge is valid for one of them.
const (
	SignIn         Ceremony = "sign_in"
	SecondFactor   Ceremony = "second_factor"
	Reauthenticate Ceremony = "reauthenticate"
	Registration   Ceremony = "register"
)

// RelyingParty is the party that credentials belong to.
type RelyingParty struct {
	// Deployment is the id of the deployment, so that deployments with one relying party do not share challenges.
	Deployment string
	// ID is the domain that scopes the credentials.
	ID string
	// Name is what some browsers display.
	Name string
	// Allows reports whether a page of an origin may answer. Without it, no page may.
	Allows func(origin string) bool
}

// Scope is what a challenge is valid for. Session is the id of the sign-in or of the attempt. Session and User are 0
// for SignIn.
type Scope struct {
	Ceremony      Ceremony
	Session, User int64
}

// Request is what a server knows of an answer before it reads it.
type Request struct {
	RelyingParty RelyingParty
	Scope        Scope
	// RequireUV refuses answers whose user was not verified by the authenticator.
	RequireUV bool
	// Origin is the request's Origin header, "" if it has none.
	Origin string
	// Now is the server's time.
	Now time.Time
}

// Spent identifies a verified challenge. The caller inserts the hash into the store, whose unique key makes the
// challenge valid once, in the transaction that does the permitted action.
type Spent struct {
	// Hash is the SHA-256 of the challenge.
	Hash [32]byte
	// ExpiresAt is when the challenge is no longer valid, so that the store can delete the hash.
	ExpiresAt time.Time
}

// Check is a group of checks of an answer, as the metric cardea_passkey_ceremonies_total names the result.
type Check string

// The checks, in their order.
const (
	// CheckChallenge is the challenge's MAC, scope and expiry, and the answer's type.
	CheckChallenge Check = "challenge"
	// CheckOrigin is the page's origin, and that the page is not in a frame of another site.
	CheckOrigin Check = "origin"
	// CheckRelyingParty is the relying party's hash in the signed data.
	CheckRelyingParty Check = "rp"
	// CheckUser is the flags of user and backup in the signed data, the credential's id and the user handle.
	CheckUser Check = "user"
	// CheckSignature is the signature; for a registration, the public key.
	CheckSignature Check = "signature"
	// CheckCounter is the signature counter.
	CheckCounter Check = "counter"
)

// Errors of challenges.
var (
	// ErrNoKey means that the server was started without a root key.
	ErrNoKey = errors.New("passkeys need a root key: start the server with --root-key")
	// ErrExpiredChallenge is in the Refused of an answer to a challenge of this server that has expired.
	ErrExpiredChallenge = errors.New("the challenge has expired")
)

// Refused means that an answer failed a check. Clients must not see which one.
type Refused struct {
	Check Check
	// Reason is ErrExpiredChallenge, or a description for the log.
	Reason error
}

func (r *Refused) Error() string { return fmt.Sprintf("passkey refused: %s: %v", r.Check, r.Reason) }

// Unwrap returns the reason.
func (r *Refused) Unwrap() error { return r.Reason }

func refuse(check Check, reason string) error { return &Refused{check, errors.New(reason)} }

// MalformedError means that a credential does not have the form of the standard's JSON.
type MalformedError struct {
	// Pointer is the JSON pointer of the member in the credential, "" for the credential itself.
	Pointer string
	// Problem describes what is wrong and how to fix it. It does not contain the value.
	Problem string
}

func (e *MalformedError) Error() string { return fmt.Sprintf("credential%s: %s", e.Pointer, e.Problem) }
