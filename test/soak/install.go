package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/test/testkit"
	"github.com/cardea-iam/cardea/test/traffic"
)

// install is an install with PostgreSQL, Redis, an operator, two servers and two tenants.
type install struct {
	*testkit.Install
	redisPort int
	orders    *httptest.Server
	tenants   []*traffic.Tenant
}

// newInstall starts an install and waits until every deployment is active.
func newInstall(ctx context.Context) (in *install, err error) {
	in = &install{orders: traffic.NewOrders()}
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
	if in.redisPort, err = controlplane.FreePort(); err != nil {
		return in, err
	}
	if _, err = in.RunRedis(in.redisPort); err != nil {
		return in, err
	}
	launch := testkit.Launch{Store: in.Database.URL("cardea"), Flags: []string{
		"--egress-allowed-cidrs=127.0.0.0/8", "--trusted-proxies=127.0.0.0/8", "--replicas=2", fmt.Sprintf("--redis=redis://127.0.0.1:%d", in.redisPort),
	}}
	if err := in.Start(ctx, launch, 1, 2); err != nil {
		return in, err
	}
	for i := range 2 {
		t, err := traffic.Declare(ctx, in.Install, testkit.TenantOptions{
			Host: fmt.Sprintf("tenant-%d.localhost", i), Spec: traffic.KubernetesIssuer,
			Manifests: func(namespace string) string { return traffic.Orders(namespace, in.orders.URL) },
		})
		if err != nil {
			return in, err
		}
		in.tenants = append(in.tenants, t)
	}
	return in, nil
}

// close ends all processes.
func (in *install) close() (err error) {
	in.orders.Close()
	if in.Install != nil {
		err = in.Close()
	}
	return err
}

const mebi = 1 << 20

// measure returns the present values of the measures, without the rows.
func (in *install) measure(ctx context.Context) (map[string]float64, error) {
	values := map[string]float64{}
	var faults []error
	add := func(name string, from []*testkit.Cardea, metric string, unit float64) {
		for _, process := range from { // the one with the most
			value, err := process.Metric(metric)
			faults = append(faults, err)
			values[name] = max(values[name], value/unit)
		}
	}
	add("server memory, MiB", in.Servers, "process_resident_memory_bytes", mebi)
	add("server heap, MiB", in.Servers, "go_memstats_heap_alloc_bytes", mebi)
	add("server goroutines", in.Servers, "go_goroutines", 1)
	add("server open files", in.Servers, "process_open_fds", 1)
	add("operator memory, MiB", in.Operators, "process_resident_memory_bytes", mebi)
	add("operator goroutines", in.Operators, "go_goroutines", 1)
	var err error
	if values["PostgreSQL connections"], err = in.count(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'cardea'"); err != nil {
		faults = append(faults, err)
	}
	info, err := in.redisInfo(ctx)
	faults = append(faults, err)
	values["Redis clients"], values["Redis memory, MiB"] = info["connected_clients"], info["used_memory"]/mebi
	return values, errors.Join(faults...)
}

// rows returns the number of rows of all tables, as the statistics of PostgreSQL count inserts and deletions.
func (in *install) rows(ctx context.Context) (float64, error) {
	return in.count(ctx, "SELECT COALESCE(SUM(n_tup_ins - n_tup_del), 0) FROM pg_stat_user_tables")
}

func (in *install) count(ctx context.Context, query string) (n float64, err error) {
	db, err := pgx.Connect(ctx, in.Database.URL("cardea"))
	if err != nil {
		return 0, err
	}
	var found int64
	err = db.QueryRow(ctx, query).Scan(&found)
	return float64(found), errors.Join(err, db.Close(context.WithoutCancel(ctx)))
}

// redisInfo returns the numbers of Redis' INFO.
func (in *install) redisInfo(ctx context.Context) (map[string]float64, error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(in.redisPort)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // it only read
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte("INFO\r\nQUIT\r\n")); err != nil {
		return nil, err
	}
	info := map[string]float64{}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			info[name] = number
		}
	}
	if info["used_memory"] == 0 {
		return nil, errors.New("INFO of Redis has no used_memory")
	}
	return info, lines.Err()
}
