package agents

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
)

const (
	// metadataPrefix is the path of agents' metadata.
	metadataPrefix = caller.MetadataPrefix
	// metadataPattern is its route in metrics.
	metadataPattern = "/.well-known/oauth-protected-resource/mcp/{agent}"
)

// resourceMetadata is the metadata of a protected resource (RFC 9728 2).
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
}

// app is caller.App for the agent.
func (c *call) app() (*consent.App, bool) { return caller.App(c.snapshot, c.agent) }

// scopesOf returns the scopes of the agent's app that give permissions, sorted.
func (c *call) scopesOf(permissions []string) []string {
	app, accepted := c.app()
	if !accepted {
		return nil
	}
	return caller.ScopesOf(app, permissions)
}

// serveMetadata serves the metadata of an agent that accepts OAuth tokens. It is public.
func (s *Server) serveMetadata(w http.ResponseWriter, r *http.Request) {
	r.Pattern = metadataPattern
	c := &call{Server: s, r: r, snapshot: s.Snapshots.Current()}
	c.Begin(w, r, s.Metrics, s.Clock)
	defer c.End(r, c)
	if err := c.sendMetadata(); err != nil {
		c.Refuse(err)
	}
}

func (c *call) sendMetadata() error {
	if err := c.findAgent(strings.TrimPrefix(c.r.URL.Path, metadataPrefix)); err != nil {
		return err
	}
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		return apierror.MethodNotAllowed(c.r.Method, "GET, HEAD")
	}
	app, accepted := c.app()
	if !accepted {
		return apierror.New(http.StatusNotFound, "the agent accepts no OAuth tokens: spec.access.oauthAppRef of the AIAgent names the app whose tokens it accepts")
	}
	raw, err := json.Marshal(resourceMetadata{
		c.content.URL, []string{app.Content.Issuer}, c.scopesOf(c.content.Permissions), []string{"header"}, c.content.Name,
	})
	if err != nil {
		return err
	}
	header := c.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Access-Control-Allow-Origin", "*") // public, readable without credentials
	c.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodGet {
		_, _ = c.Write(raw) // an error means that the client disconnected
	}
	return nil
}
