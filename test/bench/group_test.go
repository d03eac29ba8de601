package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// controlGroups is the folder of the scheduler's control groups, version 1.
const controlGroups = "/sys/fs/cgroup/cpu"

// inOneGroup puts this process and all it will start into one group of the kernel's scheduler, as for a service or a
// container. It returns a function that undoes this.
//
// For a process without such a group, the kernel may create a group for each session (sched_autogroup_enabled).
// PostgreSQL begins a session for every connection. While a busy loop runs, each of these sessions waits for seconds
// although it could run. PostgreSQL's figures would then measure the kernel, not Cardea.
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

// schedulerGroup returns the control group that the scheduler uses: the group of the cpu controller, or else the
// version 2 group.
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
