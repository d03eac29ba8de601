// Package engine evaluates rate-limit schemes: it decides whether a request may be made now. It does no I/O; callers
// pass in the clock and the subject of the request. It guarantees for every rule that matches a request:
//   - strict: no interval of the window's length, and no calendar period, ever admits more than max_requests, whatever
//     the pattern of arrivals;
//   - all or nothing: every matching rule must allow, and a denied request consumes nothing, from any rule;
//   - Retry-After is never early;
//   - memory is bounded, and a decision allocates nothing.
//
// The path of a decision: a Scheme's program finds the rules that match the method and path (endpoint.go). Their
// counters are in one block for each subject (program.go), in one of the engine's shards (shard.go). Each counter is a
// window (window.go): exact for small limits, packed cells for large ones, a count for calendar periods. Decide
// (engine.go) locks the shards, checks all rules, and charges all or none.
package engine

import (
	"encoding/binary"
	"net/netip"
)

// Request is what a decision is about. Every member is a value that the engine compares, never text of a credential.
type Request struct {
	// Method and Path are matched by the rules' endpoints; Path is canonical (CanonicalPath).
	Method, Path string
	// Key and App are the counting subjects of per_key and per_app rules. Address is that of per_ip rules: AddressOf.
	Key, App, Address uint64
	// Scheme limits the request; nil: no limit. AppScheme is the app's scheme if the key has its own scheme, nil if
	// there is none. Only its per_app and per_app_and_ip rules apply, unless WholeAppScheme is set: then all do.
	Scheme, AppScheme *Scheme
	WholeAppScheme    bool
	// Limits replace the rules' limits, in the order of Applying; nil: each rule's own. They are this process' parts of
	// limits that it shares with other processes.
	Limits []int64
}

// Counter is one counter that a request would charge.
type Counter struct {
	Rule *Rule
	// Scheme, Of, Address and the rule's mode and identity identify the counter: Of is a key or an app, Address a
	// client's.
	Scheme, Of, Address uint64
	// OfApp reports whether the counter belongs to the app's scheme, not to the request's own.
	OfApp bool

	scheme *Scheme
}

// AddressOf returns the counting subject of a client's address: an IPv4 address, or an IPv6 /64. IPv4 addresses are
// mapped into 0:ffff::/32, in which there is no IPv6 network.
func AddressOf(client netip.Addr) uint64 {
	client = client.Unmap()
	if client.Is4() {
		b := client.As4()
		return 0xffff<<32 | uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := client.As16()
	return binary.BigEndian.Uint64(b[:8])
}

// Result is the result of a decision. It can be reused, because Decide overwrites it.
type Result struct {
	Allowed bool
	// Blocked is the index in Rules of the first rule that denied; -1 where none did.
	Blocked int
	// RetryAfter is when every rule that denied may allow again: microseconds from the decision's moment, 0 when
	// allowed.
	RetryAfter int64
	// Rules are the rules that matched, in the order of their priority, with what is left of each after the decision.
	Rules []RuleState

	work decision
}

// RuleState is what is left of one rule.
type RuleState struct {
	Rule *Rule
	// Remaining is how many requests the rule would still allow at this moment.
	Remaining int64
	// Returns is when used quota comes back next: microseconds from the decision's moment, 0 where none is used.
	Returns int64
}
