package account

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

// Client is where a request came from.
type Client struct {
	// Address is the client's, "" where it is unknown, and for a backend's own.
	Address string
	// Network is what limits count a client as: an IPv4 address or an IPv6 /64, of which a client can pick any address.
	Network string
	// Neighbourhood is the IPv4 /24 or IPv6 /48 around it, which one party often holds whole.
	Neighbourhood string
	// Block is the IPv4 /16 or IPv6 /32 around it, which providers hold: an IPv6 /32 has 65,536 neighborhoods.
	Block     string
	UserAgent string
}

// unknownClient stands for all whose address is unknown: they count as one, and are known to nobody.
const unknownClient = "unknown"

// NewClient returns the client of an address.
func NewClient(address netip.Addr, userAgent string) Client {
	if !address.IsValid() {
		return Client{Network: unknownClient, Neighbourhood: unknownClient, Block: unknownClient, UserAgent: userAgent}
	}
	c := Client{UserAgent: userAgent}
	network, neighbourhood, block := 32, 24, 16
	if address.Is6() {
		network, neighbourhood, block = 64, 48, 32
	}
	around := func(bits int) string {
		prefix, _ := address.Prefix(bits) // the number of bits fits
		return prefix.String()
	}
	c.Address, c.Network, c.Neighbourhood, c.Block = address.String(), address.String(), around(neighbourhood), around(block)
	if address.Is6() {
		c.Network = around(network)
	}
	return c
}

// Request is what all transactions of one request share.
type Request struct {
	*Tenant
	Store people.Store
	// Keyring seals what waits in the outbox. It may be empty: nothing is sent then.
	Keyring *seal.Keyring
	Random  io.Reader
	// Now is the one time of the request, to the microsecond, as the store keeps it.
	Now    time.Time
	Client Client
	// Base is where links in messages lead, without a slash at its end; "": messages have none.
	Base string
	// Actor is who auditors are told of, such as "user:1" or "key:x".
	Actor string
	// Posted is called after messages were committed, so that they need not wait for the dispatcher's next look. Nil: nobody waits.
	Posted func()
}

// NewID returns the id of a new row.
func (r *Request) NewID() (int64, error) { return ids.New(r.Now, r.Random) }

// View runs do on the deployment's rows. The unit neither writes nor locks.
func (r *Request) View(ctx context.Context, do func(*Unit) error) error {
	return r.Store.View(ctx, r.Key(), func(tx people.Tx) error { return do(&Unit{Tx: tx, Request: r, Actor: r.Actor}) })
}

// Change runs do in one transaction, once or several times, each time on a fresh unit: callers adopt what do decided only after
// Change returned nil, or an error that Committed reports. Every other error undoes the transaction.
func (r *Request) Change(ctx context.Context, do func(*Unit) error) error {
	posted := false
	var refused *refusal
	err := r.Store.Change(ctx, r.Key(), func(tx people.Tx) error {
		refused = nil
		u := &Unit{Tx: tx, Request: r, Actor: r.Actor}
		err := do(u)
		posted = u.posted
		if errors.As(err, &refused) {
			return nil
		}
		return err
	})
	if err == nil && posted && r.Posted != nil {
		r.Posted()
	}
	if err == nil && refused != nil {
		return refused
	}
	return err
}

// refusal is an error whose transaction is committed.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// Refuse returns err as an error that commits: the request is refused, and what its transaction wrote stays, such as a failed
// attempt that is counted. Refuse(nil) is nil.
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

// Unit is one run of a transaction over a deployment's people. Nothing of it outlives the run.
type Unit struct {
	people.Tx
	*Request
	// Session is the id of the session that the request belongs to, 0: none.
	Session int64
	// Actor is who auditors are told of: the request's, unless the transaction finds that it is somebody else by now.
	Actor  string
	posted bool
}

// Audit records what the actor did to an object, such as "user:1".
func (u *Unit) Audit(action, object string) error {
	return u.AuditAs(u.Actor, action, object, u.Session)
}

// AuditAs is Audit for another actor, such as "system".
func (u *Unit) AuditAs(actor, action, object string, session int64) error {
	id, err := u.NewID()
	if err != nil {
		return err
	}
	return u.Records().RecordAudit(people.Audit{ID: id, At: u.Now, Actor: actor, Action: action, Object: object, Session: session, Address: u.Client.Address})
}

// Post puts a message into the outbox, sealed, so that a copy of the store reads no code. ErrCannotSeal: there is no root key.
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
	m.Sealed = u.Keyring.Seal(people.SealedMessage, m.SealedFor(), text)
	u.posted = true
	return u.Challenges().InsertMessage(m)
}

// Known reports whether the request's client is known to an account: whether it signed in from there within 90 days.
func (u *Unit) Known(user int64) (bool, error) {
	return u.Limits().KnownClient(user, u.Client.Network, u.Now.Add(-people.KnownFor))
}

// rememberClient makes the request's client known to an account.
func (u *Unit) rememberClient(user int64) error {
	if u.Client.Network == unknownClient {
		return nil
	}
	return u.Limits().RememberClient(user, u.Client.Network, u.Now)
}

// maxUserAgent bounds what is kept of a user agent, in bytes.
const maxUserAgent = 512

// clip returns what is kept of a user agent: valid text of a bounded length.
func clip(userAgent string) string {
	userAgent = strings.ToValidUTF8(strings.ReplaceAll(userAgent, "\x00", ""), "")
	if len(userAgent) > maxUserAgent {
		userAgent = strings.ToValidUTF8(userAgent[:maxUserAgent], "")
	}
	return userAgent
}

// recordEvent records something that analytics counts.
func (u *Unit) recordEvent(kind string, user int64, method string) error {
	id, err := u.NewID()
	if err != nil {
		return err
	}
	return u.Records().RecordEvent(people.Event{
		ID: id, Kind: kind, At: u.Now, User: user, Method: method, Address: u.Client.Address, UserAgent: clip(u.Client.UserAgent),
	})
}

// object names a row for auditors.
func object(kind string, id int64) string { return kind + ":" + ids.Format(id) }
