package oauth

import (
	"fmt"
	"testing"
	"time"
)

// Above the daily bound nothing is audited, from any number of networks.
func TestDailyBoundOfRefusalsCoversAllNetworks(t *testing.T) {
	t.Parallel()
	r, now := newRefusals(), time.Unix(0, 0)
	day := bound{name: "1 day", most: 3, within: 24 * time.Hour, ofApp: true}
	audited := 0
	for n := range 2 * maxRefusalWindows {
		if is, _ := r.admit(now, bound{name: fmt.Sprint("network ", n), most: 10, within: time.Minute}, day); is {
			audited++
		}
	}
	if audited != 3 {
		t.Errorf("%d refusals of an app are audited in a day, want 3", audited)
	}
}
