package progress

import (
	"strings"
	"testing"
	"time"
)

func TestLinesHaveTheTimeSinceTheFirstProgramStarted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		started string
		later   time.Duration
		want    string
	}{
		"the same second":            {started: "1000", want: "[0:00] compiled etcd\n"},
		"seconds":                    {started: "1000", later: 42 * time.Second, want: "[0:42] compiled etcd\n"},
		"minutes":                    {started: "1000", later: 5*time.Minute + 3*time.Second, want: "[5:03] compiled etcd\n"},
		"more than an hour":          {started: "1000", later: 75 * time.Minute, want: "[75:00] compiled etcd\n"},
		"an earlier program":         {started: "940", later: time.Second, want: "[1:01] compiled etcd\n"},
		"no variable":                {later: 2 * time.Second, want: "[0:02] compiled etcd\n"},
		"a variable that is no time": {started: "noon", want: "[0:00] compiled etcd\n"},
		"a start in the future":      {started: "2000", want: "[0:00] compiled etcd\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1000, 0)
			var out strings.Builder
			steps := New(&out, tt.started, func() time.Time { return now })
			now = now.Add(tt.later)
			steps.Print("compiled %s", "etcd")
			if out.String() != tt.want {
				t.Errorf("printed %q, want %q", out.String(), tt.want)
			}
		})
	}
}
