package people

import "time"

// Identities are the identities of users at the providers of connections.
type Identities interface {
	// IdentityOf returns the identity of a subject at an issuer, under a connection.
	IdentityOf(connection int64, issuer, subject string) (Identity, bool, error)
	Identity(id int64) (Identity, bool, error)
	// InsertIdentity fails with ErrDuplicate if the connection has an identity of the subject at the issuer.
	InsertIdentity(Identity) error
	// UseIdentity records a sign-in by an identity, and the address that the provider stated.
	UseIdentity(id int64, email string, now time.Time) error
	// IdentitiesOf returns a user's identities, the oldest first.
	IdentitiesOf(user int64) ([]Identity, error)
	// ListIdentities returns up to limit identities of a connection after the given id, the oldest first. 0: from the
	// first.
	ListIdentities(connection, after int64, limit int) ([]Identity, error)
	// CountIdentities counts the identities of a connection.
	CountIdentities(connection int64) (int64, error)
	// DeleteIdentity deletes an identity of a user, and reports whether there was one.
	DeleteIdentity(user, id int64) (bool, error)
	// DeleteIdentitiesOf deletes up to limit identities of a connection, and returns how many it deleted.
	DeleteIdentitiesOf(connection int64, limit int) (int64, error)
}

// Identity is an account of a user at the provider of a connection.
type Identity struct {
	ID, Connection  int64
	Issuer, Subject string
	User            int64
	// Email is the address that the provider stated last. It does not prove that the user has the address.
	Email     string
	CreatedAt time.Time
	// UsedAt is when the user last signed in by it, zero: never.
	UsedAt time.Time
}
