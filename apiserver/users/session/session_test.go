package session

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/store/people"
)

var (
	start  = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	policy = Policy{Idle: time.Hour, Lifetime: 24 * time.Hour, MaxSignIns: 5}
)

func TestEvaluate(t *testing.T) {
	for name, tc := range map[string]struct {
		s    people.Session
		want State
	}{
		"in use":                                   {people.Session{UsedAt: start, ExpiresAt: start.Add(time.Hour)}, Live},
		"at its absolute bound":                    {people.Session{UsedAt: start, ExpiresAt: start}, Over},
		"a moment before it":                       {people.Session{UsedAt: start, ExpiresAt: start.Add(1)}, Live},
		"idle for the bound":                       {people.Session{UsedAt: start.Add(-time.Hour), ExpiresAt: start.Add(time.Hour)}, Over},
		"idle for a moment less":                   {people.Session{UsedAt: start.Add(1 - time.Hour), ExpiresAt: start.Add(time.Hour)}, Live},
		"anonymous: no idle bound":                 {people.Session{Anonymous: true, UsedAt: start.Add(-5 * time.Hour), ExpiresAt: start.Add(1)}, Live},
		"anonymous, at its absolute bound":         {people.Session{Anonymous: true, UsedAt: start, ExpiresAt: start}, Over},
		"token expires later":                      {people.Session{UsedAt: start, ExpiresAt: start.Add(time.Hour), Token: people.Token{DiesAt: start.Add(1)}}, Live},
		"token expires now":                        {people.Session{UsedAt: start, ExpiresAt: start.Add(time.Hour), Token: people.Token{DiesAt: start}}, Reused},
		"expired token":                            {people.Session{UsedAt: start, ExpiresAt: start.Add(time.Hour), Token: people.Token{DiesAt: start.Add(-time.Hour)}}, Reused},
		"over, with an expired token":              {people.Session{UsedAt: start, ExpiresAt: start, Token: people.Token{DiesAt: start.Add(-time.Hour)}}, Over},
		"idle for too long, with an expired token": {people.Session{UsedAt: start.Add(-2 * time.Hour), ExpiresAt: start.Add(time.Hour), Token: people.Token{DiesAt: start}}, Over},
		"anonymous, with an expired token":         {people.Session{Anonymous: true, UsedAt: start, ExpiresAt: start.Add(time.Hour), Token: people.Token{DiesAt: start}}, Reused},
		"a sign-in ends later":                     {people.Session{UsedAt: start, ExpiresAt: start.Add(time.Hour), SignIns: ending(start, start.Add(1))}, Live},
		"a sign-in lasts as long as the session":   {people.Session{UsedAt: start, ExpiresAt: start.Add(time.Hour), SignIns: ending(start, time.Time{})}, Live},
		"all sign-ins have ended":                  {people.Session{UsedAt: start, ExpiresAt: start.Add(time.Hour), SignIns: ending(start.Add(-1), start)}, Over},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Evaluate(tc.s, policy, start); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

// drawSession returns a session and a time within its bounds.
func drawSession(t *rapid.T) (people.Session, time.Time) {
	seconds := func(most time.Duration, label string) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, label))
	}
	s := people.Session{ID: rapid.Int64Range(1, 1<<62).Draw(t, "id"), Anonymous: rapid.Bool().Draw(t, "anonymous"), UsedAt: start}
	now := start.Add(seconds(policy.Idle-1, "idle"))
	s.ExpiresAt = now.Add(1 + seconds(policy.Lifetime, "left"))
	return s, now
}

func TestEvaluateReportsExpiredTokenAsReused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := drawSession(t)
		from := rapid.Int64Range(-int64(Grace), int64(Grace)).Draw(t, "dies")
		s.Token.DiesAt = now.Add(time.Duration(from))
		want := Live
		if from <= 0 {
			want = Reused
		}
		if got := Evaluate(s, policy, now); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
		s.Token.DiesAt = time.Time{}
		if got := Evaluate(s, policy, now); got != Live {
			t.Fatalf("a token without expiry: %d", got)
		}
	})
}

// ending returns sign-ins 1, 2 and so on that end at times.
func ending(times ...time.Time) []people.SignIn {
	list := signIns(1, 2, 3, 4)[:len(times)]
	for i, at := range times {
		list[i].Upstream.EndsAt = at
	}
	return list
}

