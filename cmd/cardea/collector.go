package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapRoom is how much a server may allocate, in bytes, between two garbage collections. The Go runtime's default is as
// much as the heap in use. A server with a small configuration would then collect several times a second under load,
// which delays decisions.
const heapRoom = 64 << 20

// leastHeap is the least heap in use that growth assumes, in bytes. Before the first collection, the runtime reports no
// meaningful value.
const leastHeap = 8 << 20

// giveHeapRoom lets the heap grow by heapRoom, or by the heap in use if that is more, between two collections.
// GOMEMLIMIT still applies, and GOGC takes precedence.
func giveHeapRoom() {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := growth(0)
	debug.SetGCPercent(percent)
	afterCollections(func() {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		if next := growth(sample[0].Value.Uint64()); next*10 < percent*9 || next*9 > percent*10 { // each change stops the world for some microseconds
			percent = next
			debug.SetGCPercent(percent)
		}
	})
}

// growth returns how far the heap may grow until the next collection, in percent of the bytes in use.
func growth(inUse uint64) int {
	return int(max(100, heapRoom*100/max(inUse, leastHeap)))
}

// collected is garbage from the start, so that its finalizer runs at each collection.
type collected struct{ _ *collected }

// afterCollections calls do after each collection, from one goroutine.
func afterCollections(do func()) {
	runtime.SetFinalizer(&collected{}, func(*collected) {
		do()
		afterCollections(do)
	})
}
