package consent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/redirecturi"
	"github.com/cardea-iam/cardea/internal/text"
)

const (
	// maxRedirectURIs is how many redirect URIs a runtime client may have.
	maxRedirectURIs = 16
	// The token lifetimes of runtime clients, in seconds. They equal the defaults of declared clients.
	registeredAccessSeconds, registeredRefreshSeconds, registeredIdleSeconds = 600, 30 * 24 * 3600, 7 * 24 * 3600
	// secretPrefix is the prefix of all client secrets.
	secretPrefix = "cs"
)

// The metadata members that faults name.
const (
	memberAuthMethod = "token_endpoint_auth_method"
	memberGrantTypes = "grant_types"
	// MemberRedirectURIs and MemberPostLogoutURIs are lists of URIs, each of which is validated.
	MemberRedirectURIs   = "redirect_uris"
	MemberPostLogoutURIs = "post_logout_redirect_uris"
	memberJWKSURI        = "jwks_uri"
	memberJWKS           = "jwks"
)

// authMethods are the methods of client authentication by their protocol names.
var authMethods = map[string]v1alpha1.ClientAuthentication{
	"none": v1alpha1.ClientAuthenticationNone, "client_secret_basic": v1alpha1.ClientAuthenticationSecretBasic,
	"client_secret_post": v1alpha1.ClientAuthenticationSecretPost, "private_key_jwt": v1alpha1.ClientAuthenticationPrivateKeyJWT,
}

// Metadata is the metadata of a runtime client (RFC 7591 2, OpenID Connect Registration 2), from the client itself or
// from a backend.
type Metadata struct {
	RedirectURIs         []string        `json:"redirect_uris,omitempty"`
	AuthMethod           string          `json:"token_endpoint_auth_method,omitempty"`
	GrantTypes           []string        `json:"grant_types,omitempty"`
	ResponseTypes        []string        `json:"response_types,omitempty"`
	ApplicationType      string          `json:"application_type,omitempty"`
	Name                 string          `json:"client_name,omitempty"`
	ClientURI            string          `json:"client_uri,omitempty"`
	LogoURI              string          `json:"logo_uri,omitempty"`
	PolicyURI            string          `json:"policy_uri,omitempty"`
	TOSURI               string          `json:"tos_uri,omitempty"`
	JWKSURI              string          `json:"jwks_uri,omitempty"`
	JWKS                 json.RawMessage `json:"jwks,omitempty"`
	PostLogoutURIs       []string        `json:"post_logout_redirect_uris,omitempty"`
	IDTokenSigningAlg    string          `json:"id_token_signed_response_alg,omitempty"`
	UserinfoSigningAlg   string          `json:"userinfo_signed_response_alg,omitempty"`
	BackchannelLogoutURI string          `json:"backchannel_logout_uri,omitempty"`

	// Trusted reports that a backend registers the client. Only such a client may use grant types without a user.
	Trusted bool `json:"-"`
}

// MetadataFault describes a fault of a metadata member.
type MetadataFault struct {
	Member string
	// Index is the position in a list, -1 for the whole member.
	Index int
	// Reason follows the member's name in a message.
	Reason string
}

// validation collects the faults of metadata, and the client that they describe.
type validation struct {
	*Metadata
	out    document.OAuthClient
	faults []MetadataFault
}

func (v *validation) fault(member, format string, args ...any) {
	v.faults = append(v.faults, MetadataFault{Member: member, Index: -1, Reason: fmt.Sprintf(format, args...)})
}

// Validate returns the client that the metadata describe, or all faults. The content is not verified: pages show it as
// the client's claim.
func (m Metadata) Validate() (document.OAuthClient, []MetadataFault) {
	v := &validation{Metadata: &m, out: document.OAuthClient{
		AccessTokenSeconds: registeredAccessSeconds, RefreshTokenSeconds: registeredRefreshSeconds, RefreshIdleSeconds: registeredIdleSeconds, Active: true,
		RedirectURIs: m.RedirectURIs, PostLogoutURIs: m.PostLogoutURIs,
	}}
	v.authentication()
	v.grants()
	v.redirects()
	v.display()
	v.signing()
	return v.out, v.faults
}

// ValidateSelf is Validate for a client that registers itself. Private-use URI schemes must be reversed domain names
// (RFC 8252 7.1), so that the schemes of different apps do not collide.
func (m Metadata) ValidateSelf() (document.OAuthClient, []MetadataFault) {
	out, faults := m.Validate()
	for member, uris := range map[string][]string{MemberRedirectURIs: m.RedirectURIs, MemberPostLogoutURIs: m.PostLogoutURIs} {
		for i, uri := range uris {
			if form, err := redirecturi.Classify(uri); err == nil && form == redirecturi.PrivateUse && !redirecturi.Owned(uri) {
				faults = append(faults, MetadataFault{Member: member, Index: i, Reason: "has a scheme that is not a reversed domain name: use one such as com.example.app, or https"})
			}
		}
	}
	return out, faults
}

