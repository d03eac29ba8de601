package enduser_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/store/people"
)

// oldPassword is shorter than the minimum for new passwords, and oldHash is its hash in another system.
const (
	oldPassword = "U*U"
	oldHash     = "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
)

// importUser writes a user as an import does. Addresses that end in "!" are verified.
func (w *world) importUser(id int64, hash string, addresses ...string) {
	w.T.Helper()
	at := w.Clock.Now().UTC().Truncate(time.Microsecond)
	w.tx(func(tx people.Tx) error {
		var emails []people.Email
		for i, address := range addresses {
			e := people.Email{ID: 10*id + int64(i), User: id, Primary: i == 0, CreatedAt: at}
			if e.Address = strings.TrimSuffix(address, "!"); e.Address != address {
				e.VerifiedAt = at
			}
			emails = append(emails, e)
		}
		err := errors.Join(tx.Bulk().InsertUsers([]people.User{{ID: id, CreatedAt: at}}), tx.Bulk().InsertEmails(emails))
		if hash != "" {
			err = errors.Join(err, tx.Bulk().InsertPasswords([]people.Password{{User: id, Encoded: hash, CreatedAt: at}}))
		}
		return err
	})
}

func (w *world) password(user int64) (encoded string) {
	w.T.Helper()
	w.tx(func(tx people.Tx) (err error) {
		encoded, _, err = tx.Users().Credential(user, people.CredentialPassword)
		return err
	})
	return encoded
}

func (w *world) verifiedEmail(address string) (verified bool) {
	w.T.Helper()
	w.tx(func(tx people.Tx) error {
		e, _, err := tx.Users().Email(address)
		verified = !e.VerifiedAt.IsZero()
		return err
	})
	return verified
}

func byPassword(email, password string) string {
	return fmt.Sprintf(`{"strategy":"password","email":%q,"password":%q}`, email, password)
}

// sendCode returns the body that completes the pending sign-in with a code.
func (b *browser) sendCode(code string) string {
	return fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, b.last.Body.Session.SignInAttempts[0]["id"], code)
}

func TestImportedPasswordSignsInAndIsRehashed(t *testing.T) {
	onEngines(t, func(_ *testing.T, w *world) {
		w.importUser(1, oldHash, "ada@example.com!")
		b := w.browser()
		b.refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", byPassword("ada@example.com", "wrong"))
		if w.password(1) != oldHash {
			w.T.Error("a wrong password changed the hash")
		}
		b.ok("POST", "/auth/signin", byPassword("ada@example.com", oldPassword))
		renewed := w.password(1)
		if !strings.HasPrefix(renewed, "$argon2id$") {
			w.T.Errorf("the hash is %.10s", renewed)
		}
		w.browser().ok("POST", "/auth/signin", byPassword("ada@example.com", oldPassword))
		if w.password(1) != renewed {
			w.T.Error("an argon2id hash was replaced")
		}
	})
}

func TestUnverifiedAddressNeedsCodeAfterPassword(t *testing.T) {
	onOneEngine(t, func(_ *testing.T, w *world) {
		w.importUser(1, oldHash, "Ada@example.com")
		b := w.browser()
		b.ok("POST", "/auth/signin", byPassword("ada@example.com", oldPassword))
		pending := b.last.Body.Session
		if pending.ActiveSignIn != nil || len(pending.SignInAttempts) != 1 || pending.SignInAttempts[0]["method"] != "password" || pending.SignInAttempts[0]["current_step"] != "verify_email_otp" {
			w.T.Fatalf("%+v", pending)
		}
		if w.verifiedEmail("ada@example.com") {
			w.T.Error("the password proved the address")
		}
		b.ok("POST", "/auth/attempt-verification", b.sendCode(w.CodeFor("Ada@example.com", 1)))
		if b.last.Body.Session.ActiveSignIn == nil || !w.verifiedEmail("ada@example.com") {
			w.T.Errorf("not signed in, or not verified: %s", b.last.Raw)
		}
		if !strings.HasPrefix(w.password(1), "$argon2id$") {
			w.T.Error("the password was removed, or not rehashed")
		}
		w.browser().ok("POST", "/auth/signin", byPassword("ada@example.com", oldPassword))
	})
}

func TestCodeAloneDropsImportedPassword(t *testing.T) {
	onOneEngine(t, func(_ *testing.T, w *world) {
		w.importUser(1, oldHash, "ada@example.com")
		b := w.browser()
		b.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"ada@example.com"}`)
		b.ok("POST", "/auth/attempt-verification", b.sendCode(w.CodeFor("ada@example.com", 1)))
		if !w.verifiedEmail("ada@example.com") || w.password(1) != "" {
			w.T.Errorf("verified %t, password %q", w.verifiedEmail("ada@example.com"), w.password(1))
		}
		w.browser().refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", byPassword("ada@example.com", oldPassword))
		w.importUser(2, oldHash, "bob@example.com!")
		other := w.browser()
		other.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"bob@example.com"}`)
		other.ok("POST", "/auth/attempt-verification", other.sendCode(w.CodeFor("bob@example.com", 1)))
		if w.password(2) != oldHash {
			w.T.Error("the password of a proven address was dropped")
		}
	})
}

