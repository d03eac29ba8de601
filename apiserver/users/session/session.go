// Package session holds the rules of end users' sessions: the tokens of the cookie, their rotation, and when a session
// ends. It works on values; the store keeps them.
package session

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// tokenBytes is the length of a token before its encoding: 256 random bits (ASVS 7.2.3 asks for 128).
	tokenBytes = 32
	// Grace is how long a replaced token stays valid after its successor was used, for requests of parallel tabs.
	Grace = 10 * time.Second
	// MaxTokens is how many tokens of a session are valid at the same time.
	MaxTokens = 8
	// MaxPerUser is how many sessions a user may be signed in to at the same time; the oldest is evicted.
	MaxPerUser = 20
	// AnonymousLifetime is the lifetime of a session that only owns attempts.
	AnonymousLifetime = 10 * time.Minute
	// MaxPending is how many anonymous sessions one client address may have.
	MaxPending = 20
	// RememberDead is how long the reuse of an expired token is detected.
	RememberDead = 24 * time.Hour
	// touchEvery is the shortest time between two records of a session's use.
	touchEvery = time.Minute
)

// Policy is the session policy of a deployment.
type Policy struct {
	Idle, Lifetime time.Duration
	MaxSignIns     int
}

// PolicyOf returns the policy of a deployment.
func PolicyOf(settings *document.Deployment) Policy {
	declared := settings.EffectiveSession()
	return Policy{Idle: declared.IdleTimeout(), Lifetime: declared.Lifetime(), MaxSignIns: declared.MaxSignIns}
}

// Mint returns a new token and its hash, which the store keeps.
func Mint(random io.Reader) (token string, hash []byte, err error) {
	var raw [tokenBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", nil, fmt.Errorf("random session token: %w", err)
	}
	token = base64.RawURLEncoding.EncodeToString(raw[:])
	return token, digest(token), nil
}

// Hash returns the hash of a token. It returns false for a malformed token, which saves a lookup in the store.
func Hash(token string) ([]byte, bool) {
	if len(token) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return nil, false
	}
	// The decoder skips line ends, so the decoded length may be too short.
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

// State is the state of a session when a request arrives.
type State int

const (
	// Live sessions are served.
	Live State = iota
	// Over means that the session was idle for too long, has reached its absolute bound, that all its sign-ins have ended
	// before it, or that a sign-in replaced the token.
	Over
	// Reused means that the request presented a token after its successor replaced it. The token was copied, so the
	// session must be revoked.
	Reused
)

// Evaluate returns the state of a session that was found by its token. An anonymous session has no idle bound because
// its lifetime is short.
func Evaluate(s people.Session, policy Policy, now time.Time) State {
	switch {
	case !now.Before(s.ExpiresAt), !s.Anonymous && !now.Before(s.UsedAt.Add(policy.Idle)), allEnded(s.SignIns, now):
		return Over
	case s.Token.Replaced:
		return Over
	case !s.Token.DiesAt.IsZero() && !now.Before(s.Token.DiesAt):
		return Reused
	}
	return Live
}

func allEnded(signIns []people.SignIn, now time.Time) bool {
	return len(signIns) > 0 && !slices.ContainsFunc(signIns, func(g people.SignIn) bool { return !g.Upstream.Ended(now) })
}

// DropEnded removes from a live session the sign-ins that have ended before it. If the active one has ended, the newest
// of the others becomes active, as after its sign-out. DropEnded returns the removed ones.
func DropEnded(s *people.Session, now time.Time) (ended []people.SignIn) {
	kept := s.SignIns[:0:0]
	for _, g := range s.SignIns {
		if g.Upstream.Ended(now) {
			ended = append(ended, g)
		} else {
			kept = append(kept, g)
		}
	}
	if len(ended) == 0 || len(kept) == 0 {
		return nil
	}
	s.SignIns = kept
	if s.Active() == nil {
		s.ActiveSignIn = kept[len(kept)-1].ID
	}
	return ended
}

// TouchDue reports whether the use of a session must be recorded: at most once per minute plus a jitter by the
// session's id, so that sessions that began together do not write together. With a short idle bound, use is recorded up
// to four times within the bound.
func TouchDue(s people.Session, policy Policy, now time.Time) bool {
	every := touchEvery + time.Duration(uint64(s.ID)%15)*time.Second
	return !s.Anonymous && now.Sub(s.UsedAt) >= min(every, policy.Idle/4)
}

// EndsAt returns when a session with a sign-in ends without a further request.
func EndsAt(s people.Session, policy Policy) time.Time {
	if idle := s.UsedAt.Add(policy.Idle); idle.Before(s.ExpiresAt) {
		return idle
	}
	return s.ExpiresAt
}

// CookieAge returns how long the browser keeps the cookie: until the session's absolute bound.
func CookieAge(s people.Session, now time.Time) time.Duration { return max(s.ExpiresAt.Sub(now), 0) }

// Evicted returns the sign-ins to evict before one is added: the oldest above the bound.
func Evicted(signIns []people.SignIn, most int) []people.SignIn {
	if over := len(signIns) + 1 - most; over > 0 {
		return signIns[:min(over, len(signIns))]
	}
	return nil
}

// Workspace chooses the workspace that becomes active with an organization. memberships are sorted, oldest first. It
// returns the first that exists of:
//  1. the member's last active workspace, if still a member of it;
//  2. the organization's default workspace, if a member of it;
//  3. the oldest membership.
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
