package decision

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/keycache"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// explainPermission is the permission that the caller of explain needs.
const explainPermission = "decisions:read"

// explanation describes how a request of a key would be decided now. It consumes nothing.
type explanation struct {
	KeyID       string        `json:"key_id"`
	AppSlug     string        `json:"app_slug"`
	Active      bool          `json:"is_active"`
	Permissions []string      `json:"permissions"`
	Scheme      *string       `json:"scheme"`
	SchemeFrom  *string       `json:"scheme_from"`
	AppScheme   *string       `json:"app_scheme"`
	Resource    string        `json:"resource"`
	Method      string        `json:"method"`
	Allowed     bool          `json:"allowed"`
	RetryAfter  *int64        `json:"retry_after"`
	Rules       []explainRule `json:"rules"`
}

type explainRule struct {
	Rule      string     `json:"rule"`
	Mode      string     `json:"mode"`
	Limit     int64      `json:"limit"`
	Remaining int64      `json:"remaining"`
	Denies    bool       `json:"denies"`
	ReturnsAt *time.Time `json:"returns_at"`
}

// explain serves GET /v1/authz/explain. The caller needs a credential of the backend API.
func (a *API) explain(c *call) error {
	s := a.Snapshots.Current()
	if err := credential.Fresh(a.Snapshots, a.MaxStaleness); err != nil {
		return err
	}
	asker, err := a.Authenticator.Authenticate(s, c.r)
	if err != nil {
		return err
	}
	if !asker.Allows(explainPermission) {
		return apierror.New(http.StatusForbidden, "the credential lacks the permission %s: grant it to the key and to its app", explainPermission)
	}
	asked, err := readExplain(c.r.URL.Query())
	if err != nil {
		return err
	}
	named, err := a.oneDeployment(c.deployment, asked.deployment, "?deployment")
	if err != nil {
		return err
	}
	if !named.none() && !named.is(asker.Deployment) {
		return apierror.InvalidToken()
	}
	principal, active, err := a.keyOf(c, s, asker, asked)
	if err != nil {
		return err
	}
	return a.sendExplanation(c, s, principal, active, asked)
}

type explainQuery struct {
	keyID, method, path string
	client              netip.Addr
	deployment          deployment
}

func readExplain(values url.Values) (q explainQuery, err error) {
	var faults []apierror.Fault
	one := func(name string, required bool) string {
		sent := values[name]
		if len(sent) == 1 && sent[0] != "" {
			return sent[0]
		}
		if required || len(sent) > 0 {
			faults = append(faults, apierror.Fault{Pointer: "?" + name, Message: "must be sent once and not be empty"})
		}
		return ""
	}
	q.keyID, q.method, q.path = one("key_id", true), one("method", true), one("resource", true)
	if q.method != "" && !validMethod(q.method) {
		faults = append(faults, apierror.Fault{Pointer: "?method", Message: "must be an HTTP method in upper case, such as GET"})
	}
	if q.path != "" {
		canonical, err := engine.CanonicalPath(q.path)
		if err != nil {
			faults = append(faults, apierror.Fault{Pointer: "?resource", Message: err.Error()})
		}
		q.path = canonical
	}
	if text := one("deployment", false); text != "" {
		if q.deployment, err = parseDeployment(text); err != nil {
			faults = append(faults, apierror.Fault{Pointer: "?deployment", Message: err.Error()})
		}
	}
	if text := one("client_ip", false); text != "" {
		address, err := netip.ParseAddr(text)
		if err != nil {
			faults = append(faults, apierror.Fault{Pointer: "?client_ip", Message: "must be an IPv4 or IPv6 address"})
		}
		q.client = address.WithZone("").Unmap()
	}
	if len(faults) > 0 {
		refused := apierror.New(http.StatusBadRequest, "")
		refused.Faults = faults
		return q, refused
	}
	return q, nil
}

