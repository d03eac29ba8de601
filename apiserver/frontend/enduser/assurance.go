package enduser

import (
	"errors"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
)

func viewProofs(proofs assurance.Proofs) []enduserapi.Proof {
	out := []enduserapi.Proof{}
	for _, p := range proofs {
		out = append(out, enduserapi.Proof{Method: string(p.Method), ProvedAt: p.At})
	}
	return out
}

// getAssurance returns what the active sign-in has proven, and what is required of it where it is active.
func getAssurance(c *call) (reply, error) {
	g := c.signedIn()
	proven := g.Proven()
	out := enduserapi.Assurance{Level: proven.Level().String(), Proofs: viewProofs(proven), Enroll: []string{}}
	err := c.view(func(u *account.Unit) error {
		required := u.RequiredBelow(g, u.Now)
		outstanding := required
		if g.Organization != 0 && u.B2B.Enabled {
			member, workspaces, found, err := u.Organizations().MemberWithWorkspaces(g.Organization, g.User)
			if err != nil {
				return err
			}
			if found {
				required = u.RequiredAmong(g, member, workspaces, u.Now)
				outstanding = account.OutstandingAmong(u.Tenant, g, member, workspaces, u.Now)
			}
		}
		out.Required, out.Satisfied = required.Level.String(), proven.Level() >= outstanding.Level
		if required.By != assurance.ByNobody {
			by := string(required.By)
			out.RequiredBy = &by
		}
		if !required.Next.IsZero() {
			out.EnforceFrom = &required.Next
		}
		if out.Satisfied {
			return nil
		}
		missing := u.Missing(g, outstanding)
		var assured *account.AssuranceError
		if !errors.As(missing, &assured) {
			return missing
		}
		if assured.Enroll != nil {
			out.Enroll = assured.Enroll
		}
		return nil
	})
	return reply{data: out}, err
}
