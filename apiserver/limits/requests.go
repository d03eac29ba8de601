package limits

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

// results are reused, because they are large.
var results = sync.Pool{New: func() any { return &engine.Result{} }}

// Count counts a request to Cardea itself by the scheme that binds its API key, and writes the remaining quotas into
// the header of the response. If the limit is used up, it returns an apierror.Error with status 429. Tokens are not
// limited: the platform itself issues them. path is the path that rules match.
func (b *Bindings) Count(s *snapshot.Snapshot, p *credential.Principal, r *http.Request, path string, client netip.Addr, header http.Header) error {
	if p.KeyID == "" {
		return nil
	}
	binding, err := b.Of(s, p)
	if err != nil {
		return apierror.Unavailable(err, "the key's limits are not known here yet: try again")
	}
	if binding.Scheme == nil {
		return nil
	}
	result := results.Get().(*engine.Result)
	defer results.Put(result)
	b.limiter.Decide(r.Context(), binding, r.Method, path, engine.AddressOf(client), result)
	WriteFields(header, result)
	if result.Allowed {
		return nil
	}
	refused := apierror.New(http.StatusTooManyRequests, "the limit %s of the key's rate-limit scheme is used up: try again after the number of seconds in Retry-After",
		result.Rules[result.Blocked].Rule.Text)
	refused.RetryAfter = time.Duration(result.RetryAfter) * time.Microsecond
	return refused
}
