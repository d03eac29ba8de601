// Package progress prints the steps of a first start: one line for each step, with the time since the start.
package progress

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// StartVariable is the environment variable with the time when the first of several programs started, in seconds since
// 1970. The programs then print the time since that start.
const StartVariable = "CARDEA_STARTED"

// Steps prints lines. Its methods can be called concurrently.
type Steps struct {
	out   io.Writer
	start time.Time
	now   func() time.Time
	mu    sync.Mutex
}

// New returns Steps that print to out. The parameter started is the value of StartVariable. If it is no time before
// now, the start is now.
func New(out io.Writer, started string, now func() time.Time) *Steps {
	start := now()
	if seconds, err := strconv.ParseInt(started, 10, 64); err == nil && !time.Unix(seconds, 0).After(start) {
		start = time.Unix(seconds, 0)
	}
	return &Steps{out: out, start: start, now: now}
}

// Print prints a line: the elapsed time in minutes and seconds, and a text.
func (s *Steps) Print(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	elapsed := int(s.now().Sub(s.start) / time.Second)
	_, _ = fmt.Fprintf(s.out, "[%d:%02d] %s\n", elapsed/60, elapsed%60, fmt.Sprintf(format, values...))
}
