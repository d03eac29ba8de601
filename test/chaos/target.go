package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	// stopsWithin bounds the time of an orderly end.
	stopsWithin = 30 * time.Second
	// recoversWithin bounds the time until a process is ready again, including the wait for the processes it needs.
	recoversWithin = 3 * time.Minute
)

// target is a process of the install that faults hit. Only one goroutine at a time uses it.
type target struct {
	name string
	// process returns the current or last process; pids returns the ids of all processes of the target.
	process func() *process.Process
	pids    func() []int
	kill    func() error
	ended   func() bool
	// start starts the process if it does not run, and returns once it is ready.
	start func(context.Context) error
	// ready is called with false when a fault begins, and with true when the process is ready again.
	ready func(bool)
}

// newTargets returns the processes of an install, ordered so that each finds the processes it needs.
func (in *install) newTargets() []*target {
	url := in.Database.URL("cardea")
	targets := []*target{
		{name: "etcd", process: in.Cluster.Etcd, start: in.Cluster.ReviveEtcd},
		{name: "kube-apiserver", process: in.Cluster.APIServer, start: in.Cluster.ReviveAPIServer},
		{name: "postgresql", ended: func() bool { return !in.Database.Running() }, kill: in.Database.Kill, start: in.resumeDatabase, pids: func() []int {
			return append(children(in.Database.Pid()), in.Database.Pid())
		}},
		in.redis(),
	}
	for i := range 2 {
		targets = append(targets, in.cardea(fmt.Sprintf("operator-%d", i), testkit.Launch{Role: "operator", Store: url}, func(*testkit.Cardea) {}, func(bool) {}))
	}
	for i := range 2 {
		launch := testkit.Launch{Role: "server", Store: url, Flags: []string{
			"--egress-allowed-cidrs=127.0.0.0/8", "--trusted-proxies=127.0.0.0/8", "--replicas=2", fmt.Sprintf("--redis=redis://127.0.0.1:%d", in.redisPort),
		}}
		targets = append(targets, in.cardea(fmt.Sprintf("server-%d", i), launch, func(c *testkit.Cardea) { in.servers[i] = c }, func(ready bool) { in.settle(i, ready) }))
	}
	for _, t := range targets {
		if t.pids == nil {
			t.pids = func() []int { return []int{t.process().PID()} }
		}
		if t.kill == nil {
			t.kill = func() error { t.process().Kill(); return nil }
		}
		if t.ended == nil {
			t.ended = func() bool { return t.process().Ended() }
		}
		if t.ready == nil {
			t.ready = func(bool) {}
		}
	}
	return targets
}

// resumeDatabase starts PostgreSQL again if it was killed. The children of a killed postmaster delay the start.
func (in *install) resumeDatabase(ctx context.Context) error {
	if in.Database.Running() {
		return nil
	}
	return in.Database.Resume(ctx)
}

// redis returns the target of a Redis without a disk.
func (in *install) redis() *target {
	var running *process.Process
	return &target{name: "redis", process: func() *process.Process { return running }, start: func(context.Context) error {
		if running != nil && !running.Ended() {
			return nil
		}
		var err error
		running, err = in.RunRedis(in.redisPort)
		return err
	}}
}

// cardea returns the target of an operator or a server. It calls running for each new process, under the install's
// lock.
func (in *install) cardea(name string, launch testkit.Launch, running func(*testkit.Cardea), ready func(bool)) *target {
	var now *testkit.Cardea
	return &target{name: name, ready: ready, process: func() *process.Process { return now.Process }, start: func(ctx context.Context) (err error) {
		if now == nil || now.Ended() {
			in.mu.Lock()
			now, err = in.Processes.Start(ctx, launch)
			running(now)
			in.mu.Unlock()
			if err != nil {
				return err
			}
		}
		if err = now.AwaitReady(ctx); err == nil {
			ready(true)
		}
		return err
	}}
}

// children returns the ids of the processes that a process started.
func children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file) // a process that ended has no such file
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// strike applies a kind of fault to the target.
func (t *target) strike(does string) error {
	t.ready(false)
	switch does {
	case kill:
		return t.kill()
	case stop:
		return t.process().Stop(stopsWithin)
	}
	for _, pid := range t.pids() {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // a process that ended needs no freeze
	}
	return nil
}

// recover thaws the target, or starts it if it does not run, as a kubelet does. It retries, because the target may need
// other processes that are down.
func (t *target) recover(ctx context.Context) error {
	if !t.ended() {
		for _, pid := range t.pids() {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, recoversWithin)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := t.start(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not back: %w", t.name, errors.Join(ctx.Err(), err))
		case <-again.C:
		}
	}
}

// suffer applies the target's faults and recovers the target after each. It also restarts a process that ended by
// itself, as a leader does after a freeze that outlasts its lease. When ctx ends, it recovers the target and returns.
func (t *target) suffer(ctx context.Context, begin time.Time, blows []blow, j *journal) error {
	for {
		var due <-chan time.Time // nil if no fault is left
		if len(blows) > 0 {
			due = time.After(time.Until(begin.Add(blows[0].at)))
		}
		var ended <-chan struct{}
		if t.process != nil {
			ended = t.process().Done()
		}
		select {
		case <-ctx.Done():
			return t.recover(context.WithoutCancel(ctx))
		case <-ended:
			j.note(t.name + " ended by itself")
			t.ready(false)
		case <-due:
			b := blows[0]
			blows = blows[1:]
			j.note(fmt.Sprintf("%s %s for %s", b.does, t.name, b.lasts))
			if err := t.strike(b.does); err != nil {
				return err
			}
			<-time.After(b.lasts)
		}
		if err := t.recover(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		j.note(t.name + " is back")
	}
}
