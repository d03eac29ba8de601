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
	// maxRedirectURIs is how many a client of run time has at most.
	maxRedirectURIs = 16
	// The lifetimes of what clients of run time get, in seconds: those of declared ones without settings.
	registeredAccessSeconds, registeredRefreshSeconds, registeredIdleSeconds = 600, 30 * 24 * 3600, 7 * 24 * 3600
	// secretPrefix is what the secrets of clients begin with, declared or not.
	secretPrefix = "cs"
)

// The members of metadata that faults name.
const (
	memberAuthMethod = "token_endpoint_auth_method"
	memberGrantTypes = "grant_types"
	// MemberRedirectURIs and MemberPostLogoutURIs are lists of URIs, of which each is judged.
	MemberRedirectURIs   = "redirect_uris"
	MemberPostLogoutURIs = "post_logout_redirect_uris"
	memberJWKSURI        = "jwks_uri"
	memberJWKS           = "jwks"
)

// authMethods are how clients prove themselves, by what the protocol calls it.
var authMethods = map[string]v1alpha1.ClientAuthentication{
	"none": v1alpha1.ClientAuthenticationNone, "client_secret_basic": v1alpha1.ClientAuthenticationSecretBasic,
	"client_secret_post": v1alpha1.ClientAuthenticationSecretPost, "private_key_jwt": v1alpha1.ClientAuthenticationPrivateKeyJWT,
}

// Metadata are what a client of run time says of itself (RFC 7591 2, OpenID Connect Registration 2), or a backend says of it.
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

	// Vouched reports that somebody answers for the client: it may get tokens of its own.
	Vouched bool `json:"-"`
}

// MetadataFault is what is wrong with a member of metadata.
type MetadataFault struct {
	Member string
	// Index is the element of a list that is meant, -1: the member as a whole.
	Index int
	// Reason follows the member's name in a sentence.
	Reason string
}

// judgement collects what is wrong with metadata, and what they mean.
type judgement struct {
	*Metadata
	out    document.OAuthClient
	faults []MetadataFault
}

func (j *judgement) fault(member, format string, args ...any) {
	j.faults = append(j.faults, MetadataFault{Member: member, Index: -1, Reason: fmt.Sprintf(format, args...)})
}

// Judge returns the client that metadata describe, or everything that is wrong with them. Nothing of them is believed: it is shown as what the
// client says.
func (m Metadata) Judge() (document.OAuthClient, []MetadataFault) {
	j := &judgement{Metadata: &m, out: document.OAuthClient{
		AccessTokenSeconds: registeredAccessSeconds, RefreshTokenSeconds: registeredRefreshSeconds, RefreshIdleSeconds: registeredIdleSeconds, Active: true,
		RedirectURIs: m.RedirectURIs, PostLogoutURIs: m.PostLogoutURIs,
	}}
	j.authentication()
	j.grants()
	j.redirects()
	j.display()
	j.signing()
	return j.out, j.faults
}

// JudgeUnverified is Judge for a client that registers itself: a scheme of an app's own has to be a domain name in reverse (RFC 8252 7.1), since any
// other can be one that a program of the machine answers to.
func (m Metadata) JudgeUnverified() (document.OAuthClient, []MetadataFault) {
	out, faults := m.Judge()
	for member, uris := range map[string][]string{MemberRedirectURIs: m.RedirectURIs, MemberPostLogoutURIs: m.PostLogoutURIs} {
		for i, uri := range uris {
			if form, err := redirecturi.Classify(uri); err == nil && form == redirecturi.PrivateUse && !redirecturi.Owned(uri) {
				faults = append(faults, MetadataFault{Member: member, Index: i, Reason: "has a scheme that is no domain name in reverse: use one such as com.example.app, or https"})
			}
		}
	}
	return out, faults
}

func (j *judgement) authentication() {
	if j.AuthMethod == "" {
		j.AuthMethod = "client_secret_basic"
	}
	method, known := authMethods[j.AuthMethod]
	if !known {
		j.fault(memberAuthMethod, "has to be none, client_secret_basic, client_secret_post or private_key_jwt")
		return
	}
	j.out.Authentication = string(method)
	keys := memberJWKSURI
	if j.JWKSURI == "" {
		keys = memberJWKS
	}
	has := j.JWKSURI != "" || len(j.JWKS) > 0
	switch {
	case method != v1alpha1.ClientAuthenticationPrivateKeyJWT && has:
		j.fault(keys, "is for clients that authenticate by private_key_jwt")
	case method != v1alpha1.ClientAuthenticationPrivateKeyJWT:
	case !has || j.JWKSURI != "" && len(j.JWKS) > 0:
		j.fault(memberAuthMethod, "private_key_jwt needs either jwks_uri or jwks")
	case j.JWKSURI != "" && !webAddress(j.JWKSURI):
		j.fault(memberJWKSURI, "has to be an https address of at most %d characters", redirecturi.MaxLength)
	default:
		j.keys()
	}
}

// keys keeps those by which the client signs as they were understood: private ones that are there by mistake go no further.
func (j *judgement) keys() {
	j.out.JWKSURL = j.JWKSURI
	if len(j.JWKS) == 0 {
		return
	}
	most := keyset.MaxRegisteredBytes
	if j.Vouched {
		most = keyset.MaxBytes
	}
	set, err := keyset.Parse(j.JWKS, most)
	if err == nil {
		j.out.JWKS, err = json.Marshal(set)
	}
	if err != nil {
		j.fault(memberJWKS, "is no set of at most %d public keys and %d KiB, RSA keys of 2048 to 4096 bits", keyset.MaxKeys, most>>10)
	}
}

