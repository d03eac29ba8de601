// Package consent holds the rules by which people authorize clients of a deployment's OAuth apps: what a client asks for, what a person
// can grant, what is remembered, and what a grant still stands for later. It knows nothing of HTTP: package oauth speaks the protocol with
// clients, and the end-user API asks the person.
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
	// MaxRequests bounds the requests of one client address (an IPv4 address or IPv6 /64) that wait at once. At each of these
	// three bounds the oldest request of the same network is deleted first.
	MaxRequests = 200
	// MaxOfNetwork bounds the requests of one network (IPv4 /24, IPv6 /48) that wait at once.
	MaxOfNetwork = 1000
	// MaxOfApp bounds the requests of one app that wait at once.
	MaxOfApp = 20_000
	// MaxPushed is how many requests that one client pushed wait at once.
	MaxPushed = 1000
	// MaxFamilies is how many authorizations of one person and client live at once, in one place: one a device, and those that are forgotten.
	MaxFamilies = 100
	// MaxGrants is how many grants of a person are remembered, of all clients in all places; the one that was used longest ago gives way.
	MaxGrants = 500
	// CodeLifetime is how long a code is good.
	CodeLifetime = time.Minute
)

// What the rules refuse.
var (
	// ErrRequestUnknown: there is no such authorization request, or no more, or its client is not in use any more.
	ErrRequestUnknown = errors.New("there is no such authorization request")
	// ErrPlace: the person cannot grant all of it there.
	ErrPlace = errors.New("the authorization cannot be granted there")
	// ErrStep: something else comes before the decision.
	ErrStep = errors.New("the authorization needs something else first")
)

// App is an OAuth app in use.
type App struct {
	Entry   *snapshot.Entry
	Content *document.OAuthApp
	// AuthorizationServer is what is made of its scopes and declared clients when the configuration is published.
	*snapshot.AuthorizationServer
}

// NewApp returns an app as the configuration has it.
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
	// ID is what it is called in the protocol.
	ID string
	// Registered is the row of a client of run time, nil for a declared one.
	Registered *people.OAuthClient
}

// DeclaredClient returns a declared client of an app that is in use, and whose app is. declared tells that there is one of the id at all.
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

// FindClient returns a client of an app that is in use: a declared one, or one of run time.
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

// MayBeRegistered reports whether an id has the form of a client's of run time: spares the store the look-up.
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

// VouchedFor reports that somebody answers for the client: it is declared, or a backend made it.
func (c *Client) VouchedFor() bool { return c.Registered == nil || c.Registered.ByBackend }

// Public reports that the client has nothing to prove itself by.
func (c *Client) Public() bool { return c.Authentication == string(v1alpha1.ClientAuthenticationNone) }

// Parameters are what a client asks a person for, as far as the protocol found it right.
type Parameters struct {
	RedirectURI string   `json:"redirect_uri"`
	State       string   `json:"state,omitempty"`
	Scopes      []string `json:"scopes,omitempty"`
	Resources   []string `json:"resources,omitempty"`
	// Challenge is what the code's verifier hashes to (PKCE S256).
	Challenge string `json:"challenge"`
	Nonce     string `json:"nonce,omitempty"`
	// Prompts are none, login, consent and select_account.
	Prompts []string `json:"prompts,omitempty"`
	// MaxAge is how old the proof of who somebody is may be, in seconds; nil: as old as the session.
	MaxAge    *int64 `json:"max_age,omitempty"`
	LoginHint string `json:"login_hint,omitempty"`
	// Hinted is the user who alone may answer, 0: anybody.
	Hinted int64 `json:"hinted,omitempty"`
	// Device is the hash of the device that waits for the answer, nil for a browser that is led back.
	Device []byte `json:"device,omitempty"`
}

// Request is an authorization request that waits for a person.
type Request struct {
	people.AuthorizationRequest
	Parameters
	App    *App
	Client *Client
}

// Insert keeps a request and returns its handle, which is in nobody's hands but the browser's.
func Insert(u *account.Unit, app *App, client *Client, asked Parameters) (handle string, err error) {
	raw, err := json.Marshal(asked)
	if err != nil {
		return "", err
	}
	return insert(u, people.AuthorizationRequest{
		App: app.Entry.ID, Client: client.ID, Parameters: string(raw), Network: u.Client.Network, NetworkBlock: u.Client.Neighbourhood,
		CreatedAt: u.Now, ExpiresAt: u.Now.Add(RequestLifetime),
	}, MaxRequests)
}

// Push keeps a request that the client itself brought, and returns what its browser names it by, once, within a time.
func Push(u *account.Unit, app *App, client *Client, asked Parameters, lifetime time.Duration) (handle string, err error) {
	raw, err := json.Marshal(asked)
	if err != nil {
		return "", err
	}
	network := "client:" + client.ID
	block := network
	if client.Public() { // every caller can push in its name
		network += " " + u.Client.Network
	}
	if client.Public() || !client.VouchedFor() { // and every caller can register one with a secret
		block = u.Client.Neighbourhood
	}
	return insert(u, people.AuthorizationRequest{
		App: app.Entry.ID, Client: client.ID, Parameters: string(raw), Pushed: true, Network: network, NetworkBlock: block, CreatedAt: u.Now, ExpiresAt: u.Now.Add(lifetime),
	}, MaxPushed)
}

// Pull makes a pushed request of a client one that waits for a person, and returns its handle with whom it is for. ErrRequestUnknown: there is
// none, or no more.
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
	row.Pushed, row.Network, row.NetworkBlock, row.CreatedAt, row.ExpiresAt = false, u.Client.Network, u.Client.Neighbourhood, u.Now, u.Now.Add(RequestLifetime)
	handle, err = insert(u, row, MaxRequests)
	return handle, asked.LoginHint, err
}

func insert(u *account.Unit, row people.AuthorizationRequest, most int) (handle string, err error) {
	if handle, row.Hash, err = session.Mint(u.Random); err != nil {
		return "", err
	}
	return handle, u.OAuth().InsertAuthorizationRequest(row, people.WaitingBounds{Network: most, NetworkBlock: MaxOfNetwork, App: MaxOfApp})
}

// Read returns the request of a handle. ErrRequestUnknown: it is over, or its client is, or where it would be answered is the client's no more.
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

// Registers reports whether the client may be answered at a URI.
func (c *Client) Registers(asked string) bool {
	return asked != "" && slices.ContainsFunc(c.RedirectURIs, func(uri string) bool { return redirecturi.Fits(uri, asked) })
}

// Has reports whether a prompt was asked for.
func (p *Parameters) Has(prompt string) bool {
	for _, asked := range p.Prompts {
		if asked == prompt {
			return true
		}
	}
	return false
}

// Answer is where the browser goes with an answer, pairs of names and values, to a client (RFC 6749 4.1.2), with the issuer (RFC 9207).
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

// WithQuery adds to the query of a URI, which keeps what it has.
func WithQuery(uri string, query url.Values) string {
	separator := "?"
	if strings.Contains(uri, "?") {
		separator = "&"
	}
	return uri + separator + query.Encode()
}

// answer is Answer to the request.
func (r *Request) answer(pairs ...string) string {
	return Answer(r.RedirectURI, r.App.Content.Issuer, r.State, pairs...)
}
