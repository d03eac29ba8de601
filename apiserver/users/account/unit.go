package account

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

// Client is the origin of a request.
type Client struct {
	// Address is the client's IP address, "" if it is unknown, and for a backend's own requests.
	Address string
	// Network is the key of limits for a client: an IPv4 address or an IPv6 /64, in which a client can use any address.
	Network string
	// WideNetwork is the IPv4 /24 or IPv6 /48 around it. One party often controls all of it.
	WideNetwork string
	// Block is the IPv4 /16 or IPv6 /32 around it, the size that providers hold: an IPv6 /32 has 65,536 wide networks.
	Block     string
	UserAgent string
}

// unknownClient stands for all clients whose address is unknown: they share their counters, and no account knows them.
const unknownClient = "unknown"

// NewClient returns the client of an address.
func NewClient(address netip.Addr, userAgent string) Client {
	if !address.IsValid() {
		return Client{Network: unknownClient, WideNetwork: unknownClient, Block: unknownClient, UserAgent: userAgent}
	}
	c := Client{UserAgent: userAgent}
	network, wide, block := 32, 24, 16
	if address.Is6() {
		network, wide, block = 64, 48, 32
	}
	around := func(bits int) string {
		prefix, _ := address.Prefix(bits) // the number of bits fits
		return prefix.String()
	}
	c.Address, c.Network, c.WideNetwork, c.Block = address.String(), address.String(), around(wide), around(block)
	if address.Is6() {
		c.Network = around(network)
	}
	return c
}

// Request is the data that all transactions of one request share. One goroutine at a time uses it.
type Request struct {
	*Tenant
	Store people.Store
	// Keyring seals the messages in the outbox. If it is empty, no messages are sent.
	Keyring *seal.Keyring
	Random  io.Reader
	// Now is the time of the request, in microseconds as the store keeps it.
	Now    time.Time
	Client Client
	// Base is the base address of links in messages, without a trailing slash. If it is "", messages have no links.
	Base string
	// Actor is the actor in audit records, such as "user:1" or "key:x".
	Actor string
	// AuditAddress is the address in audit records, "" for that of Client.
	AuditAddress string
	// OnEnqueue, if not nil, is called after messages were committed, so that they need not wait for the dispatcher's
	// next poll.
	OnEnqueue func()
	// made are the ids that NewID returned.
	made map[int64]struct{}
}

// NewID returns the id of a new row, which differs from all others of the request. Ids of one moment have 21 random
// bits: of 500 records of one request, two would have the same id in one case of 17.
func (r *Request) NewID() (int64, error) {
	for {
		id, err := ids.New(r.Now, r.Random)
		if _, again := r.made[id]; again && err == nil {
			continue
		}
		if r.made == nil {
			r.made = map[int64]struct{}{}
		}
		r.made[id] = struct{}{}
		return id, err
	}
}

// View runs do on the deployment's rows. The unit neither writes nor locks.
func (r *Request) View(ctx context.Context, do func(*Unit) error) error {
	return r.Store.View(ctx, r.Key(), func(tx people.Tx) error { return do(&Unit{Tx: tx, Request: r, Actor: r.Actor}) })
}

// Change runs do in one transaction, possibly several times, each time on a new unit. Callers use the results of do
// only if Change returned nil or an error that Committed reports. Every other error rolls the transaction back.
func (r *Request) Change(ctx context.Context, do func(*Unit) error) error {
	enqueued := false
	var refused *refusal
	err := r.Store.Change(ctx, r.Key(), func(tx people.Tx) error {
		refused = nil
		u := &Unit{Tx: tx, Request: r, Actor: r.Actor}
		err := do(u)
		enqueued = u.enqueued
		if errors.As(err, &refused) {
			err = nil
		}
		if err != nil {
			return err
		}
		return recordLogged(u)
	})
	if err == nil && enqueued && r.OnEnqueue != nil {
		r.OnEnqueue()
	}
	if err == nil && refused != nil {
		return refused
	}
	return err
}

// refusal is an error whose transaction is committed.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// Refuse wraps err so that the request is refused and its transaction is committed. Its writes remain, such as a
// counted failed attempt. Refuse(nil) is nil.
func Refuse(err error) error {
	if err == nil {
		return nil
	}
	return &refusal{err}
}

// Committed reports whether an error of Change is a refusal whose transaction was committed.
func Committed(err error) bool {
	var refused *refusal
	return errors.As(err, &refused)
}

