// Package consent holds the rules by which users authorize the clients of a deployment's OAuth apps: what a client
// requests, what a user can grant, which grants are remembered, and what a grant still permits later. It does not
// depend on HTTP: package oauth serves the protocol to clients, and the end-user API asks the user.
package consent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/redirecturi"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// RequestLifetime is how long a user has to decide.
	RequestLifetime = 10 * time.Minute
	// MaxRequests bounds the pending requests of one client address (an IPv4 address or IPv6 /64). Beyond this bound or
	// MaxOfNetwork, the oldest request of the same address or network is deleted.
	MaxRequests = 200
	// MaxOfNetwork bounds the pending requests of one network (IPv4 /24, IPv6 /48).
	MaxOfNetwork = 1000
	// MaxOfApp bounds the pending requests of one app. Beyond it, the oldest request of the network with the most
	// requests is deleted.
	MaxOfApp = 20_000
	// MaxPushed bounds the pending requests that one client pushed; for a public client, those from one client address.
	MaxPushed = 1000
	// MaxFamilies bounds the token families of one grant: the authorizations of one user and client in one place, such
	// as one per device.
	MaxFamilies = 100
	// MaxGrants bounds the remembered grants of a user, over all clients and places. The least recently used grant is
	// evicted.
	MaxGrants = 500
	// CodeLifetime is how long a code is valid.
	CodeLifetime = time.Minute
)

// Errors of the rules.
var (
	// ErrRequestUnknown: the authorization request does not exist or has ended, or its client is not active.
	ErrRequestUnknown = errors.New("there is no such authorization request")
	// ErrPlace: the user cannot grant all requested scopes in that place.
	ErrPlace = errors.New("the authorization cannot be granted there")
	// ErrStep: another step comes before the decision.
	ErrStep = errors.New("another step of the authorization comes before the decision")
)

// App is an active OAuth app.
type App struct {
	Entry   *snapshot.Entry
	Content *document.OAuthApp
	// AuthorizationServer is the app's prepared scopes and declared clients.
	*snapshot.AuthorizationServer
}

// NewApp returns the app of an entry.
func NewApp(s *snapshot.Snapshot, entry *snapshot.Entry) *App {
	return &App{Entry: entry, Content: snapshot.ContentOf[document.OAuthApp](entry), AuthorizationServer: s.AuthorizationServer(entry)}
}

// FindApp returns a tenant's app by its id.
func FindApp(tenant *account.Tenant, id int64) (*App, bool) {
	entry, found := tenant.Snapshot().ByID(v1alpha1.KindOAuthApp, tenant.Key(), id)
	if !found {
		return nil, false
	}
	return NewApp(tenant.Snapshot(), entry), true
}

// Client is a client of an app.
type Client struct {
	*snapshot.Client
	// ID is the client_id.
	ID string
	// Registered is the row of a runtime client, nil for a declared client.
	Registered *people.OAuthClient
}

// DeclaredClient returns a declared client of an app. inUse reports whether the client and the app are active; declared
// reports whether a declared client has the id.
func DeclaredClient(s *snapshot.Snapshot, app *App, id string) (client *Client, inUse, declared bool) {
	number, err := ids.Parse(id)
	if err != nil || ids.Format(number) != id {
		return nil, false, false
	}
	entry, found := s.ByID(v1alpha1.KindOAuthClient, app.Entry.Deployment, number)
	if !found {
		return nil, false, false
	}
	content := snapshot.ContentOf[snapshot.Client](entry)
	return &Client{Client: content, ID: id}, content.App == app.Entry.Name && content.Active && app.Content.Active, true
}

// FindClient returns an active client of an app, declared or registered at runtime.
func FindClient(u *account.Unit, app *App, id string) (*Client, bool, error) {
	client, inUse, declared := DeclaredClient(u.Snapshot(), app, id)
	if declared || !MayBeRegistered(id) || IsDocumentID(id) && !app.Content.AllowDynamicClientRegistration {
		return client, inUse, nil
	}
	row, found, err := u.OAuthClients().OAuthClient(app.Entry.ID, id)
	if err != nil || !found {
		return nil, false, err
	}
	client, err = NewRegistered(u.Tenant, row)
	return client, err == nil && client.Active && app.Content.Active, err
}

