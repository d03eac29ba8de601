package backend

import "github.com/cardea-iam/cardea/apiserver/httpapi/query"

// Paging of lists.
const (
	defaultLimit = 50
	maxLimit     = 100
)

// parameters reads the parameters of a request, including those common to several operations of the backend API.
type parameters struct{ *query.Query }

func (c *call) query() *parameters { return &parameters{query.New(c.r.URL.Query())} }

// page returns the limit and offset of a list. A limit over maxLimit is clamped, and one below 1 is a fault.
func (q *parameters) page() (limit, offset int) {
	return q.Limit(defaultLimit, maxLimit), int(q.Integer("offset", 0, 0))
}
