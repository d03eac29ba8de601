package bench

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// busyLoop makes this binary run a busy loop instead of the tests.
const busyLoop = "CARDEA_BENCH_BUSY"

// busyAtMost ends a loop whose test process died.
const busyAtMost = 5 * time.Minute

// spin uses a processor until it is killed.
func spin() {
	for begin := time.Now(); time.Since(begin) < busyAtMost; {
	}
}

// besideBusyLoops runs do while two other processes each use a processor fully, as other work on the machine does.
func besideBusyLoops(t *testing.T, do func()) {
	t.Helper()
	for range 2 {
		loop := exec.Command(os.Args[0])
		loop.Env = append(os.Environ(), busyLoop+"=1", "GOMAXPROCS=1")
		check(t, loop.Start())
		defer func() {
			report(t, loop.Process.Kill())
			_ = loop.Wait() // it was killed
		}()
	}
	do()
}
