package backend

import (
	"context"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store/people"
)

// auditWithin bounds the audit of a configuration write, which has been applied already.
const auditWithin = 2 * time.Second

// actor is the actor of a request in audit records.
func (c *call) actor() string {
	if c.principal.KeyID != "" {
		return keyActor(c.principal.KeyID)
	}
	return "token:" + c.principal.Subject
}

// keyActor is the actor of a key with a public id in audit records.
func keyActor(id string) string { return "key:" + id }

// address is the client's address, "" if unknown.
func (c *call) address() string {
	if client := c.api.Authenticator.Proxies.ClientAddress(c.r); client.IsValid() {
		return client.String()
	}
	return ""
}

// auditWrite records a change of configuration. The resource has been changed already, so an unavailable store must not
// fail the request: the record then goes to the log.
func (c *call) auditWrite(action, object string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), auditWithin)
	defer cancel()
	record := people.Audit{At: c.Received.UTC().Truncate(time.Microsecond), Actor: c.actor(), Action: action, Object: object, Address: c.address()}
	err := c.api.People.Change(ctx, c.tenant(), func(tx people.Tx) (err error) {
		if record.ID, err = ids.New(record.At, c.api.Random); err != nil {
			return err
		}
		return tx.Records().RecordAudit(record)
	})
	if err != nil {
		tracing.Logger(ctx, c.api.Log).Error(err, "No audit record was stored for a configuration write", "deployment", c.tenant(), "actor", record.Actor, "action", action, "object", object, "request_id", c.ID[0])
	}
}
