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
	// stopsWithin bounds an orderly end.
	stopsWithin = 30 * time.Second
	// recoversWithin bounds how long a process may take to be back, with all that it needs there by then.
	recoversWithin = 3 * time.Minute
)

// target is a process of the install that is struck. One goroutine at a time has it.
type target struct {
	name string
	// process is the one that runs, or ran; pids are all of the target's.
	process func() *process.Process
	pids    func() []int
	kill    func() error
	ended   func() bool
	// start starts it if it does not run, and returns once it is ready.
	start func(context.Context) error
	// ready is called with false when the target is struck, and with true when it is ready again.
	ready func(bool)
}

// newTargets are the processes of an install, in the order that each finds what it needs.
func (in *install) newTargets() []*target {
	url := in.database.URL("cardea")
	targets := []*target{
		{name: "etcd", process: in.Cluster.Etcd, start: in.Cluster.ReviveEtcd},
		{name: "kube-apiserver", process: in.Cluster.APIServer, start: in.Cluster.ReviveAPIServer},
		{name: "postgresql", ended: func() bool { return !in.database.Running() }, kill: in.database.Kill, start: in.resumeDatabase, pids: func() []int {
			return append(children(in.database.Pid()), in.database.Pid())
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

// resumeDatabase starts PostgreSQL again if it was killed. The children of a killed one hold it up for a moment.
func (in *install) resumeDatabase(ctx context.Context) error {
	if in.database.Running() {
		return nil
	}
	return in.database.Resume(ctx)
}

// redis is a Redis without a disk.
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

// cardea is an operator or a server. It calls running for each new process, under the install's lock.
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

// children are the processes that a process started.
func children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file) // one that ended has none
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// strike does to the target what a blow says.
func (t *target) strike(does string) error {
	t.ready(false)
	switch does {
	case kill:
		return t.kill()
	case stop:
		return t.process().Stop(stopsWithin)
	}
	for _, pid := range t.pids() {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // one that ended is as good as frozen
	}
	return nil
}

// recover thaws the target and starts it if it does not run, as a kubelet does; again and again, for it may need others
// that are struck.
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

// suffer takes the blows that are for this target, and has it back after each. In between it starts one again that
// ended by itself, as a leader does that slept for longer than its lease. It ends with ctx, and then with the target
// back.
func (t *target) suffer(ctx context.Context, begin time.Time, blows []blow, j *journal) error {
	for {
		var due <-chan time.Time // none where no blow is left
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
