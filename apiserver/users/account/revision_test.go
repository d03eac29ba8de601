package account

import (
	"testing"
	"time"
)

func TestEachChangeHasItsOwnTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	for name, c := range map[string]struct{ now, want time.Time }{
		"later":                {at.Add(time.Second), at.Add(time.Second)},
		"at the same time":     {at, at.Add(time.Microsecond)},
		"of a clock behind it": {at.Add(-time.Second), at.Add(time.Microsecond)},
	} {
		got := NextUpdate(at, c.now)
		if !got.Equal(c.want) || IsRead(at, got) || !IsRead(got, got.In(time.Local)) || !IsRead(time.Time{}, got) {
			t.Errorf("%s: the change has %s, want %s", name, got, c.want)
		}
	}
}
