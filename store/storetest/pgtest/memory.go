package pgtest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// folderPrefix begins the name of each data folder. The id of the process that made the folder follows, and a dash.
	folderPrefix = "cardea-pg-"
	// memory is where Linux keeps files in memory.
	memory = "/dev/shm"
	// minMemory is how many bytes must be free there for the data of a server: each database has about 12 MiB, and the
	// write-ahead log up to 128 MiB.
	minMemory = 4 << 30
	// tmpfs is the type of a file system in memory, TMPFS_MAGIC of statfs(2).
	tmpfs = 0x01021994
)

// parent returns the folder for the data of a server with these settings: memory for a server that does not wait for
// the disk, if enough is free; otherwise "", the folder of temporary files. A database has about 700 files; the file
// system of a disk needs four times the processor time to create and remove them.
func parent(settings []string) string {
	waits := true
	for _, setting := range settings {
		if value, found := strings.CutPrefix(setting, "fsync="); found {
			waits = value != "off"
		}
	}
	if waits {
		return ""
	}
	removeAbandoned()
	var fs syscall.Statfs_t
	if syscall.Statfs(memory, &fs) != nil || fs.Type != tmpfs || fs.Bavail*uint64(fs.Bsize) < minMemory {
		return ""
	}
	return memory
}

// removeAbandoned removes the folders in memory whose process ended without removing them, such as after a panic.
func removeAbandoned() {
	found, _ := filepath.Glob(filepath.Join(memory, folderPrefix+"*"))
	for _, folder := range found {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), folderPrefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(folder) // another process may remove it too
		}
	}
}
