package events

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

var (
	// personMembers are the members of data.personal of a user, and clientMembers those of a sign-in too.
	personMembers = []string{"email", "first_name", "last_name", "phone_number"}
	clientMembers = append(slices.Clip(personMembers), "ip_address", "user_agent")
)

// Personal returns the members that data.personal can have in events of the type.
func (e Entry) Personal() []string {
	switch subject := e.Type.Subject(); {
	case e.Type == UserDeleted:
		return []string{} // the store has nothing of the user
	case subject == "invitation" && !e.has(ofUser.Name):
		return []string{"email"}
	case e.has(ofSignIn.Name):
		return clientMembers
	case subject == "user", e.has(ofUser.Name):
		return personMembers
	}
	return []string{}
}

// has reports whether the data have a member.
func (e Entry) has(name string) bool {
	return slices.ContainsFunc(e.Members, func(m Member) bool { return m.Name == name })
}

// personal names the rows with the personal data of an event, 0 for none.
type personal struct{ user, email, phone, signIn, invitation int64 }

// personalOf returns where the personal data of an event are.
func personalOf(e *people.LoggedEvent) (of personal, err error) {
	entry, found := Find(Type(e.Type))
	if !found || len(entry.Personal()) == 0 {
		return personal{}, nil
	}
	var data struct {
		User   string `json:"user_id"`
		Email  string `json:"email_id"`
		Phone  string `json:"phone_id"`
		SignIn string `json:"signin_id"`
	}
	if e.Data != "" {
		if err := json.Unmarshal([]byte(e.Data), &data); err != nil {
			return personal{}, fmt.Errorf("the data of an event: %w", err)
		}
	}
	take := func(text string, into *int64) {
		if text != "" && err == nil {
			*into, err = ids.Parse(text)
		}
	}
	switch {
	case e.SubjectType == "user":
		take(e.SubjectID, &of.user)
	case data.User != "":
		take(data.User, &of.user)
	case e.SubjectType == "invitation":
		take(e.SubjectID, &of.invitation)
	}
	take(data.Email, &of.email)
	take(data.Phone, &of.phone)
	take(data.SignIn, &of.signIn)
	return of, err
}

// AddPersonal adds data.personal to the events whose types have it, as far as the store still has the data. An event of
// an address, or of a phone number, has this one, and other events have the primary one. The log is read once for all
// events.
func AddPersonal(log people.EventLog, list []people.LoggedEvent) error {
	where := make([]personal, len(list))
	var asked people.EventSubjects
	for i := range list {
		of, err := personalOf(&list[i])
		if err != nil {
			return err
		}
		where[i] = of
		asked.Users, asked.Emails, asked.Phones = append(asked.Users, of.user), append(asked.Emails, of.email), append(asked.Phones, of.phone)
		asked.SignIns, asked.Invitations = append(asked.SignIns, of.signIn), append(asked.Invitations, of.invitation)
	}
	for _, ids := range []*[]int64{&asked.Users, &asked.Emails, &asked.Phones, &asked.SignIns, &asked.Invitations} {
		*ids = present(*ids)
	}
	found, err := log.EventPeople(asked)
	if err != nil {
		return err
	}
	for i := range list {
		if err := addPersonal(&list[i], where[i], found); err != nil {
			return err
		}
	}
	return nil
}

// addPersonal adds data.personal to an event, if there is any.
func addPersonal(e *people.LoggedEvent, of personal, found people.EventPeople) error {
	person, client := found.Users[of.user], found.SignIns[of.signIn]
	members := map[string]string{
		"email": person.Email, "first_name": person.FirstName, "last_name": person.LastName, "phone_number": person.Phone,
		"ip_address": client.Address, "user_agent": client.UserAgent,
	}
	if of.email != 0 {
		members["email"] = found.Emails[of.email]
	}
	if of.phone != 0 {
		members["phone_number"] = found.Phones[of.phone]
	}
	if of.invitation != 0 {
		members["email"] = found.Invitations[of.invitation]
	}
	for name, value := range members {
		if value == "" {
			delete(members, name)
		}
	}
	if len(members) == 0 {
		return nil
	}
	data := map[string]any{}
	if e.Data != "" {
		if err := json.Unmarshal([]byte(e.Data), &data); err != nil {
			return fmt.Errorf("the data of an event: %w", err)
		}
	}
	data["personal"] = members
	text, err := json.Marshal(data)
	e.Data = string(text)
	return err
}

// present returns the ids of a list, each once and without 0.
func present(list []int64) []int64 {
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(id int64) bool { return id == 0 })
}
