package consent

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
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

// auditSelf audits a client's action on its own registration and logs its event, within the daily bounds. Actions above
// a bound are done without an audit record and an event. Actions above a network's bound do not count toward the app's
// bound.
func auditSelf(u *account.Unit, app int64, actor, action string, e events.Event) error {
	within, err := withinBounds(u, app, actor)
	if err != nil || !within {
		return err
	}
	account.LogAs(u, actor, e)
	return u.AuditAs(actor, action, "oauth_client:"+e.Named, 0)
}

// withinBounds counts an action that needs no account, and reports whether it is within the daily bounds. It audits the
// first action above a bound.
func withinBounds(u *account.Unit, app int64, actor string) (bool, error) {
	name := ids.Format(app)
	for _, bound := range boundsOf(u, app) {
		before, err := u.Limits().Counted(bound.scope, bound.subject, u.Now)
		if err != nil || before.Count > bound.most {
			return false, err
		}
		counted, err := u.Limits().Count(bound.scope, bound.subject, u.Now, u.Now.Add(auditedWithin))
		if err != nil {
			return false, err
		}
		if counted.Count == bound.most+1 {
			return false, u.AuditAs(actor, actionNotAudited, "oauth_app:"+name, 0)
		}
		if counted.Count > bound.most {
			return false, nil
		}
	}
	return true, nil
}

// auditBound bounds the recorded actions of a subject.
type auditBound struct {
	scope, subject string
	most           int
}

// boundsOf returns the bounds of a request's network and of an app.
func boundsOf(u *account.Unit, app int64) []auditBound {
	name := ids.Format(app)
	return []auditBound{{scopeAuditedNetwork, name + " " + u.Client.WideNetwork, auditedOfNetwork}, {scopeAuditedApp, name, auditedOfApp}}
}

// belowBounds reports whether an action would be within the daily bounds, and does not count it.
func belowBounds(u *account.Unit, app int64) (bool, error) {
	for _, bound := range boundsOf(u, app) {
		if counted, err := u.Limits().Counted(bound.scope, bound.subject, u.Now); err != nil || counted.Count >= bound.most {
			return false, err
		}
	}
	return true, nil
}

// Unregister deletes a client that registered itself, at its own request. The deletion of a client that a user
// authorized is always audited, because it ends grants.
func Unregister(u *account.Unit, client *Client) error {
	deleted, err := u.OAuthClients().DeleteOAuthClient(client.Registered.App, client.ID, u.Now)
	if err != nil || !deleted {
		return err
	}
	const action = "oauth.client_deleted"
	self, deletion := "oauth_client:"+client.ID, events.OfClient(events.OAuthClientDeleted, *client.Registered)
	if !client.Registered.UsedAt.IsZero() {
		account.LogAs(u, self, deletion)
		return u.AuditAs(self, action, self, 0)
	}
	return auditSelf(u, client.Registered.App, self, action, deletion)
}
