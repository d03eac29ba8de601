package translation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestWebhookEndpointHasEffectiveValues(t *testing.T) {
	w := &v1alpha1.WebhookEndpoint{}
	w.Name, w.Spec.URL = "crm", "https://crm.example/hooks"
	want := document.WebhookEndpoint{
		Name: "crm", URL: "https://crm.example/hooks", Types: []string{"*"}, Format: document.WebhookStandard, Scheme: document.WebhookHMAC, Ordering: document.WebhookByEntity,
		TimeoutSeconds: 15, MaxConcurrent: 8, RetrySeconds: 259200, DisableAfterSeconds: 432000, Active: true,
	}
	if got, err := WebhookEndpoint(w); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	w.Spec.DisplayName, w.Spec.Types = ptr.To(v1alpha1.DisplayName(" CRM ")), []v1alpha1.EventTypeFilter{"user.*", "membership.created"}
	w.Spec.Format, w.Spec.Ordering = ptr.To(v1alpha1.WebhookFormatCloudEvents), ptr.To(v1alpha1.WebhookOrderingNone)
	w.Spec.PersonalData, w.Spec.Active = ptr.To(v1alpha1.WebhookPersonalDataInclude), ptr.To(false)
	w.Spec.Signing = &v1alpha1.WebhookSigning{Scheme: ptr.To(v1alpha1.WebhookSchemeEd25519)}
	w.Spec.TimeoutSeconds, w.Spec.MaxConcurrent, w.Spec.MaxPerSecond = ptr.To[int32](30), ptr.To[int32](64), ptr.To[int32](100)
	w.Spec.RetrySeconds, w.Spec.DisableAfterSeconds = ptr.To[int32](600), ptr.To[int32](700)
	w.Spec.Headers = []v1alpha1.ToolHeader{{Name: "X-Plain", Value: ptr.To("seen")}, {Name: "Authorization", ValueFrom: &v1alpha1.HeaderValueSource{}}}
	want = document.WebhookEndpoint{
		Name: "CRM", URL: "https://crm.example/hooks", Types: []string{"user.*", "membership.created"}, Format: document.WebhookCloudEvents, Scheme: document.WebhookEd25519,
		Ordering: document.WebhookUnordered, Personal: true, TimeoutSeconds: 30, MaxConcurrent: 64, MaxPerSecond: 100, RetrySeconds: 600, DisableAfterSeconds: 700,
		Headers: []document.ToolHeader{{Name: "X-Plain", Value: "seen"}, {Name: "Authorization", Secret: true}},
	}
	if got, err := WebhookEndpoint(w); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
}

func TestHeadersOfWebhooksThatCardeaSetsAreRefused(t *testing.T) {
	for name, fault := range map[string]string{
		"Webhook-Signature": "set by Cardea itself", "webhook-id": "set by Cardea itself", "CONTENT-TYPE": "set by Cardea itself", "Host": "set by Cardea itself",
		"Cardea-Attempt": "set by Cardea itself", "Transfer-Encoding": "set by Cardea itself", "x-plain": "declared twice", "X-Webhook": "",
	} {
		w := &v1alpha1.WebhookEndpoint{}
		w.Spec.Headers = []v1alpha1.ToolHeader{{Name: "X-Plain", Value: ptr.To("a")}, {Name: name, Value: ptr.To("b")}}
		_, err := WebhookEndpoint(w)
		if (err == nil) != (fault == "") || err != nil && (!strings.Contains(err.Error(), fault) || !strings.HasPrefix(err.Error(), "spec.headers[1].name: ")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
