package webhooks

import (
	"crypto/rand"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// mailFor is how long delivery of a mail is tried.
	mailFor = 24 * time.Hour
	// mailsOfDeployment and mailsOfEndpoint bound the mails in a day: endpoints can be enabled again and again.
	mailsOfDeployment, mailsOfEndpoint = 10, 2
)

// notice is a mail to the support of the deployment, which is to be written with the state.
type notice struct {
	at, since time.Time
	// ends is when the endpoint will be disabled if it goes on failing; zero: it was disabled.
	ends   time.Time
	name   string
	status int64
	gone   bool
}

// announce records events about the endpoint, and puts a mail about it into the outbox, if there is one. It reports
// whether it did the latter.
func (r *runner) announce(tx people.Tx, own []people.LoggedEvent, mail *notice) (posted bool, err error) {
	if len(own) > 0 {
		if err := tx.Records().LogEvents(own); err != nil {
			return false, err
		}
	}
	if mail == nil {
		return false, nil
	}
	return r.post(tx, *mail)
}

// post puts a mail into the outbox, in the transaction that writes the state. A deployment without an address of its
// support, or that sends no mail, gets none. It reports whether there is a mail.
func (r *runner) post(tx people.Tx, n notice) (bool, error) {
	current := r.d.Snapshots.Current()
	entry, found := current.Deployment(r.key.deployment)
	if !found {
		return false, nil
	}
	request := &account.Request{Tenant: account.NewTenant(current, entry), Keyring: r.d.Keyring, Random: rand.Reader, Now: n.at, Actor: "system"}
	to := request.Settings.EffectivePages().SupportEmail
	if to == "" || request.Settings.Email == nil || r.d.Keyring.Empty() {
		return false, nil
	}
	ends := n.at.Add(24 * time.Hour)
	id := ids.Format(r.key.endpoint)
	for _, bound := range []struct {
		of   string
		most int
	}{{id, mailsOfEndpoint}, {"", mailsOfDeployment}} {
		counted, err := tx.Limits().Count("webhook-mails", bound.of, n.at, ends)
		if err != nil || counted.Count > bound.most {
			return false, err
		}
	}
	u := &account.Unit{Tx: tx, Request: request, Actor: request.Actor}
	mail := messages.EndpointDisabledMail(u.AppName(), n.name, id, n.since, n.status, n.gone)
	if !n.ends.IsZero() {
		mail = messages.EndpointFailingMail(u.AppName(), n.name, id, n.since, n.ends, n.status)
	}
	return true, u.Post(people.Message{Channel: people.ChannelMail, Recipient: to, ExpiresAt: n.at.Add(mailFor)}, mail)
}