func (v *validation) authentication() {
	if v.AuthMethod == "" {
		v.AuthMethod = "client_secret_basic"
	}
	method, known := authMethods[v.AuthMethod]
	if !known {
		v.fault(memberAuthMethod, "must be none, client_secret_basic, client_secret_post or private_key_jwt")
		return
	}
	v.out.Authentication = string(method)
	keys := memberJWKSURI
	if v.JWKSURI == "" {
		keys = memberJWKS
	}
	has := v.JWKSURI != "" || len(v.JWKS) > 0
	switch {
	case method != v1alpha1.ClientAuthenticationPrivateKeyJWT && has:
		v.fault(keys, "is only for clients that authenticate by private_key_jwt")
	case method != v1alpha1.ClientAuthenticationPrivateKeyJWT:
	case !has || v.JWKSURI != "" && len(v.JWKS) > 0:
		v.fault(memberAuthMethod, "private_key_jwt needs either jwks_uri or jwks")
	case v.JWKSURI != "" && !webAddress(v.JWKSURI):
		v.fault(memberJWKSURI, "must be an https address of at most %d characters", redirecturi.MaxLength)
	default:
		v.keys()
	}
}

// keys stores the client's public keys as parsed, so that private members included by mistake are dropped.
func (v *validation) keys() {
	v.out.JWKSURL = v.JWKSURI
	if len(v.JWKS) == 0 {
		return
	}
	most := keyset.MaxRegisteredBytes
	if v.Trusted {
		most = keyset.MaxBytes
	}
	set, err := keyset.Parse(v.JWKS, most)
	if err == nil {
		v.out.JWKS, err = json.Marshal(set)
	}
	if err != nil {
		v.fault(memberJWKS, "must be a set of at most %d public keys and %d KiB, with RSA keys of 2048 to 4096 bits", keyset.MaxKeys, most>>10)
	}
}

func (v *validation) grants() {
	if len(v.GrantTypes) == 0 {
		v.GrantTypes = []string{GrantCode}
	}
	for _, asked := range v.GrantTypes {
		grant, known := GrantTypeNamed(asked)
		if !known || !grant.ByUser && !v.Trusted {
			v.fault(memberGrantTypes, "must be among %s", grantTypeNames(v.Trusted))
			return
		}
		if !slices.Contains(v.out.GrantTypes, string(grant.Declared)) {
			v.out.GrantTypes = append(v.out.GrantTypes, string(grant.Declared))
		}
	}
	slices.Sort(v.out.GrantTypes)
	for _, grant := range GrantTypes {
		if !grant.ByUser && v.uses(grant.Declared) && v.AuthMethod == "none" {
			v.fault(memberGrantTypes, "cannot have %s without client authentication: any caller could get the client's tokens", grant.Name)
		}
	}
	if slices.ContainsFunc(v.ResponseTypes, func(kind string) bool { return kind != "code" }) {
		v.fault("response_types", "must be code")
	}
}

func (v *validation) uses(grant v1alpha1.GrantType) bool {
	return slices.Contains(v.out.GrantTypes, string(grant))
}

func (v *validation) redirects() {
	if v.uses(v1alpha1.GrantTypeAuthorizationCode) && len(v.RedirectURIs) == 0 {
		v.fault(MemberRedirectURIs, "are missing: authorization_code needs one")
	}
	switch v.ApplicationType {
	case "web", "native", "":
	default:
		v.fault("application_type", "must be web or native")
	}
	for _, list := range []struct {
		member string
		uris   []string
	}{{MemberRedirectURIs, v.RedirectURIs}, {MemberPostLogoutURIs, v.PostLogoutURIs}} {
		if len(list.uris) > maxRedirectURIs {
			v.fault(list.member, "must be at most %d", maxRedirectURIs)
			continue
		}
		for i, uri := range list.uris {
			if wrong := v.redirect(uri); wrong != "" {
				v.faults = append(v.faults, MetadataFault{Member: list.member, Index: i, Reason: wrong})
			}
		}
	}
}

