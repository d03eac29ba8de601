package testkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

// Install is a control plane, a mail gateway stand-in, and Cardea's processes over a store.
type Install struct {
	Cluster   *Cluster
	Processes *Processes
	Inbox     *messagegateway.Gateway
	// Database is the PostgreSQL that StartPostgres started, nil without.
	Database  *pgtest.Server
	Operators []*Cardea
	Servers   []*Cardea
}

// NewInstall starts the control plane and the mail gateway stand-in; Start starts Cardea.
func NewInstall(ctx context.Context) (in *Install, err error) {
	in = &Install{}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.Close())
		}
	}()
	if in.Cluster, err = StartCluster(ctx); err != nil {
		return in, err
	}
	if in.Processes, err = NewProcesses(ctx, in.Cluster); err != nil {
		return in, err
	}
	in.Inbox, err = messagegateway.Start(messagegateway.Options{})
	return in, err
}

// Start starts operators and servers with the settings of launch, one after another; each starts when the previous
// process is ready. Start sets launch.Role itself and passes launch.Flags only to the servers.
func (in *Install) Start(ctx context.Context, launch Launch, operators, servers int) error {
	for i := range operators + servers {
		next := launch
		if next.Role = "server"; i < operators {
			next.Role, next.Flags = "operator", nil
		}
		started, err := in.Processes.Start(ctx, next)
		if err != nil {
			return err
		}
		if err := started.AwaitReady(ctx); err != nil {
			return err
		}
		if i < operators {
			in.Operators = append(in.Operators, started)
		} else {
			in.Servers = append(in.Servers, started)
		}
	}
	return nil
}

// StartPostgres starts a PostgreSQL with an empty database "cardea".
func (in *Install) StartPostgres(ctx context.Context) (err error) {
	if in.Database, err = pgtest.Start(ctx); err != nil {
		return err
	}
	return in.Database.Do(ctx, "postgres", "CREATE DATABASE cardea")
}

// StartRedis starts a Redis without a disk on a free port and returns its URL.
func (in *Install) StartRedis() (url string, err error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return "", err
	}
	_, err = in.RunRedis(port)
	return fmt.Sprintf("redis://127.0.0.1:%d", port), err
}

// RunRedis starts a Redis without a disk on a port.
func (in *Install) RunRedis(port int) (*process.Process, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("hack/install-deps.sh installs Redis: %w", err)
	}
	return in.Processes.Group().Start(process.Spec{
		Name: "redis", Path: program, Env: []string{"PATH=" + os.Getenv("PATH")},
		Args: []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", in.Cluster.Dir},
	})
}

// Server returns one of the servers at random, as a Service does.
func (in *Install) Server() *Cardea { return in.Servers[rand.IntN(len(in.Servers))] }

// Close ends everything.
func (in *Install) Close() (err error) {
	if in.Inbox != nil {
		err = in.Inbox.Close()
	}
	if in.Processes != nil {
		err = errors.Join(err, in.Processes.Close())
	}
	if in.Cluster != nil {
		err = errors.Join(err, in.Cluster.Stop())
	}
	if in.Database != nil {
		err = errors.Join(err, in.Database.Stop())
	}
	return err
}

// Until repeats an attempt every 50 ms until it succeeds, for at most two minutes. Then it returns the last attempt's
// error.
func Until(ctx context.Context, what string, attempt func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), err))
		case <-again.C:
		}
	}
}
