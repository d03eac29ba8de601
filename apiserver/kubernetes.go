package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/keyset"
)

// NewKubernetes returns the client for management writes and token reviews. It sends no request, so that a server can
// start while the Kubernetes API is unavailable.
func NewKubernetes(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), authenticationv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	v1alpha1.AddToMapper(mapper)
	mapper.Add(authenticationv1.SchemeGroupVersion.WithKind("TokenReview"), meta.RESTScopeRoot)
	return client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// OwnToken returns a function that returns the current token of a configuration. It reads the file each time, because
// the file is rewritten before the token expires. For a configuration without a token it returns "".
func OwnToken(config *rest.Config) func() string {
	return func() string {
		if config.BearerTokenFile == "" {
			return config.BearerToken
		}
		raw, err := os.ReadFile(config.BearerTokenFile)
		if err != nil {
			return config.BearerToken
		}
		return strings.TrimSpace(string(raw))
	}
}

// ClusterKeys returns a function that reads the keys with which the cluster signs tokens of ServiceAccounts. Every
// ServiceAccount may read them (the ClusterRole system:service-account-issuer-discovery).
func ClusterKeys(config *rest.Config) (func(context.Context) ([]byte, error), error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	keys := base.JoinPath("/openid/v1/jwks").String()
	return func(ctx context.Context) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, keys, nil)
		if err != nil {
			return nil, err
		}
		answer, err := httpClient.Do(request)
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(io.LimitReader(answer.Body, keyset.MaxBytes+1))
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return nil, err
		}
		if answer.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the keys of the cluster cannot be read: %s", answer.Status)
		}
		return raw, nil
	}, nil
}
