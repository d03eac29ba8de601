package consent

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
)

const (
	// Clients register, change and delete their own registrations. Per day (auditedWithin), at most auditedOfNetwork of
	// these actions are audited for one network (IPv4 /24, IPv6 /48) at one app, and at most auditedOfApp for one app.
	// Registration needs no account, so nothing else bounds the audit rows.
	auditedOfNetwork, auditedOfApp, auditedWithin = 500, 2000, 24 * time.Hour
	// scopeAuditedNetwork and scopeAuditedApp are the scopes of their counters.
	scopeAuditedNetwork, scopeAuditedApp = "oauth-registrations-network", "oauth-registrations-app"
	// actionNotAudited is audited once, instead of the first action above a bound.
	actionNotAudited = "oauth.registrations: more are not audited today"
)

// auditSelf audits a client's action on its own registration, within the daily bounds. Actions above a bound are done
// without an audit record. Actions above a network's bound do not count toward the app's bound.
func auditSelf(u *account.Unit, app int64, actor, action, object string) error {
	name := ids.Format(app)
	for _, bound := range []struct {
		scope, subject string
		most           int
	}{{scopeAuditedNetwork, name + " " + u.Client.WideNetwork, auditedOfNetwork}, {scopeAuditedApp, name, auditedOfApp}} {
		before, err := u.Limits().Counted(bound.scope, bound.subject, u.Now)
		if err != nil || before.Count > bound.most {
			return err
		}
		counted, err := u.Limits().Count(bound.scope, bound.subject, u.Now, u.Now.Add(auditedWithin))
		if err != nil {
			return err
		}
		if counted.Count == bound.most+1 {
			return u.AuditAs(actor, actionNotAudited, "oauth_app:"+name, 0)
		}
		if counted.Count > bound.most {
			return nil
		}
	}
	return u.AuditAs(actor, action, object, 0)
}

// Unregister deletes a client that registered itself, at its own request. The deletion of a client that a user
// authorized is always audited, because it ends grants.
func Unregister(u *account.Unit, client *Client) error {
	deleted, err := u.OAuthClients().DeleteOAuthClient(client.Registered.App, client.ID, u.Now)
	if err != nil || !deleted {
		return err
	}
	const action = "oauth.client_deleted"
	self := "oauth_client:" + client.ID
	if !client.Registered.UsedAt.IsZero() {
		return u.AuditAs(self, action, self, 0)
	}
	return auditSelf(u, client.Registered.App, self, action, self)
}