// redirect returns the fault of a redirect URI, "" if it has none.
func (v *validation) redirect(uri string) string {
	form, err := redirecturi.Classify(uri)
	switch {
	case err != nil:
		return err.Error()
	case form == redirecturi.PrivateUse && v.AuthMethod != "none":
		return "has a private-use scheme, which is only for clients without authentication: other programs on the machine can claim it"
	case form != redirecturi.HTTPS && v.ApplicationType == "web":
		return "is on the user's machine, which is only for application_type native"
	}
	return ""
}

func (v *validation) display() {
	if v.Name == "" {
		v.Name = "An app"
		if len(v.RedirectURIs) > 0 {
			u, err := url.Parse(v.RedirectURIs[0])
			if form, wrong := redirecturi.Classify(v.RedirectURIs[0]); err == nil && wrong == nil && form != redirecturi.PrivateUse {
				v.Name = u.Host
			}
		}
	}
	name, err := text.Name(v.Name)
	if err != nil {
		v.fault("client_name", "%v", err)
	}
	v.out.Name = name
	for _, of := range []struct {
		member, address string
		to              *string
	}{
		{"client_uri", v.ClientURI, &v.out.ClientURI}, {"logo_uri", v.LogoURI, &v.out.LogoURL}, {"policy_uri", v.PolicyURI, &v.out.PolicyURI}, {"tos_uri", v.TOSURI, &v.out.TOSURI},
		{"backchannel_logout_uri", v.BackchannelLogoutURI, &v.out.BackchannelLogoutURI},
	} {
		if of.address != "" && !webAddress(of.address) {
			v.fault(of.member, "must be an https address of at most %d characters", redirecturi.MaxLength)
		}
		*of.to = of.address
	}
}

func (v *validation) signing() {
	if v.IDTokenSigningAlg == "" {
		v.IDTokenSigningAlg = "RS256" // the standard's default
	}
	for _, of := range []struct{ member, algorithm string }{{"id_token_signed_response_alg", v.IDTokenSigningAlg}, {"userinfo_signed_response_alg", v.UserinfoSigningAlg}} {
		if of.algorithm != "" && of.algorithm != "ES256" && of.algorithm != "RS256" {
			v.fault(of.member, "must be ES256 or RS256")
		}
	}
	v.out.IDTokenSigningAlg, v.out.UserinfoSigningAlg = v.IDTokenSigningAlg, v.UserinfoSigningAlg
}

// webAddress reports whether an address is an https URL that is safe to show as a link.
func webAddress(address string) bool {
	form, err := redirecturi.Classify(address)
	return err == nil && form == redirecturi.HTTPS
}

// MetadataOf returns the metadata that describe a client, registered or declared.
func MetadataOf(content document.OAuthClient) Metadata {
	out := Metadata{
		RedirectURIs: content.RedirectURIs, PostLogoutURIs: content.PostLogoutURIs, Name: content.Name, ClientURI: content.ClientURI, LogoURI: content.LogoURL,
		PolicyURI: content.PolicyURI, TOSURI: content.TOSURI, JWKSURI: content.JWKSURL, JWKS: content.JWKS, IDTokenSigningAlg: content.IDTokenSigningAlg,
		UserinfoSigningAlg: content.UserinfoSigningAlg, BackchannelLogoutURI: content.BackchannelLogoutURI, ApplicationType: "native",
	}
	for name, method := range authMethods {
		if string(method) == content.Authentication {
			out.AuthMethod = name
		}
	}
	for _, grant := range GrantTypes {
		if slices.Contains(content.GrantTypes, string(grant.Declared)) {
			out.GrantTypes = append(out.GrantTypes, grant.Name)
		}
	}
	slices.Sort(out.GrantTypes)
	if slices.Contains(out.GrantTypes, GrantCode) {
		out.ResponseTypes = []string{"code"}
	}
	for _, uri := range content.RedirectURIs {
		if form, err := redirecturi.Classify(uri); err == nil && form == redirecturi.HTTPS {
			out.ApplicationType = "web"
		}
	}
	return out
}

// HasSecret reports whether a client authenticates with a secret.
func HasSecret(content *document.OAuthClient) bool {
	method := v1alpha1.ClientAuthentication(content.Authentication)
	return method == v1alpha1.ClientAuthenticationSecretBasic || method == v1alpha1.ClientAuthenticationSecretPost
}

// GiveSecret replaces a client's secrets with a new one, and returns it; "" if the client authenticates in another way.
func GiveSecret(random io.Reader, content *document.OAuthClient) (string, error) {
	content.Verifiers = nil
	if !HasSecret(content) {
		return "", nil
	}
	minted, err := apikey.Mint(random, secretPrefix)
	if err != nil {
		return "", err
	}
	content.Verifiers = []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Last4()}}
	return minted.Plain(), nil
}
