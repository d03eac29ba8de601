package management

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/password"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

// ListUsers serves a page of the deployment's users.
func (a *API) ListUsers(w http.ResponseWriter, r *http.Request, params openapi.ListUsersParams) {
	limit, offset, err := page(params.Limit, params.Offset)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	search := ""
	if params.Search != nil {
		search = *params.Search
	}
	if !utf8.ValidString(search) || strings.ContainsRune(search, 0) {
		a.refuse(w, r, apierror.Invalid(apierror.Fault{Pointer: "?search", Message: "must be text in UTF-8 without NUL"}))
		return
	}
	list := openapi.UserList{Data: []openapi.UserSummary{}, Limit: int64(limit), Offset: int64(offset)}
	err = a.people(r).view(func(u *account.Unit) error {
		users, total, err := u.ListUsers(search, limit, offset)
		for _, user := range users {
			list.Data = append(list.Data, userSummary(user))
		}
		list.Total, list.HasMore = total, int64(offset+len(users)) < total
		return err
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, r, list)
}

// GetUser serves one user.
func (a *API) GetUser(w http.ResponseWriter, r *http.Request, userID string) {
	id, err := ids.Parse(userID)
	if err != nil {
		a.refuse(w, r, noSuchUser())
		return
	}
	p := a.people(r)
	var served openapi.User
	err = p.view(func(u *account.Unit) error {
		user, found, err := u.User(id)
		if err != nil || !found {
			return orNoSuchUser(err)
		}
		served, err = p.user(u, user)
		return err
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, r, served)
}

// CreateUser creates an account whose email counts as proven.
func (a *API) CreateUser(w http.ResponseWriter, r *http.Request) {
	p := a.people(r)
	from, err := p.readAccount()
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	var served openapi.User
	err = p.change(func(u *account.Unit) error {
		user, err := u.CreateAccount(from)
		if err != nil {
			return err
		}
		if served, err = p.user(u, user); err != nil {
			return err
		}
		return p.audit(u, "user.created", "user", user.ID)
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, r, served)
}

// readAccount reads a user to create, and hashes the password. The event of the sign-up tells nothing of the backend's own address.
func (p *peopleRequest) readAccount() (account.NewAccount, error) {
	from := account.NewAccount{Method: people.MethodImport}
	var secret string
	err := p.parse(func(o *body.Object) {
		if o.Require("email") {
			from.Email = readEmail(o, "email")
		}
		if first := readPersonName(o, "first_name"); first != nil {
			from.FirstName = *first
		}
		if last := readPersonName(o, "last_name"); last != nil {
			from.LastName = *last
		}
		typed, sent := o.String("password")
		settings := p.Settings.EffectiveSignIn()
		switch {
		case !sent:
		case !settings.Password:
			o.Fault("password", "is not enabled in this deployment: leave it out")
		default:
			secret = typed
			if err := password.Judge(typed, settings.PasswordMinLength, from.Email, from.FirstName, from.LastName); err != nil {
				o.Fault("password", "is refused: %v", err)
			}
		}
	})
	if err != nil || secret == "" {
		return from, err
	}
	from.PasswordHash, err = p.hash(secret)
	return from, err
}

// hash hashes a password; backends of one deployment share its turns.
func (p *peopleRequest) hash(secret string) (string, error) {
	client := "backend " + p.Key()
	hash, err := p.api.Hasher.Hash(p.r.Context(), password.Client{Network: client, Neighbourhood: client}, secret)
	return hash, peopleError(err)
}

func readEmail(o *body.Object, name string) string {
	sent, ok := o.String(name)
	if !ok {
		return ""
	}
	email, err := text.Email(sent)
	if err != nil {
		o.Fault(name, "%v", err)
	}
	return email
}

// readPersonName reads an optional name of a person, which may be empty: nil if absent.
func readPersonName(o *body.Object, name string) *string {
	sent, ok := o.String(name)
	if !ok {
		return nil
	}
	trimmed := strings.TrimSpace(sent)
	if trimmed != "" {
		var err error
		if trimmed, err = text.Name(trimmed); err != nil {
			o.Fault(name, "%v", err)
		}
	}
	return &trimmed
}

// UpdateUser merges a request into a user. Who is disabled is signed out everywhere in the same transaction.
func (a *API) UpdateUser(w http.ResponseWriter, r *http.Request, userID string) {
	p := a.people(r)
	var first, last *string
	var disabled *bool
	err := p.parse(func(o *body.Object) {
		first, last, disabled = readPersonName(o, "first_name"), readPersonName(o, "last_name"), readBool(o, "disabled")
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	var served openapi.User
	err = p.changeUser(userID, disabled != nil && *disabled, func(u *account.Unit, user people.User, _ int64) error {
		changed := user
		merge(&changed.FirstName, first)
		merge(&changed.LastName, last)
		merge(&changed.Disabled, disabled)
		if changed != user {
			changed.UpdatedAt = p.Now
			if err := p.saveUser(u, changed, user.Disabled); err != nil {
				return err
			}
		}
		var err error
		served, err = p.user(u, changed)
		return err
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, r, served)
}

// merge sets what was sent.
func merge[T any](to *T, sent *T) {
	if sent != nil {
		*to = *sent
	}
}

// saveUser writes a user that changed, and says in the audit how.
func (p *peopleRequest) saveUser(u *account.Unit, user people.User, wasDisabled bool) error {
	if err := u.UpdateUser(user); err != nil {
		return err
	}
	action := "user.updated"
	switch {
	case user.Disabled && !wasDisabled:
		action = "user.disabled"
	case !user.Disabled && wasDisabled:
		action = "user.enabled"
	}
	return p.audit(u, action, "user", user.ID)
}

// DeleteUser deletes an account with all that is its own.
func (a *API) DeleteUser(w http.ResponseWriter, r *http.Request, userID string) {
	p := a.people(r)
	err := p.changeUser(userID, true, func(u *account.Unit, user people.User, _ int64) error {
		if err := u.DeleteUser(user.ID); err != nil {
			return err
		}
		return p.audit(u, "user.deleted", "user", user.ID)
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// RevokeUserSessions signs a user out everywhere.
func (a *API) RevokeUserSessions(w http.ResponseWriter, r *http.Request, userID string) {
	p := a.people(r)
	var served openapi.RevokedSessions
	err := p.changeUser(userID, true, func(u *account.Unit, user people.User, ended int64) error {
		served.Revoked = ended
		return p.audit(u, "user.sessions_revoked", "user", user.ID)
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, r, served)
}

// changeUser runs do with a user that nobody else changes meanwhile, signed out everywhere if asked, and with how many sign-ins that
// ended.
func (p *peopleRequest) changeUser(userID string, signOut bool, do func(u *account.Unit, user people.User, ended int64) error) error {
	id, err := ids.Parse(userID)
	if err != nil {
		return noSuchUser()
	}
	return p.change(func(u *account.Unit) error {
		if signOut {
			user, ended, err := u.SignOutEverywhere(id)
			if err != nil {
				return err
			}
			return do(u, user, ended)
		}
		user, found, err := u.LockUser(id)
		if err != nil || !found {
			return orNoSuchUser(err)
		}
		return do(u, user, 0)
	})
}

func noSuchUser() error { return noSuch("user_id", "user") }

func orNoSuchUser(err error) error {
	if err != nil {
		return err
	}
	return noSuchUser()
}

func userSummary(u people.User) openapi.UserSummary {
	summary := openapi.UserSummary{
		Id: ids.Format(u.ID), Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Disabled: u.Disabled, CreatedAt: u.CreatedAt, UpdatedAt: u.UpdatedAt,
	}
	if u.Phone != "" {
		summary.PrimaryPhoneNumber = &u.Phone
	}
	return summary
}

// user is the served form of a user, with phone numbers and memberships.
func (p *peopleRequest) user(u *account.Unit, of people.User) (openapi.User, error) {
	s := userSummary(of)
	served := openapi.User{
		Id: s.Id, Email: s.Email, FirstName: s.FirstName, LastName: s.LastName, PrimaryPhoneNumber: s.PrimaryPhoneNumber, PhoneNumbers: []openapi.PhoneNumber{},
		OrganizationMemberships: []openapi.OrganizationMembership{}, Disabled: s.Disabled, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	phones, err := u.PhonesOf(of.ID)
	if err != nil {
		return served, err
	}
	for _, phone := range phones {
		number := openapi.PhoneNumber{Id: ids.Format(phone.ID), PhoneNumber: phone.Number, Verified: !phone.VerifiedAt.IsZero(), Primary: phone.Primary, CreatedAt: phone.CreatedAt}
		if number.Verified {
			number.VerifiedAt = &phone.VerifiedAt
		}
		served.PhoneNumbers = append(served.PhoneNumbers, number)
	}
	members, err := u.MembershipsOf(of.ID)
	for _, m := range members {
		served.OrganizationMemberships = append(served.OrganizationMemberships, p.membership(m))
	}
	return served, err
}
