package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// controlGroups is where version 1 of the kernel's control groups keeps the groups of the scheduler.
const controlGroups = "/sys/fs/cgroup/cpu"

// inOneGroup puts this process and all it will start into one group of the kernel's scheduler, as a service or a
// container is, and returns what ends that.
//
// Where a process has no such group, the kernel may make each session one (sched_autogroup_enabled). PostgreSQL begins
// a session for every connection, and beside a busy loop each of these is left waiting for seconds while it could run:
// figures of PostgreSQL would be the kernel's, not ours.
func inOneGroup() (leave func() error, err error) {
	if strings.TrimSpace(read("/proc/sys/kernel/sched_autogroup_enabled")) != "1" || schedulerGroup() != "/" {
		return func() error { return nil }, nil
	}
	group := filepath.Join(controlGroups, fmt.Sprintf("cardea-bench-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		return nil, err
	}
	if err := enter(group); err != nil {
		return nil, errors.Join(err, os.Remove(group))
	}
	return func() error { return errors.Join(enter(controlGroups), os.Remove(group)) }, nil
}

// schedulerGroup returns the control group that counts for the scheduler: that of the controller cpu, else the one of
// version 2.
func schedulerGroup() string {
	group := ""
	for line := range strings.Lines(read("/proc/self/cgroup")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, group
		if len(fields) != 3 {
			continue
		}
		if slices.Contains(strings.Split(fields[1], ","), "cpu") {
			return fields[2]
		}
		if fields[1] == "" {
			group = fields[2]
		}
	}
	return group
}

// enter moves this process, with every thread, to a group.
func enter(group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0)
}
