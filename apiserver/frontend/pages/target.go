package pages

import (
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/internal/document"
)

// target returns the requested address to continue at, and reports whether the browser may be redirected there.
func target(v *visit, asked string) (string, bool) {
	var settings *document.Deployment
	if v.tenant != nil {
		settings = v.tenant.Settings
	}
	return site.Target(settings, asked)
}
