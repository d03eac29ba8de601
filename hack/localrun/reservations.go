package main

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
)

// reservations keep the ports of this run from the same user's runs in other folders, because seconds pass between the
// choice of a port and the moment a process listens on it. They are file locks, which the kernel releases when this
// process ends for any reason.
type reservations struct {
	dir  string
	held []*os.File
}

// newReservations returns empty reservations in the folder that all runs of one user share.
func newReservations() *reservations {
	return &reservations{dir: filepath.Join(os.TempDir(), "cardea-ports-"+strconv.Itoa(os.Getuid()))}
}

// take reserves a port, and reports whether the run may use it: false if another run has it. If the lock file cannot be
// created, take returns true without a reservation.
func (r *reservations) take(port int) bool {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return true
	}
	file, err := os.OpenFile(filepath.Join(r.dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return true
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written
		return false
	}
	r.held = append(r.held, file)
	return true
}

// takeSoon reserves a port that is free. It retries while the processes of a killed run still release the port.
func (r *reservations) takeSoon(port int) bool {
	for range 20 {
		if controlplane.PortIsFree(port) && r.take(port) {
			return true
		}
		time.Sleep(25 * time.Millisecond)
	}
	return false
}
