package exports

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/totp"
)

// clerk reads the CSV of users that Clerk's dashboard exports, and then files with the users of Clerk's Backend API,
// which have their logins.
func clerk(files []File, to *Lines) error {
	var later []File
	for _, f := range files {
		head, err := headOf(f)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(head, []byte("{")) {
			later = append(later, f)
			continue
		}
		if err := clerkUsers(f, to); err != nil {
			return err
		}
	}
	for _, f := range later {
		if err := jsonLines(f, to, to.leave, to.clerkLogins); err != nil {
			return err
		}
	}
	return nil
}

// clerkUsers reads a CSV of users.
func clerkUsers(f File, to *Lines) error {
	to.at = Source{File: f.Name, Record: 1}
	input := &bounded{from: f, left: maxRecord}
	rows := csv.NewReader(input)
	rows.FieldsPerRecord = -1
	head, err := rows.Read()
	if err != nil {
		return to.noCSV(err)
	}
	columns := map[string]int{}
	for i, name := range head {
		columns[strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))] = i
	}
	for _, needed := range []string{"id", "primary_email_address"} {
		if _, found := columns[needed]; !found {
			return to.broken(errors.New("the first line has no column " + needed + ": is it Clerk's export of users?"))
		}
	}
	for {
		input.next()
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return to.noCSV(err)
		}
		to.at.Record, _ = rows.FieldPos(0)
		cell := func(name string) string {
			i, found := columns[name]
			if !found || i >= len(row) {
				return ""
			}
			return strings.TrimSpace(row[i])
		}
		if err := clerkUser(cell, to); err != nil {
			return err
		}
	}
}

// noCSV returns the error of a file whose next record cannot be parsed.
func (l *Lines) noCSV(err error) error {
	var wrong *csv.ParseError
	if errors.As(err, &wrong) {
		l.at.Record, err = wrong.StartLine, wrong.Err
	}
	if errors.Is(err, errLongRecord) {
		err = fmt.Errorf("the record after it %w", errLongRecord)
	}
	return l.broken(err)
}

func clerkUser(cell func(string) string, to *Lines) error {
	p := person{
		id: cell("id"), firstName: cell("first_name"), lastName: cell("last_name"), password: cell("password_digest"),
		disabled: cell("banned") == "true", created: clerkTime(cell("created_at")),
	}
	p.emails = clerkAddresses(cell, "primary_email_address", "verified_email_addresses", "unverified_email_addresses")
	p.phones = clerkAddresses(cell, "primary_phone_number", "verified_phone_numbers", "unverified_phone_numbers")
	if secret := cell("totp_secret"); secret != "" {
		p.authenticators = []authenticator{{key: factorKey(0), secret: base32Secret(secret), parameters: totp.Default()}}
	}
	for column, what := range map[string]string{"passkeys": "a passkey", "backup_codes": recoveryCodes} {
		if value := cell(column); value != "" && value != "[]" {
			to.leave(what)
		}
	}
	if cell("username") != "" {
		to.leave("a user name")
	}
	if p.created.IsZero() {
		to.leave("the creation time of an account, which is set to the time of the import")
	}
	return to.person(p)
}

// clerkAddresses returns the primary address, then the others, verified ones first.
func clerkAddresses(cell func(string) string, primary, verified, unverified string) []address {
	var others []address
	for _, column := range []struct {
		name     string
		verified bool
	}{{verified, true}, {unverified, false}} {
		for _, value := range strings.FieldsFunc(cell(column.name), func(r rune) bool { return strings.ContainsRune("|,; ", r) }) {
			others = append(others, address{value: value, verified: column.verified})
		}
	}
	first := address{value: cell(primary)}
	for _, other := range others {
		first.verified = first.verified || other.verified && strings.EqualFold(other.value, first.value)
	}
	return eachOnce(append([]address{first}, others...))
}

// clerkTime parses a time in RFC 3339 or in milliseconds; zero if there is none.
func clerkTime(text string) time.Time {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return millis(n)
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at
}
