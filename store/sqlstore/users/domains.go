package users

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const domainColumns = `id, organization_id, name, value, state, verified_by, created_at, verified_at, looked_up_at, next_lookup_at, seen, failing_since, failures`

func readDomain(row *sql.Rows, d *people.Domain) error {
	return row.Scan(&d.ID, &d.Organization, &d.Name, &d.Value, &d.State, &d.VerifiedBy, db.At{To: &d.CreatedAt}, db.At{To: &d.VerifiedAt}, db.At{To: &d.LookedUpAt},
		db.At{To: &d.NextLookupAt}, &d.Seen, db.At{To: &d.FailingSince}, &d.Failures)
}

const domains = `SELECT ` + domainColumns + ` FROM domains WHERE deployment = :deployment AND `

// effective is the condition of the index domains_effective.
const effective = `state IN ('` + people.DomainVerified + `', '` + people.DomainFailing + `')`

func (tx txDomains) InsertDomain(d people.Domain) error {
	return tx.Exec(`INSERT INTO domains (deployment, `+domainColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		d.ID, d.Organization, d.Name, d.Value, d.State, d.VerifiedBy, db.Micros(d.CreatedAt), db.Micros(d.VerifiedAt), db.Micros(d.LookedUpAt),
		db.Micros(d.NextLookupAt), d.Seen, db.Micros(d.FailingSince), d.Failures)
}

func (tx txDomains) Domain(organization, id int64) (people.Domain, bool, error) {
	return db.First(tx.Tx, readDomain, domains+`organization_id = ? AND id = ?`, organization, id)
}

func (tx txDomains) LockDomain(id int64) (people.Domain, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.Domain{}, false, err
	}
	return db.First(tx.Tx, readDomain, domains+`id = ?`+tx.Lock(), id)
}

func (tx txDomains) DomainsOf(organization int64) ([]people.Domain, error) {
	return db.List(tx.Tx, readDomain, domains+`organization_id = ? ORDER BY created_at, id`, organization)
}

func (tx txDomains) DomainsNamed(name string) ([]people.Domain, error) {
	return db.List(tx.Tx, readDomain, domains+`name = ? ORDER BY CASE WHEN `+effective+` THEN 0 ELSE 1 END, created_at, id`, name)
}

func (tx txDomains) EffectiveDomain(name string) (people.Domain, bool, error) {
	return db.First(tx.Tx, readDomain, domains+`name = ? AND `+effective, name)
}

func readAddressIn(row *sql.Rows, a *people.AddressIn) error {
	return row.Scan(&a.Folded, &a.Effective)
}

// effectiveIn is 1 if the domain of an address e has its effect for an organization, else 0. It compares the ends of
// the addresses, because no function finds the last @ in both engines. The name of a domain has no @.
const effectiveIn = `CASE WHEN EXISTS (SELECT 1 FROM domains d WHERE d.deployment = :deployment AND d.organization_id = ?
		AND d.` + effective + ` AND substr(e.folded, length(e.folded) - length(d.name)) = '@' || d.name) THEN 1 ELSE 0 END`

func (tx txDomains) AddressesIn(organization, user int64) ([]people.AddressIn, error) {
	return db.List(tx.Tx, readAddressIn, `SELECT e.folded, `+effectiveIn+`
		FROM emails e WHERE e.deployment = :deployment AND e.user_id = ? AND e.verified_at > 0 ORDER BY e.folded`, organization, user)
}

// userIn has one row per address of the user, or one row without an address.
const userIn = `SELECT u.id, u.first_name, u.last_name, u.disabled, u.organization_id, u.two_step, u.created_at, u.updated_at, ` + primaryPhone + `,
		COALESCE(e.address, ''), COALESCE(e.folded, ''), COALESCE(e.is_primary, 0), COALESCE(e.verified_at, 0), ` + effectiveIn + `
	FROM users u LEFT JOIN emails e ON e.deployment = u.deployment AND e.user_id = u.id
	WHERE u.deployment = :deployment AND u.id = ? ORDER BY e.folded`

func (tx txDomains) UserIn(organization, user int64) (u people.User, in []people.AddressIn, found bool, err error) {
	err = tx.Each(func(row *sql.Rows) error {
		found = true
		var address string
		var primary bool
		var verified int64
		var a people.AddressIn
		err := row.Scan(&u.ID, &u.FirstName, &u.LastName, &u.Disabled, &u.Organization, &u.TwoStep, db.At{To: &u.CreatedAt}, db.At{To: &u.UpdatedAt}, &u.Phone,
			&address, &a.Folded, &primary, &verified, &a.Effective)
		if primary {
			u.Email = address
		}
		if verified > 0 {
			in = append(in, a)
		}
		return err
	}, userIn, organization, user)
	return u, in, found && err == nil, err
}

func (tx txDomains) UpdateDomain(d people.Domain) error {
	return tx.Exec(`UPDATE domains SET state = ?, verified_by = ?, verified_at = ?, looked_up_at = ?, next_lookup_at = ?, seen = ?, failing_since = ?, failures = ?
		WHERE id = ? AND deployment = :deployment`, d.State, d.VerifiedBy, db.Micros(d.VerifiedAt), db.Micros(d.LookedUpAt), db.Micros(d.NextLookupAt), d.Seen,
		db.Micros(d.FailingSince), d.Failures, d.ID)
}

func (tx txDomains) MoveDomain(from int64, to people.Domain) error {
	if err := tx.Exec(`DELETE FROM domains WHERE deployment = :deployment AND id = ?`, from); err != nil {
		return err
	}
	return tx.UpdateDomain(to)
}

func (tx txDomains) ClaimLookup(id int64, due, until time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE domains SET next_lookup_at = ? WHERE next_lookup_at > 0 AND next_lookup_at = ? AND id = ? AND deployment = :deployment`,
		db.Micros(until), db.Micros(due), id)
	return n == 1, err
}

func (tx txDomains) DeleteDomain(organization, id int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM domains WHERE deployment = :deployment AND organization_id = ? AND id = ?`, organization, id)
	return n == 1, err
}

// DueDomains implements people.ConnectionUpkeep.
func (s *Rows) DueDomains(ctx context.Context, now time.Time, except []string, limit int) ([]people.DueDomain, error) {
	var due []people.DueDomain
	condition, args := exceptOf(except)
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var one people.DueDomain
		err := row.Scan(&one.Deployment, &one.ID, db.At{To: &one.Due})
		due = append(due, one)
		return err
	}, `SELECT deployment, id, next_lookup_at FROM domains WHERE next_lookup_at > 0 AND next_lookup_at <= ?`+condition+` ORDER BY next_lookup_at, deployment, id LIMIT ?`,
		append(append([]any{db.Micros(now)}, args...), limit)...)
	if err != nil {
		return nil, fmt.Errorf("list domains whose records are due: %w", err)
	}
	return due, nil
}
