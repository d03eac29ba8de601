package identitydeployment

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/controllers/shared/signingkey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/webhook"
)

// annotationWebhooks on a Secret names the deployment whose webhook signing key it holds.
const annotationWebhooks = "iam.cardea.dev/webhook-signing-key-of"

func webhookSecretName(d *v1alpha1.IdentityDeployment) string { return d.Name + "-webhook-signing-key" }

// webhookKeys is the Secret with the keys that sign the calls of the deployment's Function and Webhook tools.
func webhookKeys(d *v1alpha1.IdentityDeployment) signingkey.Wanted {
	owner := ownedsecret.Owner{Object: d, Kind: v1alpha1.KindIdentityDeployment, Marker: annotationWebhooks, Taken: "copy it to a Secret of another name, and delete it when no program uses it"}
	return signingkey.Wanted{Owner: owner, Name: webhookSecretName(d), Slots: signingkey.ForWebhooks, Kind: document.SealedWebhookKey}
}

// webhookPublicKeys returns the public keys for the status. Times have the precision of the API server.
func webhookPublicKeys(keys []document.SigningKey) ([]v1alpha1.WebhookPublicKey, error) {
	var out []v1alpha1.WebhookPublicKey
	for _, key := range keys {
		public, err := webhook.PublicOf(key.Public)
		if err != nil {
			return nil, err
		}
		one := v1alpha1.WebhookPublicKey{ID: key.ID, PublicKey: public}
		if key.ExpiresAt != nil {
			one.ExpiresAt = &metav1.Time{Time: key.ExpiresAt.UTC().Truncate(time.Second)}
		}
		out = append(out, one)
	}
	return out, nil
}
