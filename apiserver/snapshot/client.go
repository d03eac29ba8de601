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
	// Keys are the client's signing keys, nil if they are fetched or the client does not sign.
	Keys *jose.JSONWebKeySet
}

// prepare parses the client's keys. A set from an older version that exceeds today's bounds verifies nothing; the
// client is still listed and can get other keys.
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
	// preparedBytes and preparedShare bound the memory of prepared registered clients, in all and per deployment.
	preparedBytes, preparedShare = 16 << 20, 2 << 20
	// preparedOverhead is an estimate of the memory of a prepared client besides its content and its keys.
	preparedOverhead = 1 << 10
)

// preparedKey names one version of a row of a registered client.
type preparedKey struct {
	deployment string
	content    [sha256.Size]byte
}

// preparedClients caches registered clients by the content of their rows, because preparing one parses up to 32 keys.
type preparedClients = shares.Cache[preparedKey, *Client]

func newPreparedClients() *preparedClients {
	return shares.NewCache[preparedKey, *Client](shares.Bounds{Bytes: preparedBytes, DeploymentBytes: preparedShare})
}

// RegisteredClient returns the prepared client of a stored row's content. Requests share it, so it must not be changed.
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

// PreparedClientsEvicted returns how many prepared clients were evicted.
func (s *Snapshot) PreparedClientsEvicted() uint64 { return s.prepared.Evicted() }

// PreparedClientBytes returns the estimated memory of the cached registered clients, and its bound.
func (s *Snapshot) PreparedClientBytes() (held, most int64) {
	_, held = s.prepared.Size()
	return held, preparedBytes
}
