// Command localrun is `make run`. It starts a Kubernetes control plane on loopback, or uses the cluster of a
// kubeconfig. On this machine, localrun starts a message gateway stand-in, and Cardea with the tokens of Cardea's
// ServiceAccounts in that cluster. It then applies the samples as users do. Run localrun from the repository's root.
// When everything is served, localrun writes env in the folder of --dir (default .dev) and prints a banner.
// Ctrl-C or SIGTERM stops everything. The data stays in that folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cardea-iam/cardea/hack/progress"
	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/internal/testing/process"
)

type options struct {
	dir     string // absolute
	binDir  string
	binary  string // path of the cardea binary
	store   string
	samples string
	tenant  tenant
	// clusterName is "current", or "" if the run starts its own control plane.
	clusterName string
	kubectlPath string // for clusterName
}

// tenant names a sample deployment and the Secret with one of its API keys, both as namespace/name.
type tenant struct{ deployment, apiKeySecret string }

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "localrun:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The first signal stops everything in order. A second signal has its default effect: it kills this process, and
	// the children die with it.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "localrun:", err)
		os.Exit(1)
	}
}

func parse(arguments []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("localrun", flag.ExitOnError)
	flags.StringVar(&o.dir, "dir", ".dev", "folder that keeps data, logs and kubeconfigs")
	flags.StringVar(&o.binDir, "bin-dir", "", "folder of etcd, kube-apiserver, kube-controller-manager and kubectl (default $KUBEBUILDER_ASSETS if it holds them all, else bin/k8s)")
	flags.StringVar(&o.binary, "cardea", "bin/cardea", "the cardea binary")
	flags.StringVar(&o.store, "store", "", "postgres://... runs operator and server over that store (default: standalone over SQLite)")
	flags.StringVar(&o.samples, "samples", "config/samples", "kustomization with the resources to apply")
	flags.StringVar(&o.tenant.deployment, "deployment", "acme/acme", "namespace/name of the IdentityDeployment that has the host localhost and whose id goes into env")
	flags.StringVar(&o.tenant.apiKeySecret, "api-key-secret", "acme/acme-backend-key", "namespace/name of the Secret whose API key goes into env")
	flags.StringVar(&o.clusterName, "cluster", "", "the value current runs Cardea on the cluster of your kubeconfig's current context (default: the run starts its own control plane)")
	flags.StringVar(&o.kubectlPath, "kubectl", "kubectl", "kubectl for --cluster")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, o.complete()
}

// complete makes paths absolute, and returns an error for options that cannot work, before anything starts.
func (o *options) complete() error {
	if o.store != "" && !strings.HasPrefix(o.store, "postgres://") && !strings.HasPrefix(o.store, "postgresql://") {
		return errors.New("--store must be a postgres:// URL; without --store, Cardea uses SQLite")
	}
	if o.clusterName != "" && o.clusterName != "current" {
		return fmt.Errorf("--cluster is %q: say current, for the cluster of your kubeconfig's current context, or nothing", o.clusterName)
	}
	for flagName, value := range map[string]string{
		"--deployment": o.tenant.deployment, "--api-key-secret": o.tenant.apiKeySecret,
	} {
		if namespace, name, ok := strings.Cut(value, "/"); !ok || namespace == "" || name == "" {
			return fmt.Errorf("%s must be namespace/name, not %q", flagName, value)
		}
	}
	if o.binDir == "" {
		o.binDir = controlplane.DefaultBinDir()
	}
	for _, path := range []*string{&o.dir, &o.binDir, &o.binary} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if _, err := os.Stat(o.binary); err != nil {
		return fmt.Errorf("%s is missing; build it with `make build`", o.binary)
	}
	for _, folder := range []string{crdPath, localPath, o.samples} {
		if _, err := os.Stat(filepath.Join(folder, "kustomization.yaml")); err != nil {
			return fmt.Errorf("no kustomization.yaml in %s; localrun is run from the repository's root", folder)
		}
	}
	return nil
}

// run returns nil after ctx ended, and an error if something failed or a child process died before.
func run(ctx context.Context, o options, out io.Writer) error {
	r, err := open(o, out)
	if err != nil {
		return err
	}
	err = r.bringUp(ctx)
	if err == nil {
		err = r.awaitEnd(ctx)
	}
	if ctx.Err() != nil {
		err = nil // a failure after the end of ctx is a consequence of that end
		fmt.Fprintln(out, "\nStopping ...")
	}
	return errors.Join(err, r.stop())
}

// localRun is the state of a run.
type localRun struct {
	options
	out   io.Writer
	steps *progress.Steps
	ports ports
	// reserved are the ports of this run, held until the process ends.
	reserved *reservations
	group    *process.Group
	cluster  cluster
	carrier  *messagegateway.Gateway
	cardea   []*process.Process
}

func open(o options, out io.Writer) (*localRun, error) {
	group, err := process.NewGroup(o.dir)
	if err != nil {
		return nil, err
	}
	steps := progress.New(out, os.Getenv(progress.StartVariable), time.Now)
	r := &localRun{options: o, out: out, steps: steps, group: group, reserved: newReservations()}
	// Remove the file of an earlier run: its existence means that everything is ready.
	if err := os.Remove(r.path("env")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, group.Close())
	}
	return r, nil
}

// bringUp starts everything. If a child process dies meanwhile, bringUp stops early and returns that child's error.
func (r *localRun) bringUp(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	death := make(chan error, 1)
	go func() {
		death <- r.awaitEnd(ctx)
		cancel()
	}()
	err := r.bringUpAll(ctx)
	cancel()
	if died := <-death; died != nil {
		return died
	}
	return err
}

func (r *localRun) bringUpAll(ctx context.Context) error {
	if err := r.startCluster(ctx); err != nil {
		return err
	}
	if err := r.installManifests(ctx); err != nil {
		return err
	}
	if err := r.startCarrier(); err != nil {
		return err
	}
	if err := r.startCardea(ctx); err != nil {
		return err
	}
	unready, err := r.applySamples(ctx)
	if err != nil {
		return err
	}
	e, err := r.environment(ctx)
	if err != nil {
		return err
	}
	if err := awaitServed(ctx, e); err != nil {
		return err
	}
	if err := writeEnv(r.path("env"), e.render()); err != nil {
		return err
	}
	_, err = io.WriteString(r.out, r.banner(e, unready))
	return err
}

// awaitEnd returns nil when ctx is done, or the exit error of the first child process that died.
func (r *localRun) awaitEnd(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case p := <-r.group.Deaths():
		return p.ExitError()
	}
}

// stop removes env, and stops Cardea before the services that it uses, so that Cardea can shut down cleanly.
func (r *localRun) stop() error {
	failures := []error{os.RemoveAll(r.path("env"))}
	for _, p := range r.cardea {
		failures = append(failures, p.Stop(cardeaStop))
	}
	if r.carrier != nil {
		failures = append(failures, r.carrier.Close())
	}
	if r.cluster != nil {
		failures = append(failures, r.cluster.Stop())
	}
	return errors.Join(append(failures, r.group.Close())...)
}

// step prints a line with the time since the start of make, or of this process.
func (r *localRun) step(format string, values ...any) { r.steps.Print(format, values...) }

func (r *localRun) path(name string) string { return filepath.Join(r.dir, name) }
