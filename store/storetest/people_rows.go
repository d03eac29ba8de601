package storetest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// home is the deployment of the stories that need only one.
const home = "apps/main"

// born is the time to which the rows of a story relate their times.
var born = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

func after(d time.Duration) time.Time { return born.Add(d) }

// change runs a change on a deployment, which must succeed.
func (e *env) change(deployment string, do func(tx people.Tx) error) {
	e.t.Helper()
	e.ok(e.store.Change(e.ctx, deployment, do))
}

// view reads rows of a deployment.
func (e *env) view(deployment string, do func(tx people.Tx) error) {
	e.t.Helper()
	e.ok(e.store.View(e.ctx, deployment, do))
}

// insert runs writes on home in order, in one transaction.
func (e *env) insert(writes ...func(tx people.Tx) error) {
	e.t.Helper()
	e.change(home, func(tx people.Tx) error {
		for _, write := range writes {
			if err := write(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// one reads a row of home.
func one[T any](e *env, read func(tx people.Tx) (T, bool, error)) (row T, found bool) {
	e.t.Helper()
	e.ok(e.store.View(e.ctx, home, func(tx people.Tx) (err error) {
		row, found, err = read(tx)
		return err
	}))
	return row, found
}

// all reads rows of home.
func all[T any](e *env, read func(tx people.Tx) (T, error)) (rows T) {
	e.t.Helper()
	e.ok(e.store.View(e.ctx, home, func(tx people.Tx) (err error) {
		rows, err = read(tx)
		return err
	}))
	return rows
}

// reports runs a write on home that reports whether it changed a row.
func (e *env) reports(want bool, write func(tx people.Tx) (bool, error)) {
	e.t.Helper()
	var did bool
	e.change(home, func(tx people.Tx) (err error) {
		did, err = write(tx)
		return err
	})
	e.Expect(did).To(gomega.Equal(want))
}

// refuses runs a write on home that must fail with an error.
func (e *env) refuses(want error, write func(tx people.Tx) error) {
	e.t.Helper()
	e.fails(e.store.Change(e.ctx, home, write), want)
}

func hashOf(n int64) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return sum[:]
}

// The rows of a story. Rows with different numbers differ in every value that must be unique. A higher number means a
// later time.

func user(n int64) (people.User, people.Email) {
	created := after(time.Duration(n) * time.Second)
	address := fmt.Sprintf("Person%d@Example.com", n)
	return people.User{
			ID: n, FirstName: fmt.Sprintf("First%d", n), LastName: fmt.Sprintf("Last%d", n), CreatedAt: created, UpdatedAt: created, Email: address,
		},
		people.Email{ID: 1000 + n, User: n, Address: address, Primary: true, CreatedAt: created}
}

func phone(n, user int64) people.Phone {
	return people.Phone{ID: n, User: user, Number: fmt.Sprintf("+1202555%04d", n), Region: "US", CreatedAt: after(time.Duration(n) * time.Second)}
}

func session(n int64) people.Session {
	created := after(time.Duration(n) * time.Second)
	return people.Session{ID: n, Address: "192.0.2.1", UserAgent: fmt.Sprintf("agent %d", n), CreatedAt: created, UsedAt: created, ExpiresAt: created.Add(time.Hour)}
}

func tokenOf(n, session int64) people.Token {
	return people.Token{Hash: hashOf(n), Session: session, Parent: []byte{}, CreatedAt: after(time.Duration(n) * time.Second)}
}

func signIn(n, session, user int64) people.SignIn {
	return people.SignIn{ID: n, Session: session, User: user, Method: people.MethodPassword, CreatedAt: after(time.Duration(n) * time.Second)}
}

func attempt(n, session int64) people.Attempt {
	created := after(time.Duration(n) * time.Second)
	return people.Attempt{
		ID: n, Session: session, Kind: people.AttemptSignIn, Method: people.MethodPassword, Email: fmt.Sprintf("Person%d@Example.com", n), FirstName: "First",
		LastName: "Last", PasswordHash: "hash", OrganizationName: "Org", Invitation: 7, CreatedAt: created, ExpiresAt: created.Add(10 * time.Minute),
	}
}

func challenge(n, subject int64) people.Challenge {
	created := after(time.Duration(n) * time.Second)
	return people.Challenge{
		ID: n, Purpose: people.PurposePhone, Channel: people.ChannelSMS, Subject: subject, Session: 1, User: 1, Recipient: fmt.Sprintf("+1202555%04d", subject),
		Region: "US", Address: "192.0.2.1", Sent: true, Salt: []byte{1, 2}, MAC: []byte{3, 4}, KeyID: "k1", CreatedAt: created, ExpiresAt: created.Add(5 * time.Minute),
	}
}

func send(n int64) people.Send {
	return people.Send{
		ID: n, Purpose: people.PurposePhone, Channel: people.ChannelSMS, User: 1, Recipient: "+12025550001", Client: "192.0.2.1", WideNetwork: "192.0.2.0/24",
		Region: "US", Sent: true, At: after(time.Duration(n) * time.Second),
	}
}

func message(n int64) people.Message {
	created := after(time.Duration(n) * time.Second)
	return people.Message{
		ID: n, Channel: people.ChannelSMS, Recipient: fmt.Sprintf("+1202555%04d", n), Sealed: fmt.Sprintf("sealed %d", n), CreatedAt: created, ExpiresAt: created.Add(5 * time.Minute),
	}
}

func organization(n int64) people.Organization {
	return people.Organization{
		ID: n, Name: fmt.Sprintf("Organization %d", n), Slug: fmt.Sprintf("organization-%d", n), Description: "d", ImageURL: "https://cdn.example/o.png",
		CreatedAt: after(time.Duration(n) * time.Second),
	}
}

func workspace(n, organization int64) people.Workspace {
	return people.Workspace{ID: n, Organization: organization, Name: fmt.Sprintf("Workspace %d", n), Slug: fmt.Sprintf("workspace-%d", n), CreatedAt: after(time.Duration(n) * time.Second)}
}

func member(n, organization, user int64) people.Member {
	return people.Member{ID: n, User: user, Organization: people.Organization{ID: organization}, Role: 9, CreatedAt: after(time.Duration(n) * time.Second)}
}

func workspaceMember(n, workspace, organization, user int64) people.WorkspaceMember {
	return people.WorkspaceMember{
		ID: n, User: user, Workspace: people.Workspace{ID: workspace, Organization: organization}, Role: 9, CreatedAt: after(time.Duration(n) * time.Second),
	}
}

func invitation(n, organization int64) people.Invitation {
	created := after(time.Duration(n) * time.Second)
	return people.Invitation{
		ID: n, Organization: organization, Email: fmt.Sprintf("Guest%d@Example.com", n), Role: 9, Hash: hashOf(n), InvitedBy: 1, CreatedAt: created, ExpiresAt: created.Add(time.Hour),
	}
}

func event(n int64, kind string, user int64) people.Event {
	return people.Event{ID: n, Kind: kind, At: after(time.Duration(n) * time.Second), User: user, Method: people.MethodPassword, Address: "192.0.2.1", UserAgent: "agent"}
}

func audit(n int64) people.Audit {
	return people.Audit{ID: n, At: after(time.Duration(n) * time.Second), Actor: "user:1", Action: "phone.verified", Object: "phone:1", Session: 1, Address: "192.0.2.1", Detail: "ticket 1"}
}