// keyOf finds a key of the caller's deployment: a declared key by its public id or its resource's id, a runtime key by
// its public id or its id. It also reports whether the key would be accepted. If the request names a client address,
// the address ranges of a declared key must allow it.
func (a *API) keyOf(c *call, s *snapshot.Snapshot, asker *credential.Principal, asked explainQuery) (*credential.Principal, bool, error) {
	id := asked.keyID
	// The response does not repeat the key_id, because the caller may have sent a whole key.
	unknown := apierror.New(http.StatusNotFound, "the deployment has no API key with this key_id: send the public id (the 12 characters after the prefix), the id, or the resource's id")
	declared, found := s.APIKey(id)
	if number, err := ids.Parse(id); !found && err == nil {
		if entry, is := s.ByID(v1alpha1.KindAPIKey, asker.Deployment.Deployment, number); is {
			declared, found = s.KeyOf(entry)
		}
	}
	if found && declared.Entry.Deployment == asker.Deployment.Deployment {
		principal, served := credential.OfDeclared(s, declared)
		if !served {
			return nil, false, unknown
		}
		expires := declared.Verifier.ExpiresAt
		allowed := !asked.client.IsValid() || declared.Credential.AllowsFrom(asked.client)
		return principal, allowed && (expires == nil || a.Clock().Before(*expires)), nil
	}
	row, found, err := a.runtimeKey(c.r.Context(), asker.Deployment.Deployment, id)
	if err != nil {
		return nil, false, apierror.Unavailable(err, "the store is unavailable: try again")
	}
	if !found {
		return nil, false, unknown
	}
	given := keycache.NewKey(row)
	principal, served := credential.OfRuntime(s, given)
	if !served {
		return nil, false, unknown
	}
	return principal, given.Live(a.Clock()), nil
}

// runtimeKey reads the current row of a runtime key.
func (a *API) runtimeKey(ctx context.Context, deployment, id string) (row people.BoundKey, found bool, err error) {
	if _, notNumber := ids.Parse(id); notNumber != nil && !apikey.IsID(id) {
		return row, false, nil // saves the store a lookup of an impossible key
	}
	var key people.APIKey
	err = a.People.View(ctx, deployment, func(tx people.Tx) (err error) {
		key, found, err = people.FindAPIKey(tx.APIKeys(), id)
		return err
	})
	if err != nil || !found {
		return row, false, err
	}
	row, found, err = a.People.APIKeyByDigest(ctx, key.Digest)
	return row, found && row.Deployment == deployment, err
}

func (a *API) sendExplanation(c *call, s *snapshot.Snapshot, p *credential.Principal, active bool, asked explainQuery) error {
	binding, err := a.Limiter.Bind(s, p)
	if err != nil {
		return apierror.Unavailable(err, "the key's limits are not known here yet: try again")
	}
	var limits engine.Result
	a.Limiter.Peek(&binding, asked.method, asked.path, engine.AddressOf(asked.client), &limits)
	answer := explanation{
		KeyID: p.KeyID, AppSlug: p.App.Key, Active: active, Permissions: p.Permissions(), Resource: asked.path, Method: asked.method,
		Allowed: active && limits.Allowed, Rules: []explainRule{},
	}
	if binding.Scheme != nil {
		answer.Scheme, answer.SchemeFrom = &binding.SchemeSlug, &binding.SchemeFrom
	}
	if binding.App != nil {
		answer.AppScheme = &binding.AppSlug
	}
	if !limits.Allowed {
		retry := (limits.RetryAfter + 1e6 - 1) / 1e6
		answer.RetryAfter = &retry
	}
	now := a.Clock()
	for _, state := range limits.Rules {
		rule := explainRule{
			Rule: state.Rule.Text, Mode: state.Rule.Mode.String(), Limit: state.Rule.Limit, Remaining: state.Remaining, Denies: state.Remaining == 0,
		}
		if state.Returns > 0 {
			returns := now.Add(time.Duration(state.Returns) * time.Microsecond).UTC()
			rule.ReturnsAt = &returns
		}
		answer.Rules = append(answer.Rules, rule)
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	c.sendCheck(http.StatusOK, raw, nil)
	return nil
}
