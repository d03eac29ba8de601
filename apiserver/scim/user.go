package scim

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// User is the document of a user in canonical form: the names of RFC 7643, without attributes that are unknown,
// read-only, or null. A User is not changed after it is made.
type User struct {
	doc map[string]any
}

// ReadUser parses the body of a POST or a PUT. Names are compared without regard to case; of several members with one
// name the last one counts. Unknown attributes and schemas are ignored, as are read-only attributes and password. A
// value of a wrong type is an Error of type invalidValue.
func ReadUser(body []byte) (User, error) {
	o, err := decode(body)
	if err != nil {
		return User{}, err
	}
	doc := map[string]any{}
	for _, m := range o {
		if strings.EqualFold(m.name, EnterpriseSchema) {
			extension, err := readExtension(m.value)
			if err != nil {
				return User{}, err
			}
			put(doc, EnterpriseSchema, extension)
			continue
		}
		if err := readMember(userSchema, doc, m); err != nil {
			return User{}, err
		}
	}
	if doc["userName"] == nil {
		return User{}, refuse(InvalidValue, "userName: is required")
	}
	return User{doc}, nil
}

// readMember reads a member of a resource into its document.
func readMember(s *schema, doc map[string]any, m member) error {
	a := s.lookup(m.name)
	if a == nil || a.readOnly || a.discarded {
		return nil
	}
	v, err := a.read(m.value)
	if err != nil {
		return err
	}
	put(doc, a.name, v)
	return nil
}

func readExtension(value any) (any, error) {
	if value == nil {
		return nil, nil
	}
	o, ok := value.(object)
	if !ok {
		return nil, refuse(InvalidValue, "%s: must be an object", EnterpriseSchema)
	}
	extension := map[string]any{}
	for _, m := range o {
		if err := readMember(enterpriseSchema, extension, m); err != nil {
			return nil, err
		}
	}
	if len(extension) == 0 {
		return nil, nil
	}
	return extension, nil
}

// DecodeUser parses what Encode returned. It does not validate.
func DecodeUser(stored []byte) (User, error) {
	var doc map[string]any
	if err := json.Unmarshal(stored, &doc); err != nil {
		return User{}, fmt.Errorf("stored document of a SCIM user: %w", err)
	}
	return User{doc}, nil
}

// Encode returns the document as JSON, equal for equal documents. Over MaxUserBytes it returns an Error of type
// invalidValue.
func (u User) Encode() ([]byte, error) {
	raw := encode(u.doc)
	if len(raw) > MaxUserBytes {
		return nil, refuse(InvalidValue, "the user has %d bytes; at most %d are stored", len(raw), MaxUserBytes)
	}
	return raw, nil
}

func (u User) text(name string) string {
	s, _ := u.doc[name].(string)
	return s
}

// UserName returns the userName, as sent.
func (u User) UserName() string { return u.text("userName") }

// ExternalID returns the externalId, or "".
func (u User) ExternalID() string { return u.text("externalId") }

// Active reports whether active is true or absent.
func (u User) Active() bool { return u.doc["active"] != false }

// HasActive reports whether the document has active.
func (u User) HasActive() bool { return u.doc["active"] != nil }

// WithActive returns the document with the given value of active.
func (u User) WithActive(active bool) User {
	doc := maps.Clone(u.doc)
	if doc == nil {
		doc = map[string]any{}
	}
	doc["active"] = active
	return User{doc}
}

// Email returns the primary address of type work, else the first one, else the userName if it looks like an address,
// else "".
func (u User) Email() string {
	first := ""
	emails, _ := u.doc["emails"].([]any)
	for _, e := range emails {
		entry, _ := e.(map[string]any)
		value, _ := entry["value"].(string)
		if value == "" {
			continue
		}
		if kind, _ := entry["type"].(string); entry["primary"] == true && strings.EqualFold(kind, "work") {
			return value
		}
		if first == "" {
			first = value
		}
	}
	if name := u.UserName(); first == "" && isAddress(name) {
		return name
	}
	return first
}

// isAddress reports whether a userName has the form of an address: one @ between two parts without spaces.
func isAddress(s string) bool {
	local, domain, ok := strings.Cut(s, "@")
	return ok && local != "" && domain != "" && !strings.ContainsAny(domain, "@") && !strings.ContainsAny(s, " \t\"<>,;") && !strings.HasPrefix(domain, ".")
}

func (u User) name(part string) string {
	name, _ := u.doc["name"].(map[string]any)
	s, _ := name[part].(string)
	return s
}

// GivenName returns name.givenName, or "".
func (u User) GivenName() string { return u.name("givenName") }

// FamilyName returns name.familyName, or "".
func (u User) FamilyName() string { return u.name("familyName") }

// DisplayName returns displayName, else name.formatted, else the given and the family name, else "".
func (u User) DisplayName() string {
	for _, name := range []string{u.text("displayName"), u.name("formatted")} {
		if name != "" {
			return name
		}
	}
	return strings.TrimSpace(u.GivenName() + " " + u.FamilyName())
}

// Equal reports whether both documents are the same.
func (u User) Equal(other User) bool {
	return len(u.doc) == 0 && len(other.doc) == 0 || reflect.DeepEqual(u.doc, other.doc)
}
