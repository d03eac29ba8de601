package input

import (
	"strings"
	"time"
	"unicode"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
)

// MaskedSecret stands for a client secret in responses. Sent back, it changes nothing.
const MaskedSecret = "********"

// NewConnection reads a new connection, with its type. The error is that of metadata: see Connection.
func NewConnection(o *body.Object, staging bool, now time.Time) (kind string, change connection.Change, err error) {
	if o.Require("type") {
		if kind, _ = o.String("type"); kind != connection.TypeOIDC && kind != connection.TypeSAML {
			o.Fault("type", "must be OIDC or SAML")
		}
	}
	change, err = Connection(o, staging, now)
	o.Require("display_name")
	others, like := samlMembers, "OIDC"
	if kind == connection.TypeSAML {
		others, like = []string{"issuer", "client_id", "client_secret"}, "SAML"
	} else if change.ClientSecret == nil && o.Has("client_secret") {
		o.Fault("client_secret", "must be the secret: there is none yet")
	}
	for _, member := range others {
		if o.Has(member) && kind == like && !o.Faulty(member) {
			o.Fault(member, "is not for a connection of type %s: omit it", kind)
		}
	}
	return kind, change, err
}

// Connection reads what a request sets of a connection. http URLs are accepted only with staging. The error is a 400
// INVALID_METADATA with the first thing that is wrong with metadata_xml; faults of members are in the object.
func Connection(o *body.Object, staging bool, now time.Time) (change connection.Change, err error) {
	change = connection.Change{
		Name: Name(o, "display_name"), Issuer: read(o, "issuer", func(sent string) (string, error) { return faulty(sent, connection.IssuerFault(sent, staging)) }),
		ClientID:   read(o, "client_id", func(sent string) (string, error) { return faulty(sent, connection.ClientIDFault(sent)) }),
		JustInTime: Bool(o, "just_in_time"), Active: Bool(o, "is_active"), Mappings: roleMappings(o, "role_mappings"),
	}
	if sent, ok := o.String("client_secret"); ok && sent != MaskedSecret {
		change.ClientSecret = &sent
		if fault := connection.ClientSecretFault(sent); fault != "" {
			o.Fault("client_secret", "%s", fault)
		}
	}
	if sent, ok := o.String("enforcement"); ok {
		change.Enforcement = &sent
		switch v1alpha1.ConnectionEnforcement(sent) {
		case v1alpha1.ConnectionEnforcementOptional, v1alpha1.ConnectionEnforcementDomains, v1alpha1.ConnectionEnforcementMembers:
		default:
			o.Fault("enforcement", "must be Optional, Domains or Members")
		}
	}
	change.Confirmation, _ = o.String("confirmation")
	change.SAML, err = samlProvider(o, staging, now)
	return change, err
}

// ConnectionUpdate is Connection with the state of the connection that the request changes.
func ConnectionUpdate(o *body.Object, staging bool, now time.Time) (change connection.Change, err error) {
	change, err = Connection(o, staging, now)
	change.Read = Seen(o)
	return change, err
}

// faulty returns a text, and its fault if there is one.
func faulty(sent, fault string) (string, error) {
	if fault != "" {
		return sent, ruleError(fault)
	}
	return sent, nil
}

// ruleError is the rule that a value violates.
type ruleError string

func (e ruleError) Error() string { return string(e) }

// maxClaim bounds the name and the value of a claim, in bytes.
const maxClaim = 255

// roleMappings reads mappings from claims to roles, nil if they are absent.
func roleMappings(o *body.Object, member string) *[]connection.RoleMapping {
	sent, ok := o.Objects(member)
	if !ok {
		return nil
	}
	if len(sent) > connection.MaxRoleMappings {
		o.Fault(member, "must have at most %d entries", connection.MaxRoleMappings)
		return nil
	}
	mappings := []connection.RoleMapping{}
	for _, one := range sent {
		m := connection.RoleMapping{}
		for name, to := range map[string]*string{"claim": &m.Claim, "value": &m.Value} {
			if one.Require(name) {
				switch *to, _ = one.String(name); {
				case *to == "" || len(*to) > maxClaim:
					one.Fault(name, "must have 1 to %d bytes", maxClaim)
				case strings.ContainsFunc(*to, unicode.IsControl): // no form sends it back unchanged
					one.Fault(name, "has a control character, such as a line break: remove it")
				}
			}
		}
		if one.Require("role_id") {
			m.Role = ID(one, "role_id")
		}
		one.Close()
		mappings = append(mappings, m)
	}
	return &mappings
}
