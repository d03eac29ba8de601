package snapshot

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/shares"
)

// Client is the content of an OAuthClient, prepared for requests.
type Client struct {
	document.OAuthClient
	// Keys are those by which the client signs, nil where they come from elsewhere, or where it does not sign.
	Keys *jose.JSONWebKeySet
}

// prepare parses the client's keys. A set that was stored by an older version and that is out of bounds now verifies nothing: the client is still
// listed and can be given other keys.
func (c *Client) prepare() {
	if len(c.JWKS) == 0 {
		return
	}
	var err error
	if c.Keys, err = keyset.Parse(c.JWKS, keyset.MaxBytes); err != nil {
		c.Keys = &jose.JSONWebKeySet{}
	}
}

// May reports whether the client may use a grant type, such as ClientCredentials.
func (c *Client) May(grant string) bool { return slices.Contains(c.GrantTypes, grant) }

const (
	// preparedBytes and preparedShare bound the memory of prepared registered clients, in all and of one deployment.
	preparedBytes, preparedShare = 16 << 20, 2 << 20
	// preparedOverhead is an estimate of what a prepared client takes beside its content and its keys.
	preparedOverhead = 1 << 10
)

// preparedKey names one version of a row of a registered client.
type preparedKey struct {
	deployment string
	content    [sha256.Size]byte
}

// preparedClients remembers registered clients by the content of their rows: preparing one parses up to 32 keys.
type preparedClients = shares.Cache[preparedKey, *Client]

func newPreparedClients() *preparedClients {
	return shares.NewCache[preparedKey, *Client](shares.Bounds{Bytes: preparedBytes, DeploymentBytes: preparedShare})
}

// RegisteredClient returns the client of a stored row's content, prepared for requests. It is shared between requests and must not be changed.
func (s *Snapshot) RegisteredClient(deployment, content string) (*Client, error) {
	key, now := preparedKey{deployment, sha256.Sum256([]byte(content))}, time.Now()
	if known, found := s.prepared.Get(key, now); found {
		return known, nil
	}
	c := &Client{}
	if err := json.Unmarshal([]byte(content), &c.OAuthClient); err != nil {
		return nil, fmt.Errorf("a stored client: %w", err)
	}
	c.prepare()
	s.prepared.Put(deployment, key, c, int64(preparedOverhead+2*len(content))+keyset.Bytes(c.Keys), now)
	return c, nil
}

// PreparedClientsEvicted returns how many prepared clients were dropped for want of room.
func (s *Snapshot) PreparedClientsEvicted() uint64 { return s.prepared.Evicted() }

// PreparedClientBytes returns the estimated memory of the registered clients that are held prepared, and its bound.
func (s *Snapshot) PreparedClientBytes() (held, most int64) {
	_, held = s.prepared.Size()
	return held, preparedBytes
}
