// Package imports imports rows from other systems: it reads the lines of a file, evaluates each against the existing
// rows and the lines before it, and writes the remaining rows of a batch in a few statements.
package imports

import (
	"bytes"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/totp"
	"github.com/cardea-iam/cardea/store/people"
)

// MaxLine is the longest imported line, in bytes.
const MaxLine = 16 << 10

// MaxLines is how many non-empty lines a batch may have. It bounds the memory, because the state and the faults of a
// line may be far longer than the line.
const MaxLines = 10_000

// maxFaults bounds the reported faults of a line.
const maxFaults = 4

// Line is a parsed line of a file.
type Line struct {
	// Number is the line's number in the batch from 1, counting empty lines.
	Number           int64
	Kind, ExternalID string
	// User, Organization and Workspace are the external ids of other lines, "" for none.
	User, Organization, Workspace string
	// At is when the object was created, or when the user signed in; zero if the line does not say.
	At time.Time
	// Content is a *User, *Email and so on, depending on the kind.
	Content any
	// Refused is the refusal of the line, nil if no fault was found.
	Refused *apierror.Error
}

// User is an account.
type User struct {
	FirstName, LastName, PasswordHash string
	Disabled                          bool
}

// Email is an address of a user.
type Email struct {
	Address    string
	VerifiedAt time.Time
	// Primary is nil if the line does not say.
	Primary *bool
}

// Phone is a number of a user.
type Phone struct {
	Number, Region string
	VerifiedAt     time.Time
	Primary        *bool
	// SecondFactor makes the number a second factor of the account.
	SecondFactor bool
}

// TOTP is an authenticator app of a user.
type TOTP struct {
	Name       string
	Secret     []byte
	Parameters totp.Parameters
}

// Passkey is a passkey or security key of a user, without the id of the user.
type Passkey struct{ people.Passkey }

// Identity is an identity of a user at the provider of a connection.
type Identity struct {
	// Connection is the slug of a declared connection.
	Connection string
	// Issuer is "" for the one with which sign-ins by the connection look for the subject.
	Issuer, Subject string
	// Email is the address that the provider stated, "" if it is not known.
	Email string
}

// Organization is an organization.
type Organization struct {
	// Slug is "" if it is to be made from the name.
	Name, Slug, Description, ImageURL string
}

// Workspace is a workspace of an organization.
type Workspace struct {
	Name, Slug string
	Default    *bool
}

// Membership is the membership of a user in an organization or a workspace.
type Membership struct {
	Owner bool
	// Role is the name of a MembershipRole, "" for none.
	Role string
}

// SignIn is a sign-in of a user.
type SignIn struct{ Method, Address, UserAgent string }

// APIKey is an API key by its hash.
type APIKey struct {
	App, Name      string
	Digest         apikey.Digest
	Prefix, Suffix string
	Permissions    []string
	Metadata       []byte
	// Scheme is the slug of a rate-limit scheme, "" for none.
	Scheme    string
	ExpiresAt time.Time
}

// The permissions that a credential needs to import lines, by their objects.
const (
	usersWrite         = "users:write"
	organizationsWrite = "organizations:write"
	apiKeysWrite       = "api_keys:write"
	// A credential that may only write users cannot add a factor of its own, with which it would pass the second step.
	factorsWrite = "user_factors:write"
)

// kinds maps the types of lines to the function that reads the type and to the permission that importing it needs.
var kinds = map[string]struct {
	permission string
	read       func(*reader, *Line)
}{
	people.ImportedUser:         {usersWrite, readUser},
	people.ImportedEmail:        {usersWrite, readEmail},
	people.ImportedPhone:        {usersWrite, readPhone},
	people.ImportedSignIn:       {usersWrite, readSignIn},
	people.ImportedOrganization: {organizationsWrite, readOrganization},
	people.ImportedWorkspace:    {organizationsWrite, readWorkspace},
	people.ImportedMembership:   {organizationsWrite, readMembership},
	people.ImportedAPIKey:       {apiKeysWrite, readAPIKey},
	people.ImportedTOTP:         {factorsWrite, readTOTP},
	people.ImportedPasskey:      {factorsWrite, readPasskey},
	people.ImportedIdentity:     {usersWrite, readIdentity},
}

