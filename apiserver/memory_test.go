package apiserver_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver"
)

// idleHeapMost is the most memory that a server without configuration and traffic may have in use. Every garbage
// collection reads it, which delays decisions.
const idleHeapMost = 14 << 20

// TestServerWithoutTrafficHoldsLittle measures in a process of its own, because other tests of this one hold memory.
func TestServerWithoutTrafficHoldsLittle(t *testing.T) {
	const measures = "CARDEA_TEST_MEASURES_HEAP"
	if os.Getenv(measures) == "" {
		t.Parallel()
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), measures+"=1")
		out, err := command.CombinedOutput()
		var held uint64
		if _, after, found := strings.Cut(string(out), "heap in use: "); found {
			_, _ = fmt.Sscan(after, &held)
		}
		if err != nil || held == 0 {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%d KiB", held>>10)
		if held > idleHeapMost {
			t.Errorf("a server without traffic holds %d KiB, want at most %d", held>>10, idleHeapMost>>10)
		}
		return
	}
	server, err := apiserver.New(apiserver.Options{Log: logr.Discard(), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	for range 3 { // finalizers and pools release what earlier collections found
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	fmt.Printf("heap in use: %d\n", m.HeapAlloc)
	runtime.KeepAlive(server)
}