// MayBeRegistered reports whether an id has the form of a runtime client's id. It saves a lookup in the store.
func MayBeRegistered(id string) bool {
	number, err := ids.Parse(id)
	return err == nil && ids.Format(number) == id || IsDocumentID(id)
}

// NewRegistered returns the client of a row.
func NewRegistered(tenant *account.Tenant, row people.OAuthClient) (*Client, error) {
	prepared, err := tenant.Snapshot().RegisteredClient(tenant.Key(), row.Content)
	if err != nil {
		return nil, err
	}
	return &Client{Client: prepared, ID: row.Client, Registered: &row}, nil
}

// Trusted reports whether the client is declared or was created by a backend, rather than by itself.
func (c *Client) Trusted() bool { return c.Registered == nil || c.Registered.ByBackend }

// Public reports whether the client has no credentials.
func (c *Client) Public() bool { return c.Authentication == string(v1alpha1.ClientAuthenticationNone) }

// Parameters are the validated parameters of an authorization request.
type Parameters struct {
	RedirectURI string   `json:"redirect_uri"`
	State       string   `json:"state,omitempty"`
	Scopes      []string `json:"scopes,omitempty"`
	Resources   []string `json:"resources,omitempty"`
	// Challenge is the hash of the code's verifier (PKCE S256).
	Challenge string `json:"challenge"`
	Nonce     string `json:"nonce,omitempty"`
	// Prompts are none, login, consent and select_account.
	Prompts []string `json:"prompts,omitempty"`
	// MaxAge is the maximum age of the user's last authentication, in seconds; nil means that any age is accepted.
	MaxAge *int64 `json:"max_age,omitempty"`
	// ACRValues are the known values of acr_values, in the client's order of preference. One of them must hold.
	ACRValues []string `json:"acr_values,omitempty"`
	LoginHint string   `json:"login_hint,omitempty"`
	// Hinted is the id of the only user allowed to respond, 0 for any user.
	Hinted int64 `json:"hinted,omitempty"`
	// Device is the hash of the device that waits for the response, nil for a browser that is redirected.
	Device []byte `json:"device,omitempty"`
}

// Request is an authorization request that waits for a user.
type Request struct {
	people.AuthorizationRequest
	Parameters
	App    *App
	Client *Client
}

// Insert stores a request and returns its handle, which only the browser receives.
func Insert(u *account.Unit, app *App, client *Client, asked Parameters) (handle string, err error) {
	raw, err := json.Marshal(asked)
	if err != nil {
		return "", err
	}
	return insert(u, people.AuthorizationRequest{
		App: app.Entry.ID, Client: client.ID, Parameters: string(raw), Network: u.Client.Network, NetworkBlock: u.Client.WideNetwork,
		CreatedAt: u.Now, ExpiresAt: u.Now.Add(RequestLifetime),
	}, MaxRequests)
}

// Push stores a request that the client pushed, and returns the reference with which the browser refers to it. The
// reference can be used once within lifetime.
func Push(u *account.Unit, app *App, client *Client, asked Parameters, lifetime time.Duration) (handle string, err error) {
	raw, err := json.Marshal(asked)
	if err != nil {
		return "", err
	}
	network := "client:" + client.ID
	block := network
	if client.Public() { // any caller can push requests in the name of a public client
		network += " " + u.Client.Network
	}
	if client.Public() || !client.Trusted() { // any caller can register a client with a secret
		block = u.Client.WideNetwork
	}
	return insert(u, people.AuthorizationRequest{
		App: app.Entry.ID, Client: client.ID, Parameters: string(raw), Pushed: true, Network: network, NetworkBlock: block, CreatedAt: u.Now, ExpiresAt: u.Now.Add(lifetime),
	}, MaxPushed)
}

