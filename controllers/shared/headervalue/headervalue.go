// Package headervalue reads the values of headers from users' Secrets, and decides which may be sent where.
package headervalue

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/secretvalue"
	"github.com/cardea-iam/cardea/internal/seal"
)

// MaxBytes bounds the value of a header, and of a signing secret.
const MaxBytes = 1024

// Reader reads values. Secrets are read without a cache.
type Reader struct {
	Secrets client.Reader
	// Keyring seals the values; without one, no value is read.
	Keyring *seal.Keyring
}

// Read returns the value of a field of a resource in a namespace, which is sent to an endpoint. Errors are those of
// secretvalue.Field.Read; no error contains the value.
func (r Reader) Read(ctx context.Context, field secretvalue.Field, namespace, deployment, endpoint string) ([]byte, error) {
	value, secret, err := field.Read(ctx, r.Secrets, namespace, deployment)
	if err != nil {
		return nil, err
	}
	host, permitted := mayGoTo(secret, endpoint)
	switch {
	case !permitted:
		return nil, field.NotShared("may not be sent to host %q: its annotation %s does not name it: let a user with the right to edit the Secret add it",
			host, v1alpha1.AnnotationHosts)
	case bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return nil, field.Invalid("has characters other than visible ASCII")
	case len(bytes.TrimSpace(value)) != len(value):
		return nil, field.Invalid("begins or ends with a blank")
	case r.Keyring.Empty():
		return nil, engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonRootKeyMissing,
			"%s: the value is stored sealed: start the operator with --root-key", field.Path)
	}
	return value, nil
}

// mayGoTo returns the host of an endpoint, and reports whether values of a Secret may be sent there.
func mayGoTo(secret *corev1.Secret, endpoint string) (host string, permitted bool) {
	list, restricted := secret.Annotations[v1alpha1.AnnotationHosts]
	address, err := url.Parse(endpoint)
	if err != nil {
		return "", !restricted
	}
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		permitted = permitted || one != "" && (strings.EqualFold(one, address.Hostname()) || strings.EqualFold(one, address.Host))
	}
	return address.Host, permitted || !restricted
}

// Unusable returns the error of a Secret that exists and whose value may not be used, nil for every other error.
func Unusable(err error) *engine.WaitingError {
	var terminal *engine.TerminalError
	if errors.As(err, &terminal) {
		return &engine.WaitingError{Condition: v1alpha1.ConditionCredentialsReady, Reason: terminal.Reason, Message: terminal.Message}
	}
	var waiting *engine.WaitingError
	if errors.As(err, &waiting) && (waiting.Reason == v1alpha1.ReasonSecretNotShared || waiting.Reason == v1alpha1.ReasonRootKeyMissing) {
		return waiting
	}
	return nil
}
