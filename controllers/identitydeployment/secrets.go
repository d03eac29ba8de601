package identitydeployment

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/store/document"
)

// maxSecretSize bounds a value from a Secret, in bytes: more is no password or token, but a file put there by mistake.
const maxSecretSize = 512

// secretField is a field that takes its value from a Secret.
type secretField struct {
	path string
	kind string // what the value is sealed for
	ref  v1alpha1.SecretKeyReference
}

// secretFields are the fields of a deployment that take their values from Secrets.
func secretFields(d *v1alpha1.IdentityDeployment) []secretField {
	var fields []secretField
	if email := d.Spec.Email; email != nil && email.SMTP != nil && email.SMTP.PasswordSecretRef != nil {
		fields = append(fields, secretField{"spec.email.smtp.passwordSecretRef", document.SealedSMTPPassword, *email.SMTP.PasswordSecretRef})
	}
	if sms := d.Spec.SMS; sms != nil && sms.Twilio != nil {
		fields = append(fields, secretField{"spec.sms.twilio.authTokenSecretRef", document.SealedTwilioToken, sms.Twilio.AuthTokenSecretRef})
	}
	if sms := d.Spec.SMS; sms != nil && sms.Webhook != nil {
		fields = append(fields, secretField{"spec.sms.webhook.signingSecretRef", document.SealedWebhookSecret, sms.Webhook.SigningSecretRef})
	}
	return fields
}

// sealSecrets reads the Secrets that a deployment names, past every cache, and returns their values sealed, by kind.
func sealSecrets(ctx context.Context, opts Options, d *v1alpha1.IdentityDeployment) (map[string]string, error) {
	var sealed map[string]string
	for _, field := range secretFields(d) {
		if opts.Keyring.Empty() {
			return nil, engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonRootKeyMissing,
				"%s: the value is stored sealed: start the operator with --root-key", field.path)
		}
		opts.Secrets.Ensure(d.Namespace)
		value, err := field.read(ctx, opts.Client, d.Namespace)
		if err != nil {
			return nil, err
		}
		if sealed == nil {
			sealed = map[string]string{}
		}
		sealed[field.kind] = opts.Keyring.Seal(field.kind, document.SecretID(d.Namespace+"/"+d.Name, field.kind), value)
	}
	return sealed, nil
}

// read returns the value of the field's Secret.
func (f secretField) read(ctx context.Context, secrets client.Reader, namespace string) ([]byte, error) {
	var secret corev1.Secret
	err := secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: f.ref.Name}, &secret)
	if apierrors.IsForbidden(err) {
		return nil, engine.SecretsForbidden(v1alpha1.ConditionCredentialsReady, namespace)
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	raw, found := secret.Data[f.ref.Key]
	if err != nil || !found {
		return nil, engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretNotFound,
			"%s: there is no Secret %q with key %q: create it", f.path, f.ref.Name, f.ref.Key)
	}
	value, fault := oneLine(raw)
	if fault != "" {
		return nil, engine.Terminal(v1alpha1.ReasonInvalid, "%s: the value of Secret %q, key %q, %s: correct it there", f.path, f.ref.Name, f.ref.Key, fault)
	}
	return value, nil
}

// oneLine returns a value without the newline that editors and `echo` put at its end, or what is wrong with it. The fault never
// repeats the value.
func oneLine(raw []byte) (value []byte, fault string) {
	value = bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))
	switch {
	case len(value) == 0:
		return nil, "is empty"
	case len(value) > maxSecretSize:
		return nil, fmt.Sprintf("has more than %d bytes", maxSecretSize)
	case bytes.ContainsAny(value, "\r\n"):
		return nil, "has more than one line"
	}
	return value, ""
}
