package snapshot

import (
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/store/document"
)

// Client is the content of an OAuthClient, prepared for requests.
type Client struct {
	document.OAuthClient
	// Keys are those by which the client signs, nil where they come from elsewhere, or where it does not sign.
	Keys *jose.JSONWebKeySet
}

// NewClient prepares a client for requests.
func NewClient(content document.OAuthClient) (*Client, error) {
	c := &Client{OAuthClient: content}
	return c, c.prepare()
}

func (c *Client) prepare() (err error) {
	if len(c.JWKS) > 0 {
		c.Keys, err = keyset.Parse(c.JWKS)
	}
	return err
}

// May tells whether the client may use a grant type, such as ClientCredentials.
func (c *Client) May(grant string) bool { return slices.Contains(c.GrantTypes, grant) }
