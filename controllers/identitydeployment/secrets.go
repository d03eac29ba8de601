package identitydeployment

import (
	"context"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/secretvalue"
	"github.com/cardea-iam/cardea/internal/document"
)

// maxSecretSize bounds a value from a Secret, in bytes.
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

// sealSecrets reads the Secrets that a deployment names, without a cache, and returns their sealed values by kind.
func sealSecrets(ctx context.Context, opts Options, d *v1alpha1.IdentityDeployment) (map[string]string, error) {
	var sealed map[string]string
	for _, field := range secretFields(d) {
		if opts.Keyring.Empty() {
			return nil, engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonRootKeyMissing,
				"%s: the value is stored sealed: start the operator with --root-key", field.path)
		}
		opts.Secrets.Ensure(d.Namespace)
		value, _, err := secretvalue.Field{Path: field.path, Ref: field.ref, MaxBytes: maxSecretSize}.Read(ctx, opts.Client, d.Namespace, d.Name)
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
