package testkit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/process"
)

// System is the namespace of Cardea's ServiceAccounts and of the leader's Lease.
const System = "cardea-system"

// Processes runs the built cardea in a cluster as an installation does: each role with its own ServiceAccount's token.
type Processes struct {
	cluster *Cluster
	group   *process.Group
	binary  string
	started []*process.Process
}

// NewProcesses installs Cardea's namespace, ServiceAccounts and RBAC, and opens a group of processes that keeps its
// files in the cluster's folder. Processes is not safe for concurrent use.
func NewProcesses(ctx context.Context, cluster *Cluster) (*Processes, error) {
	binary := filepath.Join(Root(), "bin", "cardea")
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("build cardea first (make build): %w", err)
	}
	if out, err := cluster.Kubectl(ctx, "", "apply", "--server-side", "-k", filepath.Join(Root(), "config", "local")); err != nil {
		return nil, fmt.Errorf("install config/local: %w: %s", err, out)
	}
	group, err := process.NewGroup(filepath.Join(cluster.Dir, "cardea"))
	if err != nil {
		return nil, err
	}
	p := &Processes{cluster: cluster, group: group, binary: binary}
	return p, os.WriteFile(p.rootKey(), bytes.Repeat([]byte{7}, 32), 0o600)
}

// KillAll kills every process that still runs.
func (p *Processes) KillAll() {
	for _, started := range p.started {
		started.Kill()
	}
}

// Close kills every process and ends the group.
func (p *Processes) Close() error {
	p.KillAll()
	return p.group.Close()
}

// Group returns the group of processes, in which tests start further programs.
func (p *Processes) Group() *process.Group { return p.group }

// LogTails returns the last lines of each process's log, by the name of the file.
func (p *Processes) LogTails(lines int) map[string]string {
	tails := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(p.group.LogDir(), "*.log")) // the pattern is well-formed
	for _, file := range files {
		tails[filepath.Base(file)] = process.Tail(file, lines)
	}
	return tails
}

// Path returns the path of a file in the group's folder.
func (p *Processes) Path(name string) string { return filepath.Join(p.cluster.Dir, "cardea", name) }

// Binary returns the path of the cardea binary.
func (p *Processes) Binary() string { return p.binary }

// rootKey is the file with the install's root key.
func (p *Processes) rootKey() string { return p.Path("root.key") }

// Launch describes a process to start.
type Launch struct {
	// Role is operator, server or standalone.
	Role string
	// Store is the URL of the runtime store.
	Store string
	// Flags are added to the command line.
	Flags []string
	// Env is added to the environment, which otherwise holds only PATH, HOME and the store's URL.
	Env []string
	// Binary is the path of another cardea binary, such as the previous release's; "" is the built one.
	Binary string
	// Without lists flags that Start would set but Binary does not know, such as "envoy-address".
	Without []string
	// FromEnv passes the flags that Start sets as CARDEA_* variables in the environment.
	FromEnv bool
}

// Cardea is a running process with the addresses it listens on.
type Cardea struct {
	*process.Process
	// Backend, Frontend, Decision and Metrics are URLs without a path; an operator has only Metrics.
	Backend, Frontend, Decision, Metrics string
	// Envoy is the host:port of the Envoy authorization service, "" for an operator.
	Envoy string
}

// Start runs a role on free ports. The log is named after the role and the number of starts so far.
func (p *Processes) Start(ctx context.Context, launch Launch) (*Cardea, error) {
	kubeconfig, err := p.kubeconfig(ctx, launch.Role)
	if err != nil {
		return nil, err
	}
	metrics, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	backend, err := controlplane.FreePort(metrics)
	if err != nil {
		return nil, err
	}
	frontend, err := controlplane.FreePort(metrics, backend)
	if err != nil {
		return nil, err
	}
	decision, err := controlplane.FreePort(metrics, backend, frontend)
	if err != nil {
		return nil, err
	}
	envoy, err := controlplane.FreePort(metrics, backend, frontend, decision)
	if err != nil {
		return nil, err
	}
	c := &Cardea{Metrics: fmt.Sprintf("http://127.0.0.1:%d", metrics)}
	settings := [][2]string{{"kubeconfig", kubeconfig}, {"metrics-address", fmt.Sprintf("127.0.0.1:%d", metrics)}, {"root-key", p.rootKey()}}
	if launch.Role == "operator" {
		settings = append(settings, [2]string{"lease-namespace", System})
	} else {
		settings = append(settings,
			[2]string{"backend-address", fmt.Sprintf("127.0.0.1:%d", backend)}, [2]string{"frontend-address", fmt.Sprintf("127.0.0.1:%d", frontend)},
			[2]string{"decision-address", fmt.Sprintf("127.0.0.1:%d", decision)}, [2]string{"envoy-address", fmt.Sprintf("127.0.0.1:%d", envoy)})
		c.Backend, c.Frontend = fmt.Sprintf("http://127.0.0.1:%d", backend), fmt.Sprintf("http://127.0.0.1:%d", frontend)
		c.Decision, c.Envoy = fmt.Sprintf("http://127.0.0.1:%d", decision), fmt.Sprintf("127.0.0.1:%d", envoy)
	}
	// The URL may hold a password, so it never appears on the command line.
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "CARDEA_STORE=" + launch.Store}
	args := []string{launch.Role}
	for _, s := range settings {
		switch {
		case slices.Contains(launch.Without, s[0]):
		case launch.FromEnv:
			env = append(env, "CARDEA_"+strings.ToUpper(strings.ReplaceAll(s[0], "-", "_"))+"="+s[1])
		default:
			args = append(args, "--"+s[0]+"="+s[1])
		}
	}
	c.Process, err = p.group.Start(process.Spec{
		Name: fmt.Sprintf("%s-%d", launch.Role, len(p.started)+1), Path: cmp.Or(launch.Binary, p.binary), Args: append(args, launch.Flags...), Env: append(env, launch.Env...),
	})
	if err == nil {
		p.started = append(p.started, c.Process)
	}
	return c, err
}

// kubeconfig writes a role's kubeconfig once, so that a role can be started while the API server is unavailable.
func (p *Processes) kubeconfig(ctx context.Context, role string) (string, error) {
	file := p.Path(role + ".kubeconfig")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	return file, p.cluster.ServiceAccountKubeconfig(ctx, System, "cardea-"+role, file, 24*time.Hour)
}

// Ready returns nil if the process reports that it is ready. If the process has ended, the error includes its log.
func (c *Cardea) Ready() error {
	select {
	case <-c.Done():
		return c.ExitError()
	default:
	}
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(c.Metrics + "/readyz")
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("readyz: %s", resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// AwaitReady waits until the process is ready, at most a minute.
func (c *Cardea) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := c.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-c.Done():
			return c.ExitError()
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-again.C:
		}
	}
}

// Metric returns the sum of a metric's series whose labels contain each of the fragments, such as `controller="x"`.
func (c *Cardea) Metric(name string, fragments ...string) (float64, error) {
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(c.Metrics + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || end < 0 {
			continue
		}
		series, value := line[:end], line[end+1:]
		if series != name && !strings.HasPrefix(series, name+"{") || !containsAll(series, fragments) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum, found = sum+number, true
	}
	if !found {
		return 0, fmt.Errorf("%s has no metric %s", c.Name, name)
	}
	return sum, nil
}

func containsAll(text string, fragments []string) bool {
	return !slices.ContainsFunc(fragments, func(f string) bool { return !strings.Contains(text, f) })
}
