package consent

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// maxUnused is how many clients of an app there may be that registered themselves and were never used. maxOfNetwork is how many of them one
	// network (IPv4 /24, IPv6 /48) may have, and how many used ones it keeps when there are too many of those.
	maxUnused, maxOfNetwork = 1000, 200
	// maxUsed is how many more there may be that were used. At this bound a new registration evicts, in this order: (1) one that no grant stands for
	// any more, (2) the one used longest ago of the network that has the most, if that has more than maxOfNetwork, (3) the one used longest ago, if
	// it was not used for givesWay: by then its tokens have ended.
	maxUsed, givesWay = 10_000, registeredRefreshSeconds*time.Second + useNoted
	// useNoted is how long a use is not noted again.
	useNoted = 24 * time.Hour
	// changesPerDay is how often a client may change what it says of itself: each change leaves an audit record.
	changesPerDay, changesScope = 100, "oauth-client-changes"
	// spared is how long a client that was never used, or that no grant stands for, gives way to no other.
	spared = 10 * time.Minute
	// registrationWait is when to try again where there is no room.
	registrationWait = time.Minute
	// usedWait is when to try again where all are in use.
	usedWait = time.Hour
)

// ErrNoRoom comes as a WaitError: the app has as many clients that registered themselves as it may, and all of them are new or in use.
var ErrNoRoom = errors.New("too many clients registered themselves")

// Registered is a client that registered itself, with what it alone is told.
type Registered struct {
	*Client
	// Manager is the token that manages it, "" where it shares its name with all of the same metadata.
	Manager string
}

// Register makes a client of what it says of itself. Public clients of the same metadata are one client, which nobody manages; one with a
// secret is always new. It may return ErrNoRoom, as a WaitError.
func Register(u *account.Unit, app *App, content document.OAuthClient, public bool) (Registered, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return Registered{}, err
	}
	row := people.OAuthClient{App: app.Entry.ID, Content: string(raw), Network: u.Client.Neighbourhood, CreatedAt: u.Now, UpdatedAt: u.Now}
	manager := ""
	if public {
		sum := sha256.Sum256(raw)
		row.Fingerprint = sum[:]
		alike, found, err := u.OAuthClients().OAuthClientAlike(app.Entry.ID, row.Fingerprint)
		if err != nil {
			return Registered{}, err
		}
		if found {
			client, err := again(u, alike)
			return Registered{Client: client}, err
		}
	} else if manager, row.Manager, err = session.Mint(u.Random); err != nil {
		return Registered{}, err
	}
	if err := makeRoom(u, app); err != nil {
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
	return Registered{client, manager}, auditItself(u, row.App, "anonymous", "oauth.client_registered", "oauth_client:"+row.Client)
}

// again returns the client of a row to another caller that registers with the same metadata. If it was never used it counts as registered now, by
// the caller's network, so that every caller has as long to use it. It takes a place of that network: a network renews no more clients than it may
// have, and takes over no client of another network that is still spared.
func again(u *account.Unit, row people.OAuthClient) (*Client, error) {
	client, err := NewRegistered(u.Tenant, row)
	own := row.Network == u.Client.Neighbourhood
	if err != nil || !row.UsedAt.IsZero() || !row.CreatedAt.Before(u.Now) || !own && u.Now.Before(row.CreatedAt.Add(spared)) {
		return client, err
	}
	if !own {
		has, _, err := u.OAuthClients().UnusedOAuthClients(row.App, u.Client.Neighbourhood)
		if err != nil || has >= maxOfNetwork {
			return client, err
		}
	}
	return client, u.OAuthClients().RenewOAuthClient(row.App, row.Client, u.Client.Neighbourhood, u.Now)
}

