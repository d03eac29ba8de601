package backend

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/document"
)

// memberNames maps the names of members in the protocol to their names in the backend API, if these differ.
var memberNames = map[string]string{"token_endpoint_auth_method": "client_auth_method"}

// clientTexts and clientLists are the members of a client that a backend may set, each with its field of the metadata.
var (
	clientTexts = []struct {
		member string
		of     func(*consent.Metadata) *string
	}{
		{"client_auth_method", func(m *consent.Metadata) *string { return &m.AuthMethod }},
		{"client_name", func(m *consent.Metadata) *string { return &m.Name }},
		{"client_uri", func(m *consent.Metadata) *string { return &m.ClientURI }},
		{"logo_uri", func(m *consent.Metadata) *string { return &m.LogoURI }},
		{"policy_uri", func(m *consent.Metadata) *string { return &m.PolicyURI }},
		{"tos_uri", func(m *consent.Metadata) *string { return &m.TOSURI }},
		{"jwks_uri", func(m *consent.Metadata) *string { return &m.JWKSURI }},
		{"id_token_signed_response_alg", func(m *consent.Metadata) *string { return &m.IDTokenSigningAlg }},
		{"userinfo_signed_response_alg", func(m *consent.Metadata) *string { return &m.UserinfoSigningAlg }},
		{"backchannel_logout_uri", func(m *consent.Metadata) *string { return &m.BackchannelLogoutURI }},
	}
	clientLists = []struct {
		member string
		of     func(*consent.Metadata) *[]string
	}{
		{"grant_types", func(m *consent.Metadata) *[]string { return &m.GrantTypes }},
		{"redirect_uris", func(m *consent.Metadata) *[]string { return &m.RedirectURIs }},
		{"post_logout_redirect_uris", func(m *consent.Metadata) *[]string { return &m.PostLogoutURIs }},
	}
)

// clientUpdate is a PATCH: the sent metadata, and whether the client is active.
type clientUpdate struct {
	changes []func(*consent.Metadata)
	active  *bool
}

// readClientMembers reads the members of metadata; null is the same as absent.
func readClientMembers(o *body.Object) (changes []func(*consent.Metadata)) {
	for _, field := range clientTexts {
		sent, ok := "", o.IsNull(field.member)
		if !ok {
			sent, ok = o.String(field.member)
		}
		if ok {
			changes = append(changes, func(m *consent.Metadata) { *field.of(m) = sent })
		}
	}
	for _, field := range clientLists {
		var sent []string
		ok := o.IsNull(field.member)
		if !ok {
			sent, ok = o.Strings(field.member)
		}
		if ok {
			changes = append(changes, func(m *consent.Metadata) { *field.of(m) = sent })
		}
	}
	var keys []byte
	ok := o.IsNull("jwks")
	if !ok {
		keys, ok = o.Raw("jwks")
	}
	if ok {
		changes = append(changes, func(m *consent.Metadata) { m.JWKS = keys })
	}
	return changes
}

// readNewClient reads the body of a creation.
func readNewClient(o *body.Object) document.OAuthClient {
	said := consent.Metadata{Trusted: true}
	for _, change := range readClientMembers(o) {
		change(&said)
	}
	content, faults := said.Validate()
	for _, fault := range faults {
		if member := memberOf(fault); !o.Faulty(member) {
			o.Fault(member, "%s", fault.Reason)
		}
	}
	return content
}

func readClientUpdate(o *body.Object) clientUpdate {
	return clientUpdate{changes: readClientMembers(o), active: input.Bool(o, "is_active")}
}

// memberOf returns the member of a backend's body to which a fault belongs.
func memberOf(fault consent.MetadataFault) string {
	member := fault.Member
	if name, other := memberNames[member]; other {
		member = name
	}
	if fault.Index >= 0 {
		member = input.ElementOf(member, fault.Index)
	}
	return member
}

// apply returns the updated client, or why the update is invalid.
func (s *clientUpdate) apply(content document.OAuthClient) (document.OAuthClient, error) {
	active := content.Active
	if s.active != nil {
		active = *s.active
	}
	if len(s.changes) > 0 {
		said := consent.MetadataOf(content)
		said.Trusted, said.ApplicationType = true, "" // no type: HTTPS and local redirect URIs may be mixed
		for _, change := range s.changes {
			change(&said)
		}
		changed, faults := said.Validate()
		if len(faults) > 0 {
			refused := make([]apierror.Fault, len(faults))
			for i, fault := range faults {
				refused[i] = apierror.Fault{Pointer: "/" + memberOf(fault), Message: fault.Reason}
			}
			return content, apierror.Invalid(refused...)
		}
		if consent.HasSecret(&changed) {
			changed.Verifiers = slices.Clone(content.Verifiers)
		}
		content = changed
	}
	content.Active = active
	return content, nil
}

// readOverlap reads how long a replaced secret stays valid; 0 if the member is absent.
func readOverlap(o *body.Object) time.Duration {
	seconds, sent := o.Integer("overlap_seconds")
	if most := int64(account.MaxKeyOverlap / time.Second); sent && (seconds < 0 || seconds > most) {
		o.Fault("overlap_seconds", "must be 0 to %d (30 days)", most)
		return 0
	}
	return time.Duration(seconds) * time.Second
}
