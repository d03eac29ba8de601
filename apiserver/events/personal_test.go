package events

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// peopleLog is a log that has users, and records what it was asked for.
type peopleLog struct {
	people.EventLog
	asked []string
}

func (l *peopleLog) EventPeople(of people.EventSubjects) (people.EventPeople, error) {
	l.asked = append(l.asked, fmt.Sprint(of))
	return people.EventPeople{
		Users: map[int64]people.EventPerson{1: {FirstName: "Ada", Phone: "+12025550100"}}, Emails: map[int64]string{3: "ada@person.example"}, Phones: map[int64]string{8: "+12025550101"},
		SignIns: map[int64]people.EventClient{9: {Address: "192.0.2.1", UserAgent: "Browser"}},
	}, nil
}

// TestPersonalDataOfAPageAreReadOnce: each subject is asked for once, by one read, and unknown types have none.
func TestPersonalDataOfAPageAreReadOnce(t *testing.T) {
	t.Parallel()
	list := []people.LoggedEvent{{Type: "user.renamed", SubjectType: "user", SubjectID: "9"}}
	for _, e := range []Event{
		OfUser(UserUpdated, 1, "first_name"), OfAccount(2, "password"), OfAccount(1, "password"), OfEmail(UserEmailVerified, 1, 3), OfOrganization(OrganizationCreated, 4), OfUser(UserDeleted, 5),
		OfMember(MembershipDeleted, people.Member{ID: 6, User: 1}), {Type: InvitationRevoked, Subject: 7},
		OfPhone(UserPhoneAdded, 1, 8), OfSignIn(SessionCreated, people.SignIn{ID: 9, Session: 10, User: 1, Method: "password"}),
	} {
		logged, err := e.Log(time.Time{}, "system")
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, logged)
	}
	log := &peopleLog{}
	if err := AddPersonal(log, list); err != nil || !slices.Equal(log.asked, []string{"{[1 2] [3] [8] [9] [7]}"}) {
		t.Errorf("asked for %v: %v", log.asked, err)
	}
	want := []string{
		"", `{"changed":["first_name"],"personal":{"first_name":"Ada","phone_number":"+12025550100"}}`, `{"method":"password"}`, `{"method":"password","personal":{"first_name":"Ada","phone_number":"+12025550100"}}`, `{"email_id":"3","personal":{"email":"ada@person.example","first_name":"Ada","phone_number":"+12025550100"}}`, "", "",
		`{"level":"organization","personal":{"first_name":"Ada","phone_number":"+12025550100"},"user_id":"1"}`, "",
		`{"personal":{"first_name":"Ada","phone_number":"+12025550101"},"phone_id":"8"}`,
		`{"method":"password","personal":{"first_name":"Ada","ip_address":"192.0.2.1","phone_number":"+12025550100","user_agent":"Browser"},"signin_id":"9","user_id":"1"}`,
	}
	for i, e := range list {
		if e.Data != want[i] {
			t.Errorf("%s: %s, want %s", e.Type, e.Data, want[i])
		}
	}
}

// TestPersonalMembersOfTypes: types with a user have the members of a user, and a deleted user has none.
func TestPersonalMembersOfTypes(t *testing.T) {
	t.Parallel()
	for of, want := range map[Type]int{UserCreated: 4, UserDeleted: 0, OrganizationUpdated: 0, WorkspaceCreated: 0, MembershipDeleted: 4, InvitationCreated: 1, InvitationAccepted: 4, InvitationRevoked: 1, SessionCreated: 6, SigninFailing: 4, OAuthGrantCreated: 4, ImportCompleted: 0} {
		entry, found := Find(of)
		if got := entry.Personal(); !found || len(got) != want || got == nil {
			t.Errorf("%s: %v", of, got)
		}
	}
}
