package agents

import (
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/claimtemplate"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
)

// errNoTemplate: the template of a tool does not exist, or does not compile on this server.
var errNoTemplate = errors.New("the JWTTemplate does not exist, or cannot be compiled here")

// reserved are the claims that Cardea sets or leaves out itself.
var reserved = map[string]bool{
	"iss": true, "sub": true, "aud": true, "exp": true, "nbf": true, "iat": true, "jti": true, "act": true, "client_id": true, "scope": true,
	"org_id": true, "workspace_id": true, "typ": true,
}

// templateOf returns the template of a tool, named by the resource or by its id.
func templateOf(c *call, t *toolset.Tool) (*snapshot.JWTTemplate, error) {
	authorization := &t.Content.Authorization
	entry, found := c.snapshot.Get(store.Identity{Kind: v1alpha1.KindJWTTemplate, Namespace: t.Entry.Namespace, Name: authorization.JWTTemplate})
	if authorization.JWTTemplate == "" {
		id, err := ids.Parse(authorization.JWTTemplateID)
		if err != nil {
			return nil, errNoTemplate
		}
		entry, found = c.snapshot.ByID(v1alpha1.KindJWTTemplate, c.agent.Deployment, id)
	}
	if !found || entry.Deployment != c.agent.Deployment {
		return nil, errNoTemplate
	}
	content := snapshot.ContentOf[snapshot.JWTTemplate](entry)
	if content.Compiled() == nil {
		return nil, errNoTemplate
	}
	return content, nil
}

// templated returns the claims of a token with those of the tool's template. The claims that Cardea sets win.
func templated(c *call, t *toolset.Tool, id int64, own userClaims) (map[string]any, error) {
	template, err := templateOf(c, t)
	if err != nil {
		return nil, err
	}
	input, err := templateInput(c, t, id)
	if err != nil {
		return nil, err
	}
	claims, err := template.Compiled().Claims(input)
	if err != nil {
		return nil, err
	}
	own.Expiry = c.expiry(time.Duration(template.LifetimeSeconds) * time.Second)
	if len(template.Audiences) > 0 {
		own.Audience = template.Audiences
	}
	raw, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	fixed := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fixed); err != nil {
		return nil, err
	}
	maps.Copy(claims, fixed)
	all := map[string]any{}
	for name, value := range claims {
		if !reserved[name] || fixed[name] != nil {
			all[name] = value
		}
	}
	return all, nil
}

// templateInput returns what the expressions of a template see of a call.
func templateInput(c *call, t *toolset.Tool, id int64) (in claimtemplate.Input, err error) {
	in = claimtemplate.Input{
		Permissions: c.caller.Principal.Permissions(), Call: map[string]any{"id": ids.Format(id)},
		Agent: map[string]any{"id": ids.Format(c.agent.ID), "name": c.agent.Name}, Tool: map[string]any{"id": ids.Format(t.Entry.ID), "name": t.Name},
	}
	if c.caller.User == 0 {
		return in, nil
	}
	err = c.views(func(u *account.Unit) error {
		user, found, err := u.Users().User(c.caller.User)
		if err != nil || !found {
			return err
		}
		in.User = map[string]any{"id": ids.Format(user.ID), "email": user.Email, "first_name": user.FirstName, "last_name": user.LastName, "email_verified": false}
		if in.User["email_verified"], err = verified(u, user.ID); err != nil {
			return err
		}
		place, err := consent.PlaceOf(u, user.ID, c.caller.Organization, c.caller.Workspace)
		if err != nil {
			return err
		}
		if place.Member != nil {
			o := place.Member.Organization
			in.Organization = map[string]any{"id": ids.Format(o.ID), "slug": o.Slug, "name": o.Name}
		}
		if place.Workspace != nil {
			w := place.Workspace.Workspace
			in.Workspace = map[string]any{"id": ids.Format(w.ID), "slug": w.Slug, "name": w.Name}
		}
		return nil
	})
	return in, err
}

// verified reports whether the primary address of a user is verified.
func verified(u *account.Unit, user int64) (bool, error) {
	addresses, err := u.Users().EmailsOf(user)
	if err != nil {
		return false, err
	}
	for _, one := range addresses {
		if one.Primary {
			return !one.VerifiedAt.IsZero(), nil
		}
	}
	return false, nil
}