func TestDropEnded(t *testing.T) {
	later := start.Add(time.Hour)
	for name, tc := range map[string]struct {
		have       []people.SignIn
		active     int64
		left       []int64
		wantActive int64
		wantEnded  []int64
	}{
		"none has ended":              {ending(time.Time{}, later), 1, []int64{1, 2}, 1, nil},
		"another one than the active": {ending(start, later), 2, []int64{2}, 2, []int64{1}},
		"the active one":              {ending(time.Time{}, later, start), 3, []int64{1, 2}, 2, []int64{3}},
		"the oldest is active":        {ending(start, later, start, later), 1, []int64{2, 4}, 4, []int64{1, 3}},
		"all: the session is over":    {ending(start, start), 2, []int64{1, 2}, 2, nil},
		"an anonymous session":        {nil, 0, nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ids := func(list []people.SignIn) (ids []int64) {
				for _, g := range list {
					ids = append(ids, g.ID)
				}
				return ids
			}
			s := people.Session{SignIns: tc.have, ActiveSignIn: tc.active}
			ended := DropEnded(&s, start)
			if !slices.Equal(ids(ended), tc.wantEnded) || !slices.Equal(ids(s.SignIns), tc.left) || s.ActiveSignIn != tc.wantActive {
				t.Errorf("ended %v, left %v, active %d", ids(ended), ids(s.SignIns), s.ActiveSignIn)
			}
		})
	}
}

func TestTouchDue(t *testing.T) {
	for name, tc := range map[string]struct {
		s    people.Session
		idle time.Duration
		ago  time.Duration
		want bool
	}{
		"within the minute":             {people.Session{ID: 15}, time.Hour, 59 * time.Second, false},
		"after it":                      {people.Session{ID: 15}, time.Hour, time.Minute, true},
		"the id's jitter":               {people.Session{ID: 14}, time.Hour, 73 * time.Second, false},
		"after the jitter":              {people.Session{ID: 14}, time.Hour, 74 * time.Second, true},
		"a short bound":                 {people.Session{ID: 14}, time.Minute, 15 * time.Second, true},
		"within a short bound":          {people.Session{ID: 14}, time.Minute, 14 * time.Second, false},
		"anonymous":                     {people.Session{ID: 15, Anonymous: true}, time.Hour, time.Hour, false},
		"used later, by another server": {people.Session{ID: 15}, time.Hour, -time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			tc.s.UsedAt = start.Add(-tc.ago)
			if got := TouchDue(tc.s, Policy{Idle: tc.idle}, start); got != tc.want {
				t.Error(got)
			}
		})
	}
}

func TestTouchDueBeforeIdleBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		idle := time.Duration(rapid.Int64Range(int64(time.Second), int64(48*time.Hour)).Draw(t, "idle"))
		s := people.Session{ID: rapid.Int64Range(1, 1<<62).Draw(t, "id"), UsedAt: start, ExpiresAt: start.Add(100 * time.Hour)}
		// A request after a quarter of the bound is recorded, if a quarter is at least 75 seconds.
		if now := start.Add(idle / 4); !TouchDue(s, Policy{Idle: idle}, now) && now.Sub(start) >= 75*time.Second {
			t.Fatalf("not due after %s of %s", now.Sub(start), idle)
		}
		if now := start.Add(idle - 1); Evaluate(s, Policy{Idle: idle}, now) == Live && !TouchDue(s, Policy{Idle: idle}, now) && idle/4 >= 1 {
			t.Fatalf("not due at the end of %s", idle)
		}
	})
}

func TestCookieAge(t *testing.T) {
	s := people.Session{ExpiresAt: start.Add(time.Hour)}
	if got := CookieAge(s, start); got != time.Hour {
		t.Error(got)
	}
	if got := CookieAge(s, start.Add(2*time.Hour)); got != 0 {
		t.Errorf("%s for an ended session", got)
	}
}

func signIns(ids ...int64) []people.SignIn {
	var list []people.SignIn
	for _, id := range ids {
		list = append(list, people.SignIn{ID: id})
	}
	return list
}

