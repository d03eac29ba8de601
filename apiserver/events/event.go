package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Event is a change that is not recorded yet.
type Event struct {
	Type Type
	// Subject is the id of the changed entity.
	Subject int64
	// Organization and Workspace are those in which the change happened, 0 for none.
	Organization, Workspace int64
	Data                    Data
}

// Data are the members of an event's data beside the subject. It holds ids and names of states, but neither personal
// data nor secrets.
type Data struct {
	User, Email, Role int64
	Changed           []string
	// Level is LevelOrganization or LevelWorkspace.
	Level string
	Owner bool
}

// The values of Data.Level.
const (
	LevelOrganization = "organization"
	LevelWorkspace    = "workspace"
)

// value returns the value of a member of the data, and whether the data has it.
func (d Data) value(name string) (any, bool) {
	switch name {
	case "user_id":
		return ids.Format(d.User), d.User != 0
	case "email_id":
		return ids.Format(d.Email), d.Email != 0
	case "role_id":
		return ids.Format(d.Role), d.Role != 0
	case "changed":
		return d.Changed, len(d.Changed) > 0
	case "level":
		return d.Level, d.Level != ""
	case "owner":
		return d.Owner, true
	}
	return nil, false
}

// Log returns the event in the form in which it is stored. It fails if the type is unknown, or if the data lack a
// member that the type has.
func (e Event) Log(at time.Time, actor string) (people.LoggedEvent, error) {
	entry, found := Find(e.Type)
	if !found || e.Subject == 0 {
		return people.LoggedEvent{}, fmt.Errorf("event %s: the catalogue has no such type, or the event has no subject", e.Type)
	}
	data := map[string]any{}
	for _, m := range entry.Members {
		value, has := e.Data.value(m.Name)
		if has {
			data[m.Name] = value
		} else if !m.Optional {
			return people.LoggedEvent{}, fmt.Errorf("event %s: the data lack %s", e.Type, m.Name)
		}
	}
	text := ""
	if len(data) > 0 {
		raw, err := json.Marshal(data)
		if err != nil {
			return people.LoggedEvent{}, fmt.Errorf("event %s: %w", e.Type, err)
		}
		text = string(raw)
	}
	return people.LoggedEvent{
		At: at, Type: string(e.Type), Version: entry.Version, Actor: impersonal(actor), SubjectType: e.subjectType(), SubjectID: ids.Format(e.Subject),
		Organization: e.Organization, Workspace: e.Workspace, Data: text,
	}, nil
}

// subjectType returns the kind of the changed entity. Memberships of organizations and of workspaces can have one id.
func (e Event) subjectType() string {
	if e.Data.Level == LevelWorkspace {
		return "workspace_membership"
	}
	return e.Type.Subject()
}

// impersonal returns an actor without an address: the subject of a token can be one. The digest that replaces it is the
// same in all events.
func impersonal(actor string) string {
	kind, id, _ := strings.Cut(actor, ":")
	if !strings.Contains(id, "@") {
		return actor
	}
	digest := sha256.Sum256([]byte(id))
	return kind + ":" + hex.EncodeToString(digest[:8])
}

// OfMember returns an event of a membership of an organization.
func OfMember(t Type, m people.Member) Event {
	return Event{Type: t, Subject: m.ID, Organization: m.Organization.ID, Data: Data{User: m.User, Level: LevelOrganization, Owner: m.Owner, Role: m.Role}}
}

// OfWorkspaceMember returns an event of a membership of a workspace.
func OfWorkspaceMember(t Type, m people.WorkspaceMember) Event {
	return Event{
		Type: t, Subject: m.ID, Organization: m.Workspace.Organization, Workspace: m.Workspace.ID,
		Data: Data{User: m.User, Level: LevelWorkspace, Owner: m.Owner, Role: m.Role},
	}
}

// OfUser returns an event of a user.
func OfUser(t Type, user int64, changed ...string) Event {
	return Event{Type: t, Subject: user, Data: Data{Changed: changed}}
}

// OfEmail returns an event of an address of a user.
func OfEmail(t Type, user, email int64) Event {
	return Event{Type: t, Subject: user, Data: Data{Email: email}}
}

// OfOrganization returns an event of an organization.
func OfOrganization(t Type, organization int64, changed ...string) Event {
	return Event{Type: t, Subject: organization, Organization: organization, Data: Data{Changed: changed}}
}

// OfWorkspace returns an event of a workspace.
func OfWorkspace(t Type, w people.Workspace) Event {
	return Event{Type: t, Subject: w.ID, Organization: w.Organization, Workspace: w.ID}
}

// OfInvitation returns an event of an invitation.
func OfInvitation(t Type, i people.Invitation) Event {
	return Event{Type: t, Subject: i.ID, Organization: i.Organization, Data: Data{Role: i.Role}}
}
