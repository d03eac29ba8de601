package account

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// adminsNotified bounds the mails about one event, and membersRead the members that are read to find their receivers,
	// the oldest first.
	adminsNotified, membersRead = 100, 5000
	// adminNoticeLifetime is how long delivery of a mail is tried.
	adminNoticeLifetime = 24 * time.Hour
)

// MailConnectionAdmins mails the owners of an organization, and then its members with the permission connection:manage.
// It does nothing if the deployment sends no mail.
func MailConnectionAdmins(u *Unit, organization int64, write func(people.Organization) delivery.Content) error {
	if u.Settings.Email == nil || u.Keyring.Empty() {
		return nil
	}
	o, found, err := u.Organizations().Organization(organization)
	if err != nil || !found {
		return err
	}
	to, err := connectionAdmins(u, organization)
	if err != nil {
		return err
	}
	mail := write(o)
	for _, address := range to {
		if err := u.Post(people.Message{Channel: people.ChannelMail, Recipient: address, ExpiresAt: u.Now.Add(adminNoticeLifetime)}, mail); err != nil {
			return err
		}
	}
	return nil
}

// connectionAdmins returns the addresses of up to adminsNotified members who manage connections, owners first.
func connectionAdmins(u *Unit, organization int64) ([]string, error) {
	var owners, others []string
	for after, read := int64(0), 0; read < membersRead && len(owners) < adminsNotified; read += membersAtOnce {
		members, err := u.Organizations().MembersOf(organization, after, membersAtOnce)
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			after = m.ID
			switch {
			case m.Account.Email == "" || !u.May(m.Member, PermissionConnections):
			case m.Owner:
				owners = append(owners, m.Account.Email)
			case len(others) < adminsNotified:
				others = append(others, m.Account.Email)
			}
		}
		if len(members) < membersAtOnce {
			break
		}
	}
	all := append(owners, others...)
	return all[:min(len(all), adminsNotified)], nil
}
