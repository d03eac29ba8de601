package imports

import (
	"errors"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/store/people"
)

// identityKey is what a sign-in by a connection looks for.
type identityKey struct {
	subjectsOf
	subject string
}

// subjectsOf are the subjects of a connection at an issuer.
type subjectsOf struct {
	connection int64
	issuer     string
}

// knownIdentities are the identities that a batch refers to, with those of its lines so far.
type knownIdentities struct {
	taken map[identityKey]bool
	// counts counts the identities of users.
	counts map[int64]int
}

func readIdentity(r *reader, line *Line) {
	line.User = r.required("user", maxExternalID)
	i := Identity{Connection: r.required("connection", maxExternalID), Issuer: r.url("issuer"), Subject: r.required("subject", connection.MaxSubject)}
	if len(i.Subject) > connection.MaxSubject {
		r.Fault("subject", "is longer than %d bytes", connection.MaxSubject)
	}
	if r.sent("issuer") && i.Issuer == "" && !r.Faulty("issuer") {
		r.Fault("issuer", "must not be empty: omit it for the issuer of the connection")
	}
	if r.sent("email") {
		i.Email = input.Email(r.Object, "email")
	}
	line.Content = &i
}

// lookup returns what a later sign-in with an identity looks for. If no sign-in would find the identity, it returns the
// member of the line that is at fault, and why.
func (i *Identity) lookup(t *account.Tenant) (key identityKey, member string, fault error) {
	entry, found := t.Snapshot().BySlug(v1alpha1.KindConnection, t.Key(), i.Connection)
	if !found {
		return key, "connection", errors.New("is the slug of no declared Connection of the deployment: declare it first")
	}
	issuer, err := connection.IdentityIssuer(&snapshot.ContentOf[snapshot.Connection](entry).Connection, i.Subject)
	if err != nil {
		return key, "subject", err
	}
	if i.Issuer != "" && i.Issuer != issuer {
		return key, "issuer", errors.New("is not the issuer with which the connection signs the subject in, so no sign-in would find the identity: omit it")
	}
	return identityKey{subjectsOf{entry.ID, issuer}, i.Subject}, "", nil
}

// load reads which of the identities exist, with one statement for each connection and issuer, and how many identities
// the users have.
func (k *knownIdentities) load(u *account.Unit, identities []*Identity, users []int64) (err error) {
	k.taken = map[identityKey]bool{}
	subjects := map[subjectsOf][]string{}
	for _, i := range identities {
		if key, _, fault := i.lookup(u.Tenant); fault == nil {
			subjects[key.subjectsOf] = append(subjects[key.subjectsOf], key.subject)
		}
	}
	for of, listed := range subjects {
		taken, err := u.Bulk().SubjectsTaken(of.connection, of.issuer, listed)
		if err != nil {
			return err
		}
		for subject := range taken {
			k.taken[identityKey{of, subject}] = true
		}
	}
	k.counts, err = u.Bulk().IdentityCounts(users)
	return err
}

// evaluateIdentity adds an identity to a user. The user is not notified, as of nothing in an import.
func (b *batch) evaluateIdentity(line *Line, i *Identity, id int64) {
	user, ok := b.user(line)
	if !ok {
		return
	}
	key, member, fault := i.lookup(b.Tenant)
	switch {
	case fault != nil:
		line.fault(member, fault.Error())
		return
	case b.known.identities.taken[key]:
		line.fault("subject", "is already an identity of this account or of another account")
		return
	case b.known.identities.counts[user] >= connection.MaxIdentities:
		line.fault("user", "has the maximum number of identities already")
		return
	}
	b.known.identities.taken[key] = true
	b.known.identities.counts[user]++
	b.rows.identities = append(b.rows.identities, people.Identity{
		ID: id, Connection: key.connection, Issuer: key.issuer, Subject: key.subject, User: user, Email: i.Email, CreatedAt: b.Now,
	})
}
