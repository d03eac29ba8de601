package testkit

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Provisioned is a Directory as its identity provider uses it: with the address and the token of its Secret.
type Provisioned struct {
	// Host is the Host of requests, and Path the path of the directory.
	Host, Path string
	Token      string
}

// Provisioned reads the Secret of a Directory.
func (c *Cluster) Provisioned(ctx context.Context, namespace, secret string) (Provisioned, error) {
	var object corev1.Secret
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secret}, &object); err != nil {
		return Provisioned{}, err
	}
	base, err := url.Parse(string(object.Data[v1alpha1.SecretKeySCIMURL]))
	if err != nil {
		return Provisioned{}, err
	}
	p := Provisioned{Host: base.Host, Path: base.Path, Token: string(object.Data[v1alpha1.SecretKeySCIMToken])}
	if p.Host == "" || p.Path == "" || p.Token == "" {
		return Provisioned{}, fmt.Errorf("the Secret %s/%s lacks the address or the token of a directory", namespace, secret)
	}
	return p, nil
}

// Send sends a request of SCIM below the directory to a server, and reads the whole response.
func (p Provisioned) Send(server *Cardea, method, path, body string) (Answer, error) {
	provider := Tenant{Host: p.Host}
	return provider.Visit(server, method, p.Path+path, "192.0.2.1", "application/scim+json", strings.NewReader(body), [2]string{"Authorization", "Bearer " + p.Token})
}
