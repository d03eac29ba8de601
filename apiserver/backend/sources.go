package backend

import (
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
)

// sources lists what resources of a kind declare, and what organizations and backends set up as rows, as one list: the
// declared ones, then the rows, each the newest first. V is a view, and R a row.
type sources[V, R any] struct {
	kind string
	// declaredFor returns the slug of the organization of a resource, "" for none.
	declaredFor func(*snapshot.Entry) string
	declared    func(*call, *account.Unit, *snapshot.Entry) (V, error)
	// rows returns up to limit rows of an organization, 0 for all, before an id, 0 for the newest.
	rows func(u *account.Unit, organization, before int64, limit int) ([]R, error)
	// key returns the id of a row and of its organization, 0 for none.
	key func(R) (id, organization int64)
	row func(c *call, u *account.Unit, row R, organization string) (V, error)
}

// page is a page of a list.
type page[V any] struct {
	Data []V
	More bool
	// Next is the cursor of the next page, nil for none.
	Next *string
	// last is the id of the last one, 0 for none.
	last int64
}

// list returns the page that a request asks for by limit, cursor and organization_id.
func (s sources[V, R]) list(c *call) (p page[V], err error) {
	q := c.query()
	limit, cursor, organization := q.Limit(defaultLimit, maxLimit), q.ID("cursor"), q.ID("organization_id")
	if err := q.Err(); err != nil {
		return p, err
	}
	err = c.people().view(func(u *account.Unit) error {
		p = page[V]{Data: []V{}}
		before, slug := cursor, ""
		if organization != 0 {
			o, found, err := u.Organizations().Organization(organization)
			if err != nil || !found {
				return account.FirstOf(err, errNoOrganization)
			}
			slug = o.Slug
		}
		if before == 0 || u.Snapshot().Declares(s.kind, u.Key(), before) {
			if err := s.addDeclared(c, u, &p, limit, before, slug); err != nil || p.More {
				return err
			}
			before = 0
		}
		return s.addRows(c, u, &p, limit-len(p.Data), organization, before)
	})
	return p, err
}

// addDeclared adds the declared ones after one, up to limit, to a page. 0: from the first; a slug selects those of an
// organization.
func (s sources[V, R]) addDeclared(c *call, u *account.Unit, p *page[V], limit int, after int64, slug string) (err error) {
	passed := after == 0
	u.Snapshot().List(s.kind, u.Key(), func(e *snapshot.Entry) bool {
		switch {
		case !passed:
			passed = e.ID == after
		case slug != "" && s.declaredFor(e) != slug:
		case len(p.Data) == limit:
			p.More, p.Next = true, optionalID(p.last)
			return false
		default:
			var view V
			view, err = s.declared(c, u, e)
			p.Data, p.last = append(p.Data, view), e.ID
		}
		return err == nil
	})
	return err
}

// addRows adds rows, up to limit, to a page.
func (s sources[V, R]) addRows(c *call, u *account.Unit, p *page[V], limit int, organization, before int64) error {
	if !u.ManagesConnections() {
		return nil
	}
	rows, err := s.rows(u, organization, before, limit+1)
	if err != nil {
		return err
	}
	shown := rows[:min(len(rows), limit)]
	of := make([]int64, len(shown))
	for i, row := range shown {
		_, of[i] = s.key(row)
	}
	organizations, err := u.Bulk().OrganizationsAmong(of)
	if err != nil {
		return err
	}
	for _, row := range shown {
		id, organization := s.key(row)
		view, err := s.row(c, u, row, organizations[organization].Slug)
		if err != nil {
			return err
		}
		p.Data, p.last = append(p.Data, view), id
	}
	if len(rows) > limit {
		p.More, p.Next = true, optionalID(p.last)
	}
	return nil
}
