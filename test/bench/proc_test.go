package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memory returns the resident memory of a process, current and peak, in MiB.
func memory(t *testing.T, pid int) (now, most float64) {
	t.Helper()
	return statusMiB(t, pid, "VmRSS"), statusMiB(t, pid, "VmHWM")
}

// statusMiB returns a size in /proc/PID/status, in MiB.
func statusMiB(t *testing.T, pid int, name string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(t, err)
	_, after, found := strings.Cut(string(text), name+":")
	if !found {
		t.Fatalf("no %s in /proc/%d/status", name, pid)
	}
	kib, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	check(t, err)
	return kib / 1024
}

// cpuTime returns the processor time a process has used. The kernel counts in hundredths of a second.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		check(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// pin restricts all threads of a process, including later ones, to a list of processors such as "0-1".
func pin(t *testing.T, pid int, processors string) {
	t.Helper()
	if out, err := exec.Command("taskset", "--all-tasks", "--cpu-list", "--pid", processors, strconv.Itoa(pid)).CombinedOutput(); err != nil {
		t.Fatalf("taskset (of util-linux): %v: %s", err, out)
	}
}

// scheduled returns how long the threads of a process have run, in the kernel's nanoseconds.
func scheduled(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	check(t, err)
	for _, thread := range threads {
		var ran int64
		if _, err := fmt.Sscan(read(thread), &ran); err == nil { // a thread may have ended
			sum += time.Duration(ran)
		}
	}
	return sum
}
