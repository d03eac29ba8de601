package translation

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// The defaults of a WebhookEndpoint.
const (
	webhookTimeout, webhookConcurrent    = 15, 8
	webhookRetries, webhookDisabledAfter = 3 * 24 * 3600, 5 * 24 * 3600
)

// ownHeaders are the names of headers that a webhook has itself, in lower case. The other prefix reservedHeader is
// Cardea's own.
var ownHeaders = map[string]bool{
	"host": true, "content-type": true, "content-length": true, "transfer-encoding": true, "connection": true, "user-agent": true, "te": true,
	"trailer": true, "upgrade": true, "expect": true, "accept-encoding": true, "proxy-authorization": true, "proxy-connection": true, "keep-alive": true,
	"webhook-id": true, "webhook-timestamp": true, "webhook-signature": true,
}

const reservedHeader = "cardea-"

// WebhookEndpoint translates a WebhookEndpoint without its secrets. The error names a header that cannot be declared.
func WebhookEndpoint(w *v1alpha1.WebhookEndpoint) (document.WebhookEndpoint, error) {
	content := document.WebhookEndpoint{
		Name: named(w.Spec.DisplayName, w.Name), Description: ptr.Deref(described(w.Spec.Description), ""), URL: string(w.Spec.URL), Types: words(w.Spec.Types),
		Format: document.WebhookStandard, Scheme: document.WebhookHMAC, Ordering: document.WebhookByEntity,
		TimeoutSeconds:      int64(ptr.Deref(w.Spec.TimeoutSeconds, webhookTimeout)),
		MaxConcurrent:       int64(ptr.Deref(w.Spec.MaxConcurrent, webhookConcurrent)),
		MaxPerSecond:        int64(ptr.Deref(w.Spec.MaxPerSecond, 0)),
		RetrySeconds:        int64(ptr.Deref(w.Spec.RetrySeconds, webhookRetries)),
		DisableAfterSeconds: int64(ptr.Deref(w.Spec.DisableAfterSeconds, webhookDisabledAfter)),
		Active:              ptr.Deref(w.Spec.Active, true),
		Personal:            ptr.Deref(w.Spec.PersonalData, "") == v1alpha1.WebhookPersonalDataInclude,
	}
	if len(content.Types) == 0 {
		content.Types = []string{"*"}
	}
	if ptr.Deref(w.Spec.Format, "") == v1alpha1.WebhookFormatCloudEvents {
		content.Format = document.WebhookCloudEvents
	}
	if w.Spec.Signing != nil && ptr.Deref(w.Spec.Signing.Scheme, "") == v1alpha1.WebhookSchemeEd25519 {
		content.Scheme = document.WebhookEd25519
	}
	if ptr.Deref(w.Spec.Ordering, "") == v1alpha1.WebhookOrderingNone {
		content.Ordering = document.WebhookUnordered
	}
	seen := map[string]bool{}
	for i, header := range w.Spec.Headers {
		name := strings.ToLower(header.Name)
		switch {
		case ownHeaders[name] || strings.HasPrefix(name, reservedHeader):
			return content, fmt.Errorf("spec.headers[%d].name: %q is set by Cardea itself: use another name", i, header.Name)
		case seen[name]:
			return content, fmt.Errorf("spec.headers[%d].name: %q is declared twice, in upper and lower case: remove one", i, header.Name)
		}
		seen[name] = true
		content.Headers = append(content.Headers, document.ToolHeader{Name: header.Name, Value: ptr.Deref(header.Value, ""), Secret: header.ValueFrom != nil})
	}
	return content, nil
}
