package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ServiceAccountKubeconfig writes a kubeconfig to file with which a process runs as the ServiceAccount, which must
// exist. The token is valid for lifetime: 10 min to 10 years.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name, file string, lifetime time.Duration) error {
	core, err := corev1.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	seconds := int64(lifetime.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := core.ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token for the ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := c.restConfig(pair{})
	config.BearerToken = answer.Status.Token
	return writeKubeconfig(file, config)
}

// restConfig is for the holder of a client certificate; an empty pair means no credentials.
func (c *ControlPlane) restConfig(holder pair) *rest.Config {
	return &rest.Config{
		Host: "https://" + loopback(c.options.APIServerPort),
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.certificates.ca,
			CertData: holder.certificate,
			KeyData:  holder.key,
		},
		QPS: -1, // no client-side throttle
	}
}

func writeKubeconfig(file string, config *rest.Config) error {
	const name = "cardea"
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   config.Host,
			CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: config.CertData,
			ClientKeyData:         config.KeyData,
			Token:                 config.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return err
	}
	return writeFile(file, content)
}

// writeFile writes a file that only its owner can read. It renames the complete file into place, so that a killed run
// leaves no partial file.
func writeFile(file string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // gone after the rename
	if _, err := temporary.Write(content); err != nil {
		_ = temporary.Close()
		return err
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}
