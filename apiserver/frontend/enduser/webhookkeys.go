package enduser

import (
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/webhook"
)

// webhookKeys publishes the keys that verify the calls of the deployment's tools: the current and the previous one.
func webhookKeys(c *call) error {
	set := enduserapi.WebhookKeys{Keys: []enduserapi.WebhookKey{}}
	for _, key := range c.request.Settings.WebhookKeys {
		if key.ExpiresAt != nil && !c.now.Before(*key.ExpiresAt) {
			continue
		}
		public, err := webhook.PublicOf(key.Public)
		if err != nil {
			return err
		}
		set.Keys = append(set.Keys, enduserapi.WebhookKey{Id: key.ID, PublicKey: public, ExpiresAt: key.ExpiresAt})
	}
	return publish(c, set)
}
