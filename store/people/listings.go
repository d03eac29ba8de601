package people

import "time"

// Listings are the lists for operators of the service.
type Listings interface {
	// ListOrganizations returns organizations whose name or slug contains the search ("" finds all), the newest first, and
	// their total number.
	ListOrganizations(search string, limit, offset int) ([]ListedOrganization, int64, error)
	// ListAudit returns up to limit records, the newest first unless the filter says OldestFirst. A filter that matches
	// few of many records takes as long as reading its whole period.
	ListAudit(filter AuditFilter, limit int) ([]Audit, error)
}

// ListedOrganization is an organization and how many members it has.
type ListedOrganization struct {
	Organization
	Members int64
}

// AuditFilter selects the records that match each of its members that is set.
type AuditFilter struct {
	// Actor, Action and Object must match completely.
	Actor, Action, Object string
	// AnyActor and AnyObject, unless both are empty, require a record by one of these actors or on one of these objects.
	AnyActor, AnyObject []string
	// Since is included, Until excluded, in whole microseconds; zero: no bound.
	Since, Until time.Time
	// After leaves out this record and all records before it in the listing; zero: none.
	After AuditPlace
	// OldestFirst reverses the listing.
	OldestFirst bool
}

// AuditPlace is a record's place in the order of time. Records of the same time are ordered by their ids.
type AuditPlace struct {
	At time.Time
	ID int64
}
