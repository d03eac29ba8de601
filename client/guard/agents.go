package guard

import "strings"

// Actor is a party that acts for the user of a token (RFC 8693 4.1). Of a call by an agent, the outer one is the agent,
// and its own Actor the program that called the agent.
type Actor struct {
	// Kind is agent, client (of an OAuth app), key (an API key), session (of the user) or token (of another issuer).
	Kind string
	// ID identifies it among its kind: the id of an agent, a client or a session, or the public id of a key.
	ID string
	// Actor is the party for which it acts in turn, nil for none.
	Actor *Actor
}

// NewUserTokens returns a guard of the tokens that Cardea sends to AITools with authorizeAsUser. Issuer is https:// and
// the deployment's first host, and Audiences the tool's audience (absent: scheme and authority of its endpoint). Such a
// token names the user, and the agent as Actor. It is valid for a minute, and its scopes are the tool's permissions,
// which the caller of the agent has.
func NewUserTokens(options TokensOptions) (*Tokens, error) {
	t, err := newTokens(options, true, "/.well-known/jwks.json")
	if err == nil {
		t.actor = true
	}
	return t, err
}

// agentClaims are the claims of the tokens of agents' calls.
type agentClaims struct {
	Organization string    `json:"org_id"`
	Workspace    string    `json:"workspace_id"`
	Act          *actClaim `json:"act"`
}

// actClaim is the claim act.
type actClaim struct {
	Subject string    `json:"sub"`
	Act     *actClaim `json:"act"`
}

// describe adds the actors, and where the user acts, to an identity.
func (c *agentClaims) describe(who *Identity) {
	if c.Act == nil {
		return
	}
	who.Actor, who.OrganizationID, who.WorkspaceID = c.Act.actor(), c.Organization, c.Workspace
}

func (c *actClaim) actor() *Actor {
	if c == nil {
		return nil
	}
	kind, id, _ := strings.Cut(c.Subject, ":")
	return &Actor{Kind: kind, ID: id, Actor: c.Act.actor()}
}
