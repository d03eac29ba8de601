// Package isolation runs the attacks that the owner of one deployment can make on the other deployments of an install, one after another,
// beside the others' normal traffic. A new attack is one function and one line of the table in attacks.go.
package isolation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cardea-iam/cardea/hack/carrier"
	"github.com/cardea-iam/cardea/hack/controlplane"
	"github.com/cardea-iam/cardea/hack/process"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

// install is a control plane, PostgreSQL, an operator and two servers, with an attacker's deployment and those of others.
type install struct {
	cluster   *testkit.Cluster
	processes *testkit.Processes
	database  *pgtest.Server
	inbox     *carrier.Carrier
	site      *site
	servers   []*testkit.Cardea
	attacker  *tenant
	others    []*tenant
}

// newInstall starts everything, with a Redis that the servers share or without, and waits until every deployment is in force.
func newInstall(ctx context.Context, redis bool) (in *install, err error) {
	in = &install{}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close())
		}
	}()
	if in.cluster, err = testkit.StartCluster(ctx); err != nil {
		return in, err
	}
	if in.processes, err = testkit.NewProcesses(ctx, in.cluster); err != nil {
		return in, err
	}
	if in.database, err = pgtest.Start(ctx); err != nil {
		return in, err
	}
	if err := in.database.Do(ctx, "postgres", "CREATE DATABASE cardea"); err != nil {
		return in, err
	}
	if in.inbox, err = carrier.Start(carrier.Options{}); err != nil {
		return in, err
	}
	if in.site, err = newSite(in.processes.Path("authority.pem")); err != nil {
		return in, err
	}
	if err := in.startCardea(ctx, redis); err != nil {
		return in, err
	}
	return in, in.declareTenants(ctx)
}

// startCardea starts the operator and the servers, which believe the attacker's site's certificate.
func (in *install) startCardea(ctx context.Context, redis bool) error {
	flags := []string{"--egress-allowed-cidrs=127.0.0.0/8", "--trusted-proxies=127.0.0.0/8", "--replicas=2"}
	if redis {
		port, err := in.startRedis()
		if err != nil {
			return err
		}
		flags = append(flags, fmt.Sprintf("--redis=redis://127.0.0.1:%d", port))
	}
	launches := []testkit.Launch{{Role: "operator"}, {Role: "server", Flags: flags}, {Role: "server", Flags: flags}}
	for _, launch := range launches {
		launch.Store = in.database.URL("cardea")
		launch.Env = []string{"SSL_CERT_FILE=" + in.site.certificate}
		started, err := in.processes.Start(ctx, launch)
		if err != nil {
			return err
		}
		if err := started.AwaitReady(ctx); err != nil {
			return err
		}
		if launch.Role == "server" {
			in.servers = append(in.servers, started)
		}
	}
	return nil
}

// startRedis starts a Redis without a disk and returns its port.
func (in *install) startRedis() (int, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return 0, fmt.Errorf("hack/install-deps.sh installs Redis: %w", err)
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return 0, err
	}
	_, err = in.processes.Group().Start(process.Spec{
		Name: "redis", Path: program, Env: []string{"PATH=" + os.Getenv("PATH")},
		Args: []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", in.cluster.Dir},
	})
	return port, err
}

// close ends everything that was started.
func (in *install) close() (err error) {
	if in.site != nil {
		in.site.close()
	}
	if in.inbox != nil {
		err = in.inbox.Close()
	}
	if in.processes != nil {
		err = errors.Join(err, in.processes.Close())
	}
	if in.database != nil {
		err = errors.Join(err, in.database.Stop())
	}
	if in.cluster != nil {
		err = errors.Join(err, in.cluster.Stop())
	}
	return err
}

// server returns one of the servers at random, as a Service does.
func (in *install) server() *testkit.Cardea { return in.servers[rand.IntN(len(in.servers))] }

// resident returns the most memory that any server holds in RAM now, in MiB.
func (in *install) resident() (most int, err error) {
	for _, server := range in.servers {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(server.PID()), "status"))
		if err != nil {
			return 0, fmt.Errorf("a server ended: %w", err)
		}
		_, after, _ := strings.Cut(string(text), "VmRSS:")
		fields := strings.Fields(after)
		if len(fields) == 0 {
			return 0, errors.New("/proc names no VmRSS")
		}
		kib, err := strconv.Atoi(fields[0])
		if err != nil {
			return 0, err
		}
		most = max(most, kib>>10)
	}
	return most, nil
}

// rows counts the rows of every table that belong to deployments of a namespace.
func (in *install) rows(ctx context.Context, namespace string) (count int64, err error) {
	db, err := pgx.Connect(ctx, in.database.URL("cardea"))
	if err != nil {
		return 0, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	found, err := db.Query(ctx, "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name = 'deployment' AND data_type = 'text'")
	if err != nil {
		return 0, err
	}
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return 0, err
	}
	for _, table := range tables {
		var n int64
		if err := db.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize()+" WHERE deployment LIKE $1 || '/%'", namespace).Scan(&n); err != nil {
			return 0, err
		}
		count += n
	}
	return count, nil
}

// until repeats an attempt each 100 ms until it succeeds, for at most a minute.
func until(ctx context.Context, what string, attempt func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
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
