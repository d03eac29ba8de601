// Package input reads members that the request bodies of several listeners share. It records a member's fault in the
// object, and how to fix it.
package input

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/internal/domainname"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
)

// Email reads an email address, "" if it is absent.
func Email(o *body.Object, member string) string {
	sent, ok := o.String(member)
	if !ok {
		return ""
	}
	email, err := text.Email(sent)
	if err != nil {
		o.Fault(member, "%v", err)
	}
	return email
}

// ID reads an id, 0 if it is absent.
func ID(o *body.Object, member string) int64 {
	sent, ok := o.String(member)
	if !ok {
		return 0
	}
	id, err := ids.Parse(sent)
	if err != nil {
		o.Fault(member, "must be an id: a decimal integer from 1 to 9223372036854775807, as a string")
	}
	return id
}

// Name reads a name of 1 to 80 characters, nil if it is absent.
func Name(o *body.Object, member string) *string {
	return read(o, member, text.Name)
}

// Domain reads a domain in the form in which organizations have it, nil if it is absent.
func Domain(o *body.Object, member string) *string {
	return read(o, member, domainname.Parse)
}

// Description reads a text of at most 500 characters, nil if it is absent.
func Description(o *body.Object, member string) *string {
	return read(o, member, text.Description)
}

// maxURL bounds the address of a picture, in bytes.
const maxURL = 2048

// ImageURL reads the address of a picture, "" for none, nil if it is absent. It must be https, because pages show it.
func ImageURL(o *body.Object, member string) *string {
	return read(o, member, func(sent string) (string, error) {
		if sent == "" {
			return "", nil
		}
		u, err := url.Parse(sent)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(sent) > maxURL || strings.ContainsFunc(sent, unsafeInURL) {
			return "", fmt.Errorf("must be an address such as https://cdn.example.com/logo.png, of at most %d bytes, or empty for none", maxURL)
		}
		return sent, nil
	})
}

func unsafeInURL(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'<>\\`", r) }

// PersonName reads a user's name, which may be empty; nil if it is absent.
func PersonName(o *body.Object, member string) *string {
	return read(o, member, func(sent string) (string, error) {
		if strings.TrimSpace(sent) == "" {
			return "", nil
		}
		return text.Name(sent)
	})
}

// Bool reads a boolean, nil if it is absent.
func Bool(o *body.Object, member string) *bool {
	value, ok := o.Bool(member)
	if !ok {
		return nil
	}
	return &value
}

func read(o *body.Object, member string, rule func(string) (string, error)) *string {
	sent, ok := o.String(member)
	if !ok {
		return nil
	}
	value, err := rule(sent)
	if err != nil {
		o.Fault(member, "%v", err)
	}
	return &value
}

// Future reads a time in the future, zero if it is absent or null.
func Future(o *body.Object, member string, now time.Time) time.Time {
	at := Time(o, member)
	if !at.IsZero() && !at.After(now) {
		o.Fault(member, "must be in the future")
	}
	return at
}

// Seen reads the updated_at of what a request changes, as its sender read it; zero if it is absent. null is a fault: a
// change that was to be compared must not be made without the comparison.
func Seen(o *body.Object) time.Time {
	const member = "expected_updated_at"
	if o.IsNull(member) {
		o.Fault(member, "must be the updated_at of the last response, or absent")
	}
	return Time(o, member)
}

// Time reads a time, zero if it is absent or null.
func Time(o *body.Object, member string) time.Time {
	if o.IsNull(member) {
		return time.Time{}
	}
	sent, ok := o.String(member)
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, sent)
	if err != nil || at.Year() > 9999 || at.Year() < 1970 {
		o.Fault(member, "must be an RFC 3339 time, such as 2030-01-02T15:04:05Z")
		return time.Time{}
	}
	return at.UTC().Truncate(time.Microsecond)
}
