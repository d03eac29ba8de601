package saml

import (
	"regexp"
	"strconv"
	"time"
)

// durationPattern matches an xs:duration of at most five digits a part.
var durationPattern = regexp.MustCompile(`^P(?:(\d{1,5})Y)?(?:(\d{1,5})M)?(?:(\d{1,5})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,8})(?:\.\d{1,9})?S)?)?$`)

// readDuration reads an xs:duration, with months of 30 and years of 365 days. It returns 0 for what is none, and
// never more than 30 days.
func readDuration(text string) time.Duration {
	const day, most = 24 * time.Hour, 30 * 24 * time.Hour
	if len(text) > 64 {
		return 0
	}
	parts := durationPattern.FindStringSubmatch(text)
	if parts == nil {
		return 0
	}
	var total time.Duration
	for i, unit := range []time.Duration{365 * day, 30 * day, day, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.Atoi(parts[i+1]) // "" is 0
		total = min(total+min(time.Duration(n), most/unit+1)*unit, most)
	}
	return total
}
