package consent

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// maxUnused bounds an app's clients that registered themselves and were never used. maxOfNetwork is how many of
	// these unused clients one network (IPv4 /24, IPv6 /48) may have. It is also the number of used clients that a
	// network keeps when the app has too many used clients.
	maxUnused, maxOfNetwork = 1000, 200
	// maxUsed bounds the used clients of an app. At this bound a new registration evicts the first that exists of:
	//  1. a client without any grant;
	//  2. the least recently used client of the network with the most clients, if that has more than maxOfNetwork;
	//  3. the least recently used client, if it was not used for usedProtection: its tokens have expired by then.
	maxUsed, usedProtection = 10_000, registeredRefreshSeconds*time.Second + touchInterval
	// touchInterval is the shortest time between two records of a client's use.
	touchInterval = 24 * time.Hour
	// changesPerDay bounds a client's changes of its own metadata: each change writes an audit record.
	changesPerDay, changesScope = 100, "oauth-client-changes"
	// newProtection is how long a client without a use or without a grant is protected from eviction.
	newProtection = 10 * time.Minute
	// registrationWait is when to try again if no unused client can be evicted.
	registrationWait = time.Minute
	// usedWait is when to try again if all clients are in use.
	usedWait = time.Hour
)

// ErrTooManyClients is returned in a WaitError: the app has as many self-registered clients as it may have, and none
// can be evicted.
var ErrTooManyClients = errors.New("too many clients registered themselves")

// Registered is a client that registered itself, with the data that only it receives.
type Registered struct {
	*Client
	// Manager is the registration access token, "" if the client is shared by all callers with the same metadata.
	Manager string
}

// Register creates a client from its own metadata. Public clients with the same metadata are one client, which no
// caller manages; a client with a secret is always new. It may return ErrTooManyClients in a WaitError.
func Register(u *account.Unit, app *App, content document.OAuthClient, public bool) (Registered, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return Registered{}, err
	}
	row := people.OAuthClient{App: app.Entry.ID, Content: string(raw), Network: u.Client.WideNetwork, CreatedAt: u.Now, UpdatedAt: u.Now}
	manager := ""
	if public {
		sum := sha256.Sum256(raw)
		row.Fingerprint = sum[:]
		alike, found, err := u.OAuthClients().OAuthClientAlike(app.Entry.ID, row.Fingerprint)
		if err != nil {
			return Registered{}, err
		}
		if found {
			client, err := reuse(u, alike)
			return Registered{Client: client}, err
		}
	} else if manager, row.Manager, err = session.Mint(u.Random); err != nil {
		return Registered{}, err
	}
	if err := evictForNew(u, app); err != nil {
		return Registered{}, err
	}
	id, err := u.NewID()
	if err != nil {
		return Registered{}, err
	}
	row.Client = ids.Format(id)
	if err := u.OAuthClients().InsertOAuthClient(row); err != nil {
		return Registered{}, err
	}
	client, err := NewRegistered(u.Tenant, row)
	if err != nil {
		return Registered{}, err
	}
	return Registered{client, manager}, auditSelf(u, row.App, "anonymous", "oauth.client_registered", events.OfClient(events.OAuthClientCreated, row))
}

// reuse returns the client of a row to another caller that registers the same metadata. If the client was never used,
// its registration is renewed in the name of the caller's network, so that each caller has the same time to use it. A
// client of another network is not renewed while it is protected, or if the caller's network is at its bound.
func reuse(u *account.Unit, row people.OAuthClient) (*Client, error) {
	client, err := NewRegistered(u.Tenant, row)
	own := row.Network == u.Client.WideNetwork
	if err != nil || !row.UsedAt.IsZero() || !row.CreatedAt.Before(u.Now) || !own && u.Now.Before(row.CreatedAt.Add(newProtection)) {
		return client, err
	}
	if !own {
		has, _, err := u.OAuthClients().UnusedOAuthClients(row.App, u.Client.WideNetwork)
		if err != nil || has >= maxOfNetwork {
			return client, err
		}
	}
	return client, u.OAuthClients().RenewOAuthClient(row.App, row.Client, u.Client.WideNetwork, u.Now)
}

