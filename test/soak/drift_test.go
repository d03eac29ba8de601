package soak

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestSeriesThatGrowIsReported(t *testing.T) {
	t.Parallel()
	rising, level, wave, fallen := make(series, 30), make(series, 30), make(series, 30), make(series, 30)
	for i := range rising {
		rising[i], level[i], wave[i], fallen[i] = 100+2*float64(i), 100, 100+20*math.Sin(float64(i)), 100-float64(i)
	}
	late := append(make(series, 0, 30), level[:20]...)
	for range 10 {
		late = append(late, 200)
	}
	for name, tc := range map[string]struct {
		s     series
		grows bool
	}{
		"rising": {rising, true}, "level": {level, false}, "a wave": {wave, false}, "falling": {fallen, false}, "a step near the end": {late, true},
		"a single peak": {append(append(series{}, level[:29]...), 900), false}, "one value": {series{7}, false},
	} {
		if got := (measure{ratio: 1.1, slack: 16}).grows(tc.s); got != tc.grows {
			t.Errorf("%s: grows %v", name, got)
		}
	}
	if got := rising.slope(); math.Abs(got-2) > 1e-9 {
		t.Errorf("the slope is %v", got)
	}
}

func TestEveryMeasureIsExpected(t *testing.T) {
	t.Parallel()
	measured := minutes{}
	for _, m := range levels[1:] {
		measured[m.name] = series{1, 1, 1}
	}
	faults := drift(measured, minutes{"session": {10, 10, 100}})
	if len(faults) != 2 || !strings.HasPrefix(faults[0], levels[0].name) || !strings.HasPrefix(faults[1], "p99 of session") {
		t.Errorf("%q", faults)
	}
	report := table(time.Minute, measured, minutes{"session": {10, 10, 100}})
	if !strings.Contains(report, "| p99 of session, ms | 10.0 | 100 | 2700 | 10.0 10.0 100 |") {
		t.Error(report)
	}
}
