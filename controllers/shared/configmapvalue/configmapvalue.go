// Package configmapvalue reads public values, such as key sets and metadata, from users' ConfigMaps.
package configmapvalue

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
)

// Field is a field of a resource that takes its value from a ConfigMap.
type Field struct {
	// Path names the field in messages.
	Path string
	Ref  v1alpha1.ConfigMapKeyReference
}

// Read returns the value of the field. The error is a WaitingError of CredentialsReady if the ConfigMap or its key does
// not exist, or if the operator has no rights in the namespace.
func (f Field) Read(ctx context.Context, configMaps client.Reader, namespace string) (string, error) {
	var configMap corev1.ConfigMap
	err := configMaps.Get(ctx, client.ObjectKey{Namespace: namespace, Name: f.Ref.Name}, &configMap)
	if apierrors.IsForbidden(err) {
		return "", engine.SecretsForbidden(v1alpha1.ConditionCredentialsReady, namespace)
	}
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	text, found := configMap.Data[f.Ref.Key]
	if !found {
		return "", engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonConfigMapNotFound,
			"%s: there is no ConfigMap %q with key %q: create it", f.Path, f.Ref.Name, f.Ref.Key)
	}
	return text, nil
}

// Invalid returns the TerminalError for a value that cannot be used. The fault continues the sentence.
func (f Field) Invalid(fault string) error {
	return engine.Terminal(v1alpha1.ReasonInvalid, "%s: the value of ConfigMap %q, key %q, %s: correct it there", f.Path, f.Ref.Name, f.Ref.Key, fault)
}
