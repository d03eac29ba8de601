package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
)

// Two runs that start at the same time find the same ports free, because seconds pass until either listens on them.
func TestRunsThatBeginAtOnceTakeDifferentPorts(t *testing.T) {
	t.Parallel()
	port, err := controlplane.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "ports")
	one, other := &reservations{dir: dir}, &reservations{dir: dir}
	if !one.take(port) || other.take(port) {
		t.Error("both have the port, or neither")
	}
	first, err := choosePorts(filepath.Join(t.TempDir(), "ports.json"), one.take)
	if err != nil {
		t.Fatal(err)
	}
	second, err := choosePorts(filepath.Join(t.TempDir(), "ports.json"), other.take)
	if err != nil {
		t.Fatal(err)
	}
	if first != preferred {
		t.Errorf("the first: %+v", first)
	}
	has := map[int]bool{}
	for _, p := range []ports{first, second} {
		for _, port := range []int{p.APIServer, p.Etcd, p.Backend, p.Frontend, p.Decision, p.Envoy, p.Metrics, p.OperatorMetrics, p.CarrierHTTP, p.CarrierSMTP, p.CarrierDNS} {
			if has[port] {
				t.Errorf("both have %d", port)
			}
			has[port] = true
		}
	}
	for _, file := range one.held { // as the end of a process does
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// While a parallel test starts a child process, the forked child holds a copy of every lock until it executes its
	// program.
	deadline := time.Now().Add(10 * time.Second)
	for !other.take(port) {
		if time.Now().After(deadline) {
			t.Fatal("the port of a run that ended is still reserved")
		}
		time.Sleep(time.Millisecond)
	}
}
