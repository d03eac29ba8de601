package enduser

import (
	"fmt"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/internal/relyingparty"
)

// relatedOriginsAge is how long caches may keep the list of related origins.
const relatedOriginsAge = 5 * time.Minute

// relatedOrigins lists the origins whose pages may use the deployment's passkeys (WebAuthn Level 3, 5.11). Only the
// host of the relying party has the list, and only if an origin lies outside the relying party.
func relatedOrigins(c *call) error {
	settings := c.request.Settings
	strong, _ := settings.Strong()
	origins := relyingparty.Origins(settings.FrontendHosts, settings.AllowedOrigins, nil)
	related, _ := relyingparty.Related(strong.RelyingParty, origins)
	if !strong.Passkey || site.Host(c.r) != strong.RelyingParty || len(related) == 0 {
		return apierror.Coded(http.StatusNotFound, "NOT_FOUND", "there is no such path")
	}
	header := c.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(relatedOriginsAge.Seconds())))
	c.WriteHeader(http.StatusOK)
	if c.r.Method != http.MethodHead {
		_, _ = c.Write(relyingparty.List(origins)) // an error means that the client disconnected
	}
	return nil
}
