package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/process"
)

// unlimited is a limit that no measurement reaches.
const unlimited = 1 << 30

// limited puts an app with a rate limit scheme of these rules into the store, and a key of the app. Their ids derive
// from id.
func (f *filler) limited(t *testing.T, id int64, name string, rules ...scheme.Rule) (key string) {
	t.Helper()
	minted, err := apikey.Mint(rand.Reader, "ck")
	check(t, err)
	ctx := t.Context()
	check(t, f.put(ctx, v1alpha1.KindRateLimitScheme, name, name, 100*id, document.RateLimitScheme{Slug: name, Name: name, Rules: rules}))
	check(t, f.put(ctx, v1alpha1.KindAPIAuthApp, name, name, 100*id+1, document.APIAuthApp{Slug: name, Active: true, Permissions: []string{"*"}, Scheme: name}))
	check(t, f.put(ctx, v1alpha1.KindAPIKey, name, "", 100*id+2, document.APIKey{
		App: name, Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest()}},
	}))
	return minted.Plain()
}

// redis is a Redis for one test, without a disk.
type redis struct {
	*process.Process
	port int
	w    *world
}

func (w *world) startRedis(t *testing.T) *redis {
	t.Helper()
	port, err := controlplane.FreePort()
	check(t, err)
	r := &redis{port: port, w: w}
	r.start(t)
	t.Cleanup(func() { r.Kill() })
	return r
}

func (r *redis) start(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not here: hack/install-deps.sh installs it")
	}
	r.Process, err = r.w.processes.Group().Start(process.Spec{
		Name: fmt.Sprintf("redis-%d", r.port), Path: program, Env: []string{"PATH=" + os.Getenv("PATH")},
		Args: []string{"--port", fmt.Sprint(r.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.w.processes.Path("")},
	})
	check(t, err)
}

func (r *redis) env() string { return fmt.Sprintf("CARDEA_REDIS=redis://127.0.0.1:%d", r.port) }

// dial opens one gRPC connection.
func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	t.Cleanup(func() { report(t, conn.Close()) })
	return conn
}

// clientName is the address of a client, one for each number below 65,536.
func clientName(i int) string { return fmt.Sprintf("10.0.%d.%d", i/256, i%256) }

// askEnvoy requests a decision for a client as Envoy does, and expects the request to be allowed.
func askEnvoy(to authv3.AuthorizationClient, key string) func(ctx context.Context, client int) error {
	return func(ctx context.Context, client int) error {
		answer, err := to.Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: clientName(client), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4000},
			}}}},
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: "GET", Path: "/v1/things", Host: "api.acme.test", Headers: map[string]string{"authorization": "Bearer " + key},
			}},
		}})
		if err == nil && answer.GetOkResponse() == nil {
			err = fmt.Errorf("not allowed: %v", answer)
		}
		return err
	}
}

// callers makes a number of calls from concurrent callers, each in a closed loop, and rotates through the clients.
func callers(t *testing.T, count, calls, clients int, ask func(ctx context.Context, client int) error) time.Duration {
	t.Helper()
	faults := make(chan error, count)
	var group sync.WaitGroup
	began := time.Now()
	for caller := range count {
		group.Go(func() {
			for i := caller; i < calls; i += count {
				if err := ask(t.Context(), i%clients); err != nil {
					faults <- err
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	close(faults)
	check(t, <-faults)
	return took
}

// loadAverage returns the load of the machine, which includes other work.
func loadAverage() string { return strings.Join(strings.Fields(read("/proc/loadavg"))[:3], " ") }
