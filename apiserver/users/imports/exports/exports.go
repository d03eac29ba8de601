// Package exports converts the export files of other systems to import lines. It only reads files and writes lines. It
// leaves out what cannot be converted, and reports it.
package exports

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/password/foreign"
)

// File is an export file.
type File struct {
	Name string
	io.ReadSeeker
}

// Source is the position in the export files that a line was made from.
type Source struct {
	File string
	// Record counts from 1: the lines of a line-based file, otherwise the users in the file.
	Record int
}

// LeftOut describes data that the lines do not contain.
type LeftOut struct {
	What string
	// Users is the number of users concerned, and First the first of them.
	Users int
	First Source
}

// Lines is the output of a conversion.
type Lines struct {
	out     *bufio.Writer
	sources sources
	at      Source
	left    map[string]*LeftOut
	// named are the names of providers in what is left out.
	named map[string]bool
	// connections are the slugs of connections by the names of providers.
	connections map[string]string
	// relyingParty is that of passkeys for which the export does not contain it, "" if it is not known.
	relyingParty string
}

// NewLines returns a Lines that writes to out.
func NewLines(out io.Writer) *Lines {
	return &Lines{out: bufio.NewWriterSize(out, 1<<20), left: map[string]*LeftOut{}, named: map[string]bool{}}
}

// Source returns the source of a line by its number from 1, zero if there is no such line.
func (l *Lines) Source(number int64) Source { return l.sources.of(number) }

// Flush writes buffered lines.
func (l *Lines) Flush() error { return l.out.Flush() }

// LeftOut returns the data that the lines do not contain, sorted.
func (l *Lines) LeftOut() []LeftOut {
	all := make([]LeftOut, 0, len(l.left))
	for _, left := range l.left {
		all = append(all, *left)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].What < all[j].What })
	return all
}

// leave records that data of the current record is left out.
func (l *Lines) leave(what string) {
	if l.left[what] == nil {
		l.left[what] = &LeftOut{What: what, First: l.at}
	}
	l.left[what].Users++
}

// converters maps each system to the function that converts all export files of one run.
var converters = map[string]func(files []File, to *Lines) error{"auth0": auth0, "clerk": clerk, "firebase": firebase, "keycloak": keycloak}

