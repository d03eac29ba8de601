// Package assurance holds the rules of assurance levels: which proofs a user has shown, which level they reach, what
// is required when, and which claims of OAuth and OpenID Connect state it. It is pure: it reads no store and no clock.
package assurance

import (
	"slices"
	"time"
)

// Level is an assurance level. The zero value is None.
type Level int

// The levels, in ascending order.
const (
	// None is the level without any proof.
	None Level = iota
	// OneFactor needs any one proof.
	OneFactor
	// TwoFactors needs a password, an emailed code or a connection's answer, and a second factor; or the answer of a
	// connection whose provider states more than one.
	TwoFactors
	// PhishingResistant needs a passkey that verified its user, or a passkey and the password.
	PhishingResistant
)

// names are the names of the levels in JSON, and declared their names in resources, by level.
var (
	names    = [...]string{"none", "one_factor", "two_factors", "phishing_resistant"}
	declared = [...]string{"", "OneFactor", "TwoFactors", "PhishingResistant"}
	acrs     = [...]string{"", "1", "2", "phr"}
)

// String returns the level's name in JSON: none, one_factor, two_factors or phishing_resistant.
func (l Level) String() string { return names[l] }

// ACR returns the level's authentication context class reference: "1", "2" or "phr"; "" for None.
func (l Level) ACR() string { return acrs[l] }

// Declared returns the level's name in resources: OneFactor, TwoFactors or PhishingResistant; "" for None.
func (l Level) Declared() string { return declared[l] }

// ParseLevel returns the level that JSON names one_factor, two_factors or phishing_resistant. It reports false for
// every other name.
func ParseLevel(name string) (Level, bool) { return find(names[:], name) }

// ParseDeclared returns the level that resources name OneFactor, TwoFactors or PhishingResistant. It reports false for
// every other name.
func ParseDeclared(name string) (Level, bool) { return find(declared[:], name) }

// acrMultiFactor is another name for TwoFactors in requests.
const acrMultiFactor = "http://schemas.openid.net/pape/policies/2007/06/multi-factor"

// ParseACR returns the level of a value of acr_values. It reports false for an unknown value.
func ParseACR(value string) (Level, bool) {
	if value == acrMultiFactor {
		return TwoFactors, true
	}
	return find(acrs[:], value)
}

// Requested returns the values of acr_values that are known, in their order and without repetitions, and the level that
// satisfies one of them: None if none is known. Unknown values do not bind (OpenID Connect Core 5.5.1.1).
func Requested(values []string) (known []string, level Level) {
	for _, value := range values {
		asked, found := ParseACR(value)
		if !found || slices.Contains(known, value) {
			continue
		}
		if known = append(known, value); level == None || asked < level {
			level = asked
		}
	}
	return known, level
}

// ACRs returns the values of acr_values_supported, in ascending order of their levels.
func ACRs() []string { return append([]string(nil), acrs[OneFactor:]...) }

func find(in []string, name string) (Level, bool) {
	for i := OneFactor; i <= PhishingResistant; i++ {
		if in[i] == name {
			return i, true
		}
	}
	return None, false
}

// Requirement is a level that is required from a time on.
type Requirement struct {
	// Level is None if nothing is required.
	Level Level
	// From is when the requirement comes into force; zero: at once.
	From time.Time
}

// InForce reports whether the requirement is in force at a time.
func (r Requirement) InForce(now time.Time) bool { return r.Level > OneFactor && !now.Before(r.From) }

// Delayed returns the requirement as it applies to an account: it comes into force no earlier than grace after the
// account's creation.
func (r Requirement) Delayed(created time.Time, grace time.Duration) Requirement {
	if end := created.Add(grace); grace > 0 && end.After(r.From) {
		r.From = end
	}
	return r
}

// Source is the source of a requirement.
type Source string

// The sources of requirements.
const (
	// ByNobody is the source if no more than OneFactor is required.
	ByNobody       Source = ""
	ByAccount      Source = "account"
	ByDeployment   Source = "deployment"
	ByOrganization Source = "organization"
	ByRole         Source = "role"
)

// Demand is a requirement with its source.
type Demand struct {
	By Source
	Requirement
}

// Required is what several demands require at one time.
type Required struct {
	// Level is the largest level in force, at least OneFactor.
	Level Level
	// By is the source of Level: of several, the first in the order of the demands.
	By Source
	// Next is when a higher level than Level comes into force; zero: no higher one is announced.
	Next time.Time
}

// Require returns what demands require at a time.
func Require(now time.Time, demands ...Demand) Required {
	out := Required{Level: OneFactor}
	for _, d := range demands {
		if d.InForce(now) && d.Level > out.Level {
			out.Level, out.By = d.Level, d.By
		}
	}
	for _, d := range demands {
		if !d.InForce(now) && d.Level > out.Level && (out.Next.IsZero() || d.From.Before(out.Next)) {
			out.Next = d.From
		}
	}
	return out
}
