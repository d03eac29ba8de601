package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Only a process that runs the recorded executable over our folder is a leftover of ours.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := map[string]struct {
		folder string // named in the command line
		exe    string // "" = the true one
		wanted bool   // ended
	}{
		"ours":               {folder: dir, wanted: true},
		"another folder":     {folder: dir + "2"},
		"another executable": {folder: dir, exe: "/usr/bin/other"},
	}
	ended := map[string]chan error{}
	for name, tt := range tests {
		cmd := startOrphan(t, tt.folder)
		exe := tt.exe
		if exe == "" {
			exe = executable(cmd.Process.Pid)
		}
		writeRecord(t, dir, name, fmt.Sprintf("%d %s\n", cmd.Process.Pid, exe))
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		ended[name] = done
		t.Cleanup(func() { _ = cmd.Process.Kill() })
	}
	writeRecord(t, dir, "half-written", "12")

	g := openGroup(t, dir)
	defer g.Close() //nolint:errcheck // not the subject
	for name, tt := range tests {
		if tt.wanted {
			select {
			case <-ended[name]:
			case <-time.After(10 * time.Second):
				t.Errorf("%s: lives on", name)
			}
			continue
		}
		select {
		case <-ended[name]:
			t.Errorf("%s: was ended", name)
		default:
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "pids")); len(entries) != 0 {
		t.Errorf("%d records are left", len(entries))
	}
}

func writeRecord(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "pids"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pids", name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// startOrphan runs a child that no group knows. It waits for input that never comes: `read` is a builtin, so the
// shell with the folder in its command line is the only process.
func startOrphan(t *testing.T, folder string) *exec.Cmd {
	t.Helper()
	input, keepOpen, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keepOpen.Close() })
	defer input.Close() //nolint:errcheck // the child holds its own descriptor
	cmd := exec.Command("/bin/sh", "-c", "read line", "sh", filepath.Join(folder, "data"))
	cmd.Stdin = input
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}