// Systems returns the names of the systems whose exports can be converted, sorted.
func Systems() []string {
	names := make([]string, 0, len(converters))
	for name := range converters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Options has what a conversion needs and exports do not contain.
type Options struct {
	// RelyingParty is the relying party id of passkeys for which the export does not contain it. If it is "", these
	// passkeys are left out.
	RelyingParty string
	// Connections are the slugs of connections by the names of providers in the exports. Logins by other providers are
	// left out.
	Connections map[string]string
}

// Convert writes the lines of a system's export files.
func Convert(system string, files []File, options Options, to *Lines) error {
	convert, known := converters[system]
	if !known {
		return fmt.Errorf("exports of %q are not supported: use one of %s", system, strings.Join(Systems(), ", "))
	}
	to.relyingParty, to.connections = options.RelyingParty, options.Connections
	if err := convert(files, to); err != nil {
		return err
	}
	return to.Flush()
}

// person is a user, in the form that all systems share.
type person struct {
	id, firstName, lastName string
	// password is an encoded hash, "" for none.
	password string
	disabled bool
	// created is zero if the export does not contain it.
	created time.Time
	emails  []address
	phones  []address
	// authenticators and passkeys are second factors, or ways to sign in.
	authenticators []authenticator
	passkeys       []credential
	logins         []login
}

// address is an email or a phone number.
type address struct {
	value    string
	verified bool
	// secondFactor makes a verified number a second factor.
	secondFactor bool
}

// unknownTime is the verification time of a verified address if the export does not contain the time.
var unknownTime = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// line is a line of any type.
type line struct {
	Type         string `json:"type"`
	ExternalID   string `json:"external_id"`
	User         string `json:"user,omitempty"`
	FirstName    string `json:"first_name,omitempty"`
	LastName     string `json:"last_name,omitempty"`
	PasswordHash string `json:"password_hash,omitempty"`
	Disabled     bool   `json:"disabled,omitempty"`
	Email        string `json:"email,omitempty"`
	PhoneNumber  string `json:"phone_number,omitempty"`
	VerifiedAt   string `json:"verified_at,omitempty"`
	SecondFactor bool   `json:"second_factor,omitempty"`
	CreatedAt    string `json:"created_at,omitempty"`

	// The members of factors.
	Secret           string   `json:"secret,omitempty"`
	Algorithm        string   `json:"algorithm,omitempty"`
	Digits           int      `json:"digits,omitempty"`
	Period           int      `json:"period,omitempty"`
	RelyingParty     string   `json:"rp_id,omitempty"`
	CredentialID     string   `json:"credential_id,omitempty"`
	PublicKey        string   `json:"public_key,omitempty"`
	UserHandle       string   `json:"user_handle,omitempty"`
	SignCount        int64    `json:"sign_count,omitempty"`
	BackupEligible   *bool    `json:"backup_eligible,omitempty"`
	BackedUp         bool     `json:"backed_up,omitempty"`
	Transports       []string `json:"transports,omitempty"`
	SecondFactorOnly bool     `json:"second_factor_only,omitempty"`
	Name             string   `json:"name,omitempty"`

	// The members of identities.
	Connection string `json:"connection,omitempty"`
	Subject    string `json:"subject,omitempty"`
}

// person writes a user with its addresses, factors and logins. It leaves out a password that cannot be verified here.
func (l *Lines) person(p person) error {
	if p.id == "" {
		l.leave("users without an id")
		return nil
	}
	user := line{Type: "user", ExternalID: p.id, FirstName: p.firstName, LastName: p.lastName, PasswordHash: p.password, Disabled: p.disabled}
	if p.password != "" {
		if _, err := foreign.Parse(p.password); err != nil {
			user.PasswordHash = ""
			l.leave("a password whose hash has an unsupported form, or parameters that are out of bounds")
		}
	}
	verified := unknownTime
	if !p.created.IsZero() {
		verified = p.created
		user.CreatedAt = stamp(p.created)
	}
	if err := l.write(user); err != nil {
		return err
	}
	write := func(of []address, line func(address) line) error {
		named := map[string]bool{}
		for _, a := range of {
			next := line(a)
			next.ExternalID, next.User = addressID(p.id, a.value, named), p.id
			if a.verified {
				next.VerifiedAt = stamp(verified)
			}
			if err := l.write(next); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(l.proven(p.emails), func(a address) line { return line{Type: "email", Email: a.value} }); err != nil {
		return err
	}
	err := write(p.phones, func(a address) line { return line{Type: "phone", PhoneNumber: a.value, SecondFactor: a.secondFactor} })
	if err != nil {
		return err
	}
	if err := l.authenticators(p); err != nil {
		return err
	}
	named := map[string]bool{}
	for _, c := range p.passkeys {
		if err := l.passkey(p.id, c, named); err != nil {
			return err
		}
	}
	return l.logins(p.id, p.logins)
}

// proven leaves out unverified emails if there is a verified one: they are not needed to sign in, and may belong to
// another person.
func (l *Lines) proven(emails []address) []address {
	proven := slices.DeleteFunc(slices.Clone(emails), func(a address) bool { return !a.verified })
	if len(proven) == 0 || len(proven) == len(emails) {
		return emails
	}
	l.leave("an unverified email of a user who has a verified one")
	return proven
}

// addressDigits is how many hexadecimal digits of an address's digest its external id has. It is so few that many
// addresses share them, because the external id stays in the store after the user is deleted.
const addressDigits = 6

// addressID returns the external id of an address, the same in each conversion. named are the digits that the user's
// other addresses have.
func addressID(user, value string, named map[string]bool) string {
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(user+"/"+strings.ToLower(value))))
	digits := addressDigits
	for digits < len(digest) && named[digest[:digits]] {
		digits++
	}
	named[digest[:digits]] = true
	return user + "/" + digest[:digits]
}

func (l *Lines) write(one line) error {
	raw, err := json.Marshal(one)
	if err != nil {
		return err
	}
	l.sources.add(l.at)
	_, err = l.out.Write(append(raw, '\n'))
	return err
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// millis returns a time from milliseconds since 1970, zero for 0.
func millis(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// broken returns the error of a file that cannot be read.
func (l *Lines) broken(err error) error {
	return fmt.Errorf("%s: record %d: %w", l.at.File, l.at.Record, err)
}

// eachOnce drops empty addresses and duplicates.
func eachOnce(addresses []address) []address {
	seen := map[string]bool{"": true}
	return slices.DeleteFunc(addresses, func(a address) bool {
		folded := strings.ToLower(a.value)
		twice := seen[folded]
		seen[folded] = true
		return twice
	})
}
