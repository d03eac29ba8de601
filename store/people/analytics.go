package people

import (
	"context"
	"time"
)

// Analytics counts what the Journal of a deployment recorded. Every number is exact, never an estimate, whatever an
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
	// Days are the days of the period, in order, but for those without a sign-in or sign-up. Of a day that lies in the period
	// only in part, that part counts.
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
	SignUps     int64
}

// Recent is a sign-up or a sign-in with its user's present names and primary address.
type Recent struct {
	User                       int64
	Email, FirstName, LastName string
	At                         time.Time
	Method, Address, UserAgent string
}
