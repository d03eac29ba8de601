// Package upstream sends every request of the server to the identity providers of connections: it fetches and caches
// their discovery documents and key sets, redeems codes, and reads who signed in.
package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/store/people"
)

// ErrUnavailable means that a provider does not answer, answers with 5xx or 429, may not be connected to, or that the
// deployment has too many requests in progress. Trying again later may help.
var ErrUnavailable = errors.New("the identity provider is unavailable")

// Connection is a connection of a deployment, "namespace/name".
type Connection struct {
	Deployment string
	ID         int64
	// Runtime reports that it is a row of people.Connections, which its secret is sealed for.
	Runtime bool
	*document.Connection
}

// asker returns for which part of its deployment a connection sends requests: its organization, if it has one.
func (c Connection) asker() egress.Asker {
	return egress.Asker{Deployment: c.Deployment, Source: c.Organization}
}

// Metadata is what a sign-in needs of a provider.
type Metadata struct {
	// Issuer is that of the provider's discovery document, which for tenants of Microsoft can have the placeholder
	// {tenantid}. GitHub's is the one that GitHub states in the parameter iss of authorization responses.
	Issuer string
	// AuthorizationURL and TokenURL are never "". The others are "" if the provider has no such endpoint.
	AuthorizationURL, TokenURL, UserinfoURL, JWKSURL, EndSessionURL string
	// IssInResponse reports that every authorization response has the parameter iss (RFC 9207).
	IssInResponse bool
}

// Redemption is a code with what it is bound to.
type Redemption struct {
	Code string
	// Verifier is the code verifier of PKCE.
	Verifier string
	// RedirectURI is that of the authorization request.
	RedirectURI string
}

// Tokens is the response of a token endpoint. IDToken is "" from GitHub alone.
type Tokens struct {
	AccessToken, IDToken string
}

// Options configures Providers.
type Options struct {
	Store people.Store
	// Snapshots has the declared connections, whose documents are fetched before a sign-in needs them.
	Snapshots *snapshot.Follower
	// Keyring opens client secrets and private keys that the operator sealed.
	Keyring *seal.Keyring
	// Egress decides which addresses providers may have.
	Egress *egress.Policy
	// OnNewCertificates stores fetched metadata of SAML that have certificates which the former ones did not have. It
	// calls store in the transaction that records the notice, so that each new certificate is notified of once: store
	// reports false if another server fetches instead. An error is logged, and this server uses the metadata anyway. It
	// may be nil.
	OnNewCertificates func(ctx context.Context, c Connection, added []*x509.Certificate, store func(people.Tx) (bool, error)) error
	Clock             func() time.Time
	Log               logr.Logger
	Registry          prometheus.Registerer
}

// Providers are the identity providers of all connections. It is safe for concurrent use.
type Providers struct {
	Options
	web       *exchanger
	documents *documents
	// slots bounds the requests of sign-ins, and throttled counts those that were refused before they began.
	slots     *egress.Slots
	throttled atomic.Uint64
	metrics   *metrics
	// end ends the fetches of documents.
	end context.CancelFunc
}

// New returns Providers, and registers their metrics.
func New(opts Options) *Providers {
	p := &Providers{Options: opts, web: newExchanger(opts.Egress), slots: egress.NewSlots(signInRequests, opts.Clock)}
	cache := shares.NewCache[ref, version](documentShares)
	p.metrics = newMetrics(opts.Registry, func() int64 { _, bytes := cache.Size(); return bytes })
	life, end := context.WithCancel(context.Background())
	p.end = end
	p.documents = &documents{
		life: life, store: opts.Store, web: p.web, slots: egress.NewSlots(documentRequests, opts.Clock), reads: egress.NewSlots(samlReads, opts.Clock),
		clock: opts.Clock, log: opts.Log, metrics: p.metrics, cache: cache, onNewCertificates: opts.OnNewCertificates,
	}
	return p
}

// Metadata returns the metadata of a connection's provider. If they are not cached, it waits for a fetch. It returns
// ErrUnavailable if there are none of the last 7 days, and for a connection of type SAML.
func (p *Providers) Metadata(ctx context.Context, c Connection) (Metadata, error) {
	if c.Connection.SAML != nil {
		return Metadata{}, ErrUnavailable
	}
	if metadata, found := declared(c.Connection); found {
		return metadata, nil
	}
	v, err := p.documents.get(ctx, c, discovery(c.Connection), wish{})
	if err != nil {
		return Metadata{}, err
	}
	return *v.content.metadata, nil
}

// Key returns the key with an id that the provider uses for tokens of an issuer, nil if there is none. For an unknown
// id it waits for a fetch of the key set, at most every 30 s. It returns ErrUnavailable if there is no key set of the
// last 7 days, or if the key is unknown and the last fetch failed.
func (p *Providers) Key(ctx context.Context, c Connection, issuer, keyID string) (*jose.JSONWebKey, error) {
	metadata, err := p.Metadata(ctx, c)
	if err != nil || metadata.JWKSURL == "" {
		return nil, err
	}
	w := wish{issuer: issuer, keyID: keyID}
	v, err := p.documents.get(ctx, c, keys(metadata), w)
	if err != nil {
		return nil, err
	}
	return w.key(&v), nil
}

// jsonMedia is what is asked of a server of JSON.
const jsonMedia = "application/json"

// discovery returns the source of a connection's discovery document.
func discovery(c *document.Connection) source {
	return source{
		kind: people.UpstreamDiscovery, url: discoveryURL(&c.Provider), media: jsonMedia,
		parse: func(text string) (content, error) {
			metadata, err := parseDiscovery(c, text)
			if err != nil {
				return content{}, err
			}
			return content{metadata: &metadata}, nil
		},
		fits: func(has content) bool {
			return has.metadata != nil && issuerFits(&c.Provider, c.Type, has.metadata.Issuer)
		},
	}
}

// keys returns the source of a provider's key set.
func keys(of Metadata) source {
	return source{
		kind: people.UpstreamJWKS, url: of.JWKSURL, media: jsonMedia,
		parse: func(text string) (content, error) {
			set, err := parseKeys(text)
			if err != nil {
				return content{}, err
			}
			return content{keys: set}, nil
		},
		fits: func(has content) bool { return has.keys != nil },
	}
}

// DocumentsExhausted returns how many cached documents were evicted, and how many fetches were refused before they
// began, because a deployment used up its share.
func (p *Providers) DocumentsExhausted() uint64 {
	return p.documents.cache.Evicted() + p.documents.throttled.Load()
}

// RequestsExhausted returns how many requests of sign-ins were refused before they began, because the deployment's
// other requests were in progress.
func (p *Providers) RequestsExhausted() uint64 { return p.throttled.Load() }
