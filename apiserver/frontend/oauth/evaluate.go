package oauth

import (
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
)

// evaluate returns what an access token grants now. The zero Evaluation means an invalid token.
func (c *call) evaluate(raw string) (evaluated consent.Evaluation, err error) {
	claims, ok := c.Tokens.Read(c.Entry, raw, c.now)
	if !ok {
		return evaluated, nil
	}
	err = c.view(func(u *account.Unit) (err error) {
		evaluated, err = c.Evaluate(u, claims)
		return err
	})
	return evaluated, err
}