// PutDocument keeps what a client says of itself at its address, good until a time. It may return ErrNoRoom, as a WaitError.
func PutDocument(u *account.Unit, app *App, id string, content document.OAuthClient, fresh time.Time) (*Client, error) {
	row, found, err := u.OAuthClients().LockOAuthClient(app.Entry.ID, id)
	if err != nil {
		return nil, err
	}
	if found {
		row.FreshUntil = fresh
		return rewriteItself(u, row, content)
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	if err := makeRoom(u, app); err != nil {
		return nil, err
	}
	row = people.OAuthClient{App: app.Entry.ID, Client: id, Content: string(raw), Network: u.Client.Neighbourhood, CreatedAt: u.Now, UpdatedAt: u.Now, FreshUntil: fresh}
	if err := u.OAuthClients().InsertOAuthClient(row); err != nil {
		return nil, err
	}
	return NewRegistered(u.Tenant, row)
}

// makeRoom evicts a client where the app, or the network that registers, has too many. The lock makes registrations at the same time count each other.
func makeRoom(u *account.Unit, app *App) error {
	if err := u.Limits().Lock("oauth-clients:" + ids.Format(app.Entry.ID)); err != nil {
		return err
	}
	if err := makeRoomUnused(u, app.Entry.ID); err != nil {
		return err
	}
	return makeRoomUsed(u, app.Entry.ID)
}

// makeRoomUnused evicts one of the clients that were never used: (1) the network's own oldest if the network has its share, (2) if the app has too
// many, the oldest of the network that has the most, if that has more than the caller's, (3) else the oldest. Only (2) evicts one that is spared: a
// few networks that fill all places refuse no others.
func makeRoomUnused(u *account.Unit, app int64) error {
	own, oldest, err := u.OAuthClients().UnusedOAuthClients(app, u.Client.Neighbourhood)
	if err == nil && own >= maxOfNetwork {
		return giveWay(u, oldest, oldest.CreatedAt.Add(spared), registrationWait)
	}
	if err != nil {
		return err
	}
	all, oldest, err := u.OAuthClients().UnusedOAuthClients(app, "")
	if err != nil || all < maxUnused {
		return err
	}
	if !u.Now.Before(oldest.CreatedAt.Add(spared)) {
		return giveWay(u, oldest, u.Now, registrationWait)
	}
	theirs, first, err := largest(u, app, false)
	if err != nil {
		return err
	}
	if theirs > own+1 {
		return giveWay(u, first, u.Now, registrationWait)
	}
	return giveWay(u, oldest, oldest.CreatedAt.Add(spared), registrationWait)
}

// makeRoomUsed evicts one of the clients that were used, as maxUsed says.
func makeRoomUsed(u *account.Unit, app int64) error {
	used, oldest, err := u.OAuthClients().UsedOAuthClients(app, "")
	if err != nil || used < maxUsed {
		return err
	}
	free, found, err := u.OAuthClients().UngrantedOAuthClient(app)
	if err != nil {
		return err
	}
	if found && !u.Now.Before(free.UsedAt.Add(spared)) {
		return giveWay(u, free, u.Now, usedWait)
	}
	theirs, first, err := largest(u, app, true)
	if err != nil {
		return err
	}
	if theirs > maxOfNetwork {
		return giveWay(u, first, u.Now, usedWait)
	}
	return giveWay(u, oldest, oldest.UsedAt.Add(givesWay), usedWait)
}

// largest returns how many clients the network has that has the most, and the first of them to go.
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

// giveWay deletes a client that is spared until a time, or says when to try again.
func giveWay(u *account.Unit, oldest people.OAuthClient, spared time.Time, wait time.Duration) error {
	if u.Now.Before(spared) {
		return &account.WaitError{Reason: ErrNoRoom, Wait: wait}
	}
	_, err := u.OAuthClients().DeleteOAuthClient(oldest.App, oldest.Client, u.Now)
	return err
}

// Managed returns the client that a registration token manages, and whether there is one.
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

// ErrClientGone means that the client was deleted meanwhile.
var ErrClientGone = errors.New("there is no such client any more")

// ErrChangedTooOften comes as a WaitError: the client changed what it says of itself too often today.
var ErrChangedTooOften = errors.New("the client changed itself too often today")

// Reregister writes what a client says of itself now, and records it where that is something else. It may return ErrClientGone and, as a
// WaitError, ErrChangedTooOften.
func Reregister(u *account.Unit, client *Client, content document.OAuthClient) (*Client, error) {
	row, found, err := u.OAuthClients().LockOAuthClient(client.Registered.App, client.ID)
	if err == nil && !found {
		err = ErrClientGone
	}
	if err != nil {
		return nil, err
	}
	changed, err := rewriteItself(u, row, content)
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
	return changed, auditItself(u, row.App, "oauth_client:"+row.Client, "oauth.client_changed", "oauth_client:"+row.Client)
}

// rewriteItself is Rewrite by the client, which does not say whether it is in use.
func rewriteItself(u *account.Unit, row people.OAuthClient, content document.OAuthClient) (*Client, error) {
	before, err := NewRegistered(u.Tenant, row)
	if err != nil {
		return nil, err
	}
	content.Active = before.Active
	return Rewrite(u, row, content)
}

// Rewrite writes what a client of run time is from now on.
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

// Make makes a client that a backend vouches for.
func Make(u *account.Unit, app *App, content document.OAuthClient) (*Client, error) {
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
	return NewRegistered(u.Tenant, row)
}
