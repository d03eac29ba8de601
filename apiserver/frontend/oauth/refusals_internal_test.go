package oauth

import (
	"fmt"
	"testing"
	"time"
)

// What is left out for the day stays left out, however many networks have requests refused.
func TestRefusalsOfManyNetworksDoNotBeginADayAnew(t *testing.T) {
	t.Parallel()
	r, now := newRefusals(), time.Unix(0, 0)
	day := bound{name: "1 day", most: 3, within: 24 * time.Hour, ofApp: true}
	told := 0
	for n := range 2 * maxRefusalWindows {
		if is, _ := r.tell(now, bound{name: fmt.Sprint("network ", n), most: 10, within: time.Minute}, day); is {
			told++
		}
	}
	if told != 3 {
		t.Errorf("%d refusals of an app are told in a day, want 3", told)
	}
}
