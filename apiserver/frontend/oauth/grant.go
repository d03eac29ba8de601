package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// grants are the grant types that the token endpoint serves, by name. A test compares them with consent.GrantTypes,
// which the metadata and the registration of clients use.
var grants = map[string]grant{
	consent.GrantCode:        codeGrant{},
	consent.GrantRefresh:     refreshGrant{},
	consent.GrantDevice:      deviceGrant{},
	consent.GrantCredentials: credentialsGrant{},
}

// grant is a grant type. The endpoint authenticates the client, checks that it may use the grant type, runs the
// transaction, signs the tokens and responds. A grant type only adds what is specific to it.
type grant interface {
	// parse reads and checks the form of a token request. It neither reads nor writes rows.
	parse(c *call, form url.Values) (redemption, error)
}

// redemption is a parsed token request: either own or redeem is set.
type redemption struct {
	// own are the claims of a client's own token, which needs no transaction.
	own *bearer.AccessClaims
	// redeem decides in the request's transaction what is granted. It may run several times, each time in a new
	// transaction.
	redeem func(u *account.Unit) (*issued, error)
	// finish is called with whether the transaction was committed; nil if the grant type does not need it.
	finish func(committed bool)
}

// token serves the token endpoint (RFC 6749 3.2).
func token(c *call) error {
	c.allowOrigin()
	form, err := c.form()
	if err != nil {
		return err
	}
	if err := c.authenticate(form); err != nil {
		return err
	}
	name := form.Get("grant_type")
	kind, known := consent.GrantTypeNamed(name)
	switch {
	case name == "":
		return invalidRequest("grant_type is missing")
	case !known:
		return unsupportedGrant("grant_type is not supported: see grant_types_supported in the metadata")
	case !c.client.May(string(kind.Declared)):
		return unauthorizedClient("the client may not use " + name + ": add " + string(kind.Declared) + " to its grantTypes")
	}
	request, err := grants[name].parse(c, form)
	if err != nil {
		return err
	}
	if request.own != nil {
		return c.issueOwn(*request.own)
	}
	return c.issue(request)
}

// errGrant refuses a code or a refresh token for any fault: a more precise response would also help a thief.
var errGrant = &Error{Status: http.StatusBadRequest, Code: "invalid_grant", Description: "it is unknown, expired, used, revoked, or was issued to another client, for another redirect_uri or code_verifier"}

// ungrantable returns errGrant with a reason for the audit, or err if something else went wrong.
func ungrantable(err error, reason string) error {
	if err != nil {
		return err
	}
	refused := *errGrant
	refused.Reason = reason
	return &refused
}

// errNothingLeft refuses a token family without effective scopes, user or sign-in.
var errNothingLeft = invalidGrant("nothing is left of what was granted: ask the user again")

// insufficient refuses tokens for a user who must prove more now. It changes nothing: the same token works once the
// user has authorized the client at that level, or the requirement is lifted.
func insufficient(required assurance.Level) error {
	return &Error{
		Status: http.StatusBadRequest, Code: "invalid_grant", ACRValues: required.ACR(),
		Description: "the user must show a stronger proof: send an authorization request with these acr_values",
	}
}

// unmetRequirement refuses tokens for a user who must prove more, or sign in by another connection, now.
func unmetRequirement(unmet *consent.RequirementError) error {
	if unmet.Connection {
		return &Error{
			Status: http.StatusBadRequest, Code: "invalid_grant",
			Description: "the organization requires a sign-in by its identity provider: send an authorization request with prompt=login",
		}
	}
	return insufficient(unmet.Required)
}

// ownsFamily reports whether a token family belongs to the requesting client.
func (c *call) ownsFamily(family people.TokenFamily) bool {
	return family.Client == c.client.ID && family.App == c.Entry.ID
}

// end ends a token family because one of its tokens was copied, or because nothing is left of its grant. It returns a
// refusal that commits. why is the type of the event, and action that in the audit.
func (c *call) end(u *account.Unit, family people.TokenFamily, why events.Type, action string) error {
	ended, err := u.OAuth().EndTokenFamily(family.ID)
	if err == nil && ended {
		u.Log(events.OfFamily(why, family))
		err = u.Audit(action, "oauth_grant:"+ids.Format(family.Grant))
	}
	if err != nil {
		return err
	}
	refused := *errGrant
	refused.Audited = ended
	return account.Refuse(&refused)
}

// restriction is the part of a token family that a token request asks for.
type restriction struct {
	// scopes is nil for all.
	scopes    []string
	resources []string
}

// restrict reads which part of a token family a request asks for. It drops resources that the app or the client no
// longer has. If none is left, it refuses the request, because a token without a resource is for the issuer.
func (c *call) restrict(form url.Values, family people.TokenFamily) (asked restriction, err error) {
	if form.Has("scope") {
		scopes, err := scopesOf(form.Get("scope"))
		if err != nil {
			return asked, err
		}
		for _, scope := range scopes {
			if !slices.Contains(family.Scopes, scope) {
				return asked, invalidScope("a scope was not granted")
			}
		}
		asked.scopes = append([]string{}, scopes...)
	}
	for _, resource := range form["resource"] {
		if !slices.Contains(family.Resources, resource) || !maySeek(c, c.client, resource) {
			return asked, invalidTarget("a resource was not granted, or is no longer the client's")
		}
	}
	if form.Has("resource") {
		asked.resources = slices.Compact(slices.Sorted(slices.Values(form["resource"])))
		return asked, nil
	}
	asked.resources = slices.DeleteFunc(slices.Clone(family.Resources), func(resource string) bool { return !maySeek(c, c.client, resource) })
	if len(family.Resources) > 0 && len(asked.resources) == 0 {
		return asked, invalidTarget("none of the granted resources is still the client's")
	}
	return asked, nil
}

// issueNext grants the next tokens of a token family: its effective scopes and, if the client uses refresh tokens, a
// refresh token that replaces parent (nil for the first one).
func (c *call) issueNext(u *account.Unit, family people.TokenFamily, parent *people.RefreshToken, asked restriction) (*issued, error) {
	granted, subject, err := c.EffectiveGrant(u, c.client, family)
	if unmet := new(consent.RequirementError); errors.As(err, &unmet) {
		return nil, unmetRequirement(unmet)
	}
	if err != nil {
		return nil, err
	}
	if subject == nil {
		return nil, errNothingLeft
	}
	out := &issued{subject: subject, scopes: granted, resources: asked.resources}
	family.Scopes, family.UsedAt = granted, c.now
	if asked.scopes != nil {
		out.scopes = slices.DeleteFunc(slices.Clone(granted), func(scope string) bool { return !slices.Contains(asked.scopes, scope) })
	}
	refreshes := c.client.May(string(v1alpha1.GrantTypeRefreshToken))
	if parent == nil {
		family.ExpiresAt = c.now.Add(c.client.AccessTokenLifetime())
		if refreshes {
			family.ExpiresAt = c.now.Add(max(c.client.AccessTokenLifetime(), time.Duration(c.client.RefreshTokenSeconds)*time.Second))
		}
	}
	if refreshes {
		if out.refresh, err = refreshToken(c, u, family, parent); err != nil {
			return nil, err
		}
	}
	out.family = family
	return out, u.OAuth().UpdateTokenFamily(family)
}
