package limits

import (
	"context"
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
	return b.limiter.count(r, binding, path, client, header)
}

// CountAll is Count for every credential: also the tokens of users and clients are limited.
func (b *Bindings) CountAll(s *snapshot.Snapshot, p *credential.Principal, r *http.Request, path string, client netip.Addr, header http.Header) error {
	if p.KeyID != "" {
		return b.Count(s, p, r, path, client, header)
	}
	binding, err := b.limiter.Bind(s, p)
	if err != nil {
		return apierror.Unavailable(err, "the credential's limits are not known here yet: try again")
	}
	return b.limiter.count(r, &binding, path, client, header)
}

func (l *Limiter) count(r *http.Request, binding *Binding, path string, client netip.Addr, header http.Header) error {
	if binding.Scheme == nil {
		return nil
	}
	result := results.Get().(*engine.Result)
	defer results.Put(result)
	l.Decide(r.Context(), binding, r.Method, path, engine.AddressOf(client), result)
	WriteFields(header, result)
	if result.Allowed {
		return nil
	}
	refused := apierror.New(http.StatusTooManyRequests, "the limit %s of the credential's rate-limit scheme is used up: try again after the number of seconds in Retry-After",
		result.Rules[result.Blocked].Rule.Text)
	refused.RetryAfter = time.Duration(result.RetryAfter) * time.Microsecond
	return refused
}

// Take counts a call of an agent's tool by the schemes of the agent and of the tool ("" for none), both or neither. It
// returns the limit that is used up, "" for a permitted call, and after which time the call may be tried again. path is
// the path that rules match.
func (l *Limiter) Take(ctx context.Context, s *snapshot.Snapshot, p *credential.Principal, agent *snapshot.Entry, schemes [2]string, path string, client netip.Addr) (limit string, retryAfter time.Duration, err error) {
	binding, err := l.bindCall(s, p, agent, schemes)
	if err != nil || binding.Scheme == nil && binding.App == nil {
		return "", 0, err
	}
	result := results.Get().(*engine.Result)
	defer results.Put(result)
	l.Decide(ctx, &binding, http.MethodPost, path, engine.AddressOf(client), result)
	if result.Allowed {
		return "", 0, nil
	}
	return result.Rules[result.Blocked].Rule.Text, time.Duration(result.RetryAfter) * time.Microsecond, nil
}
