//go:build unix && !linux

package process

import "syscall"

// childAttributes: without a parent-death signal, children outlive a `kill -9` of their parent on this system.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// executable and commandLine return nothing on this system, so no process is ever taken for one of an earlier run.
func executable(int) string { return "" }

func commandLine(int) []string { return nil }
