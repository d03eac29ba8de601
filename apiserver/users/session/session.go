// Package session holds the rules of end users' sessions: the cookie's tokens, how they replace each other, and when a session
// is over. Everything here is about values; the store keeps them.
package session

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// tokenBytes is the length of a token before its encoding: 256 random bits (ASVS 7.2.3 asks for 128).
	tokenBytes = 32
	// Grace is how long a replaced token lives on once a successor was used: for the requests of parallel tabs.
	Grace = 10 * time.Second
	// MaxTokens is how many tokens of a session live at once.
	MaxTokens = 8
	// MaxPerUser is how many sessions a user may be signed in to at once; the oldest gives way.
	MaxPerUser = 20
	// AnonymousLifetime is how long a session that only owns attempts lives.
	AnonymousLifetime = 10 * time.Minute
	// MaxPending is how many anonymous sessions one client address may hold.
	MaxPending = 20
	// RememberDead is how long the reuse of a dead token is noticed.
	RememberDead = 24 * time.Hour
	// touchEvery bounds how often use is written down.
	touchEvery = time.Minute
)

// Policy is what a deployment declares.
type Policy struct {
	Idle, Lifetime time.Duration
	MaxSignIns     int
}

// PolicyOf returns the policy of a deployment.
func PolicyOf(settings *document.Deployment) Policy {
	declared := settings.EffectiveSession()
	return Policy{Idle: declared.IdleTimeout(), Lifetime: declared.Lifetime(), MaxSignIns: declared.MaxSignIns}
}

// Mint returns a new token and the hash by which it is known.
func Mint(random io.Reader) (token string, hash []byte, err error) {
	var raw [tokenBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", nil, fmt.Errorf("random session token: %w", err)
	}
	token = base64.RawURLEncoding.EncodeToString(raw[:])
	return token, digest(token), nil
}

// Hash returns the hash of a token, or false if it has not the form of one, which spares the store the look-up.
func Hash(token string) ([]byte, bool) {
	if len(token) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return nil, false
	}
	// The decoder passes over line ends, which leave too few bytes then.
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != tokenBytes {
		return nil, false
	}
	return digest(token), true
}

func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// State is what a request finds its session in.
type State int

const (
	// Live sessions are served.
	Live State = iota
	// Over means that the session was idle for too long, is past the absolute bound, or that a sign-in replaced the token.
	Over
	// Reused means that a token was presented that a successor had replaced: somebody has a copy, so the session must be revoked.
	Reused
)

// Evaluate tells what becomes of a session found by its token. An anonymous session has no idle bound, its life is short enough.
func Evaluate(s people.Session, policy Policy, now time.Time) State {
	switch {
	case !now.Before(s.ExpiresAt), !s.Anonymous && !now.Before(s.UsedAt.Add(policy.Idle)):
		return Over
	case s.Token.Replaced:
		return Over
	case !s.Token.DiesAt.IsZero() && !now.Before(s.Token.DiesAt):
		return Reused
	}
	return Live
}

// TouchDue reports whether the use of a session is to be written down: at most once in a minute and a jitter by the session's id,
// so that sessions that began together do not write together. Short idle bounds are refreshed four times within the bound.
func TouchDue(s people.Session, policy Policy, now time.Time) bool {
	every := touchEvery + time.Duration(uint64(s.ID)%15)*time.Second
	return !s.Anonymous && now.Sub(s.UsedAt) >= min(every, policy.Idle/4)
}

// EndsAt returns when a session that somebody is signed in to ends without a further request.
func EndsAt(s people.Session, policy Policy) time.Time {
	if idle := s.UsedAt.Add(policy.Idle); idle.Before(s.ExpiresAt) {
		return idle
	}
	return s.ExpiresAt
}

// CookieAge returns how long the browser is to keep the cookie: until the session's absolute bound.
func CookieAge(s people.Session, now time.Time) time.Duration { return max(s.ExpiresAt.Sub(now), 0) }

// Evicted returns the sign-ins that give way when one more joins: the oldest of the session beyond its bound.
func Evicted(signIns []people.SignIn, most int) []people.SignIn {
	if over := len(signIns) + 1 - most; over > 0 {
		return signIns[:min(over, len(signIns))]
	}
	return nil
}

// Workspace chooses the workspace that becomes active with an organization: the member's last active one if still a member of it,
// else the organization's default if a member, else the oldest membership, else 0. Memberships come oldest first.
func Workspace(member people.Member, memberships []people.WorkspaceMember) (people.Workspace, bool) {
	for _, wanted := range []int64{member.Workspace, member.Organization.Workspace} {
		for _, m := range memberships {
			if wanted != 0 && m.Workspace.ID == wanted {
				return m.Workspace, true
			}
		}
	}
	if len(memberships) > 0 {
		return memberships[0].Workspace, true
	}
	return people.Workspace{}, false
}
