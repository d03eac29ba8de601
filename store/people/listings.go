package people

import "time"

// Listings are what operators of the service look through.
type Listings interface {
	// ListOrganizations returns organizations whose name or slug contains the search ("" finds all), the newest first, and how many there are.
	ListOrganizations(search string, limit, offset int) ([]ListedOrganization, int64, error)
	// ListAudit returns up to limit records, the newest first, or the oldest. A filter that fits few of many records takes the time of looking through all
	// of its period.
	ListAudit(filter AuditFilter, limit int) ([]Audit, error)
}

// ListedOrganization is an organization and how many members it has.
type ListedOrganization struct {
	Organization
	Members int64
}

// AuditFilter lets through the records that agree with each of its members that is set.
type AuditFilter struct {
	// Actor, Action and Object are compared whole.
	Actor, Action, Object string
	// AnyActor and AnyObject, unless both are empty, require a record by one of these actors or on one of these objects.
	AnyActor, AnyObject []string
	// Since is included, Until excluded, in whole microseconds; zero: no bound.
	Since, Until time.Time
	// After leaves out this record and all that come before it in the listing; zero: none.
	After AuditPlace
	// OldestFirst turns the listing around.
	OldestFirst bool
}

// AuditPlace is a record's place in the order of time: records of one time are in that of their ids.
type AuditPlace struct {
	At time.Time
	ID int64
}
