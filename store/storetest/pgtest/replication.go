package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// Host is a network namespace with its own address. A server on it can vanish like a machine that loses power: packets
// to it are dropped, and none comes back. A Host needs root and iproute2.
type Host struct{ name, link, own, ours string }

// NewHost creates the nth host of this process, from 0 to 250.
func NewHost(ctx context.Context, n int) (*Host, error) {
	h := &Host{name: fmt.Sprintf("cardea-%d-%d", os.Getpid(), n), link: fmt.Sprintf("cd%d-%d", os.Getpid()%100000, n), own: fmt.Sprintf("10.213.%d.2", n), ours: fmt.Sprintf("10.213.%d.1", n)}
	const peer = "there"
	for _, args := range [][]string{
		{"netns", "add", h.name},
		{"link", "add", h.link, "type", "veth", "peer", "name", peer, "netns", h.name},
		{"address", "add", h.ours + "/24", "dev", h.link},
		{"link", "set", h.link, "up"},
		{"-n", h.name, "address", "add", h.own + "/24", "dev", peer},
		{"-n", h.name, "link", "set", peer, "up"},
		{"-n", h.name, "link", "set", "lo", "up"},
	} {
		if err := ip(ctx, args...); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func ip(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v (of iproute2, as root): %w: %s", args, err, out)
	}
	return nil
}

// Vanish drops every packet between the host and this machine from now on.
func (h *Host) Vanish(ctx context.Context) error {
	return ip(ctx, "-n", h.name, "route", "add", "blackhole", h.ours+"/32")
}

// Return reverts Vanish.
func (h *Host) Return(ctx context.Context) error {
	return ip(ctx, "-n", h.name, "route", "delete", "blackhole", h.ours+"/32")
}

// Close removes the host. Processes that run there must have ended.
func (h *Host) Close() error {
	return errors.Join(ip(context.Background(), "link", "delete", h.link), ip(context.Background(), "netns", "delete", h.name))
}

// address returns the address at which a server on the host listens; for a nil host, loopback.
func (h *Host) address() string {
	if h == nil {
		return "127.0.0.1"
	}
	return h.own
}

// command returns the command that runs a program on the host as the credential's user.
func (h *Host) command(program string, credential *syscall.Credential, args ...string) *exec.Cmd {
	if h == nil {
		command := exec.Command(program, args...)
		command.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		return command
	}
	enter := []string{"netns", "exec", h.name}
	if credential != nil { // only root can enter a namespace
		enter = append(enter, "setpriv", "--reuid", strconv.Itoa(int(credential.Uid)), "--regid", strconv.Itoa(int(credential.Gid)), "--clear-groups", "--pdeathsig", "QUIT")
	}
	command := exec.Command("ip", append(append(enter, program), args...)...)
	command.SysProcAttr = &syscall.SysProcAttr{}
	return command
}

// acceptOthers lets clients and standbys on other hosts connect without a password.
func acceptOthers(folder string) error {
	file, err := os.OpenFile(filepath.Join(dataFolder(folder), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("host all,replication all 10.213.0.0/16 trust\n")
	return errors.Join(err, file.Close())
}

// Standby copies the server and starts a standby of it on a host; nil: on this machine's loopback. It replicates under
// the name "standby", asynchronously unless the server's synchronous_standby_names says otherwise.
func (s *Server) Standby(ctx context.Context, at *Host) (*Server, error) {
	return start(ctx, at, s.settings, func(ctx context.Context, binaries, folder string, credential *syscall.Credential) error {
		host, port, err := net.SplitHostPort(s.Address())
		if err != nil {
			return err
		}
		command := exec.CommandContext(ctx, filepath.Join(binaries, "pg_basebackup"), "--pgdata", dataFolder(folder), "--write-recovery-conf", "--checkpoint", "fast",
			"--wal-method", "stream", "--no-sync", "--dbname", fmt.Sprintf("host=%s port=%s user=postgres application_name=standby", host, port))
		command.Dir = folder
		command.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("pg_basebackup: %w: %s", err, out)
		}
		return nil
	})
}

// StopReceiving makes a standby miss what its primary writes from now on.
func (s *Server) StopReceiving(ctx context.Context) error {
	return s.Do(ctx, "postgres", "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
}

// Promote makes a standby a primary, and waits until it is.
func (s *Server) Promote(ctx context.Context) error {
	return s.Do(ctx, "postgres", "SELECT pg_promote()")
}
