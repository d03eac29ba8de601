package snapshot

import (
	"fmt"

	"github.com/cardea-iam/cardea/internal/claimpermission"
	"github.com/cardea-iam/cardea/internal/document"
)

// Connection is the content of a Connection, prepared for sign-ins.
type Connection struct {
	document.Connection
	// Role is the compiled role expression, nil for none.
	Role *claimpermission.Expression
}

// prepare compiles the role expression.
func (c *Connection) prepare() (err error) {
	if c.Membership.RoleExpression == "" {
		return nil
	}
	if c.Role, err = claimpermission.Compile(c.Membership.RoleExpression); err != nil {
		err = fmt.Errorf("the role expression: %w", err)
	}
	return err
}

// domainKeys returns the keys of a connection in the index of domains.
func domainKeys(e *Entry, c *Connection) [][]byte {
	keys := make([][]byte, len(c.Domains))
	for i, domain := range c.Domains {
		keys[i] = joined(e.Deployment, domain, c.Slug)
	}
	return keys
}

// ConnectionsOf returns the connections of an organization by its slug, "" for those of the whole deployment, in the
// order of their slugs.
func (s *Snapshot) ConnectionsOf(deployment, organization string) (all []*Entry) {
	s.byOrg.WithPrefix(append(joined(deployment, organization), 0), collect(&all))
	return all
}

// DirectoriesOf returns the directories of an organization by its slug, in the order of their slugs.
func (s *Snapshot) DirectoriesOf(deployment, organization string) (all []*Entry) {
	s.directories.WithPrefix(append(joined(deployment, organization), 0), collect(&all))
	return all
}

// ConnectionsNaming returns the connections that declare a domain, in the order of their slugs.
func (s *Snapshot) ConnectionsNaming(deployment, domain string) (all []*Entry) {
	s.byDomain.WithPrefix(append(joined(deployment, domain), 0), collect(&all))
	return all
}

// collect returns a function that appends all entries.
func collect(to *[]*Entry) func(*Entry) bool {
	return func(e *Entry) bool {
		*to = append(*to, e)
		return true
	}
}
