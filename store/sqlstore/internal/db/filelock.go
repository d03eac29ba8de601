package db

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// LockFile takes the kernel's lock on a side file, which ends at the latest with the process. The file stays: if it
// were removed, two processes could lock two files of the same name.
func LockFile(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("open the store: %s is in use by another process: stop that one, or use another file, "+
			"or PostgreSQL, which several processes can share", strings.TrimSuffix(path, ".lock"))
	}
	return nil, fmt.Errorf("open the store: lock %s: %w", path, err)
}
