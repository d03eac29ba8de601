package people

import (
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
)

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

// UserFilter selects the users that match each of its members that is set.
type UserFilter struct {
	// Search is a text that the name or an email contains.
	Search string
	// Factors selects by second factors; nil: any.
	Factors *FactorFilter
}

// FactorFilter selects the users whose usable factors reach exactly a level, each as the second factor of a first one
// that the user has.
type FactorFilter struct {
	// Level is None for users without a usable factor, TwoFactors or PhishingResistant.
	Level assurance.Level
	// Authenticators and Texts report whether confirmed authenticators, and phones that are second factors, are usable.
	Authenticators, Texts bool
	// RelyingParty is that of the usable passkeys, "" if none is usable.
	RelyingParty string
	// Passwords reports whether passwords are enabled: with one, a passkey that cannot verify its user reaches
	// PhishingResistant.
	Passwords bool
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

// PendingNotice is an organization whose members after a membership wait for a notice.
type PendingNotice struct {
	Deployment          string
	Organization, After int64
}
