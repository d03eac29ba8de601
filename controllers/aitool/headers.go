package aitool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/secretvalue"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/webhook"
)

// maxHeaderValue bounds the value of a header, in bytes.
const maxHeaderValue = 1024

// sealHeaders reads the Secrets from which headers take their values, without a cache, and puts the sealed values
// into the content. A value that may not be used is left out: such a tool was accepted by earlier versions, and
// stays served, but no agent can call it. If only Secrets are missing, the error is a WaitingError, so that the last
// content stays active.
func sealHeaders(ctx context.Context, opts Options, p engine.Preparation[*v1alpha1.AITool], content *document.AITool) (leftOut *engine.WaitingError, err error) {
	var missing error
	for i, header := range p.Object.Spec.Headers {
		if header.ValueFrom == nil {
			continue
		}
		opts.Secrets.Ensure(p.Object.Namespace)
		field := secretvalue.Field{Path: "header " + header.Name, Ref: header.ValueFrom.SecretKeyRef, MaxBytes: maxHeaderValue}
		value, err := read(ctx, opts, field, p.Object)
		if err == nil {
			content.Headers[i].Sealed = opts.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(ids.Format(p.ID), header.Name), value)
			continue
		}
		var waiting *engine.WaitingError
		switch fault := unusable(err); {
		case fault != nil:
			leftOut = cmp.Or(leftOut, fault)
		case errors.As(err, &waiting) && waiting.Reason == v1alpha1.ReasonSecretNotFound:
			missing = cmp.Or(missing, err)
		default:
			return nil, err
		}
	}
	if leftOut != nil {
		return leftOut, nil
	}
	return nil, missing
}

// sealSigningSecret does the same for the secret that signs the tool's calls.
func sealSigningSecret(ctx context.Context, opts Options, p engine.Preparation[*v1alpha1.AITool], content *document.AITool) (leftOut *engine.WaitingError, err error) {
	ref := p.Object.Spec.SigningSecretRef
	if ref == nil {
		return nil, nil
	}
	opts.Secrets.Ensure(p.Object.Namespace)
	field := secretvalue.Field{Path: "spec.signingSecretRef", Ref: *ref, MaxBytes: maxHeaderValue}
	value, err := read(ctx, opts, field, p.Object)
	if err == nil {
		if _, fault := webhook.ParseSecret(string(value)); fault != nil {
			err = field.Invalid(fault.Error())
		}
	}
	if err != nil {
		if fault := unusable(err); fault != nil {
			return fault, nil
		}
		return nil, err
	}
	content.SealedSigningSecret = opts.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(ids.Format(p.ID), document.ToolSigningSecret), value)
	return nil, nil
}

// unusable returns the error of a Secret that exists and whose value may not be used, nil for every other error.
func unusable(err error) *engine.WaitingError {
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

// read returns the value of a header. No error contains the value.
func read(ctx context.Context, opts Options, field secretvalue.Field, t *v1alpha1.AITool) ([]byte, error) {
	value, secret, err := field.Read(ctx, opts.Client, t.Namespace, t.Spec.DeploymentRef.Name)
	if err != nil {
		return nil, err
	}
	host, permitted := mayGoTo(secret, string(ptr.Deref(t.Spec.Endpoint, "")))
	switch {
	case !permitted:
		return nil, field.NotShared("may not be sent to host %q: its annotation %s does not name it: let a user with the right to edit the Secret add it",
			host, v1alpha1.AnnotationHosts)
	case bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return nil, field.Invalid("has characters other than visible ASCII")
	case len(bytes.TrimSpace(value)) != len(value):
		return nil, field.Invalid("begins or ends with a blank")
	case opts.Keyring.Empty():
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

// secretNames returns the names of the Secrets that a tool uses.
func secretNames(t *v1alpha1.AITool) []string {
	var names []string
	for _, header := range t.Spec.Headers {
		if header.ValueFrom != nil {
			names = append(names, header.ValueFrom.SecretKeyRef.Name)
		}
	}
	if ref := t.Spec.SigningSecretRef; ref != nil {
		names = append(names, ref.Name)
	}
	return names
}