// Data that another person may have added to the account is removed once a code alone verifies the address.
func TestCodeAloneDropsUnprovenData(t *testing.T) {
	onOneEngine(t, func(_ *testing.T, w *world) {
		at := w.Clock.Now().UTC().Truncate(time.Microsecond)
		w.importUser(1, oldHash, "second@example.com", "ada@example.com")
		w.importUser(2, oldHash, "bob@example.com!")
		w.tx(func(tx people.Tx) error {
			var err error
			for user := int64(1); user <= 2; user++ {
				err = errors.Join(err,
					tx.Bulk().InsertPhones([]people.Phone{{ID: 70 + user, User: user, Number: fmt.Sprintf("+1415555267%d", user), Region: "US", Primary: true, VerifiedAt: at, CreatedAt: at}}),
					tx.APIKeys().InsertAPIKey(people.APIKey{ID: 80 + user, App: "shop", Name: "Old", Digest: sha256.Sum256([]byte(fmt.Sprint("key", user))), Owner: user, CreatedAt: at, UpdatedAt: at}),
					tx.Identities().InsertIdentity(people.Identity{ID: 95 + user, Connection: 1, Issuer: "https://idp.example", Subject: fmt.Sprint(user), User: user, CreatedAt: at}))
			}
			return errors.Join(err, tx.Sessions().InsertSession(people.Session{ID: 90, CreatedAt: at, UsedAt: at, ExpiresAt: at.Add(time.Hour)}),
				tx.Sessions().InsertSignIn(people.SignIn{ID: 91, Session: 90, User: 1, Method: people.MethodPassword, CreatedAt: at}))
		})
		for _, address := range []string{"ada@example.com", "bob@example.com"} {
			b := w.browser()
			b.ok("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"email_otp","email":%q}`, address))
			b.ok("POST", "/auth/attempt-verification", b.sendCode(w.CodeFor(address, 1)))
			if b.ok("GET", "/session", ""); b.last.Body.Session.ActiveSignIn == nil && !strings.Contains(b.last.Raw, address) {
				w.T.Errorf("%s is not signed in: %s", address, b.last.Raw)
			}
		}
		w.tx(func(tx people.Tx) error {
			emails, err := tx.Users().EmailsOf(1)
			if err != nil || len(emails) != 1 || emails[0].Address != "ada@example.com" || !emails[0].Primary || emails[0].VerifiedAt.IsZero() {
				w.T.Errorf("addresses %+v, %v", emails, err)
			}
			if signIns, err := tx.Sessions().SignInsOf(1); err != nil || len(signIns) != 1 || signIns[0].ID == 91 {
				w.T.Errorf("sign-ins %+v, %v", signIns, err)
			}
			for user := int64(1); user <= 2; user++ {
				phones, err := tx.Phones().PhonesOf(user)
				key, _, more := tx.APIKeys().APIKey(80 + user)
				if kept := user == 2; err != nil || more != nil || (len(phones) == 1) != kept || key.RevokedAt.IsZero() != kept {
					w.T.Errorf("user %d: phones %+v, key %+v, %v, %v", user, phones, key, err, more)
				}
				if identities, err := tx.Identities().IdentitiesOf(user); err != nil || (len(identities) == 1) != (user == 2) {
					w.T.Errorf("user %d: identities %+v, %v", user, identities, err)
				}
			}
			return nil
		})
	})
}

// An invitation is for a user who verified its address, whether primary or not.
func TestInvitationNeedsVerifiedAddress(t *testing.T) {
	onSQLite(t, func(w *world) {
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		w.importUser(1, oldHash, "bob@example.com", "thief@example.com!")
		w.importUser(2, oldHash, "carol@example.com!", "dave@example.com!")
		accepts := func(invited, signsIn string) (*browser, string) {
			owner.invites(organization, invited)
			b := w.browser()
			b.ok("POST", "/auth/signin", byPassword(signsIn, oldPassword))
			return b, fmt.Sprintf(`{"token":%q}`, w.InvitationFor(invited, 1))
		}
		b, token := accepts("bob@example.com", "thief@example.com")
		b.refused(400, "INVALID_INVITATION", "POST", "/organizations/invitations/accept", token)
		b, token = accepts("dave@example.com", "carol@example.com")
		b.ok("POST", "/organizations/invitations/accept", token)
	})
}

// Another account has the address as an unverified one, in addition to a verified address. The owner can still sign up.
func TestSignUpTakesUnverifiedAddressFromAnotherAccount(t *testing.T) {
	onOneEngine(t, func(_ *testing.T, w *world) {
		w.importUser(1, oldHash, "thief@example.com!", "ada@example.com")
		w.importUser(2, oldHash, "bob@example.com")
		b := w.browser()
		b.ok("POST", "/auth/signup", `{"email":"ada@example.com","password":"correct horse battery staple"}`)
		b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id":%q,"code":%q}`, b.last.Body.Session.SignUpAttempts[0]["id"], w.CodeFor("ada@example.com", 1)))
		w.tx(func(tx people.Tx) error {
			e, found, err := tx.Users().Email("ada@example.com")
			if err != nil || !found || e.User == 1 || !e.Primary || e.VerifiedAt.IsZero() {
				w.T.Errorf("%+v, %t, %v", e, found, err)
			}
			rest, err := tx.Users().EmailsOf(1)
			if err != nil || len(rest) != 1 || rest[0].Address != "thief@example.com" {
				w.T.Errorf("the other account has %+v, %v", rest, err)
			}
			return nil
		})
		// If a code to the address can sign in to an existing account, a sign-up creates no second account.
		taken := w.browser()
		taken.ok("POST", "/auth/signup", `{"email":"bob@example.com","password":"correct horse battery staple"}`)
		taken.refused(400, "INVALID_CODE", "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id":%q,"code":"000000"}`, taken.last.Body.Session.SignUpAttempts[0]["id"]))
		w.tx(func(tx people.Tx) error {
			if e, found, err := tx.Users().Email("bob@example.com"); err != nil || !found || e.User != 2 {
				w.T.Errorf("%+v, %t, %v", e, found, err)
			}
			return nil
		})
	})
}

// Access to the mailbox of an unverified address does not permit a sign-in to an account with a verified one.
func TestCodeToUnverifiedSecondAddressDoesNotSignIn(t *testing.T) {
	onOneEngine(t, func(_ *testing.T, w *world) {
		w.importUser(1, oldHash, "ada@example.com!", "second@example.com")
		b := w.browser()
		b.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"second@example.com"}`)
		b.refused(400, "INVALID_CODE", "POST", "/auth/attempt-verification", b.sendCode("000000"))
		// The password shows that the user owns the account: the code is sent to the unverified address.
		owner := w.browser()
		owner.ok("POST", "/auth/signin", byPassword("second@example.com", oldPassword))
		code := owner.sendCode(w.CodeFor("second@example.com", 1))
		if n := len(w.Carrier.Messages("ada@example.com")); n != 0 {
			w.T.Errorf("%d mails went to the first address when a code was asked for the second", n)
		}
		owner.ok("POST", "/auth/attempt-verification", code)
		if !w.verifiedEmail("second@example.com") || w.password(1) == "" {
			w.T.Error("the second address is not verified, or the password is gone")
		}
		// The first address is notified, and gets no code for the account.
		w.notices("ada@example.com", "second@example.com was added to your account", 1)
		for _, m := range w.Carrier.Messages("ada@example.com") {
			if frontendtest.CodeIn(m.Body) != "" {
				w.T.Errorf("a code for the second address went to the first: %s", m.Body)
			}
		}
	})
}

