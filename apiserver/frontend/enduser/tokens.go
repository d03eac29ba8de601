package enduser

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// tokenLifetime is how long a session token is valid, and so how long its claims may be out of date.
const tokenLifetime = 60 * time.Second

// tokenClaims are the claims of a session token in addition to the registered ones.
type tokenClaims struct {
	jwt.Claims
	SessionID    string   `json:"sid"`
	Organization *string  `json:"organization"`
	Workspace    *string  `json:"workspace"`
	Permissions  []string `json:"permissions"`
	// ACR, AMR and AuthTime are what the sign-in has proven: the level, the methods, and the time (in seconds since 1970)
	// of the newest proof that the level stands on.
	ACR      string   `json:"acr"`
	AMR      []string `json:"amr"`
	AuthTime int64    `json:"auth_time"`
}

// issueToken signs a token for backends with the user, the active organization and workspace, and the user's
// permissions there. A token for an agent is valid at the agent alone.
func issueToken(c *call) (reply, error) {
	audience := "cardea:" + c.request.Entry.Namespace + ":" + c.request.Entry.Name
	err := c.parse(func(o *body.Object) {
		resource, sent := o.String("resource")
		switch {
		case sent && !acceptsSessions(c, resource):
			o.Fault("resource", "must be the URL (status.mcpURL) of an active agent of this deployment that accepts session tokens: set spec.access.sessions of the AIAgent to Allowed, or leave resource out")
		case sent:
			audience = resource
		}
	})
	if err != nil {
		return reply{}, err
	}
	g, tenant := c.signedIn(), c.request.Tenant
	expires := c.now.Add(tokenLifetime).Truncate(time.Second)
	claims := tokenClaims{
		Claims: jwt.Claims{
			Issuer: "https://" + tenant.Settings.FrontendHosts[0], Subject: format(g.User),
			Audience: jwt.Audience{audience},
			IssuedAt: jwt.NewNumericDate(c.now), Expiry: jwt.NewNumericDate(expires), ID: rand.Text(),
		},
		SessionID: format(c.session.ID), Permissions: []string{},
		ACR: g.Proven().Level().ACR(), AMR: g.Proven().AMR(), AuthTime: g.Proven().ProvenAt(g.Proven().Level()).Unix(),
	}
	err = c.view(func(u *account.Unit) error {
		at, err := activeOf(u, g, u.Domains().AddressesIn)
		if err == nil {
			err = at.withheld
		}
		if err == nil && at.member == nil {
			err = account.CheckConfined(u, g) // the organization alone may rely on the sign-in
		}
		if err == nil {
			claims.place(tenant, at)
		}
		return err
	})
	if err != nil {
		return reply{}, err
	}
	token, err := c.Signer.Sign(tenant.Settings, "JWT", claims)
	if err != nil {
		return reply{}, err
	}
	return reply{data: enduserapi.SessionToken{Token: token, ExpiresAt: expires}}, nil
}

// acceptsSessions reports whether a URL is that of an active agent of the deployment that accepts session tokens.
func acceptsSessions(c *call, resource string) bool {
	agent, found := c.request.Snapshot().AgentAt(c.request.Entry, resource)
	return found && snapshot.ContentOf[snapshot.Agent](agent).Sessions
}

// place sets the active organization and workspace, and the permissions of the user's roles there. The list does
// not say at which level a permission applies. A role in a workspace therefore never adds a permission that is in the
// deployment's catalog of organization permissions: only the role in the organization adds it.
func (claims *tokenClaims) place(tenant *account.Tenant, at active) {
	if at.member == nil {
		return
	}
	organization := format(at.member.Organization.ID)
	claims.Organization = &organization
	if role := tenant.RoleOf(v1alpha1.RoleLevelOrganization, at.member.Owner, at.member.Role); role != nil {
		claims.Permissions = append(claims.Permissions, role.Permissions...)
	}
	if at.workspace != nil {
		workspace := format(at.workspace.Workspace.ID)
		claims.Workspace = &workspace
		if role := tenant.RoleOf(v1alpha1.RoleLevelWorkspace, at.workspace.Owner, at.workspace.Role); role != nil {
			for _, permission := range role.Permissions {
				if !slices.Contains(tenant.Settings.OrganizationPermissions, permission) {
					claims.Permissions = append(claims.Permissions, permission)
				}
			}
		}
	}
	slices.Sort(claims.Permissions)
	claims.Permissions = slices.Compact(claims.Permissions)
}

// keySetAge is how long caches may keep the key set. A replaced key stays published for far longer.
const keySetAge = 5 * time.Minute

// keySet publishes the keys that verify session tokens: the current and the previous one.
func keySet(c *call) error {
	set := struct {
		Keys []json.RawMessage `json:"keys"`
	}{[]json.RawMessage{}}
	for _, key := range c.request.Settings.SigningKeys {
		if key.ExpiresAt == nil || c.now.Before(*key.ExpiresAt) {
			set.Keys = append(set.Keys, key.Public)
		}
	}
	return publish(c, set)
}

// publish responds with public keys.
func publish(c *call, set any) error {
	raw, err := json.Marshal(set)
	if err != nil {
		return err
	}
	header := c.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(keySetAge.Seconds())))
	header.Set("Access-Control-Allow-Origin", "*") // public keys, readable without the cookie
	c.WriteHeader(http.StatusOK)
	if c.r.Method != http.MethodHead {
		_, _ = c.Write(raw) // an error means that the client disconnected
	}
	return nil
}
