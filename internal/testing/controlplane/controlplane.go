// Package controlplane runs a real Kubernetes control plane on loopback: etcd, kube-apiserver and
// kube-controller-manager, with certificates of its own and RBAC. The local run keeps one in a folder; each test starts
// its own in a temporary folder. There are no nodes: pods are never scheduled.
//
// Delays of Kubernetes itself occur here too: a deleted namespace vanishes after a little more than 5 s, and the
// garbage collector learns of a new custom resource within 30 s. Both are constants of the controllers.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/cardea-iam/cardea/internal/testing/process"
)

// Bounds of one start and of each process's orderly end. They are generous, for a loaded machine; nothing waits
// longer than it must.
const (
	startWithin             = 90 * time.Second
	controllerManagerStop   = 5 * time.Second
	apiServerStop           = 15 * time.Second
	etcdStop                = 10 * time.Second
	readinessPause          = 25 * time.Millisecond
	maxServiceAccountTokens = 10 * 365 * 24 * time.Hour
)

// Options say where a control plane lives and how it runs. Only Dir is required.
type Options struct {
	// BinDir holds etcd, kube-apiserver, kube-controller-manager and kubectl. Empty: DefaultBinDir.
	BinDir string
	// Dir is the folder of data, certificates and kubeconfigs, absolute or relative. In a folder that was used before,
	// the cluster continues where it ended, even after a kill -9. Only one control plane at a time can run in a folder.
	Dir string
	// Group runs the processes. Dir must lie in the group's folder, where the logs are too, and the group must be open
	// for as long as the control plane runs. Nil: a group of Dir, with the logs in Dir/logs.
	Group *process.Group
	// APIServerPort and EtcdPort are ports on 127.0.0.1; 0 takes a free one.
	APIServerPort, EtcdPort int
	// EtcdUnsafeNoFsync trades the data's survival of a power cut for speed; a killed process still loses nothing.
	// For tests.
	EtcdUnsafeNoFsync bool
	// NoControllerManager leaves the controller manager out: then namespaces stay in deletion, owned objects are
	// not collected, no namespace gets its `default` ServiceAccount, and aggregated ClusterRoles stay empty.
	NoControllerManager bool
	// AuditLog records the metadata of every request (user, verb, resource; no bodies) in the file that
	// ControlPlane.AuditLog names.
	AuditLog bool
	// APIServerArgs are added to the API server's command line; a flag given twice has its last value.
	APIServerArgs []string
}

// ControlPlane is a running control plane. Its methods are not for concurrent use, except the accessors.
type ControlPlane struct {
	options           Options
	binaries          binaries
	group             *process.Group
	certificates      certificates
	admin             *rest.Config
	etcd              *process.Process
	apiServer         *process.Process
	controllerManager *process.Process
}

// Start runs a control plane and returns when the API server is ready and, with a controller manager, the namespace
// `default` has its ServiceAccount. ctx bounds the start, not the life. After an error nothing is left running.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	c, err := prepare(options)
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("control plane: %w", errors.Join(err, c.Stop()))
	}
	return c, nil
}

// prepare does what needs no process: binaries, ports, folder, certificates, kubeconfigs.
func prepare(options Options) (*ControlPlane, error) {
	if options.Dir == "" {
		return nil, errors.New("Options.Dir is required")
	}
	// Absolute, because the command lines must name the folder for a later run to recognise its leftovers.
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, err
	}
	options.Dir = dir
	c := &ControlPlane{options: options}
	if c.binaries, err = findBinaries(options.BinDir); err != nil {
		return nil, err
	}
	// The group comes first: it ends processes of an earlier run, which may hold the ports.
	c.group = options.Group
	if c.group == nil {
		if c.group, err = process.NewGroup(dir); err != nil {
			return nil, err
		}
	}
	if err := choosePorts(&options); err != nil {
		return nil, errors.Join(err, c.closeGroup())
	}
	c.options = options
	if err := c.writeFiles(); err != nil {
		return nil, errors.Join(err, c.closeGroup())
	}
	return c, nil
}

func (c *ControlPlane) writeFiles() (err error) {
	if c.certificates, err = ensureCertificates(c.path("certificates"), time.Now()); err != nil {
		return err
	}
	c.admin = c.restConfig(c.certificates.admin)
	if err := writeKubeconfig(c.AdminKubeconfig(), c.admin); err != nil {
		return err
	}
	return writeKubeconfig(c.controllerManagerKubeconfig(), c.restConfig(c.certificates.controllerManager))
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	if c.options.NoControllerManager {
		return nil
	}
	return c.startControllerManager(ctx)
}

// Stop ends the control plane in the order that loses nothing: controller manager, API server, etcd. The folder stays.
// An error names the processes that had to be killed.
func (c *ControlPlane) Stop() error {
	return errors.Join(
		stop(&c.controllerManager, controllerManagerStop),
		stop(&c.apiServer, apiServerStop),
		stop(&c.etcd, etcdStop),
		c.closeGroup(),
	)
}

// APIServer is the API server's process, for tests that kill or freeze it; nil while it is stopped.
func (c *ControlPlane) APIServer() *process.Process { return c.apiServer }

// Etcd is the process of etcd, for tests that kill or freeze it.
func (c *ControlPlane) Etcd() *process.Process { return c.etcd }

// ReviveAPIServer starts the API server again if it was killed, on the same port and data, and returns when it is
// ready. It and ReviveEtcd may run at once: the API server waits for etcd.
func (c *ControlPlane) ReviveAPIServer(ctx context.Context) error {
	if c.apiServer != nil && !c.apiServer.Ended() {
		return nil
	}
	c.apiServer = nil
	return c.StartAPIServer(ctx)
}

// ReviveEtcd starts etcd again if it was killed, on the same port and data, and returns when it is ready.
func (c *ControlPlane) ReviveEtcd(ctx context.Context) error {
	if !c.etcd.Ended() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return c.startEtcd(ctx)
}

func (c *ControlPlane) closeGroup() error {
	if c.options.Group != nil {
		return nil
	}
	return c.group.Close()
}

func stop(p **process.Process, grace time.Duration) error {
	if *p == nil {
		return nil
	}
	err := (*p).Stop(grace)
	*p = nil
	return err
}

// Deaths delivers each process of the control plane that ended without having been asked to.
func (c *ControlPlane) Deaths() <-chan *process.Process { return c.group.Deaths() }

// AdminKubeconfig is the path of a kubeconfig of group system:masters.
func (c *ControlPlane) AdminKubeconfig() string { return c.path("admin.kubeconfig") }

// RESTConfig returns a copy of the admin's configuration, without client-side throttle.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubectl is the path of kubectl.
func (c *ControlPlane) Kubectl() string { return c.binaries.kubectl }

// URL is the URL of the API server.
func (c *ControlPlane) URL() string { return c.admin.Host }

// AuditLog is the path of the audit log, one JSON object a line, when Options.AuditLog is set.
func (c *ControlPlane) AuditLog() string { return filepath.Join(c.group.LogDir(), "audit.log") }

func (c *ControlPlane) controllerManagerKubeconfig() string {
	return c.path("controller-manager.kubeconfig")
}

func (c *ControlPlane) path(name string) string { return filepath.Join(c.options.Dir, name) }