func TestEvicted(t *testing.T) {
	for name, tc := range map[string]struct {
		have []people.SignIn
		most int
		want []people.SignIn
	}{
		"the first":             {nil, 5, nil},
		"below the bound":       {signIns(1, 2, 3, 4), 5, nil},
		"the oldest":            {signIns(1, 2, 3, 4, 5), 5, signIns(1)},
		"the bound was lowered": {signIns(1, 2, 3, 4, 5), 3, signIns(1, 2, 3)},
		"one at a time":         {signIns(7), 1, signIns(7)},
		"no more than exist":    {signIns(7), 0, signIns(7)},
	} {
		t.Run(name, func(t *testing.T) {
			got := Evicted(tc.have, tc.most)
			if !slices.EqualFunc(got, tc.want, func(a, b people.SignIn) bool { return a.ID == b.ID }) {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestEvictedLeavesExactlyOnePlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have := make([]people.SignIn, rapid.IntRange(0, 30).Draw(t, "have"))
		for i := range have {
			have[i].ID = int64(i + 1)
		}
		most := rapid.IntRange(1, 20).Draw(t, "most")
		gone := Evicted(have, most)
		left := len(have) - len(gone)
		if left+1 > most || len(gone) > 0 && left+1 != most {
			t.Fatalf("%d of %d remain with the new one, bound %d", left, len(have), most)
		}
		for i, g := range gone {
			if g.ID != int64(i+1) {
				t.Fatalf("%d is evicted before %d", g.ID, i+1)
			}
		}
	})
}

func in(workspaces ...int64) []people.WorkspaceMember {
	var list []people.WorkspaceMember
	for _, id := range workspaces {
		list = append(list, people.WorkspaceMember{Workspace: people.Workspace{ID: id}})
	}
	return list
}

func TestWorkspace(t *testing.T) {
	member := func(last, byDefault int64) people.Member {
		return people.Member{Workspace: last, Organization: people.Organization{Workspace: byDefault}}
	}
	for name, tc := range map[string]struct {
		member people.Member
		in     []people.WorkspaceMember
		want   int64
	}{
		"the last active one":                     {member(3, 2), in(1, 2, 3), 3},
		"no longer a member of it: the default":   {member(4, 2), in(1, 2, 3), 2},
		"never active anywhere: the default":      {member(0, 2), in(1, 2, 3), 2},
		"not a member of the default: the oldest": {member(4, 5), in(1, 2, 3), 1},
		"the organization has no default":         {member(0, 0), in(8, 9), 8},
		"a member of none":                        {member(3, 2), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := Workspace(tc.member, tc.in)
			if got.ID != tc.want || found != (tc.want != 0) {
				t.Errorf("%d, %t; want %d", got.ID, found, tc.want)
			}
		})
	}
}

func TestWorkspaceIsOneOfTheMemberships(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Int64Range(0, 6)
		memberships := in(rapid.SliceOfNDistinct(rapid.Int64Range(1, 6), 0, 6, rapid.ID).Draw(t, "memberships")...)
		member := people.Member{Workspace: id.Draw(t, "last"), Organization: people.Organization{Workspace: id.Draw(t, "default")}}
		got, found := Workspace(member, memberships)
		among := slices.ContainsFunc(memberships, func(m people.WorkspaceMember) bool { return m.Workspace == got })
		if found != among || found != (len(memberships) > 0) {
			t.Fatalf("%v, %t of %v", got, found, memberships)
		}
	})
}

func TestMintReturnsUniqueTokensWithTheirHashes(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		token, hash, err := Mint(rand.Reader)
		if err != nil || len(hash) != sha256.Size || seen[token] {
			t.Fatalf("%q, %d bytes, %v", token, len(hash), err)
		}
		seen[token] = true
		if again, ok := Hash(token); !ok || !bytes.Equal(again, hash) {
			t.Fatalf("the hash of %q is %x, minted with %x", token, again, hash)
		}
	}
	broken := errors.New("no randomness")
	if token, hash, err := Mint(iotest.ErrReader(broken)); !errors.Is(err, broken) || token != "" || hash != nil {
		t.Errorf("%q, %x, %v", token, hash, err)
	}
}

func FuzzHash(f *testing.F) {
	token := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, tokenBytes))
	for _, seed := range []string{
		"", token, token[1:], token + "A", token + "=", token[:42] + "x", strings.ReplaceAll(token, "-", "+"), token[:20] + "\n" + token[20:],
		token[:20] + "\r" + token[21:], " " + token[1:], token[:42] + "\x00", base64.StdEncoding.EncodeToString(make([]byte, tokenBytes)),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		hash, ok := Hash(token)
		raw, err := base64.RawURLEncoding.DecodeString(token)
		form := err == nil && len(raw) == tokenBytes && base64.RawURLEncoding.EncodeToString(raw) == token
		if ok != form || ok != (hash != nil) {
			t.Fatalf("Hash(%q) = %x, %t", token, hash, ok)
		}
		if sum := sha256.Sum256([]byte(token)); ok && !bytes.Equal(hash, sum[:]) {
			t.Fatalf("Hash(%q) = %x", token, hash)
		}
	})
}
