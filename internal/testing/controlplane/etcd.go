package controlplane

import (
	"context"
	"fmt"
	"net/http"

	"github.com/cardea-iam/cardea/internal/testing/process"
)

// startEtcd runs a single member. It speaks plain HTTP: it is on loopback, for this machine's user alone.
func (c *ControlPlane) startEtcd(ctx context.Context) (err error) {
	// The peer's address is part of the member's recorded identity and must not change between starts. No process dials
	// it, so no process needs to listen on its port.
	const peer = "http://127.0.0.1:2380"
	client := "http://" + loopback(c.options.EtcdPort)
	c.etcd, err = c.group.Start(process.Spec{
		Name: "etcd",
		Path: c.binaries.etcd,
		Env:  childEnvironment(),
		Args: []string{
			"--data-dir=" + c.path("etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=http://127.0.0.1:0",
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=default=" + peer,
			"--log-level=warn",
			fmt.Sprintf("--unsafe-no-fsync=%t", c.options.EtcdUnsafeNoFsync),
		},
	})
	if err != nil {
		return err
	}
	return awaitHealthy(ctx, c.etcd, http.DefaultClient, client+"/health")
}
