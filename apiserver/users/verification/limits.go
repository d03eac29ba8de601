package verification

import "time"

const (
	// To one recipient of a purpose: for a client, where it is an email, for a user, where it is a phone.
	perHour = 5
	perDay  = 10
	// From one client, and from one neighbourhood. Only texts count by the client alone.
	clientPerHour        = 20
	neighbourhoodPerHour = 60
	// To one email, asked for by clients that its account does not know. A neighborhood may have 10 of the first 20; of the others each has
	// 2, so that it takes many neighborhoods to keep somebody at another one from signing up.
	strangersPerDay   = 30
	sharedPerDay      = 20
	ofOneNeighborhood = 10
	keptForOthers     = 2
	// From one block of addresses (IPv4 /16, IPv6 /32), over all emails, by clients that the accounts do not know.
	blockMailsPerHour = 50 * neighbourhoodPerHour
	// Texts to one number over all users who did not prove it.
	numberPerDay = 10
	// Texts to one user over all phones.
	userPerDay = 10
	// Wrong codes for one email from clients that its account does not know, and from a neighbourhood over all emails.
	wrongByStrangersPerDay    = 100
	wrongByNeighbourhoodPerHr = 200
	wrongByBlockPerHour       = 50 * wrongByNeighbourhoodPerHr
	// LockAfter is the number of wrong codes in a row, over all challenges, that lock an address or number.
	LockAfter = 20
	// LockFor is how long such a lock lasts.
	LockFor = time.Hour
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

// roomForStrangers returns when one more mail may be sent to an email for a client that its account does not know; zero if now. all are the mails
// to it for such clients, and own those of the client's neighborhood among them.
func roomForStrangers(all, own []time.Time) time.Time {
	shared := later(room(all, sharedPerDay, Window), room(own, ofOneNeighborhood, Window))
	kept := later(room(all, strangersPerDay, Window), room(own, keptForOthers, Window))
	if kept.Before(shared) {
		return kept
	}
	return shared
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
