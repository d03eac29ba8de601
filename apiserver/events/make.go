package events

import "github.com/cardea-iam/cardea/store/people"

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

// OfPassword returns an event of the password of a user, with how many sign-ins ended by the change.
func OfPassword(t Type, user, ended int64) Event {
	return Event{Type: t, Subject: user, Data: Data{SessionsEnded: ended}}
}

// OfPhone returns an event of a phone number of a user.
func OfPhone(t Type, user, phone int64) Event {
	return Event{Type: t, Subject: user, Data: Data{Phone: phone}}
}
