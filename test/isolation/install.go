// Package isolation runs the attacks that the owner of one deployment can make on the other deployments of an install.
// The attacks run one after another, during the others' normal traffic. A new attack is one function and one line of
// the table in attacks.go.
package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cardea-iam/cardea/test/testkit"
)

// install is an install with PostgreSQL, an operator and two servers, an attacker's deployment and two others.
type install struct {
	*testkit.Install
	operator testkit.Launch // how the operator is started
	site     *site
	attacker *tenant
	others   []*tenant
}

// newInstall starts an install, with or without a Redis that the servers share, and waits until every deployment is
// active.
func newInstall(ctx context.Context, redis bool) (in *install, err error) {
	in = &install{}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close())
		}
	}()
	if in.Install, err = testkit.NewInstall(ctx); err != nil {
		return in, err
	}
	if err = in.StartPostgres(ctx); err != nil {
		return in, err
	}
	if in.site, err = newSite(in.Processes.Path("authority.pem")); err != nil {
		return in, err
	}
	// The servers trust the certificate of the attacker's site.
	launch := testkit.Launch{
		Store: in.Database.URL("cardea"), Env: []string{"SSL_CERT_FILE=" + in.site.certificate},
		Flags: []string{"--egress-allowed-cidrs=127.0.0.0/8", "--trusted-proxies=127.0.0.0/8", "--replicas=2"},
	}
	if redis {
		url, err := in.StartRedis()
		if err != nil {
			return in, err
		}
		launch.Flags = append(launch.Flags, "--redis="+url)
	}
	in.operator = testkit.Launch{Role: "operator", Store: launch.Store, Env: launch.Env}
	if err := in.Start(ctx, launch, 1, 2); err != nil {
		return in, err
	}
	return in, in.declareTenants(ctx)
}

// revive starts the operator again if it ended, as a kubelet does, and returns why it ended.
func (in *install) revive(ctx context.Context) error {
	if !in.Operators[0].Ended() {
		return nil
	}
	ended := in.Operators[0].ExitError()
	operator, err := in.Processes.Start(ctx, in.operator)
	if err == nil {
		in.Operators[0] = operator
		err = operator.AwaitReady(ctx)
	}
	return errors.Join(ended, err)
}

// close ends all processes.
func (in *install) close() (err error) {
	if in.Install != nil {
		err = in.Close() // before the site, which waits for the servers' requests
	}
	if in.site != nil {
		in.site.close()
	}
	return err
}

// resident returns the resident memory of the server that has the most, in MiB.
func (in *install) resident() (most int, err error) {
	for _, server := range in.Servers {
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
	db, err := pgx.Connect(ctx, in.Database.URL("cardea"))
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
