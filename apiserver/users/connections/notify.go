package connections

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// certificatesAudited and certificatesMailed bound the records, and the mails to each admin, of one connection in a
	// day: a provider can change its metadata as often as they are fetched.
	certificatesAudited, certificatesMailed = 10, 2
	// certificatesNamed is how many certificates a record and a mail name.
	certificatesNamed = 4
)

// Notifier notifies the admins of organizations of changes that their identity providers make.
type Notifier struct {
	Store     people.Store
	Snapshots *snapshot.Follower
	Keyring   *seal.Keyring
	// OnEnqueue is called after mails were put into the outbox.
	OnEnqueue func()
	Clock     func() time.Time
}

// NewCertificates stores metadata of a connection's provider with certificates that the stored ones do not have. In the
// same transaction, it audits them, and puts mails to the admins of the connection's organization, if it has one, into
// the outbox. It does neither for an unknown connection, and if store reports false.
func (n Notifier) NewCertificates(ctx context.Context, deployment string, connection int64, added []*x509.Certificate, store func(people.Tx) (bool, error)) error {
	current := n.Snapshots.Current()
	entry, served := current.Deployment(deployment)
	if !served {
		return n.Store.Single(ctx, deployment, func(tx people.Tx) error {
			_, err := store(tx)
			return err
		})
	}
	request := &account.Request{
		Tenant: account.NewTenant(current, entry), Store: n.Store, Keyring: n.Keyring, Random: rand.Reader,
		Now: n.Clock().UTC().Truncate(time.Microsecond), OnEnqueue: n.OnEnqueue,
	}
	return request.Change(ctx, func(u *account.Unit) error {
		stored, err := store(u.Tx)
		if err != nil || !stored {
			return err
		}
		return notifyOfCertificates(u, connection, added)
	})
}

// notifyOfCertificates audits new certificates of a connection, and mails the admins of its organization. An inactive
// connection has notices too: it keeps the certificates, so they work when it is active again.
func notifyOfCertificates(u *account.Unit, connection int64, added []*x509.Certificate) error {
	conn, err := account.FindConnection(u, connection)
	if unlessUnusable(err) != nil || conn.Connection == nil {
		return unlessUnusable(err)
	}
	counted, err := u.Limits().Count("certificate-notices", strconv.FormatInt(connection, 10), u.Now, u.Now.Add(24*time.Hour))
	if err != nil || counted.Count > certificatesAudited {
		return err
	}
	fingerprints := make([]string, 0, certificatesNamed)
	for _, one := range added[:min(len(added), certificatesNamed)] {
		sum := sha256.Sum256(one.Raw)
		fingerprints = append(fingerprints, hex.EncodeToString(sum[:]))
	}
	u.Actor = "connection:" + conn.Slug
	if err := u.AuditDetail("connection.certificates_added", object(connection), strings.Join(fingerprints, " ")); err != nil {
		return err
	}
	if conn.Organization == "" || counted.Count > certificatesMailed {
		return nil
	}
	o, found, err := u.Organizations().OrganizationBySlug(conn.Organization)
	if err != nil || !found {
		return err
	}
	return account.MailConnectionAdmins(u, o.ID, func(o people.Organization) delivery.Content {
		return messages.NewCertificatesMail(u.AppName(), o.Name, conn.Name, fingerprints)
	})
}

// unlessUnusable returns nil for an error that says that a connection is not used now.
func unlessUnusable(err error) error {
	if account.IsUnusable(err) {
		return nil
	}
	return err
}