// PutDocument stores the metadata that a client publishes at its address. fresh is the time until which they need not
// be fetched again. It may return ErrTooManyClients in a WaitError.
func PutDocument(u *account.Unit, app *App, id string, content document.OAuthClient, fresh time.Time) (*Client, error) {
	row, found, err := u.OAuthClients().LockOAuthClient(app.Entry.ID, id)
	if err != nil {
		return nil, err
	}
	if found {
		row.FreshUntil = fresh
		client, err := rewriteSelf(u, row, content)
		if err != nil || client.Registered.Content == row.Content {
			return client, err
		}
		return client, logDocument(u, events.OfClient(events.OAuthClientUpdated, row))
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	if err := evictForNew(u, app); err != nil {
		return nil, err
	}
	row = people.OAuthClient{App: app.Entry.ID, Client: id, Content: string(raw), Network: u.Client.WideNetwork, CreatedAt: u.Now, UpdatedAt: u.Now, FreshUntil: fresh}
	if err := u.OAuthClients().InsertOAuthClient(row); err != nil {
		return nil, err
	}
	if err := logDocument(u, events.OfClient(events.OAuthClientCreated, row)); err != nil {
		return nil, err
	}
	return NewRegistered(u.Tenant, row)
}

// logDocument logs an event of a client that publishes its metadata, within the bounds of auditSelf.
func logDocument(u *account.Unit, e events.Event) error {
	within, err := withinBounds(u, e.Data.OAuthApp, "anonymous")
	if within {
		account.LogAs(u, "anonymous", e)
	}
	return err
}

// evictForNew evicts a client if the app or the registering network has too many. The lock makes concurrent
// registrations count each other.
func evictForNew(u *account.Unit, app *App) error {
	if err := u.Limits().Lock("oauth-clients:" + ids.Format(app.Entry.ID)); err != nil {
		return err
	}
	if err := evictUnused(u, app.Entry.ID); err != nil {
		return err
	}
	return evictUsed(u, app.Entry.ID)
}

// evictUnused evicts one of the clients that were never used:
//  1. the oldest of the caller's network, if that is at its bound;
//  2. else, if the app has too many, the oldest of all if it is not protected;
//  3. else the oldest of the network with the most clients, if that has at least two more than the caller's.
//
// Only step 3 evicts a protected client, so that a few networks that fill all places cannot lock others out.
func evictUnused(u *account.Unit, app int64) error {
	own, oldest, err := u.OAuthClients().UnusedOAuthClients(app, u.Client.WideNetwork)
	if err == nil && own >= maxOfNetwork {
		return evict(u, oldest, oldest.CreatedAt.Add(newProtection), registrationWait)
	}
	if err != nil {
		return err
	}
	all, oldest, err := u.OAuthClients().UnusedOAuthClients(app, "")
	if err != nil || all < maxUnused {
		return err
	}
	if !u.Now.Before(oldest.CreatedAt.Add(newProtection)) {
		return evict(u, oldest, u.Now, registrationWait)
	}
	theirs, first, err := largest(u, app, false)
	if err != nil {
		return err
	}
	if theirs > own+1 {
		return evict(u, first, u.Now, registrationWait)
	}
	return evict(u, oldest, oldest.CreatedAt.Add(newProtection), registrationWait)
}

// evictUsed evicts one of the used clients, in the order that maxUsed describes.
func evictUsed(u *account.Unit, app int64) error {
	used, oldest, err := u.OAuthClients().UsedOAuthClients(app, "")
	if err != nil || used < maxUsed {
		return err
	}
	free, found, err := u.OAuthClients().UngrantedOAuthClient(app)
	if err != nil {
		return err
	}
	if found && !u.Now.Before(free.UsedAt.Add(newProtection)) {
		return evict(u, free, u.Now, usedWait)
	}
	theirs, first, err := largest(u, app, true)
	if err != nil {
		return err
	}
	if theirs > maxOfNetwork {
		return evict(u, first, u.Now, usedWait)
	}
	return evict(u, oldest, oldest.UsedAt.Add(usedProtection), usedWait)
}

// largest returns the number of clients of the network with the most, and its next client to evict.
func largest(u *account.Unit, app int64, used bool) (int, people.OAuthClient, error) {
	network, err := u.OAuthClients().LargestClientNetwork(app, used)
	switch {
	case err != nil || network == "":
		return 0, people.OAuthClient{}, err
	case used:
		return u.OAuthClients().UsedOAuthClients(app, network)
	}
	return u.OAuthClients().UnusedOAuthClients(app, network)
}

// evict deletes a client whose protection has ended, and otherwise returns when to try again.
func evict(u *account.Unit, oldest people.OAuthClient, until time.Time, wait time.Duration) error {
	if u.Now.Before(until) {
		return &account.WaitError{Reason: ErrTooManyClients, Wait: wait}
	}
	deleted, err := u.OAuthClients().DeleteOAuthClient(oldest.App, oldest.Client, u.Now)
	if err != nil || !deleted {
		return err
	}
	below, err := belowBounds(u, oldest.App)
	if below || !oldest.UsedAt.IsZero() {
		account.LogAs(u, "system", events.OfClient(events.OAuthClientDeleted, oldest))
	}
	return err
}

// Managed returns the client that a registration access token manages, and whether there is one.
func Managed(u *account.Unit, app *App, id, token string) (*Client, bool, error) {
	hash, formed := session.Hash(token)
	if !formed || !MayBeRegistered(id) {
		return nil, false, nil
	}
	row, found, err := u.OAuthClients().OAuthClient(app.Entry.ID, id)
	if err != nil || !found || row.Manager == nil || subtle.ConstantTimeCompare(row.Manager, hash) != 1 {
		return nil, false, err
	}
	client, err := NewRegistered(u.Tenant, row)
	return client, err == nil, err
}

// ErrClientDeleted means that the client was deleted meanwhile.
var ErrClientDeleted = errors.New("the client was deleted")

// ErrChangedTooOften is returned in a WaitError: the client changed its metadata too often today.
var ErrChangedTooOften = errors.New("the client changed its metadata too often today")

// Reregister stores a client's new metadata, and audits a change. It may return ErrClientDeleted and, in a WaitError,
// ErrChangedTooOften.
func Reregister(u *account.Unit, client *Client, content document.OAuthClient) (*Client, error) {
	row, found, err := u.OAuthClients().LockOAuthClient(client.Registered.App, client.ID)
	if err == nil && !found {
		err = ErrClientDeleted
	}
	if err != nil {
		return nil, err
	}
	changed, err := rewriteSelf(u, row, content)
	if err != nil || changed.Registered.Content == row.Content {
		return changed, err
	}
	counted, err := u.Limits().Count(changesScope, ids.Format(row.App)+"/"+row.Client, u.Now, u.Now.Add(24*time.Hour))
	if err != nil {
		return nil, err
	}
	if counted.Count > changesPerDay {
		return nil, &account.WaitError{Reason: ErrChangedTooOften, Wait: counted.Ends.Sub(u.Now)}
	}
	return changed, auditSelf(u, row.App, "oauth_client:"+row.Client, "oauth.client_changed", events.OfClient(events.OAuthClientUpdated, row))
}

// rewriteSelf is Rewrite by the client itself, which cannot change whether it is active.
func rewriteSelf(u *account.Unit, row people.OAuthClient, content document.OAuthClient) (*Client, error) {
	before, err := NewRegistered(u.Tenant, row)
	if err != nil {
		return nil, err
	}
	content.Active = before.Active
	return Rewrite(u, row, content)
}

// Rewrite replaces the content of a runtime client.
func Rewrite(u *account.Unit, row people.OAuthClient, content document.OAuthClient) (*Client, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	if row.Content != string(raw) {
		row.Content, row.UpdatedAt = string(raw), u.Now
	}
	if err := u.OAuthClients().UpdateOAuthClient(row); err != nil {
		return nil, err
	}
	return NewRegistered(u.Tenant, row)
}

// CreateClient creates a client for a backend. Such a client is trusted.
func CreateClient(u *account.Unit, app *App, content document.OAuthClient) (*Client, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	id, err := u.NewID()
	if err != nil {
		return nil, err
	}
	row := people.OAuthClient{App: app.Entry.ID, Client: ids.Format(id), Content: string(raw), ByBackend: true, CreatedAt: u.Now, UpdatedAt: u.Now}
	if err := u.OAuthClients().InsertOAuthClient(row); err != nil {
		return nil, err
	}
	u.Log(events.OfClient(events.OAuthClientCreated, row))
	return NewRegistered(u.Tenant, row)
}