func (j *judgement) grants() {
	if len(j.GrantTypes) == 0 {
		j.GrantTypes = []string{GrantCode}
	}
	for _, asked := range j.GrantTypes {
		grant, known := GrantTypeNamed(asked)
		if !known || !grant.ByUser && !j.Vouched {
			j.fault(memberGrantTypes, "have to be among %s", grantTypeNames(j.Vouched))
			return
		}
		if !slices.Contains(j.out.GrantTypes, string(grant.Declared)) {
			j.out.GrantTypes = append(j.out.GrantTypes, string(grant.Declared))
		}
	}
	slices.Sort(j.out.GrantTypes)
	if j.uses(v1alpha1.GrantTypeClientCredentials) && j.AuthMethod == "none" {
		j.fault(memberGrantTypes, "cannot have client_credentials without an authentication: everybody could get the client's tokens")
	}
	if slices.ContainsFunc(j.ResponseTypes, func(kind string) bool { return kind != "code" }) {
		j.fault("response_types", "have to be code alone")
	}
}

func (j *judgement) uses(grant v1alpha1.GrantType) bool {
	return slices.Contains(j.out.GrantTypes, string(grant))
}

func (j *judgement) redirects() {
	if j.uses(v1alpha1.GrantTypeAuthorizationCode) && len(j.RedirectURIs) == 0 {
		j.fault(MemberRedirectURIs, "are missing: authorization_code needs one")
	}
	switch j.ApplicationType {
	case "web", "native", "":
	default:
		j.fault("application_type", "has to be web or native")
	}
	for _, list := range []struct {
		member string
		uris   []string
	}{{MemberRedirectURIs, j.RedirectURIs}, {MemberPostLogoutURIs, j.PostLogoutURIs}} {
		if len(list.uris) > maxRedirectURIs {
			j.fault(list.member, "are at most %d", maxRedirectURIs)
			continue
		}
		for i, uri := range list.uris {
			if wrong := j.redirect(uri); wrong != "" {
				j.faults = append(j.faults, MetadataFault{Member: list.member, Index: i, Reason: wrong})
			}
		}
	}
}

// redirect says what is wrong with a redirect URI, "" for nothing.
func (j *judgement) redirect(uri string) string {
	form, err := redirecturi.Classify(uri)
	switch {
	case err != nil:
		return err.Error()
	case form == redirecturi.PrivateUse && j.AuthMethod != "none":
		return "has a scheme of an app's own, which is for clients without authentication: other programs on the machine can claim it"
	case form != redirecturi.HTTPS && j.ApplicationType == "web":
		return "is on the person's machine, which is for application_type native"
	}
	return ""
}

func (j *judgement) display() {
	if j.Name == "" {
		j.Name = "An app"
		if len(j.RedirectURIs) > 0 {
			u, err := url.Parse(j.RedirectURIs[0])
			if form, wrong := redirecturi.Classify(j.RedirectURIs[0]); err == nil && wrong == nil && form != redirecturi.PrivateUse {
				j.Name = u.Host
			}
		}
	}
	name, err := text.Name(j.Name)
	if err != nil {
		j.fault("client_name", "%v", err)
	}
	j.out.Name = name
	for _, of := range []struct {
		member, address string
		to              *string
	}{
		{"client_uri", j.ClientURI, &j.out.ClientURI}, {"logo_uri", j.LogoURI, &j.out.LogoURL}, {"policy_uri", j.PolicyURI, &j.out.PolicyURI}, {"tos_uri", j.TOSURI, &j.out.TOSURI},
		{"backchannel_logout_uri", j.BackchannelLogoutURI, &j.out.BackchannelLogoutURI},
	} {
		if of.address != "" && !webAddress(of.address) {
			j.fault(of.member, "has to be an https address of at most %d characters", redirecturi.MaxLength)
		}
		*of.to = of.address
	}
}

func (j *judgement) signing() {
	if j.IDTokenSigningAlg == "" {
		j.IDTokenSigningAlg = "RS256" // as the standard has it for clients that say nothing
	}
	for _, of := range []struct{ member, algorithm string }{{"id_token_signed_response_alg", j.IDTokenSigningAlg}, {"userinfo_signed_response_alg", j.UserinfoSigningAlg}} {
		if of.algorithm != "" && of.algorithm != "ES256" && of.algorithm != "RS256" {
			j.fault(of.member, "has to be ES256 or RS256")
		}
	}
	j.out.IDTokenSigningAlg, j.out.UserinfoSigningAlg = j.IDTokenSigningAlg, j.UserinfoSigningAlg
}

// webAddress reports whether an address is of the web, and safe to show as a link.
func webAddress(address string) bool {
	form, err := redirecturi.Classify(address)
	return err == nil && form == redirecturi.HTTPS
}

// MetadataOf is what a client says of itself, as it was understood, or what is declared of one.
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

// HasSecret reports whether a client proves itself by a secret.
func HasSecret(content *document.OAuthClient) bool {
	method := v1alpha1.ClientAuthentication(content.Authentication)
	return method == v1alpha1.ClientAuthenticationSecretBasic || method == v1alpha1.ClientAuthenticationSecretPost
}

// GiveSecret gives a client a new secret in place of those it had, and returns it; "" where it proves itself otherwise.
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
