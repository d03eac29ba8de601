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

// NewKubernetes returns the client of management writes and token reviews. It asks the API server nothing, so that a server can start while
// that is away.
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

// OwnToken returns what reads the token of a configuration, as it is now: the file is written anew before the token ends. A
// configuration without one has "".
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

// ClusterKeys returns what reads the keys that the cluster signs ServiceAccounts' tokens with. Kubernetes lets every ServiceAccount read them
// (the ClusterRole system:service-account-issuer-discovery).
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
