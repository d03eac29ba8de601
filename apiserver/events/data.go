package events

import "github.com/cardea-iam/cardea/internal/ids"

// Data are the members of an event's data beside the subject. It holds ids and names of states, but neither personal
// data nor secrets.
type Data struct {
	User, Email, Phone, Role int64
	Changed                  []string
	// Level is LevelOrganization or LevelWorkspace.
	Level string
	Owner bool
	// SessionsEnded is how many sign-ins the change ended.
	SessionsEnded int64
}

// The values of Data.Level.
const (
	LevelOrganization = "organization"
	LevelWorkspace    = "workspace"
)

// id returns the value of a member with an id, which the data have unless it is 0.
func id(of func(*Data) int64) func(*Data) (any, bool) {
	return func(d *Data) (any, bool) { return ids.Format(of(d)), of(d) != 0 }
}

// text returns the value of a member with a text, which the data have unless it is "".
func text(of func(*Data) string) func(*Data) (any, bool) {
	return func(d *Data) (any, bool) { return of(d), of(d) != "" }
}

// always returns the value of a member that the data always have.
func always[T any](of func(*Data) T) func(*Data) (any, bool) {
	return func(d *Data) (any, bool) { return of(d), true }
}

// changedNames returns the value of the member with the names of changed members.
func changedNames(d *Data) (any, bool) { return d.Changed, len(d.Changed) > 0 }

// The members that types of events have.
var (
	ofUser  = Member{Name: "user_id", Of: ID, of: id(func(d *Data) int64 { return d.User }), Description: "the user"}
	ofEmail = Member{Name: "email_id", Of: ID, of: id(func(d *Data) int64 { return d.Email }), Description: "the address"}
	ofPhone = Member{Name: "phone_id", Of: ID, of: id(func(d *Data) int64 { return d.Phone }), Description: "the phone number"}
	ofRole  = Member{Name: "role_id", Of: ID, of: id(func(d *Data) int64 { return d.Role }), Optional: true}
	changed = Member{Name: "changed", Of: Names, of: changedNames, Description: "the names of the members that changed"}
	levelOf = Member{
		Name: "level", Of: Text, of: text(func(d *Data) string { return d.Level }), Values: []string{LevelOrganization, LevelWorkspace},
		Description: "what the user is a member of",
	}
	ownerOf       = Member{Name: "owner", Of: Truth, of: always(func(d *Data) bool { return d.Owner }), Description: "whether the member is an owner"}
	sessionsEnded = Member{
		Name: "sessions_ended", Of: Count, of: always(func(d *Data) int64 { return d.SessionsEnded }), Description: "how many sign-ins of the user the change ended",
	}
	memberships  = []Member{ofUser, levelOf, ownerOf, ofRole.saying("the role; absent for a member without one, and for an owner")}
	ofInvitation = []Member{ofRole.saying("the role that the invitation gives; absent for that of new members")}
)

// saying returns the member with another description.
func (m Member) saying(description string) Member {
	m.Description = description
	return m
}
