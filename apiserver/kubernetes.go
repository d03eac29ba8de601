package apiserver

import (
	"errors"
	"os"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
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
