package storetest

import (
	"errors"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// connectionReads are the part of reads for connections, identities and domains.
var connectionReads = map[string]func(tx people.Tx) (any, error){
	"Connection":       func(tx people.Tx) (any, error) { return optional(tx.Connections().Connection(1)) },
	"ConnectionBySlug": func(tx people.Tx) (any, error) { return optional(tx.Connections().ConnectionBySlug("connection-2")) },
	"ListConnections": func(tx people.Tx) (any, error) {
		return value(tx.Connections().ListConnections(people.ConnectionFilter{Organization: 1}, 10))
	},
	"CountConnections":   func(tx people.Tx) (any, error) { return value(tx.Connections().CountConnections(1)) },
	"SSOAttempt":         func(tx people.Tx) (any, error) { return optional(tx.Connections().SSOAttempt(1)) },
	"SSOAttemptByState":  func(tx people.Tx) (any, error) { return optional(tx.Connections().SSOAttemptByState(hashOf(2))) },
	"ConnectionFailures": func(tx people.Tx) (any, error) { return value(tx.Connections().ConnectionFailures(1, 10)) },
	"UpstreamDocument": func(tx people.Tx) (any, error) {
		one, _, err := tx.Connections().UpstreamDocument(1, people.UpstreamDiscovery)
		two, _, more := tx.Connections().UpstreamDocument(1, people.UpstreamJWKS)
		return []people.UpstreamDocument{one, two}, errors.Join(err, more)
	},
	"UpstreamOf": func(tx people.Tx) (any, error) { return optional(tx.Sessions().UpstreamOf(1)) },
	"IdentityOf": func(tx people.Tx) (any, error) {
		return optional(tx.Identities().IdentityOf(1, "https://idp.example", "subject-2"))
	},
	"Identity":        func(tx people.Tx) (any, error) { return optional(tx.Identities().Identity(1)) },
	"IdentitiesOf":    func(tx people.Tx) (any, error) { return value(tx.Identities().IdentitiesOf(1)) },
	"ListIdentities":  func(tx people.Tx) (any, error) { return value(tx.Identities().ListIdentities(1, 0, 10)) },
	"CountIdentities": func(tx people.Tx) (any, error) { return value(tx.Identities().CountIdentities(1)) },
	"SubjectsTaken": func(tx people.Tx) (any, error) {
		return value(tx.Bulk().SubjectsTaken(1, "https://idp.example", []string{"subject-1", "subject-2"}))
	},
	"IdentityCounts": func(tx people.Tx) (any, error) { return value(tx.Bulk().IdentityCounts([]int64{1, 2})) },
	"Domain":         func(tx people.Tx) (any, error) { return optional(tx.Domains().Domain(1, 1)) },
	"AddressesIn":    func(tx people.Tx) (any, error) { return value(tx.Domains().AddressesIn(1, 1)) },
	"UserIn": func(tx people.Tx) (any, error) {
		u, in, found, err := tx.Domains().UserIn(1, 1)
		return []any{u, in, found}, err
	},
	"DomainsOf":          func(tx people.Tx) (any, error) { return value(tx.Domains().DomainsOf(1)) },
	"DomainsNamed":       func(tx people.Tx) (any, error) { return value(tx.Domains().DomainsNamed(domain(1, 1).Name)) },
	"SetupLinkByHash":    func(tx people.Tx) (any, error) { return optional(tx.SetupLinks().SetupLinkByHash(hashOf(1))) },
	"SetupLinkOfSession": func(tx people.Tx) (any, error) { return optional(tx.SetupLinks().SetupLinkOfSession(7)) },
	"SetupLinksOf":       func(tx people.Tx) (any, error) { return value(tx.SetupLinks().SetupLinksOf(1, born, 10)) },
	"EffectiveDomain":    func(tx people.Tx) (any, error) { return optional(tx.Domains().EffectiveDomain(domain(1, 1).Name)) },
}

// connectionLocks are the part of locks for connections and domains.
var connectionLocks = map[string]func(tx people.Tx) (any, error){
	"LockConnection":       func(tx people.Tx) (any, error) { return optional(tx.Connections().LockConnection(1)) },
	"LockConnectionShared": func(tx people.Tx) (any, error) { return optional(tx.Connections().LockConnectionShared(1)) },
	"LockConnectionEnd":    func(tx people.Tx) (any, error) { return optional(tx.Connections().LockConnectionEnd(1)) },
	"LockDomain":           func(tx people.Tx) (any, error) { return optional(tx.Domains().LockDomain(1)) },
}

// connectionWrites are the part of writes for connections, identities and domains.
var connectionWrites = map[string]func(tx people.Tx) error{
	"InsertConnection": insertConnection(connection(2, 1)),
	"UpdateConnection": func(tx people.Tx) error {
		return tx.Connections().UpdateConnection(people.Connection{ID: 1, Settings: "changed", UpdatedAt: born})
	},
	"ResealConnection": func(tx people.Tx) error {
		_, err := tx.Connections().ResealConnection(1, connection(1, 1).Secrets, "sealed again")
		return err
	},
	"DeleteConnection": func(tx people.Tx) error { _, err := tx.Connections().DeleteConnection(1); return err },
	"InsertSSOAttempt": insertSSOAttempt(ssoAttempt(2)),
	"CountSSOTry":      func(tx people.Tx) error { _, err := tx.Connections().CountSSOTry(1, 3, born); return err },
	"ReturnSSOTry":     func(tx people.Tx) error { _, err := tx.Connections().ReturnSSOTry(1, born); return err },
	"PutSSOOutcome":    func(tx people.Tx) error { _, err := tx.Connections().PutSSOOutcome(1, "outcome", born); return err },
	"CompleteSSOAttempt": func(tx people.Tx) error {
		_, err := tx.Connections().CompleteSSOAttempt(1, "claims", born)
		return err
	},
	"DeleteSSOAttempt": func(tx people.Tx) error { _, err := tx.Connections().DeleteSSOAttempt(1); return err },
	"LeaseUpstreamDocument": func(tx people.Tx) error {
		_, err := tx.Connections().LeaseUpstreamDocument(1, people.UpstreamJWKS, "lease", time.Time{}, born, after(time.Minute))
		return err
	},
	"StoreUpstreamDocument": fetchDocument(upstreamDocument(1, people.UpstreamDiscovery, "another")),
	"FailUpstreamDocument": func(tx people.Tx) error {
		_, err := tx.Connections().LeaseUpstreamDocument(1, people.UpstreamDiscovery, "lease", after(time.Second), after(time.Hour), after(2*time.Hour))
		if err == nil {
			_, err = tx.Connections().FailUpstreamDocument(1, people.UpstreamDiscovery, "lease", "timeout")
		}
		return err
	},
	"RecordConnectionEnd":     func(tx people.Tx) error { return tx.Connections().RecordConnectionEnd(1, after(time.Hour)) },
	"ForgetConnectionEnd":     func(tx people.Tx) error { return tx.Connections().ForgetConnectionEnd(1) },
	"RecordConnectionFailure": recordConnectionFailure(connectionFailure(2, 1)),
	"SetUpstream": func(tx people.Tx) error {
		return tx.Sessions().SetUpstream(1, people.Upstream{Connection: 1, SessionID: "changed"})
	},
	"EndSignInsBy": func(tx people.Tx) error {
		_, err := tx.Sessions().EndSignInsBy(people.UpstreamFilter{Connection: 1}, 10)
		return err
	},
	"InsertIdentity":     insertIdentity(identity(2, 1, 1)),
	"InsertIdentities":   func(tx people.Tx) error { return tx.Bulk().InsertIdentities([]people.Identity{identity(2, 1, 1)}) },
	"UseIdentity":        func(tx people.Tx) error { return tx.Identities().UseIdentity(1, "new@example.com", born) },
	"DeleteIdentity":     func(tx people.Tx) error { _, err := tx.Identities().DeleteIdentity(1, 1); return err },
	"DeleteIdentitiesOf": func(tx people.Tx) error { _, err := tx.Identities().DeleteIdentitiesOf(1, 10); return err },
	"InsertDomain":       insertDomain(domain(2, 1)),
	"UpdateDomain":       updateDomain(named(domain(1, 1), "", people.DomainVerified)),
	"MoveDomain": func(tx people.Tx) error {
		to := named(domain(2, 2), domain(1, 1).Name, people.DomainVerified)
		return errors.Join(tx.Domains().InsertDomain(named(to, to.Name, people.DomainPending)), tx.Domains().MoveDomain(1, to))
	},
	"ClaimLookup": func(tx people.Tx) error {
		_, err := tx.Domains().ClaimLookup(1, domain(1, 1).NextLookupAt, after(time.Hour))
		return err
	},
	"InsertSetupLink": insertSetupLink(setupLink(2, 1)),
	"ProveSetupLink":  func(tx people.Tx) error { _, err := tx.SetupLinks().ProveSetupLink(1, 8, born); return err },
	"DeleteSetupLink": func(tx people.Tx) error { _, err := tx.SetupLinks().DeleteSetupLink(1, 1); return err },
	"DeleteDomain":    func(tx people.Tx) error { _, err := tx.Domains().DeleteDomain(1, 1); return err },
}
