package people

import (
	"context"
	"time"
)

// Analytics counts the events of a deployment. Every number is exact, never an estimate, even if an implementation
// stores summaries to answer fast. An event counts from the commit that recorded it, and stays counted when its user is
// deleted.
type Analytics interface {
	// Summarize counts a deployment's events in two periods. It lists up to recent of the newest sign-ups and up to recent
	// of the newest sign-ins. All numbers are of one moment.
	Summarize(ctx context.Context, deployment string, period, before Period, recent int) (Summary, error)
}

// Period is the time from From (included) to To (excluded), in whole microseconds as events are dated. A period whose
// To is not after From is empty.
type Period struct{ From, To time.Time }

// Summary is the result of Summarize.
type Summary struct {
	Period, Before Counts
	// SignUps counts the sign-ups of all time.
	SignUps int64
	// Days are the days of the period in order, without days that have no event. If the period covers a day only in part,
	// only that part counts.
	Days []Day
	// RecentSignUps and RecentSignIns are the newest of the deployment, in the period or not, the newest first. Those of
	// deleted users are not listed.
	RecentSignUps, RecentSignIns []Recent
}

// Counts are the numbers of a period.
type Counts struct {
	// SignInUsers counts the users that signed in, each once.
	SignInUsers int64
	// SignUps, Organizations and Workspaces count the rows that were created.
	SignUps, Organizations, Workspaces int64
}

// Day is a calendar day, UTC.
type Day struct {
	// Start is the midnight at which the day begins.
	Start time.Time
	// SignInUsers counts the users that signed in on this day, each once.
	SignInUsers int64
	// SignUps, Organizations and Workspaces count the rows that were created.
	SignUps, Organizations, Workspaces int64
}

// Recent is a sign-up or a sign-in with its user's present names and primary address.
type Recent struct {
	User                       int64
	Email, FirstName, LastName string
	At                         time.Time
	Method, Address, UserAgent string
}

// KeepsNewest is how many of the newest sign-ups, and of the newest sign-ins, stay linked to their user whatever their
// age, so that a summary can list them.
const KeepsNewest = 100

// RollUp moves events into a set of users and a log for each day, which Summarize reads fast. An event is either
// waiting or rolled up, and counts the same in both states. So a roll-up may stop at any point, run in several
// processes at once, and return to the same day.
type RollUp interface {
	// Waiting returns the days that have waiting events, ordered by deployment and day. It takes milliseconds per day,
	// even with millions of waiting events.
	Waiting(ctx context.Context) ([]WaitingEvents, error)
	// RollUpDay rolls up at most limit of the oldest waiting events of each kind of a day. It rolls up all of them or
	// none, and returns how many: 0 if no event waits or another process is rolling up the deployment. It keeps the user
	// of events at linkedSince or later and of the newest KeepsNewest. It keeps the address and user agent only of events
	// at linkedSince or later.
	RollUpDay(ctx context.Context, w WaitingEvents, linkedSince time.Time, limit int) (int64, error)
	// Unlink deletes the links of rolled-up events older than a time to their users, with address and user agent. It
	// handles at most limit events of each kind per call and returns how many it changed. The newest KeepsNewest lose only
	// address and user agent, and so do waiting events. It also deletes ended sign-ins last used before the time.
	Unlink(ctx context.Context, deployment string, before time.Time, limit int) (int64, error)
	// Linked returns the deployments that have events linked to users, rolled up or waiting, or ended sign-ins. Unlink
	// must run for them even if their events cannot be rolled up.
	Linked(ctx context.Context) ([]string, error)
	// RowChanges counts the changes of rows that this process has begun, without the roll-up's own. A roll-up pauses
	// longer while there are changes.
	RowChanges() uint64
	// VerifyRollUps compares at most limit rolled-up days, from a day on, with their events, and returns a result for
	// each.
	VerifyRollUps(ctx context.Context, deployment string, from time.Time, limit int) ([]RollUpCheck, error)
}

// WaitingEvents are the events of a day that are not rolled up.
type WaitingEvents struct {
	Deployment string
	// Day is midnight, UTC.
	Day time.Time
	// Events counts the waiting events. It is exact below EnoughToRollUp(RolledUp); a larger count may be too low.
	// RolledUp counts the rolled-up events of the day. The cost of a roll-up is proportional to both.
	Events, RolledUp int64
}

// EnoughToRollUp returns how many waiting events of a day are enough to roll it up without further delay, if rolledUp
// events of the day are rolled up already. The roll-up rewrites the whole day, so it is cheap per event only for many
// events.
func EnoughToRollUp(rolledUp int64) int64 { return max(2_000, rolledUp/8) }

// RollUpCheck is the comparison of a rolled-up day with its events.
type RollUpCheck struct {
	Day time.Time
	// Events counts the rolled-up events.
	Events int64
	// Fault describes the difference, "" if there is none.
	Fault string
}
