package verification

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
)

const (
	// perHour and perDay bound the codes for one purpose to one recipient: to an email per client, to a phone per user.
	perHour = 5
	perDay  = 10
	// clientPerHour bounds the texts that one client requests. networkPerHour bounds the mails, and likewise the texts,
	// that one wide network requests.
	clientPerHour  = 20
	networkPerHour = 60
	// The mails to one email per day that are requested by clients that its account does not know. One wide network may
	// request 10, until there are 20 from all networks. The remaining 10 are for networks that have requested fewer
	// than 2, so that an attacker needs many networks to keep a user in another network from signing up.
	unknownPerDay      = 30
	sharedPerDay       = 20
	sharedPerNetwork   = 10
	reservedPerNetwork = 2
	// blockMailsPerHour bounds the mails to all emails that one block of addresses (IPv4 /16, IPv6 /32) requests, by
	// clients that the accounts do not know.
	blockMailsPerHour = 50 * networkPerHour
	// numberPerDay bounds the texts to one number. The bound does not apply to a user who verified the number.
	numberPerDay = 10
	// userPerDay bounds the texts to all phones of one user.
	userPerDay = 10
	// The numbers of wrong codes after which clients that the account does not know must wait: for one email by such
	// clients, and over all emails from one wide network and from one block.
	wrongByUnknownPerDay  = 100
	wrongByNetworkPerHour = 200
	wrongByBlockPerHour   = 50 * wrongByNetworkPerHour
	// LockAfter is the number of consecutive wrong codes, over all challenges, that locks the phones of a user, or an
	// address for one client.
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

// nextAllowed returns the time from which another send is within most sends per span; zero if there are fewer than most
// sends.
func nextAllowed(sends []time.Time, most int, span time.Duration) time.Time {
	if len(sends) < most {
		return time.Time{}
	}
	return sends[len(sends)-most].Add(span)
}

// nextForUnknownClient returns when the next mail may be sent to an email for a client that its account does not know;
// zero if it may be sent at any time. all are the mails to the email for such clients, and own those of them that the
// client's wide network requested.
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
