package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapRoom is how much a server may allocate, in bytes, before its garbage is collected. By the runtime's own rule that is as much as is in
// use: a server with a small configuration would collect several times a second under load, and decisions would wait for it.
const heapRoom = 64 << 20

// leastHeap is the least that a server has in use, in bytes: what it had before its first collection says nothing.
const leastHeap = 8 << 20

// giveHeapRoom lets the heap grow by heapRoom, or as much as is in use if that is more, between two collections. GOMEMLIMIT holds all the
// same, and where GOGC is set, that counts.
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

// growth is how far, in percent of the bytes in use, the heap may grow until it is collected.
func growth(inUse uint64) int {
	return int(max(100, heapRoom*100/max(inUse, leastHeap)))
}

// collected is garbage from the beginning, so that its finalizer tells of a collection.
type collected struct{ _ *collected }

// afterCollections calls do after each collection, from one goroutine.
func afterCollections(do func()) {
	runtime.SetFinalizer(&collected{}, func(*collected) {
		do()
		afterCollections(do)
	})
}
