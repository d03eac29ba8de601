// Package exports makes lines that can be imported of the export files of other systems. It reads files and writes lines, nothing else; what
// it cannot bring along it leaves out, and tells.
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

// Source is where in the export files a line came from.
type Source struct {
	File string
	// Record counts from 1: the lines of a file of lines, else the users in it.
	Record int
}

// LeftOut is something that the lines do not bring along.
type LeftOut struct {
	What string
	// Users is of how many users, and First the first of them.
	Users int
	First Source
}

// Lines are where a conversion writes to.
type Lines struct {
	out     *bufio.Writer
	sources sources
	at      Source
	left    map[string]*LeftOut
}

// NewLines returns lines that are written to out.
func NewLines(out io.Writer) *Lines {
	return &Lines{out: bufio.NewWriterSize(out, 1<<20), left: map[string]*LeftOut{}}
}

// Source is where the line of a number, from 1, came from, zero: there is no such line.
func (l *Lines) Source(number int64) Source { return l.sources.of(number) }

// Flush ends the writing.
func (l *Lines) Flush() error { return l.out.Flush() }

// LeftOut tells what the lines do not bring along, sorted.
func (l *Lines) LeftOut() []LeftOut {
	told := make([]LeftOut, 0, len(l.left))
	for _, left := range l.left {
		told = append(told, *left)
	}
	sort.Slice(told, func(i, j int) bool { return told[i].What < told[j].What })
	return told
}

// leave notes that something of the present record is left out.
func (l *Lines) leave(what string) {
	if l.left[what] == nil {
		l.left[what] = &LeftOut{What: what, First: l.at}
	}
	l.left[what].Users++
}

// converters are the systems whose exports are read: all files of one run together.
var converters = map[string]func(files []File, to *Lines) error{"auth0": auth0, "clerk": clerk, "firebase": firebase, "keycloak": keycloak}

// Systems are those whose exports are read, sorted.
func Systems() []string {
	names := make([]string, 0, len(converters))
	for name := range converters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Convert writes the lines that the export files of a system make.
func Convert(system string, files []File, to *Lines) error {
	convert, known := converters[system]
	if !known {
		return fmt.Errorf("exports of %q are not read: choose one of %s", system, strings.Join(Systems(), ", "))
	}
	if err := convert(files, to); err != nil {
		return err
	}
	return to.Flush()
}

// person is a user as every system has one.
type person struct {
	id, firstName, lastName string
	// password is an encoded hash, "": none.
	password string
	disabled bool
	// created is zero where the export does not say.
	created time.Time
	emails  []address
	phones  []address
}

// address is an email or a phone number.
type address struct {
	value    string
	verified bool
}

// unknownTime stands for when an address was verified that was, at a time that the export does not tell.
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
	CreatedAt    string `json:"created_at,omitempty"`
}

// person writes a user with the addresses. A password that cannot be verified here is left out.
func (l *Lines) person(p person) error {
	if p.id == "" {
		l.leave("users without an id")
		return nil
	}
	user := line{Type: "user", ExternalID: p.id, FirstName: p.firstName, LastName: p.lastName, PasswordHash: p.password, Disabled: p.disabled}
	if p.password != "" {
		if _, err := foreign.Parse(p.password); err != nil {
			user.PasswordHash = ""
			l.leave("a password whose hash has another form, or is beyond its bounds")
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
	write := func(of []address, line func(value string) line) error {
		named := map[string]bool{}
		for _, a := range of {
			next := line(a.value)
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
	if err := write(l.proven(p.emails), func(value string) line { return line{Type: "email", Email: value} }); err != nil {
		return err
	}
	return write(p.phones, func(value string) line { return line{Type: "phone", PhoneNumber: value} })
}

// proven leaves unproven emails out beside a proven one: nobody needs them to sign in, and another may own them.
func (l *Lines) proven(emails []address) []address {
	proven := slices.DeleteFunc(slices.Clone(emails), func(a address) bool { return !a.verified })
	if len(proven) == 0 || len(proven) == len(emails) {
		return emails
	}
	l.leave("an unverified email beside a verified one")
	return proven
}

// addressDigits is how much of an address's digest its external id has, in hexadecimal digits: few enough that many addresses share them,
// because the external id stays in the store when the user is deleted.
const addressDigits = 6

// addressID is the external id of an address, the same in each conversion. named are those that the user has already.
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

// millis is a time in milliseconds since 1970, zero for 0.
func millis(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// broken is the error of a file that cannot be read.
func (l *Lines) broken(err error) error {
	return fmt.Errorf("%s: record %d: %w", l.at.File, l.at.Record, err)
}

// eachOnce drops empty addresses, and those that were there before.
func eachOnce(addresses []address) []address {
	seen := map[string]bool{"": true}
	return slices.DeleteFunc(addresses, func(a address) bool {
		folded := strings.ToLower(a.value)
		twice := seen[folded]
		seen[folded] = true
		return twice
	})
}
