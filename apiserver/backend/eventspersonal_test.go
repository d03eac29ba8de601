package backend

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// personalOf returns data.personal of each event, "" for none.
func personalOf(t *testing.T, list backendapi.EventList) (all []string) {
	t.Helper()
	for _, e := range list.Data {
		var data struct{ Personal json.RawMessage }
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Type+" "+string(data.Personal))
	}
	return all
}

// TestPersonalDataOfEventsAreThoseOfNow: events have personal data on request, as they are at the time of the request,
// and none of an erased user. The log has none.
func TestPersonalDataOfEventsAreThoseOfNow(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	list := func(query string) backendapi.EventList {
		t.Helper()
		return asks[backendapi.EventList](t, s, "/events?after=2-0"+query)
	}
	user, organization := int64(901), int64(902)
	at := exampleDay(10, 12)
	if err := s.rows.Change(t.Context(), exampleTenant, func(tx people.Tx) error {
		logged := func(e events.Event) error {
			l, err := e.Log(at, "system")
			return account.FirstOf(err, tx.Records().LogEvents([]people.LoggedEvent{l}))
		}
		err := account.FirstOf(
			tx.Users().InsertUser(people.User{ID: user, FirstName: "Ada", LastName: "Lovelace", CreatedAt: at}, people.Email{ID: 903, Address: "ada@person.example", Primary: true, CreatedAt: at}),
			tx.Bulk().InsertEmails([]people.Email{{ID: 904, User: user, Address: "ada@second.example", CreatedAt: at}}),
			tx.Phones().InsertPhone(people.Phone{ID: 905, User: user, Number: "+12025550117", Region: "US", Primary: true, CreatedAt: at, VerifiedAt: at}),
			tx.Organizations().InsertInvitation(people.Invitation{ID: 906, Organization: organization, Email: "guest@person.example", Hash: []byte("h"), CreatedAt: at, ExpiresAt: at.Add(time.Hour)}),
		)
		signIn := people.SignIn{ID: 911, Session: 910, User: user, Method: "password", CreatedAt: at}
		err = account.FirstOf(err,
			tx.Sessions().InsertSession(people.Session{ID: 910, ActiveSignIn: 911, Address: "192.0.2.7", UserAgent: "Browser", CreatedAt: at, UsedAt: at, ExpiresAt: at.Add(time.Hour)}),
			tx.Sessions().InsertSignIn(signIn))
		for _, e := range []events.Event{
			events.OfAccount(user, "password"), events.OfEmail(events.UserEmailAdded, user, 904), events.OfMember(events.MembershipCreated, people.Member{ID: 907, User: user}),
			{Type: events.OrganizationCreated, Subject: organization}, {Type: events.InvitationCreated, Subject: 906},
			{Type: events.InvitationAccepted, Subject: 908, Data: events.Data{User: user}}, events.OfUser(events.UserDeleted, user),
			events.OfPhone(events.UserPhoneVerified, user, 905), events.OfSignIn(events.SessionCreated, signIn),
		} {
			err = account.FirstOf(err, logged(e))
		}
		if err != nil {
			return err
		}
		_, err = tx.EventLog().NumberEvents(100)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	expect := func(list backendapi.EventList, want ...string) {
		t.Helper()
		if got := personalOf(t, list); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got  %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	const none = "user.created \nuser.email_added \nmembership.created \norganization.created \ninvitation.created \ninvitation.accepted \nuser.deleted \nuser.phone_verified \nsession.created "
	expect(list(""), none)
	expect(list("&personal=false"), none)
	const named = `"first_name":"Ada","last_name":"Lovelace","phone_number":"+12025550117"}`
	primary := ` {"email":"ada@person.example",` + named
	expect(list("&personal=true"), "user.created"+primary, `user.email_added {"email":"ada@second.example",`+named, "membership.created"+primary, "organization.created ",
		`invitation.created {"email":"guest@person.example"}`, "invitation.accepted"+primary, "user.deleted ", "user.phone_verified"+primary,
		`session.created {"email":"ada@person.example","first_name":"Ada","ip_address":"192.0.2.7","last_name":"Lovelace","phone_number":"+12025550117","user_agent":"Browser"}`)
	if answer := s.send("PATCH", fmt.Sprintf("/users/%d", user), `{"first_name":"Augusta"}`); answer.Code != 200 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	if changed := list("&personal=true&types=user.created"); !strings.Contains(string(changed.Data[0].Data), "Augusta") {
		t.Errorf("%s", changed.Data[0].Data)
	}
	if answer := s.send("DELETE", fmt.Sprintf("/users/%d", user), ""); answer.Code != 204 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	expect(list("&personal=true"), strings.Replace(none, "invitation.created ", `invitation.created {"email":"guest@person.example"}`, 1))
}

// TestPersonalDataOfEventsNeedThePermissionToReadUsers: a key that may only read events gets none.
func TestPersonalDataOfEventsNeedThePermissionToReadUsers(t *testing.T) {
	t.Parallel()
	key := mint(t)
	s := serveWith(t, &fakeKubernetes{}, nil, fixed(t, "APIKey", "events", "uid-7", 6, "", time.Unix(1700000000, 0), document.APIKey{
		App: "app", Permissions: []string{"events:read"}, Verifiers: []document.Verifier{{ID: key.ID(), Digest: key.Digest()}},
	}))
	limited := s
	limited.key = key.Plain()
	if answer := limited.send("GET", "/events", ""); answer.Code != 200 {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if answer := limited.send("GET", "/events?personal=true", ""); answer.Code != 403 || !strings.Contains(answer.Body.String(), "users:read") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if answer := s.send("GET", "/events?personal=yes", ""); answer.Code != 400 {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
