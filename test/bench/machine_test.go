package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestBenchMachine prints the facts that the figures depend on.
func TestBenchMachine(t *testing.T) {
	row("processors", "-", "%d, %s", runtime.NumCPU(), fact("/proc/cpuinfo", "model name"))
	row("memory", "-", "%s", fact("/proc/meminfo", "MemTotal"))
	row("kernel, Go", "-", "%s, %s", strings.TrimSpace(read("/proc/sys/kernel/osrelease")), runtime.Version())
	syncs := make([]time.Duration, 300)
	file, err := os.Create(filepath.Join(t.TempDir(), "synced"))
	check(t, err)
	defer file.Close()
	for i := range syncs {
		_, err := file.Write(make([]byte, 8<<10))
		check(t, err)
		begin := time.Now()
		check(t, file.Sync())
		syncs[i] = time.Since(begin)
	}
	row("fsync after appending 8 KiB, p50 and p99", "-", "%s, %s", ms(quantile(syncs, 0.5)), ms(quantile(syncs, 0.99)))
}

func read(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	return string(content)
}

// fact returns the value of a "name: value" line.
func fact(path, name string) string {
	for line := range strings.Lines(read(path)) {
		if before, after, found := strings.Cut(line, ":"); found && strings.TrimSpace(before) == name {
			return strings.TrimSpace(after)
		}
	}
	return "unknown"
}
