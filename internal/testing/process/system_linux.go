package process

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// childAttributes: the kernel kills the child when we die, and the child has a process group of its own, so that the
// Ctrl-C of a terminal reaches us alone and we decide the order in which children stop.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// executable is the path of what pid runs, "" when there is no such process or it is a zombie. A binary that was
// rebuilt since is still the same path.
func executable(pid int) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(path, " (deleted)")
}

func commandLine(pid int) []string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(content), "\x00"), "\x00")
}