// A code after a right password does not sign in if the password was removed in between.
func TestRemovedPasswordDoesNotSignIn(t *testing.T) {
	onOneEngine(t, func(_ *testing.T, w *world) {
		w.importUser(1, oldHash, "ada@example.com")
		b := w.browser()
		b.ok("POST", "/auth/signin", byPassword("ada@example.com", oldPassword))
		w.tx(func(tx people.Tx) error {
			_, err := tx.Users().DeleteCredential(1, people.CredentialPassword)
			return err
		})
		b.refused(401, "INVALID_CREDENTIALS", "POST", "/auth/attempt-verification", b.sendCode(w.CodeFor("ada@example.com", 1)))
		if w.verifiedEmail("ada@example.com") {
			w.T.Error("a refused sign-in verified the address")
		}
	})
}

func TestUnverifiedAddressCannotSignInWithoutMail(t *testing.T) {
	onSQLite(t, func(w *world) {
		silent := w.Settings()
		silent.Email = nil
		w.Declare(silent)
		w.importUser(1, oldHash, "ada@example.com")
		w.importUser(2, oldHash, "bob@example.com!")
		w.browser().refused(403, "EMAIL_DISABLED", "POST", "/auth/signin", byPassword("ada@example.com", oldPassword))
		w.browser().ok("POST", "/auth/signin", byPassword("bob@example.com", oldPassword))
	})
}

func TestDisabledUserIsShownOnlyAfterRightPassword(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.importUser(1, oldHash, "ada@example.com")
		w.tx(func(tx people.Tx) error {
			return tx.Users().UpdateUser(people.User{ID: 1, Disabled: true, UpdatedAt: w.Clock.Now()})
		})
		w.browser().refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", byPassword("ada@example.com", "wrong"))
		w.browser().refused(403, "USER_DISABLED", "POST", "/auth/signin", byPassword("ada@example.com", oldPassword))
	})
}
