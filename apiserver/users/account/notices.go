package account

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/store/people"
)

// changeNoticeLifetime is how long delivery of a notice about an account change is tried.
const changeNoticeLifetime = 24 * time.Hour

// Notify mails an account's owner about a change of a sign-in method (ASVS 6.3.7), to every verified address and to
// former ones. It does nothing if the deployment sends no mail. change is a sentence such as "Your password was
// changed.".
func (u *Unit) Notify(user int64, change string, former ...string) error {
	if u.Settings.Email == nil || u.Keyring.Empty() {
		return nil
	}
	to, err := ProvenAddresses(u, user)
	if err != nil {
		return err
	}
	for _, address := range former {
		if !slices.Contains(to, address) {
			to = append(to, address)
		}
	}
	mail := messages.AccountChangeMail(u.AppName(), change, u.Now, u.Client.Address)
	for _, address := range to {
		if err := u.Post(people.Message{Channel: people.ChannelMail, Recipient: address, ExpiresAt: u.Now.Add(changeNoticeLifetime)}, mail); err != nil {
			return err
		}
	}
	return nil
}
