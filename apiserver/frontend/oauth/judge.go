package oauth

import (
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
)

// judge tells what is true of an access token now.
func (c *call) judge(raw string) (told consent.Judged, err error) {
	claims, ok := c.Tokens.Read(c.Entry, raw, c.now)
	if !ok {
		return told, nil
	}
	err = c.view(func(u *account.Unit) (err error) {
		told, err = c.Judge(u, claims)
		return err
	})
	return told, err
}
