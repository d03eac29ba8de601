package identitydeployment

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

func TestOneLine(t *testing.T) {
	for name, tc := range map[string]struct{ raw, value, fault string }{
		"a value":                      {raw: "secret", value: "secret"},
		"a newline at the end":         {raw: "secret\n", value: "secret"},
		"a line end of Windows":        {raw: "secret\r\n", value: "secret"},
		"blanks are part of it":        {raw: " a b ", value: " a b "},
		"nothing":                      {raw: "", fault: "is empty"},
		"nothing but a newline":        {raw: "\n", fault: "is empty"},
		"two newlines":                 {raw: "secret\n\n", fault: "has more than one line"},
		"two lines":                    {raw: "secret\nmore", fault: "has more than one line"},
		"two lines of an old Mac":      {raw: "secret\rmore", fault: "has more than one line"},
		"512 bytes":                    {raw: strings.Repeat("s", 512) + "\n", value: strings.Repeat("s", 512)},
		"513 bytes":                    {raw: strings.Repeat("s", 513), fault: "has more than 512 bytes"},
		"a file put there by accident": {raw: strings.Repeat("line\n", 1000), fault: "has more than 512 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if value, fault := oneLine([]byte(tc.raw)); string(value) != tc.value || fault != tc.fault {
				t.Errorf("got %q, %q, want %q, %q", value, fault, tc.value, tc.fault)
			}
		})
	}
}

// What wakes a deployment.
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
		"hosts":   {v1alpha1.IdentityDeploymentSpec{FrontendHosts: []v1alpha1.Hostname{"a.example", "b.example"}}, []string{"acme-session-signing-key"}},
		"sessions": {v1alpha1.IdentityDeploymentSpec{
			FrontendHosts: []v1alpha1.Hostname{"a.example"}, JWTIssuers: []v1alpha1.JWTIssuer{{JWKSConfigMapRef: &config}, {OwnSessions: &v1alpha1.OwnSessionsIssuer{}}},
		}, []string{"keys", "acme-session-signing-key"}},
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
