package oauth

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/apiserver/authorization"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/redirecturi"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/document"
)

const (
	// maxRedirectURIs is how many a client of run time has at most.
	maxRedirectURIs = 16
	// The lifetimes of what clients of run time get, in seconds: those of declared ones without settings.
	registeredAccessSeconds, registeredRefreshSeconds, registeredIdleSeconds = 600, 30 * 24 * 3600, 7 * 24 * 3600
	// secretPrefix is what the secrets of clients begin with, declared or not.
	secretPrefix = "cs"
)

// metadataOfClient is what a client says of itself (RFC 7591 2, OpenID Connect Registration 2). What is not known here is passed over.
type metadataOfClient struct {
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
}

// registration is what a client is told of itself (RFC 7591 3.2.1, RFC 7592 3).
type registration struct {
	metadataOfClient
	ClientID        string `json:"client_id"`
	Secret          string `json:"client_secret,omitempty"`
	SecretExpiresAt *int64 `json:"client_secret_expires_at,omitempty"`
	IssuedAt        int64  `json:"client_id_issued_at"`
	ManagerToken    string `json:"registration_access_token,omitempty"`
	ManagerURI      string `json:"registration_client_uri,omitempty"`
}

// authMethods are how clients prove themselves, by what the protocol calls it.
var authMethods = map[string]v1alpha1.ClientAuthentication{
	"none": v1alpha1.ClientAuthenticationNone, "client_secret_basic": v1alpha1.ClientAuthenticationSecretBasic,
	"client_secret_post": v1alpha1.ClientAuthenticationSecretPost, "private_key_jwt": v1alpha1.ClientAuthenticationPrivateKeyJWT,
}

// grantTypes are those that a client of run time may ask for, by what the protocol calls them. Tokens of its own it gets none: nobody vouched
// for it.
var grantTypes = map[string]v1alpha1.GrantType{
	"authorization_code": v1alpha1.GrantTypeAuthorizationCode, "refresh_token": v1alpha1.GrantTypeRefreshToken, grantDevice: v1alpha1.GrantTypeDeviceCode,
}

func invalidMetadata(format string, args ...any) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_client_metadata", Description: fmt.Sprintf(format, args...)}
}

// register takes a client that registers itself (RFC 7591), where the app lets them.
func register(c *call) error {
	if !c.Content.AllowDynamicClientRegistration || !c.Content.Active {
		return notHere()
	}
	c.w.Header().Set("Access-Control-Allow-Origin", "*") // programs in browsers register as well; nothing of the browser's comes along
	says, err := c.readMetadata()
	if err != nil {
		return err
	}
	content, err := says.content()
	if err != nil {
		return err
	}
	secret, err := giveSecret(content)
	if err != nil {
		return err
	}
	var made authorization.Registered
	err = c.change(func(u *account.Unit) (err error) {
		made, err = authorization.Register(u, c.App, *content, content.Authentication == string(v1alpha1.ClientAuthenticationNone))
		return err
	})
	if err != nil {
		return noRoom(err)
	}
	writeJSON(c.w, http.StatusCreated, c.registrationOf(made.Client, secret, made.Manager))
	return nil
}

// noRoom says of an app that has too many unused clients when there will be room.
func noRoom(err error) error {
	var wait *account.WaitError
	if errors.As(err, &wait) {
		return &Error{
			Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "too many clients registered and were not used yet: try again", RetryAfter: wait.Wait,
		}
	}
	return err
}

// notHere says that there is no such endpoint, as of one that is off.
func notHere() error {
	return &Error{Status: http.StatusNotFound, Code: "invalid_request", Description: "there is no such endpoint"}
}

// giveSecret gives a client a secret if it proves itself by one.
func giveSecret(content *document.OAuthClient) (string, error) {
	method := v1alpha1.ClientAuthentication(content.Authentication)
	if method != v1alpha1.ClientAuthenticationSecretBasic && method != v1alpha1.ClientAuthenticationSecretPost {
		return "", nil
	}
	minted, err := apikey.Mint(rand.Reader, secretPrefix)
	if err != nil {
		return "", err
	}
	content.Verifiers = []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Last4()}}
	return minted.Plain(), nil
}

