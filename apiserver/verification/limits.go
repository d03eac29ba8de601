package verification

import "time"

const (
	// To one recipient of a purpose: for a client, where it is an email, for a user, where it is a phone.
	perHour = 5
	perDay  = 10
	// From one client, and from one neighbourhood. Only texts count by the client alone.
	clientPerHour        = 20
	neighbourhoodPerHour = 60
	// To one email, asked for by clients that its account does not know.
	strangersPerDay = 30
	// Texts to one user over all phones.
	userPerDay = 10
	// Wrong codes for one email from clients that its account does not know, and from a neighbourhood over all emails.
	wrongByStrangersPerDay    = 100
	wrongByNeighbourhoodPerHr = 200
	// LockAfter is how many wrong codes in a row, over all challenges, lock, and LockFor for how long.
	LockAfter = 20
	LockFor   = time.Hour
	// Window is how far back sends count.
	Window = 24 * time.Hour
)

// coolDowns are the waits after the first, second and every further send of an hour.
var coolDowns = []time.Duration{30 * time.Second, 60 * time.Second, 120 * time.Second}

// NextSend returns when the next code may be sent, given the sends of the last Window to one recipient, the oldest first: not
// before the cool-down, and not more than 5 in any hour and 10 in any day. It is not after now if a code may be sent now.
func NextSend(sends []time.Time, now time.Time) time.Time {
	next := time.Time{}
	recent := 0
	for _, at := range sends {
		if at.After(now.Add(-time.Hour)) {
			recent++
		}
	}
	if recent > 0 {
		next = sends[len(sends)-1].Add(coolDowns[min(recent, len(coolDowns))-1])
	}
	return later(next, later(room(sends, perHour, time.Hour), room(sends, perDay, Window)))
}

// room returns when one more send makes no more than most within any span; zero if there was always room.
func room(sends []time.Time, most int, span time.Duration) time.Time {
	if len(sends) < most {
		return time.Time{}
	}
	return sends[len(sends)-most].Add(span)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// RegionBudget is how much of a deployment's daily budget one country may take: half of it, where there are others, so that
// fraud in one country does not silence the rest.
func RegionBudget(daily int64, onlyCountry bool) int64 {
	if onlyCountry {
		return daily
	}
	return (daily + 1) / 2
}

// NewcomersBudget is how much of a deployment's daily budget users without a verified phone may take: those who have one keep a
// fifth for themselves.
func NewcomersBudget(daily int64) int64 { return daily - daily/5 }
