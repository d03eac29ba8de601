package aitool

import (
	"cmp"
	"context"
	"errors"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/headervalue"
	"github.com/cardea-iam/cardea/controllers/shared/secretvalue"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/webhook"
)

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
		field := secretvalue.Field{Path: "header " + header.Name, Ref: header.ValueFrom.SecretKeyRef, MaxBytes: headervalue.MaxBytes}
		value, err := opts.read(ctx, field, p.Object)
		if err == nil {
			content.Headers[i].Sealed = opts.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(ids.Format(p.ID), header.Name), value)
			continue
		}
		var waiting *engine.WaitingError
		switch fault := headervalue.Unusable(err); {
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
	field := secretvalue.Field{Path: "spec.signingSecretRef", Ref: *ref, MaxBytes: headervalue.MaxBytes}
	value, err := opts.read(ctx, field, p.Object)
	if err == nil {
		if _, fault := webhook.ParseSecret(string(value)); fault != nil {
			err = field.Invalid(fault.Error())
		}
	}
	if err != nil {
		if fault := headervalue.Unusable(err); fault != nil {
			return fault, nil
		}
		return nil, err
	}
	content.SealedSigningSecret = opts.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(ids.Format(p.ID), document.ToolSigningSecret), value)
	return nil, nil
}

// read returns the value of a field of a tool. No error contains the value.
func (opts Options) read(ctx context.Context, field secretvalue.Field, t *v1alpha1.AITool) ([]byte, error) {
	reader := headervalue.Reader{Secrets: opts.Client, Keyring: opts.Keyring}
	return reader.Read(ctx, field, t.Namespace, t.Spec.DeploymentRef.Name, string(ptr.Deref(t.Spec.Endpoint, "")))
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