// Permissions returns the permissions that a credential needs to import a line: none if the line is faulty. twoFactors
// reports whether sign-ins by the connection with a slug can count as two factors.
func (l *Line) Permissions(twoFactors func(connection string) bool) []string {
	if l.Kind == "" {
		return nil
	}
	isFactor := l.Kind == people.ImportedPasskey // which also signs in alone
	switch content := l.Content.(type) {
	case *Phone:
		isFactor = content.SecondFactor
	case *Identity:
		isFactor = twoFactors(content.Connection)
	}
	if isFactor {
		return []string{usersWrite, factorsWrite}
	}
	return []string{kinds[l.Kind].permission}
}

// Count returns the number of non-empty lines of a batch.
func Count(batch []byte) int {
	n := 0
	for raw := range bytes.Lines(batch) {
		if !Empty(raw) {
			n++
		}
	}
	return n
}

// Empty reports whether a line is skipped.
func Empty(raw []byte) bool { return len(bytes.TrimSpace(raw)) == 0 }

// Split returns the non-empty lines of a batch with their numbers.
func Split(batch []byte) []Raw {
	lines := make([]Raw, 0, len(batch)/128)
	number := int64(0)
	for raw := range bytes.Lines(batch) {
		number++
		if raw = bytes.TrimSpace(raw); len(raw) > 0 {
			lines = append(lines, Raw{number, raw})
		}
	}
	return lines
}

// Raw is a line before parsing.
type Raw struct {
	Number int64
	Text   []byte
}

// Read parses a line. Faults of its form are in Line.Refused.
func Read(raw Raw, now time.Time) Line {
	line := Line{Number: raw.Number}
	if len(raw.Text) > MaxLine {
		line.Refused = apierror.New(http.StatusBadRequest, "the line is longer than %d bytes", MaxLine)
		return line
	}
	o, err := body.Parse(raw.Text)
	if err != nil {
		line.refuse(err)
		return line
	}
	r := &reader{o, now}
	line.Kind, line.ExternalID = r.required("type", maxExternalID), r.required("external_id", maxExternalID)
	kind, known := kinds[line.Kind]
	if line.Kind != "" && !known {
		o.Fault("type", "must be one of %s", strings.Join(Kinds(), ", "))
	}
	if known && line.ExternalID != "" {
		kind.read(r, &line)
		o.Close()
	}
	line.refuse(o.Err())
	if line.Refused != nil {
		line.Kind = ""
	}
	return line
}

// ReadAll parses the lines of a batch on all cores.
func ReadAll(batch []byte, now time.Time) []Line {
	raw := Split(batch)
	lines := make([]Line, len(raw))
	var group sync.WaitGroup
	part := max(len(raw)/runtime.GOMAXPROCS(0)+1, 64)
	for begin := 0; begin < len(raw); begin += part {
		group.Go(func() {
			for i := begin; i < min(begin+part, len(raw)); i++ {
				lines[i] = Read(raw[i], now)
			}
		})
	}
	group.Wait()
	return lines
}

// Kinds returns the types of lines, sorted.
func Kinds() []string {
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// refuse sets the refusal of a line, with at most maxFaults faults.
func (l *Line) refuse(err error) {
	var refused *apierror.Error
	if !errors.As(err, &refused) {
		return
	}
	l.Refused = refused
	if len(refused.Faults) > maxFaults {
		l.Refused = apierror.Invalid(append(slices.Clone(refused.Faults[:maxFaults]), apierror.Fault{Message: "and more faults"})...)
	}
}

// fault refuses a line with a fault of a member.
func (l *Line) fault(member, message string) {
	l.Refused = apierror.Invalid(apierror.Fault{Pointer: "/" + member, Message: message})
}