// Pull turns a pushed request of a client into one that waits for a user, and returns its handle and login hint.
// ErrRequestUnknown: it does not exist or has ended.
func Pull(u *account.Unit, app *App, client *Client, pushed string) (handle, loginHint string, err error) {
	hash, formed := session.Hash(pushed)
	if !formed {
		return "", "", ErrRequestUnknown
	}
	row, found, err := u.OAuth().AuthorizationRequest(hash)
	if err != nil {
		return "", "", err
	}
	if !found || !row.Pushed || row.App != app.Entry.ID || row.Client != client.ID || !u.Now.Before(row.ExpiresAt) {
		return "", "", ErrRequestUnknown
	}
	deleted, err := u.OAuth().DeleteAuthorizationRequest(hash)
	if err != nil {
		return "", "", err
	}
	if !deleted {
		return "", "", ErrRequestUnknown
	}
	var asked Parameters
	if err := json.Unmarshal([]byte(row.Parameters), &asked); err != nil {
		return "", "", fmt.Errorf("a stored authorization request: %w", err)
	}
	row.Pushed, row.Network, row.NetworkBlock, row.CreatedAt, row.ExpiresAt = false, u.Client.Network, u.Client.WideNetwork, u.Now, u.Now.Add(RequestLifetime)
	handle, err = insert(u, row, MaxRequests)
	return handle, asked.LoginHint, err
}

func insert(u *account.Unit, row people.AuthorizationRequest, most int) (handle string, err error) {
	if handle, row.Hash, err = session.Mint(u.Random); err != nil {
		return "", err
	}
	return handle, u.OAuth().InsertAuthorizationRequest(row, people.WaitingBounds{Network: most, NetworkBlock: MaxOfNetwork, App: MaxOfApp})
}

// Read returns the request of a handle. ErrRequestUnknown: the request has ended, its client is not active, or its
// redirect URI is no longer the client's.
func Read(u *account.Unit, handle string) (*Request, error) {
	hash, formed := session.Hash(handle)
	if !formed {
		return nil, ErrRequestUnknown
	}
	row, found, err := u.OAuth().AuthorizationRequest(hash)
	if err != nil {
		return nil, err
	}
	if !found || row.Pushed || !u.Now.Before(row.ExpiresAt) {
		return nil, ErrRequestUnknown
	}
	r := &Request{AuthorizationRequest: row}
	if err := json.Unmarshal([]byte(row.Parameters), &r.Parameters); err != nil {
		return nil, fmt.Errorf("a stored authorization request: %w", err)
	}
	if r.App, found = FindApp(u.Tenant, row.App); !found {
		return nil, ErrRequestUnknown
	}
	if r.Client, found, err = FindClient(u, r.App, row.Client); err == nil && (!found || r.Device == nil && !r.Client.Registers(r.RedirectURI)) {
		err = ErrRequestUnknown
	}
	return r, err
}

// Registers reports whether a URI is one of the client's redirect URIs.
func (c *Client) Registers(asked string) bool {
	return asked != "" && slices.ContainsFunc(c.RedirectURIs, func(uri string) bool { return redirecturi.Fits(uri, asked) })
}

// Has reports whether a prompt was requested.
func (p *Parameters) Has(prompt string) bool {
	for _, asked := range p.Prompts {
		if asked == prompt {
			return true
		}
	}
	return false
}

// Answer returns the URI that redirects the browser to a client with a response (RFC 6749 4.1.2) and the issuer (RFC
// 9207). pairs are alternating names and values.
func Answer(redirectURI, issuer, state string, pairs ...string) string {
	query := url.Values{"iss": {issuer}}
	if state != "" {
		query.Set("state", state)
	}
	for ; len(pairs) > 1; pairs = pairs[2:] {
		query.Set(pairs[0], pairs[1])
	}
	return WithQuery(redirectURI, query)
}

// WithQuery adds a query to a URI and keeps the query that it has.
func WithQuery(uri string, query url.Values) string {
	separator := "?"
	if strings.Contains(uri, "?") {
		separator = "&"
	}
	return uri + separator + query.Encode()
}

// answer is Answer for the request.
func (r *Request) answer(pairs ...string) string {
	return Answer(r.RedirectURI, r.App.Content.Issuer, r.State, pairs...)
}
