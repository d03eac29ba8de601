package enduser

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// proofsOf returns what a response proves.
func proofsOf(conn account.Connection, e connection.Evidence) []assurance.Method {
	switch {
	case e.MultiFactor && connection.AssertsTwoFactors(conn.Connection):
		return []assurance.Method{assurance.SSOMultiFactor}
	case e.MultiFactor && conn.Organization != "":
		return []assurance.Method{assurance.SSO, assurance.SSOOrganization}
	}
	return []assurance.Method{assurance.SSO}
}

// proofsAgain returns what a response proves for a sign-in that exists. SSOOrganization needs the connection of
// the sign-in, because the account may have identities at the providers of other organizations.
func proofsAgain(g *people.SignIn, conn account.Connection, e connection.Evidence) []assurance.Method {
	if proofs := proofsOf(conn, e); g.Upstream.Connection == conn.ID || !slices.Contains(proofs, assurance.SSOOrganization) {
		return proofs
	}
	return []assurance.Method{assurance.SSO}
}

// withProofs returns proofs with some methods, all at one time.
func withProofs(p assurance.Proofs, methods []assurance.Method, at time.Time) assurance.Proofs {
	for _, method := range methods {
		p = p.With(method, at)
	}
	return p
}
