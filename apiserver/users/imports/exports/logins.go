package exports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/internal/text"
)

// login is a login of a user by an identity provider.
type login struct {
	// names are the names of the provider in the system, the most specific one first.
	names []string
	// subject is the id of the user at the provider, "" if the export does not contain it.
	subject string
	// email is the address that the provider stated, "" if the export does not contain it.
	email string
}

// textOrNumber returns the text of a JSON string or whole number, "" for other values.
func textOrNumber(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number int64
	if json.Unmarshal(raw, &number) == nil {
		return strconv.FormatInt(number, 10)
	}
	return ""
}

// ConnectionOf parses a mapping of a provider's name in the other system to the slug of a connection: NAME=SLUG.
func ConnectionOf(mapping string) (name, slug string, err error) {
	at := strings.LastIndexByte(mapping, '=')
	if at < 1 || at == len(mapping)-1 {
		return "", "", fmt.Errorf("%q is not NAME=SLUG: the name of a provider in the exports, and the slug of a Connection", mapping)
	}
	return mapping[:at], mapping[at+1:], nil
}

// slugOf returns the slug of the connection that the options map a login to, "" for none.
func (l *Lines) slugOf(one login) string {
	for _, name := range one.names {
		if slug := l.connections[name]; slug != "" {
			return slug
		}
	}
	return ""
}

// logins writes the logins of a user whose providers are mapped to connections, and leaves out the others.
func (l *Lines) logins(user string, all []login) error {
	written, digits := map[string]bool{}, map[string]bool{}
	for _, one := range all {
		slug := l.slugOf(one)
		if slug == "" {
			l.leave("a login by " + l.reported(one) + " that no --connection maps")
			continue
		}
		if one.subject == "" {
			l.leave("a login without the user's id at the provider")
			continue
		}
		key := slug + "/" + one.subject
		if written[key] {
			continue
		}
		written[key] = true
		email, err := text.Email(one.email)
		if err != nil {
			email = "" // it is only displayed
		}
		identity := line{Type: "identity", ExternalID: addressID(user, "identity/"+key, digits), User: user, Connection: slug, Subject: one.subject, Email: email}
		if err := l.write(identity); err != nil {
			return err
		}
	}
	return nil
}

// maxReported bounds the names of providers in a report.
const maxReported = 50

// reportedForm matches the names of providers that a report may contain. Other names may be any text.
var reportedForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// reported returns the name of a provider in a report.
func (l *Lines) reported(one login) string {
	name := ""
	for _, candidate := range one.names {
		name = cmp.Or(name, candidate)
	}
	if !reportedForm.MatchString(name) || !l.named[name] && len(l.named) >= maxReported {
		return "another provider"
	}
	l.named[name] = true
	return name
}
