package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	ratelimitcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

// peerConfig limits each client by three windows, as the leased rules do.
const peerConfig = `domain: bench
descriptors:
- {key: minute, rate_limit: {unit: minute, requests_per_unit: 1073741824}}
- {key: hour, rate_limit: {unit: hour, requests_per_unit: 1073741824}}
- {key: day, rate_limit: {unit: day, requests_per_unit: 1073741824}}
`

// side is one of the servers that are compared.
type side struct {
	name, target string
	pid          int
	ask          func(ctx context.Context, client int) error
	// Each holds one value per round: server and redis in microseconds of processor time per decision, rate in
	// decisions per second.
	server, redis, rate []float64
}

// TestBenchBesideRatelimit compares the processor time of a decision by three rules with envoyproxy/ratelimit over
// gRPC, both over one Redis. Cardea is measured with leases and with a Redis call for every decision. Its decision
// includes the look-up of the API key.
func TestBenchBesideRatelimit(t *testing.T) {
	program := filepath.Join(testkit.Root(), "bin", "peers", "ratelimit")
	if _, err := os.Stat(program); err != nil {
		t.Skip("bin/peers/ratelimit is not built: make peers")
	}
	w := newWorld(t)
	url := pgtest.ForTest(t)
	f, _, _ := w.fill(t, url)
	client := func(unit string, duration int64) scheme.Rule {
		return scheme.Rule{Unit: unit, Duration: duration, MaxRequests: unlimited, Mode: "per_key_and_ip"}
	}
	leased := f.limited(t, 1, "leased", client("minute", 1), client("hour", 1), client("day", 1))
	strict := f.limited(t, 2, "strict", client("second", 1), client("second", 2), client("millisecond", 1500)) // too short for leases
	shared := w.startRedis(t)
	server := w.start(t, testkit.Launch{Role: "server", Store: url, Env: []string{shared.env()}, Flags: []string{"--trusted-proxies=127.0.0.1/32"}})
	await(t, time.Minute, 20*time.Millisecond, func() bool {
		alone, err := server.Metric("cardea_ratelimit_shared_degraded")
		return err == nil && alone == 0
	})
	peer, address := w.startRatelimit(t, program, shared)
	envoy := authv3.NewAuthorizationClient(dial(t, server.Envoy))
	for _, clients := range []int{1, 100} {
		sides := []*side{
			{name: "envoyproxy/ratelimit", target: "-", pid: peer.PID(), ask: askPeer(ratelimitv3.NewRateLimitServiceClient(dial(t, address)))},
			{name: "cardea, leased", target: "<= 26, or 1/4", pid: server.PID(), ask: askEnvoy(envoy, leased)},
			{name: "cardea, asking for each", target: "<= 70, or 1/1.5", pid: server.PID(), ask: askEnvoy(envoy, strict)},
		}
		alternate(t, sides, clients, shared)
		theirs := median(sides[0].server)
		for _, s := range sides {
			row(fmt.Sprintf("processor time of a decision by 3 rules over gRPC, clients: %d; %s", clients, s.name), s.target, "%.1f µs, %.2f of theirs; Redis %.1f µs; %.0f a second",
				median(s.server), median(s.server)/theirs, median(s.redis), median(s.rate))
		}
	}
	row("load average then", "-", "%s", loadAverage())
}

// alternate sends requests to each side in turn, and records what a decision cost the side's process and Redis.
func alternate(t *testing.T, sides []*side, clients int, shared *redis) {
	t.Helper()
	const rounds, calls, atOnce = 5, 20_000, 8
	for round := range rounds + 1 {
		for _, s := range sides {
			server, redis := cpuTime(t, s.pid), cpuTime(t, shared.PID())
			took := callers(t, atOnce, calls, clients, s.ask)
			if round == 0 {
				continue // warm-up
			}
			each := func(spent time.Duration) float64 { return float64(spent.Microseconds()) / calls }
			s.server = append(s.server, each(cpuTime(t, s.pid)-server))
			s.redis = append(s.redis, each(cpuTime(t, shared.PID())-redis))
			s.rate = append(s.rate, calls/took.Seconds())
		}
	}
}

// startRatelimit runs envoyproxy/ratelimit with its defaults over a Redis, and returns its gRPC address.
func (w *world) startRatelimit(t *testing.T, program string, shared *redis) (*process.Process, string) {
	t.Helper()
	folder := w.processes.Path("ratelimit")
	check(t, os.MkdirAll(filepath.Join(folder, "config"), 0o755))
	check(t, os.WriteFile(filepath.Join(folder, "config", "bench.yaml"), []byte(peerConfig), 0o644))
	var ports [3]int
	for i := range ports {
		var err error
		ports[i], err = controlplane.FreePort(ports[:i]...)
		check(t, err)
	}
	started, err := w.processes.Group().Start(process.Spec{
		Name: "ratelimit", Path: program, Dir: folder, Env: []string{
			"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1", "USE_STATSD=false", "RUNTIME_ROOT=" + folder, "RUNTIME_WATCH_ROOT=false",
			fmt.Sprintf("PORT=%d", ports[0]), fmt.Sprintf("DEBUG_PORT=%d", ports[1]), fmt.Sprintf("GRPC_PORT=%d", ports[2]),
			"REDIS_SOCKET_TYPE=tcp", fmt.Sprintf("REDIS_URL=127.0.0.1:%d", shared.port),
		},
	})
	check(t, err)
	t.Cleanup(started.Kill)
	address := fmt.Sprintf("127.0.0.1:%d", ports[2])
	await(t, time.Minute, 20*time.Millisecond, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err == nil
	})
	return started, address
}

// askPeer requests a decision by the three limits of a client, and expects that all three are found and allow it.
func askPeer(to ratelimitv3.RateLimitServiceClient) func(ctx context.Context, client int) error {
	return func(ctx context.Context, client int) error {
		request := &ratelimitv3.RateLimitRequest{Domain: "bench"}
		for _, unit := range []string{"minute", "hour", "day"} {
			request.Descriptors = append(request.Descriptors, &ratelimitcommonv3.RateLimitDescriptor{
				Entries: []*ratelimitcommonv3.RateLimitDescriptor_Entry{{Key: unit, Value: clientName(client)}},
			})
		}
		answer, err := to.ShouldRateLimit(ctx, request)
		if err != nil {
			return err
		}
		limits := 0
		for _, status := range answer.GetStatuses() {
			if status.GetCurrentLimit().GetRequestsPerUnit() == unlimited {
				limits++
			}
		}
		if answer.GetOverallCode() != ratelimitv3.RateLimitResponse_OK || limits != 3 {
			return fmt.Errorf("not allowed by three limits: %v", answer)
		}
		return nil
	}
}
