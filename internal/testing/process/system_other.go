//go:build unix && !linux

package process

import "syscall"

// childAttributes: without a parent-death signal, children outlive a `kill -9` of their parent on this system.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// executable and commandLine know nothing here, so no process is ever taken for a leftover of ours.
func executable(int) string { return "" }

func commandLine(int) []string { return nil }
