package scim

import "strings"

// kind is the type of an attribute (RFC 7643, 2.3).
type kind string

const (
	textKind      kind = "string"
	booleanKind   kind = "boolean"
	dateTimeKind  kind = "dateTime"
	referenceKind kind = "reference"
	binaryKind    kind = "binary"
	complexKind   kind = "complex"
)

// attribute is an attribute of a schema. One table serves the input, PATCH, filters, responses and /Schemas.
type attribute struct {
	name, description string
	// label is the path in errors: emails.value.
	label string
	kind  kind
	multi bool
	// required attributes cannot be removed. readOnly ones are ignored in bodies and refused as paths. A discarded one is
	// accepted and not stored: password, schemas.
	required, readOnly, discarded bool
	// exact values differ by case.
	exact bool
	// short values have at most MaxNameBytes and no control characters.
	short bool
	// common attributes are part of every resource, and of no schema (RFC 7643, 3.1).
	common bool
	unique bool
	types  []string
	sub    []*attribute
}

// schema is a table of attributes.
type schema struct {
	id, name, description string
	attributes            []*attribute
	byName                map[string]*attribute
}

// lookup returns the attribute of a name, without regard to case, or nil.
func (s *schema) lookup(name string) *attribute {
	if a, ok := s.byName[name]; ok {
		return a
	}
	return s.byName[strings.ToLower(name)]
}

// lookup returns the sub-attribute of a name, without regard to case, or nil.
func (a *attribute) lookup(name string) *attribute {
	for _, s := range a.sub {
		if strings.EqualFold(s.name, name) {
			return s
		}
	}
	return nil
}

func newSchema(id, name, description, prefix string, attributes ...*attribute) *schema {
	s := &schema{id: id, name: name, description: description, attributes: attributes, byName: map[string]*attribute{}}
	for _, a := range attributes {
		a.label = prefix + a.name
		for _, sub := range a.sub {
			sub.label = a.label + "." + sub.name
		}
		s.byName[a.name], s.byName[strings.ToLower(a.name)] = a, a
	}
	return s
}

// common returns the attributes of every resource, before those of its schema.
func common(attributes ...*attribute) []*attribute {
	return append([]*attribute{
		{name: "schemas", kind: referenceKind, multi: true, discarded: true, common: true},
		{name: "id", kind: textKind, readOnly: true, exact: true, common: true},
		{name: "externalId", kind: textKind, exact: true, short: true, common: true},
		{name: "meta", kind: complexKind, readOnly: true, common: true, sub: []*attribute{
			{name: "created", kind: dateTimeKind},
			{name: "lastModified", kind: dateTimeKind},
		}},
	}, attributes...)
}

func simple(name, description string) *attribute {
	return &attribute{name: name, description: description, kind: textKind}
}

// values returns a multi-valued attribute with the sub-attributes of RFC 7643, 2.4.
func values(name, description string, valueKind kind, types ...string) *attribute {
	return &attribute{name: name, description: description, kind: complexKind, multi: true, sub: []*attribute{
		{name: "value", description: "The value.", kind: valueKind},
		simple("display", "A name of the value to display."),
		{name: "type", description: "The use of the value.", kind: textKind, types: types},
		{name: "primary", description: "Whether the value is the preferred one. At most one value is.", kind: booleanKind},
	}}
}

var userSchema = newSchema(UserSchema, "User", "User account", "", common(
	&attribute{name: "userName", description: "The unique name with which the user signs in.", kind: textKind, required: true, short: true, unique: true},
	&attribute{name: "name", description: "The parts of the user's name.", kind: complexKind, sub: []*attribute{
		simple("formatted", "The full name."),
		simple("familyName", "The family name."),
		simple("givenName", "The given name."),
		simple("middleName", "The middle names."),
		simple("honorificPrefix", "The title before the name."),
		simple("honorificSuffix", "The suffix after the name."),
	}},
	&attribute{name: "displayName", description: "The name to display.", kind: textKind, short: true},
	simple("nickName", "The informal name."),
	&attribute{name: "profileUrl", description: "The URL of the user's profile.", kind: referenceKind},
	simple("title", "The job title."),
	simple("userType", "The relation to the organization."),
	simple("preferredLanguage", "The preferred language."),
	simple("locale", "The locale."),
	simple("timezone", "The time zone."),
	&attribute{name: "active", description: "Whether the user has access to the organization.", kind: booleanKind},
	&attribute{name: "password", description: "Accepted and not stored.", kind: textKind, discarded: true},
	values("emails", "Email addresses.", textKind, "work", "home", "other"),
	values("phoneNumbers", "Phone numbers.", textKind, "work", "home", "mobile", "fax", "pager", "other"),
	values("ims", "Instant messaging addresses.", textKind, "aim", "gtalk", "icq", "xmpp", "msn", "skype", "qq", "yahoo"),
	values("photos", "URLs of photos.", referenceKind, "photo", "thumbnail"),
	&attribute{name: "addresses", description: "Postal addresses.", kind: complexKind, multi: true, sub: []*attribute{
		simple("formatted", "The full address."),
		simple("streetAddress", "The street."),
		simple("locality", "The city."),
		simple("region", "The state or region."),
		simple("postalCode", "The postal code."),
		simple("country", "The country."),
		{name: "type", description: "The use of the address.", kind: textKind, types: []string{"work", "home", "other"}},
		{name: "primary", description: "Whether the address is the preferred one. At most one is.", kind: booleanKind},
	}},
	&attribute{name: "groups", description: "The groups of the directory that have the user.", kind: complexKind, multi: true, readOnly: true, sub: []*attribute{
		{name: "value", description: "The id of the group.", kind: textKind, exact: true},
		{name: "$ref", description: "The URL of the group.", kind: referenceKind},
		simple("display", "The name of the group."),
		{name: "type", description: "How the user is a member.", kind: textKind, types: []string{"direct"}},
	}},
	values("entitlements", "Entitlements.", textKind),
	values("roles", "Roles.", textKind),
	values("x509Certificates", "Certificates of X.509, in base64.", binaryKind),
)...)

var enterpriseSchema = newSchema(EnterpriseSchema, "EnterpriseUser", "Enterprise user", EnterpriseSchema+":",
	simple("employeeNumber", "The number of the employee."),
	simple("costCenter", "The cost center."),
	simple("organization", "The organization."),
	simple("division", "The division."),
	simple("department", "The department."),
	&attribute{name: "manager", description: "The user's manager.", kind: complexKind, sub: []*attribute{
		simple("value", "The id of the manager."),
		{name: "$ref", description: "The URL of the manager.", kind: referenceKind},
		simple("displayName", "The name of the manager."),
	}},
)

var groupSchema = newSchema(GroupSchema, "Group", "Group", "", common(
	&attribute{name: "displayName", description: "The unique name of the group.", kind: textKind, required: true, short: true, unique: true},
	&attribute{name: "members", description: "The users of the group.", kind: complexKind, multi: true, sub: []*attribute{
		{name: "value", description: "The id of the user.", kind: textKind, exact: true},
		{name: "$ref", description: "The URL of the user.", kind: referenceKind},
		simple("display", "The name of the user."),
		{name: "type", description: "The type of the member. Nested groups are refused.", kind: textKind, types: []string{"User"}},
	}},
)...)