// readMetadata reads a body of JSON.
func (c *call) readMetadata() (*metadataOfClient, error) {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, invalidMetadata("send the metadata as application/json")
	}
	raw, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxForm))
	if err != nil {
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Code: "invalid_client_metadata", Description: "the body cannot be read, or is longer than 64 KiB"}
	}
	var says metadataOfClient
	if err := json.Unmarshal(raw, &says); err != nil {
		return nil, invalidMetadata("the body is no JSON object of client metadata, or a member is of another kind")
	}
	return &says, nil
}

// content is what a client is that says so of itself. Nothing of it is believed: it is shown as what the client says.
func (m *metadataOfClient) content() (*document.OAuthClient, error) {
	out := &document.OAuthClient{
		AccessTokenSeconds: registeredAccessSeconds, RefreshTokenSeconds: registeredRefreshSeconds, RefreshIdleSeconds: registeredIdleSeconds, Active: true,
		RedirectURIs: m.RedirectURIs, PostLogoutURIs: m.PostLogoutURIs,
	}
	for _, read := range []func(*document.OAuthClient) error{m.authentication, m.grants, m.redirects, m.display, m.signing} {
		if err := read(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (m *metadataOfClient) authentication(out *document.OAuthClient) error {
	if m.AuthMethod == "" {
		m.AuthMethod = "client_secret_basic"
	}
	method, known := authMethods[m.AuthMethod]
	if !known {
		return invalidMetadata("token_endpoint_auth_method has to be one of those in the metadata")
	}
	out.Authentication = string(method)
	keys := m.JWKSURI != "" || len(m.JWKS) > 0
	switch {
	case method != v1alpha1.ClientAuthenticationPrivateKeyJWT && keys:
		return invalidMetadata("jwks_uri and jwks are for token_endpoint_auth_method private_key_jwt")
	case method != v1alpha1.ClientAuthenticationPrivateKeyJWT:
		return nil
	case !keys || m.JWKSURI != "" && len(m.JWKS) > 0:
		return invalidMetadata("private_key_jwt needs either jwks_uri or jwks")
	case m.JWKSURI != "" && !webAddress(m.JWKSURI):
		return invalidMetadata("jwks_uri has to be an https address")
	}
	if len(m.JWKS) > 0 {
		if _, err := keyset.Parse(m.JWKS); err != nil {
			return invalidMetadata("jwks is no set of public keys")
		}
	}
	out.JWKSURL, out.JWKS = m.JWKSURI, m.JWKS
	return nil
}

func (m *metadataOfClient) grants(out *document.OAuthClient) error {
	if len(m.GrantTypes) == 0 {
		m.GrantTypes = []string{"authorization_code"}
	}
	for _, asked := range m.GrantTypes {
		grant, known := grantTypes[asked]
		if !known {
			return invalidMetadata("grant_types have to be among authorization_code, refresh_token and %s", grantDevice)
		}
		if !slices.Contains(out.GrantTypes, string(grant)) {
			out.GrantTypes = append(out.GrantTypes, string(grant))
		}
	}
	slices.Sort(out.GrantTypes)
	if len(m.ResponseTypes) == 0 && slices.Contains(out.GrantTypes, string(v1alpha1.GrantTypeAuthorizationCode)) {
		m.ResponseTypes = []string{"code"}
	}
	if slices.ContainsFunc(m.ResponseTypes, func(kind string) bool { return kind != "code" }) {
		return invalidMetadata("response_types have to be code alone")
	}
	return nil
}

func (m *metadataOfClient) redirects(out *document.OAuthClient) error {
	invalid := func(uri, why string) error {
		return &Error{Status: http.StatusBadRequest, Code: "invalid_redirect_uri", Description: fmt.Sprintf("%.200q %s", uri, why)}
	}
	if slices.Contains(out.GrantTypes, string(v1alpha1.GrantTypeAuthorizationCode)) && len(m.RedirectURIs) == 0 {
		return invalid("", "redirect_uris are missing")
	}
	if len(m.RedirectURIs) > maxRedirectURIs || len(m.PostLogoutURIs) > maxRedirectURIs {
		return invalid("", fmt.Sprintf("there are at most %d redirect URIs", maxRedirectURIs))
	}
	native := true
	for _, uri := range slices.Concat(m.RedirectURIs, m.PostLogoutURIs) {
		form, err := redirecturi.Judge(uri)
		switch {
		case err != nil:
			return invalid(uri, err.Error())
		case form == redirecturi.PrivateUse && m.AuthMethod != "none":
			return invalid(uri, "has a scheme of an app's own, which is for clients with token_endpoint_auth_method none")
		case form == redirecturi.HTTPS:
			native = false
		case m.ApplicationType == "web":
			return invalid(uri, "is on the person's machine, which is for application_type native")
		}
	}
	switch m.ApplicationType {
	case "web", "native":
	case "":
		m.ApplicationType = "web"
		if native {
			m.ApplicationType = "native"
		}
	default:
		return invalidMetadata("application_type has to be web or native")
	}
	return nil
}

func (m *metadataOfClient) display(out *document.OAuthClient) error {
	if m.Name == "" {
		m.Name = "An app"
		if len(m.RedirectURIs) > 0 {
			if u, err := url.Parse(m.RedirectURIs[0]); err == nil && u.Host != "" {
				m.Name = u.Host
			}
		}
	}
	name, err := text.Name(m.Name)
	if err != nil {
		return invalidMetadata("client_name %v", err)
	}
	out.Name, m.Name = name, name
	for _, of := range []struct {
		member, address string
		to              *string
	}{
		{"client_uri", m.ClientURI, &out.ClientURI}, {"logo_uri", m.LogoURI, &out.LogoURL}, {"policy_uri", m.PolicyURI, &out.PolicyURI}, {"tos_uri", m.TOSURI, &out.TOSURI},
		{"backchannel_logout_uri", m.BackchannelLogoutURI, &out.BackchannelLogoutURI},
	} {
		if of.address != "" && !webAddress(of.address) {
			return invalidMetadata("%s has to be an https address of at most 2048 characters", of.member)
		}
		*of.to = of.address
	}
	return nil
}

func (m *metadataOfClient) signing(out *document.OAuthClient) error {
	if m.IDTokenSigningAlg == "" {
		m.IDTokenSigningAlg = "RS256" // as the standard has it for clients that say nothing
	}
	for _, algorithm := range []string{m.IDTokenSigningAlg, m.UserinfoSigningAlg} {
		if algorithm != "" && algorithm != "ES256" && algorithm != "RS256" {
			return invalidMetadata("what is signed is signed by ES256 or RS256")
		}
	}
	out.IDTokenSigningAlg, out.UserinfoSigningAlg = m.IDTokenSigningAlg, m.UserinfoSigningAlg
	return nil
}

// webAddress tells whether an address is of the web, and safe to show as a link.
func webAddress(address string) bool {
	form, err := redirecturi.Judge(address)
	return err == nil && form == redirecturi.HTTPS
}

// registrationOf is what a client is told of itself.
func (c *call) registrationOf(client *authorization.Client, secret, manager string) registration {
	out := registration{metadataOfClient: metadataFrom(client.OAuthClient), ClientID: client.ID, Secret: secret, IssuedAt: client.Registered.CreatedAt.Unix(), ManagerToken: manager}
	if len(client.Verifiers) > 0 {
		out.SecretExpiresAt = new(int64)
	}
	if client.Registered.Manager != nil {
		out.ManagerURI = c.Content.Issuer + "/register/" + client.ID
	}
	return out
}

// metadataFrom is what a client of run time said of itself, as it was understood.
func metadataFrom(content document.OAuthClient) metadataOfClient {
	out := metadataOfClient{
		RedirectURIs: content.RedirectURIs, PostLogoutURIs: content.PostLogoutURIs, Name: content.Name, ClientURI: content.ClientURI, LogoURI: content.LogoURL,
		PolicyURI: content.PolicyURI, TOSURI: content.TOSURI, JWKSURI: content.JWKSURL, JWKS: content.JWKS, IDTokenSigningAlg: content.IDTokenSigningAlg,
		UserinfoSigningAlg: content.UserinfoSigningAlg, BackchannelLogoutURI: content.BackchannelLogoutURI, ApplicationType: "native",
	}
	for name, method := range authMethods {
		if string(method) == content.Authentication {
			out.AuthMethod = name
		}
	}
	for name, grant := range grantTypes {
		if slices.Contains(content.GrantTypes, string(grant)) {
			out.GrantTypes = append(out.GrantTypes, name)
		}
	}
	slices.Sort(out.GrantTypes)
	if slices.Contains(out.GrantTypes, "authorization_code") {
		out.ResponseTypes = []string{"code"}
	}
	for _, uri := range content.RedirectURIs {
		if form, err := redirecturi.Judge(uri); err == nil && form == redirecturi.HTTPS {
			out.ApplicationType = "web"
		}
	}
	return out
}

// managed finds the client whose registration token is presented (RFC 7592 2). What is wrong is one answer.
func (c *call) managed() (client *authorization.Client, err error) {
	kind, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	id := c.r.PathValue("client")
	refused := &Error{Status: http.StatusUnauthorized, Code: "invalid_token", Description: "there is no such client, or the registration token is not its own", Challenge: "Bearer"}
	if !strings.EqualFold(kind, "Bearer") {
		return nil, refused
	}
	if c.guesses.tooMany(c.address(), id) {
		return nil, &Error{Status: http.StatusTooManyRequests, Code: "slow_down", Description: "too many wrong tokens came from this address: try again in a minute", RetryAfter: time.Minute}
	}
	found := false
	err = c.view(func(u *account.Unit) (err error) {
		client, found, err = authorization.Managed(u, c.App, id, strings.TrimSpace(token))
		return err
	})
	if err == nil && !found {
		c.guesses.count(c.address(), id)
		return nil, refused
	}
	return client, err
}

func readRegistration(c *call) error {
	client, err := c.managed()
	if err != nil {
		return err
	}
	writeJSON(c.w, http.StatusOK, c.registrationOf(client, "", ""))
	return nil
}

// rewriteRegistration replaces what a client said of itself. Its secret stays, or comes and goes with how it proves itself.
func rewriteRegistration(c *call) error {
	client, err := c.managed()
	if err != nil {
		return err
	}
	says, err := c.readMetadata()
	if err != nil {
		return err
	}
	content, err := says.content()
	if err != nil {
		return err
	}
	if content.Authentication == string(v1alpha1.ClientAuthenticationNone) {
		return invalidMetadata("token_endpoint_auth_method: a client that is managed cannot become public: register a new one")
	}
	secret := ""
	if content.Verifiers = client.Verifiers; len(content.Verifiers) == 0 || content.Authentication == string(v1alpha1.ClientAuthenticationPrivateKeyJWT) {
		content.Verifiers = nil
		if secret, err = giveSecret(content); err != nil {
			return err
		}
	}
	err = c.change(func(u *account.Unit) (err error) {
		if client, err = authorization.Reregister(u, client, *content); err != nil {
			return err
		}
		return u.AuditAs("oauth_client:"+client.ID, "oauth.client_changed", "oauth_client:"+client.ID, 0)
	})
	if err != nil {
		return err
	}
	writeJSON(c.w, http.StatusOK, c.registrationOf(client, secret, ""))
	return nil
}

func removeRegistration(c *call) error {
	client, err := c.managed()
	if err != nil {
		return err
	}
	err = c.change(func(u *account.Unit) error {
		if _, err := u.DeleteOAuthClient(c.Entry.ID, client.ID); err != nil {
			return err
		}
		return u.AuditAs("oauth_client:"+client.ID, "oauth.client_deleted", "oauth_client:"+client.ID, 0)
	})
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}
