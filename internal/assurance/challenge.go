package assurance

import (
	"fmt"
	"strconv"
	"time"
)

// Wanted is what a resource server wants of the user of a token (RFC 9470). The zero value wants nothing.
type Wanted struct {
	// Level is None if any level will do.
	Level Level
	// MaxAge is how old the proof may be; it applies only if Aged is true.
	MaxAge time.Duration
	Aged   bool
}

// MaxWantedAge is the longest MaxAge.
const MaxWantedAge = 365 * 24 * time.Hour

// ParseWanted reads a value of acr_values and a max_age in whole seconds. Both texts may be empty, which wants nothing.
// The error says which values are accepted.
func ParseWanted(acr, maxAge string) (w Wanted, err error) {
	if acr != "" {
		level, known := ParseACR(acr)
		if !known {
			return Wanted{}, fmt.Errorf("must be one of 1, 2 and phr")
		}
		w.Level = level
	}
	if maxAge != "" {
		seconds, err := strconv.ParseInt(maxAge, 10, 32)
		if err != nil || seconds < 0 || time.Duration(seconds)*time.Second > MaxWantedAge {
			return Wanted{}, fmt.Errorf("must be a number of seconds from 0 to %d", int64(MaxWantedAge/time.Second))
		}
		w.MaxAge, w.Aged = time.Duration(seconds)*time.Second, true
	}
	return w, nil
}

// Any reports whether anything is wanted.
func (w Wanted) Any() bool { return w != Wanted{} }

// Met reports whether a token that states an authentication context class reference, and when it was proven, suffices.
// A token without a known reference, such as that of a client for itself, never suffices.
func (w Wanted) Met(acr string, at, now time.Time) bool {
	level, stated := ParseACR(acr)
	if !w.Any() {
		return true
	}
	return stated && level >= w.Level && (!w.Aged || !at.IsZero() && !now.After(at.Add(w.MaxAge)))
}

// Challenge is the value of WWW-Authenticate for a token that does not suffice (RFC 9470 3).
func (w Wanted) Challenge() string {
	out := `Bearer error="insufficient_user_authentication", error_description="` + InsufficientMessage + `"`
	if w.Level != None {
		out += `, acr_values="` + w.Level.ACR() + `"`
	}
	if w.Aged {
		out += `, max_age="` + strconv.FormatInt(int64(w.MaxAge/time.Second), 10) + `"`
	}
	return out
}

// InsufficientMessage says what a client does whose token does not suffice.
const InsufficientMessage = "the user must show a stronger or more recent proof: send an authorization request with these parameters"
