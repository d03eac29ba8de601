package management

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/password"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/document"
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
	err = a.desk(r).view(func(tx people.Tx) error {
		users, total, err := tx.ListUsers(search, limit, offset)
		for _, u := range users {
			list.Data = append(list.Data, userSummary(u))
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
	d := a.desk(r)
	var served openapi.User
	err = d.view(func(tx people.Tx) error {
		user, found, err := tx.User(id)
		if err != nil || !found {
			return orNoSuchUser(err)
		}
		served, err = d.user(tx, user)
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
	d := a.desk(r)
	account, err := d.readAccount()
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	var served openapi.User
	err = d.change(func(tx people.Tx) error {
		user, err := d.CreateAccount(tx, account)
		if err != nil {
			return taken(err, "EMAIL_EXISTS", "/email", "belongs to a user of the deployment already: choose another, or update that user")
		}
		if served, err = d.user(tx, user); err != nil {
			return err
		}
		return d.audit(tx, "user.created", "user", user.ID)
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, r, served)
}

// readAccount reads a user to create, and hashes the password. The event of the sign-up tells nothing of the backend's own address.
func (d *desk) readAccount() (directory.NewAccount, error) {
	account := directory.NewAccount{Method: people.MethodImport}
	var secret string
	err := d.parse(func(o *body.Object) {
		if o.Require("email") {
			account.Email = readEmail(o, "email")
		}
		if first := readPersonName(o, "first_name"); first != nil {
			account.FirstName = *first
		}
		if last := readPersonName(o, "last_name"); last != nil {
			account.LastName = *last
		}
		typed, sent := o.String("password")
		settings := d.Deployment.Content.(*document.Deployment).EffectiveSignIn()
		switch {
		case !sent:
		case !settings.Password:
			o.Fault("password", "is not enabled in this deployment: leave it out")
		default:
			secret = typed
			if err := password.Judge(typed, settings.PasswordMinLength, account.Email, account.FirstName, account.LastName); err != nil {
				o.Fault("password", "is refused: %v", err)
			}
		}
	})
	if err != nil || secret == "" {
		return account, err
	}
	account.PasswordHash, err = d.api.Hasher.Hash(d.r.Context(), "backend "+d.Deployment.Deployment, secret, d.api.Random)
	if errors.Is(err, password.ErrBusy) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		busy := apierror.Unavailable(err, "too many passwords are being hashed at once: try again")
		busy.RetryAfter = 2 * time.Second
		return account, busy
	}
	return account, err
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
	d := a.desk(r)
	var first, last *string
	var disabled *bool
	err := d.parse(func(o *body.Object) {
		first, last, disabled = readPersonName(o, "first_name"), readPersonName(o, "last_name"), readBool(o, "disabled")
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	var served openapi.User
	err = d.changeUser(userID, disabled != nil && *disabled, func(tx people.Tx, user people.User, _ int64) error {
		changed := user
		merge(&changed.FirstName, first)
		merge(&changed.LastName, last)
		merge(&changed.Disabled, disabled)
		if changed != user {
			changed.UpdatedAt = d.now
			if err := d.saveUser(tx, changed, user.Disabled); err != nil {
				return err
			}
		}
		var err error
		served, err = d.user(tx, changed)
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
func (d *desk) saveUser(tx people.Tx, user people.User, wasDisabled bool) error {
	if err := tx.UpdateUser(user); err != nil {
		return err
	}
	action := "user.updated"
	switch {
	case user.Disabled && !wasDisabled:
		action = "user.disabled"
	case !user.Disabled && wasDisabled:
		action = "user.enabled"
	}
	return d.audit(tx, action, "user", user.ID)
}

// DeleteUser deletes an account with all that is its own.
func (a *API) DeleteUser(w http.ResponseWriter, r *http.Request, userID string) {
	d := a.desk(r)
	err := d.changeUser(userID, true, func(tx people.Tx, user people.User, _ int64) error {
		if err := tx.DeleteUser(user.ID); err != nil {
			return err
		}
		return d.audit(tx, "user.deleted", "user", user.ID)
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// RevokeUserSessions signs a user out everywhere.
func (a *API) RevokeUserSessions(w http.ResponseWriter, r *http.Request, userID string) {
	d := a.desk(r)
	var served openapi.RevokedSessions
	err := d.changeUser(userID, true, func(tx people.Tx, user people.User, ended int64) error {
		served.Revoked = ended
		return d.audit(tx, "user.sessions_revoked", "user", user.ID)
	})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerJSON(w, r, served)
}

// changeUser runs do with a user that nobody else changes meanwhile, signed out everywhere if asked, and with how many sign-ins that
// ended. A sign-in under way comes before, and ends as well, or sees what was done.
func (d *desk) changeUser(userID string, signOut bool, do func(tx people.Tx, user people.User, ended int64) error) error {
	id, err := ids.Parse(userID)
	if err != nil {
		return noSuchUser()
	}
	return d.change(func(tx people.Tx) error {
		var before, meanwhile int64
		if signOut { // first, because sessions are locked before users everywhere
			if before, err = tx.EndSessionsOf(id); err != nil {
				return err
			}
		}
		user, found, err := tx.LockUser(id)
		if err != nil || !found {
			return orNoSuchUser(err)
		}
		if signOut {
			if meanwhile, err = tx.EndSessionsOf(id); err != nil {
				return err
			}
		}
		return do(tx, user, before+meanwhile)
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
func (d *desk) user(tx people.Tx, u people.User) (openapi.User, error) {
	s := userSummary(u)
	served := openapi.User{
		Id: s.Id, Email: s.Email, FirstName: s.FirstName, LastName: s.LastName, PrimaryPhoneNumber: s.PrimaryPhoneNumber, PhoneNumbers: []openapi.PhoneNumber{},
		OrganizationMemberships: []openapi.OrganizationMembership{}, Disabled: s.Disabled, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	phones, err := tx.PhonesOf(u.ID)
	if err != nil {
		return served, err
	}
	for _, p := range phones {
		number := openapi.PhoneNumber{Id: ids.Format(p.ID), PhoneNumber: p.Number, Verified: !p.VerifiedAt.IsZero(), Primary: p.Primary, CreatedAt: p.CreatedAt}
		if number.Verified {
			number.VerifiedAt = &p.VerifiedAt
		}
		served.PhoneNumbers = append(served.PhoneNumbers, number)
	}
	members, err := tx.MembershipsOf(u.ID)
	for _, m := range members {
		served.OrganizationMemberships = append(served.OrganizationMemberships, d.membership(m))
	}
	return served, err
}
