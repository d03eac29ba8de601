package process

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// childAttributes lets the kernel kill the child when this process ends. The child has its own process group, so that
// the Ctrl-C of a terminal reaches only this process, which decides the order in which children stop.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// executable is the path of the program that pid runs, "" when there is no such process or it is a zombie. The path
// stays the same if the binary was rebuilt since.
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
