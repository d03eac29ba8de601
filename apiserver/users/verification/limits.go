package verification

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
)

const (
	// For one purpose, to one recipient: per client for an email, per user for a phone.
	perHour = 5
	perDay  = 10
	// From one client, and from one wide network. Only texts are counted per client.
	clientPerHour  = 20
	networkPerHour = 60
	// To one email, requested by clients that its account does not know. Of the first 20, one wide network may request 10.
	// Of the remaining 10 each network may request 2, so that an attacker needs many networks to keep a user in another
	// network from signing up.
	unknownPerDay      = 30
	sharedPerDay       = 20
	sharedPerNetwork   = 10
	reservedPerNetwork = 2
	// From one block of addresses (IPv4 /16, IPv6 /32), over all emails, by clients that the accounts do not know.
	blockMailsPerHour = 50 * networkPerHour
	// Texts to one number, over all users who have not verified it.
	numberPerDay = 10
	// Texts to one user, over all phones.
	userPerDay = 10
	// Wrong codes from clients that the account does not know: for one email, from a wide network and from a block over
	// all emails.
	wrongByUnknownPerDay  = 100
	wrongByNetworkPerHour = 200
	wrongByBlockPerHour   = 50 * wrongByNetworkPerHour
	// LockAfter is the number of consecutive wrong codes, over all challenges, that locks an address or number.
	LockAfter = 20
	// LockFor is the duration of such a lock.
	LockFor = time.Hour
	// Window is the period in which sends are counted.
	Window = 24 * time.Hour
)

// coolDowns are the waits after the first, the second and every further send within an hour.
var coolDowns = []time.Duration{30 * time.Second, 60 * time.Second, 120 * time.Second}

// NextSend returns when the next code may be sent: after the cool-down, and at most 5 in any hour and 10 in any day.
// sends are those to one recipient within the last Window, oldest first. If a code may be sent now, the result is not
// after now.
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
	return account.Later(next, account.Later(nextAllowed(sends, perHour, time.Hour), nextAllowed(sends, perDay, Window)))
}

// nextAllowed returns when another send keeps within most sends per span; zero if it does at any time.
func nextAllowed(sends []time.Time, most int, span time.Duration) time.Time {
	if len(sends) < most {
		return time.Time{}
	}
	return sends[len(sends)-most].Add(span)
}

// nextForUnknownClient returns when the next mail may be sent to an email for a client that its account does not know;
// zero if now. all are the mails to it for such clients, and own those of the client's wide network among them.
func nextForUnknownClient(all, own []time.Time) time.Time {
	shared := account.Later(nextAllowed(all, sharedPerDay, Window), nextAllowed(own, sharedPerNetwork, Window))
	kept := account.Later(nextAllowed(all, unknownPerDay, Window), nextAllowed(own, reservedPerNetwork, Window))
	if kept.Before(shared) {
		return kept
	}
	return shared
}

// RegionBudget returns how much of a deployment's daily budget one country may use: half of it if several countries are
// allowed, so that fraud in one country does not stop texts to the others.
func RegionBudget(daily int64, onlyCountry bool) int64 {
	if onlyCountry {
		return daily
	}
	return (daily + 1) / 2
}

// NewcomersBudget returns how much of a deployment's daily budget users without a verified phone may use. A fifth is
// reserved for the other users.
func NewcomersBudget(daily int64) int64 { return daily - daily/5 }
