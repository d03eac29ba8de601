package people

import (
	"context"
	"time"
)

// Analytics counts what the events of a deployment tell. Every number is exact, never an estimate, whatever an
// implementation keeps beside the events to be fast: an event counts from the commit that recorded it, and stays counted
// when its user is deleted.
type Analytics interface {
	// Summarize counts a deployment's events in two periods and lists up to recent of its newest sign-ups and of its newest
	// sign-ins. All of it is of one moment.
	Summarize(ctx context.Context, deployment string, period, before Period, recent int) (Summary, error)
}

// Period is the time from From, included, to To, excluded, as events are dated: in whole microseconds. One that ends where it
// begins, or earlier, is empty.
type Period struct{ From, To time.Time }

// Summary is what Summarize finds.
type Summary struct {
	Period, Before Counts
	// SignUps counts those of all time.
	SignUps int64
	// Days are the days of the period, in order, but for those without an event. Of a day that lies in the period only in part, that
	// part counts.
	Days []Day
	// RecentSignUps and RecentSignIns are the deployment's, in the period or not, the newest first. Those of deleted users are
	// not among them.
	RecentSignUps, RecentSignIns []Recent
}

// Counts are the numbers of a period.
type Counts struct {
	// SignInUsers counts the users that signed in, each once however often.
	SignInUsers int64
	// SignUps, Organizations and Workspaces count what was created.
	SignUps, Organizations, Workspaces int64
}

// Day is a calendar day, UTC.
type Day struct {
	// Start is its midnight.
	Start time.Time
	// SignInUsers counts the users that signed in on this day, each once.
	SignInUsers int64
	// SignUps, Organizations and Workspaces count what was created.
	SignUps, Organizations, Workspaces int64
}

// Recent is a sign-up or a sign-in with its user's present names and primary address.
type Recent struct {
	User                       int64
	Email, FirstName, LastName string
	At                         time.Time
	Method, Address, UserAgent string
}

// KeepsNewest is how many of the newest sign-ups, and of the newest sign-ins, stay known to be their user's whatever their age, so that
// a summary can list the newest.
const KeepsNewest = 100

// Sealing turns events into what Summarize is fast with: a set of users and a log a day. An event is sealed or it waits, never both and
// never neither, and counts alike; so sealing may stop anywhere, be done by several processes at once, and come to a day again.
type Sealing interface {
	// Waiting returns where events wait to be sealed, ordered by deployment and day. It takes milliseconds a day, whatever millions wait.
	Waiting(ctx context.Context) ([]WaitingEvents, error)
	// Seal seals up to limit of the oldest events of each kind that wait for a day, all of them or none, and returns how many it
	// sealed: 0 where none wait or another process seals the deployment. Of those at linkedSince or later, and of the newest
	// KeepsNewest, it keeps whose they are; addresses and user agents of those at linkedSince or later alone.
	Seal(ctx context.Context, w WaitingEvents, linkedSince time.Time, limit int) (int64, error)
	// Unlink forgets whose sealed events are, and from where, that are older than a time, up to limit of each kind at once, and
	// returns how many it was. Of the newest KeepsNewest it forgets from where alone. Events that wait lose their addresses and user agents as well.
	Unlink(ctx context.Context, deployment string, before time.Time, limit int) (int64, error)
	// Linked returns the deployments that have events of which it is known whose they are, sealed or not: what cannot be sealed is
	// forgotten in time all the same.
	Linked(ctx context.Context) ([]string, error)
	// VerifySeals compares up to limit sealed days, from a day on, with their events, and tells what it found of each.
	VerifySeals(ctx context.Context, deployment string, from time.Time, limit int) ([]SealCheck, error)
}

// WaitingEvents are events of a day that are not sealed.
type WaitingEvents struct {
	Deployment string
	// Day is a midnight, UTC.
	Day time.Time
	// Events counts those that wait, as far as EnoughToSeal of a kind, and Sealed those that are sealed already: sealing costs as much as
	// there are of both.
	Events, Sealed int64
}

// EnoughToSeal is how many events of a day make it worth sealing at once where so many are sealed already: the day is written anew, with all
// of them, which is then cheap for each.
func EnoughToSeal(sealed int64) int64 { return max(2_000, sealed/8) }

// SealCheck tells how a sealed day compares with its events.
type SealCheck struct {
	Day time.Time
	// Events counts the sealed events.
	Events int64
	// Fault is what is wrong, "" if nothing is.
	Fault string
}