// Unit is one run of a transaction on a deployment's users. It must not be used after the run.
type Unit struct {
	people.Tx
	*Request
	// Session is the id of the request's session, 0 if there is none.
	Session int64
	// Actor is the actor in audit records: the request's, unless the transaction finds another one.
	Actor    string
	enqueued bool
	// logged are the events of the transaction, and logFailed why one of them cannot be recorded.
	logged    []people.LoggedEvent
	logFailed error
	// provisions is the organization for which a directory gives a user an account now, 0: none. Waiting users of the
	// organization's other directories do not get that account.
	provisions int64
}

// system is the actor of changes of the server itself.
const system = "system"

// Audit records an action of the actor on an object, such as "user:1".
func (u *Unit) Audit(action, object string) error {
	return u.AuditAs(u.Actor, action, object, u.Session)
}

// AuditAs is Audit for another actor, such as "system".
func (u *Unit) AuditAs(actor, action, object string, session int64) error {
	return recordAudit(u, people.Audit{Actor: actor, Action: action, Object: object, Session: session})
}

// AuditDetail is Audit with what else is recorded about the action.
func (u *Unit) AuditDetail(action, object, detail string) error {
	return recordAudit(u, people.Audit{Actor: u.Actor, Action: action, Object: object, Session: u.Session, Detail: detail})
}

func recordAudit(u *Unit, a people.Audit) (err error) {
	if a.ID, err = u.NewID(); err != nil {
		return err
	}
	a.At, a.Address = u.Now, cmp.Or(u.AuditAddress, u.Client.Address)
	return u.Records().RecordAudit(a)
}

// Log records an event of a change by the actor, with the transaction. An event that the catalogue does not have fails
// the transaction.
func (u *Unit) Log(e events.Event) { LogAs(u, u.Actor, e) }

// LogAs is Unit.Log for another actor, such as "system".
func LogAs(u *Unit, actor string, e events.Event) {
	e.Data.RoleName = roleName(u.Tenant, e.Data)
	logged, err := e.Log(u.Now, actor)
	u.logged, u.logFailed = append(u.logged, logged), FirstOf(u.logFailed, err)
}

// actorFor returns the actor of a change of a user: the user, if the request's own actor is anonymous.
func actorFor(u *Unit, user int64) string {
	if u.Actor == "anonymous" && user != 0 {
		return object("user", user)
	}
	return u.Actor
}

// recordLogged records the events of the transaction, in the order in which they were logged.
func recordLogged(u *Unit) error {
	if u.logFailed != nil || len(u.logged) == 0 {
		return u.logFailed
	}
	return u.Records().LogEvents(u.logged)
}

// Post seals a message and puts it into the outbox, so that a copy of the store does not reveal codes. During an
// upgrade, a server of the previous release may be the one that sends it. ErrCannotSeal: there is no root key.
func (u *Unit) Post(m people.Message, mail delivery.Content) error {
	if u.Keyring.Empty() {
		return ErrCannotSeal
	}
	id, err := u.NewID()
	if err != nil {
		return err
	}
	text, err := json.Marshal(mail)
	if err != nil {
		return err
	}
	m.ID, m.Deployment, m.CreatedAt = id, u.Key(), u.Now
	m.Sealed = u.Keyring.SealOlder(people.SealedMessage, m.SealedFor(), text)
	u.enqueued = true
	return u.Challenges().InsertMessage(m)
}

// Known reports whether an account knows the request's client: a user signed in to it from the client's network within
// 90 days.
func (u *Unit) Known(user int64) (bool, error) {
	return u.Limits().KnownClient(user, u.Client.Network, u.Now.Add(-people.KnownFor))
}

// rememberClient records that the account knows the request's client.
func (u *Unit) rememberClient(user int64) error {
	if u.Client.Network == unknownClient {
		return nil
	}
	return u.Limits().RememberClient(user, u.Client.Network, u.Now)
}

// maxUserAgent is the longest stored user agent, in bytes.
const maxUserAgent = 512

// clip returns a user agent as it is stored: valid UTF-8 without NUL, of at most maxUserAgent bytes.
func clip(userAgent string) string {
	userAgent = strings.ToValidUTF8(strings.ReplaceAll(userAgent, "\x00", ""), "")
	if len(userAgent) > maxUserAgent {
		userAgent = strings.ToValidUTF8(userAgent[:maxUserAgent], "")
	}
	return userAgent
}

// recordEvent records an analytics event.
func (u *Unit) recordEvent(kind string, user int64, method string) error {
	id, err := u.NewID()
	if err != nil {
		return err
	}
	return u.Records().RecordEvent(people.Event{
		ID: id, Kind: kind, At: u.Now, User: user, Method: method, Address: u.Client.Address, UserAgent: clip(u.Client.UserAgent),
	})
}

// object returns the name of a row in audit records.
func object(kind string, id int64) string { return kind + ":" + ids.Format(id) }
