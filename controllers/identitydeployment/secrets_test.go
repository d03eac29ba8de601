package identitydeployment

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// A change of one of these objects wakes the deployment.
func TestObjectNames(t *testing.T) {
	ref := func(name string) v1alpha1.SecretKeyReference {
		return v1alpha1.SecretKeyReference{Name: name, Key: "k"}
	}
	smtp, config := ref("mail"), v1alpha1.ConfigMapKeyReference{Name: "keys", Key: "k"}
	for name, tc := range map[string]struct {
		spec v1alpha1.IdentityDeploymentSpec
		want []string
	}{
		"nothing": {},
		"hosts":   {v1alpha1.IdentityDeploymentSpec{FrontendHosts: []v1alpha1.Hostname{"a.example", "b.example"}}, []string{"acme-session-signing-key", "acme-webhook-signing-key"}},
		"sessions": {v1alpha1.IdentityDeploymentSpec{
			FrontendHosts: []v1alpha1.Hostname{"a.example"}, JWTIssuers: []v1alpha1.JWTIssuer{{JWKSConfigMapRef: &config}, {OwnSessions: &v1alpha1.OwnSessionsIssuer{}}},
		}, []string{"keys", "acme-session-signing-key", "acme-webhook-signing-key"}},
		"mail and Twilio": {v1alpha1.IdentityDeploymentSpec{
			Email: &v1alpha1.EmailSettings{SMTP: &v1alpha1.SMTPServer{PasswordSecretRef: &smtp}}, SMS: &v1alpha1.SMSSettings{Twilio: &v1alpha1.TwilioAccount{AuthTokenSecretRef: ref("carrier")}},
		}, []string{"mail", "carrier"}},
		"mail without password, and a webhook": {v1alpha1.IdentityDeploymentSpec{
			Email: &v1alpha1.EmailSettings{SMTP: &v1alpha1.SMTPServer{}}, SMS: &v1alpha1.SMSSettings{Webhook: &v1alpha1.SMSWebhook{SigningSecretRef: ref("hook")}},
		}, []string{"hook"}},
		"the log": {spec: v1alpha1.IdentityDeploymentSpec{Email: &v1alpha1.EmailSettings{Log: &v1alpha1.MessageLog{}}, SMS: &v1alpha1.SMSSettings{}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := objectNames(&v1alpha1.IdentityDeployment{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: tc.spec}); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
