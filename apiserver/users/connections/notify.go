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

// NewCertificates audits that the metadata of a connection's provider have certificates that they did not have, and
// mails the admins of the connection's organization, if it has one. It does nothing for an unknown connection.
func (n Notifier) NewCertificates(ctx context.Context, deployment string, connection int64, added []*x509.Certificate) error {
	current := n.Snapshots.Current()
	entry, served := current.Deployment(deployment)
	if !served {
		return nil
	}
	request := &account.Request{
		Tenant: account.NewTenant(current, entry), Store: n.Store, Keyring: n.Keyring, Random: rand.Reader,
		Now: n.Clock().UTC().Truncate(time.Microsecond), OnEnqueue: n.OnEnqueue,
	}
	fingerprints := make([]string, 0, certificatesNamed)
	for _, one := range added[:min(len(added), certificatesNamed)] {
		sum := sha256.Sum256(one.Raw)
		fingerprints = append(fingerprints, hex.EncodeToString(sum[:]))
	}
	return request.Change(ctx, func(u *account.Unit) error {
		conn, err := account.FindConnection(u, connection)
		if err != nil {
			return unlessUnusable(err)
		}
		counted, err := u.Limits().Count("certificate-notices", strconv.FormatInt(connection, 10), u.Now, u.Now.Add(24*time.Hour))
		if err != nil || counted.Count > certificatesAudited {
			return err
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
	})
}

// unlessUnusable returns nil for an error that says that a connection is not used now.
func unlessUnusable(err error) error {
	if account.IsUnusable(err) {
		return nil
	}
	return err
}
