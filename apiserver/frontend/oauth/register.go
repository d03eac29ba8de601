package oauth

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/document"
)

// registration is the response about a client's registration (RFC 7591 3.2.1, RFC 7592 3).
type registration struct {
	consent.Metadata
	ClientID        string `json:"client_id"`
	Secret          string `json:"client_secret,omitempty"`
	SecretExpiresAt *int64 `json:"client_secret_expires_at,omitempty"`
	IssuedAt        int64  `json:"client_id_issued_at"`
	ManagerToken    string `json:"registration_access_token,omitempty"`
	ManagerURI      string `json:"registration_client_uri,omitempty"`
}

func invalidMetadata(format string, args ...any) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_client_metadata", Description: fmt.Sprintf(format, args...)}
}

// register registers a client at its own request (RFC 7591), if the app allows it.
func register(c *call) error {
	if !c.Content.AllowDynamicClientRegistration || !c.Content.Active {
		return noEndpoint()
	}
	c.registers = true
	c.w.Header().Set("Access-Control-Allow-Origin", "*") // programs in browsers may register; the request carries no credentials of the browser
	says, err := readMetadata(c)
	if err != nil {
		return err
	}
	content, err := contentOf(says.Metadata)
	if err != nil {
		return err
	}
	secret, err := consent.GiveSecret(rand.Reader, content)
	if err != nil {
		return err
	}
	var made consent.Registered
	err = c.change(func(u *account.Unit) (err error) {
		made, err = consent.Register(u, c.App, *content, content.Authentication == string(v1alpha1.ClientAuthenticationNone))
		return err
	})
	if err != nil {
		return tooManyClients(err)
	}
	writeJSON(c.w, http.StatusCreated, registrationOf(c, made.Client, secret, made.Manager))
	return nil
}

// tooManyClients maps a full app to a response with the time of the next try.
func tooManyClients(err error) error {
	var wait *account.WaitError
	if errors.As(err, &wait) {
		return &Error{
			Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "too many clients registered themselves: try again later", RetryAfter: wait.Wait,
		}
	}
	return err
}

// noEndpoint returns the error of an endpoint that does not exist or is disabled.
func noEndpoint() error {
	return &Error{Status: http.StatusNotFound, Code: "invalid_request", Description: "there is no such endpoint"}
}

// selfMetadata is the metadata that a client sends about itself, with its id if it is known already (RFC 7592 2.2).
type selfMetadata struct {
	consent.Metadata
	ClientID string `json:"client_id"`
}

// readMetadata parses a JSON body.
func readMetadata(c *call) (says selfMetadata, err error) {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return says, invalidMetadata("send the metadata as application/json")
	}
	raw, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxForm))
	if err != nil {
		return says, &Error{Status: http.StatusRequestEntityTooLarge, Code: "invalid_client_metadata", Description: "the body cannot be read, or is longer than 64 KiB"}
	}
	if err := json.Unmarshal(raw, &says); err != nil {
		return says, invalidMetadata("the body is not a JSON object of client metadata, or a member has the wrong type")
	}
	return says, nil
}

// contentOf returns the client that metadata describe, or an error with their first fault.
func contentOf(says consent.Metadata) (*document.OAuthClient, error) {
	content, faults := says.ValidateSelf()
	if len(faults) == 0 {
		return &content, nil
	}
	first := faults[0]
	uris := map[string][]string{consent.MemberRedirectURIs: says.RedirectURIs, consent.MemberPostLogoutURIs: says.PostLogoutURIs}
	list, redirects := uris[first.Member]
	refused := &Error{Status: http.StatusBadRequest, Code: "invalid_client_metadata", Description: first.Member + " " + first.Reason}
	if redirects {
		refused.Code = "invalid_redirect_uri"
	}
	if refused.Reason = refused.Description; first.Index >= 0 {
		refused.Description = fmt.Sprintf("%+.200q %s", list[first.Index], first.Reason)
	}
	return nil, refused
}

// registrationOf returns the response about a client's registration.
func registrationOf(c *call, client *consent.Client, secret, manager string) registration {
	out := registration{Metadata: consent.MetadataOf(client.OAuthClient), ClientID: client.ID, Secret: secret, IssuedAt: client.Registered.CreatedAt.Unix(), ManagerToken: manager}
	if len(client.Verifiers) > 0 {
		out.SecretExpiresAt = new(int64)
	}
	if client.Registered.Manager != nil {
		out.ManagerURI = c.Content.Issuer + "/register/" + client.ID
	}
	return out
}

// noSuchRegistration refuses a request without a valid registration access token.
func noSuchRegistration() error {
	return &Error{Status: http.StatusUnauthorized, Code: "invalid_token", Description: "there is no such client, or the registration access token is not valid for it", Challenge: "Bearer"}
}

// managed returns the client whose registration access token is presented (RFC 7592 2). Every failure returns the same
// error.
func managed(c *call) (client *consent.Client, token string, err error) {
	if !c.Content.AllowDynamicClientRegistration || !c.Content.Active {
		return nil, "", noEndpoint()
	}
	id := c.r.PathValue("client")
	refused := noSuchRegistration()
	token, ok := bearer.FromHeader(c.r)
	if !ok {
		return nil, "", refused
	}
	if c.secretAttempts.TooMany(c.address(), id) {
		return nil, "", &Error{Status: http.StatusTooManyRequests, Code: "slow_down", Description: "too many wrong tokens came from this address: try again in a minute", RetryAfter: time.Minute}
	}
	found := false
	err = c.view(func(u *account.Unit) (err error) {
		client, found, err = consent.Managed(u, c.App, id, token)
		return err
	})
	if err == nil && !found {
		c.secretAttempts.Failed(c.address(), id)
		if named, _, err := c.findClient(id); err == nil {
			c.names(named)
		}
		return nil, "", refused
	}
	c.names(client)
	return client, token, err
}

func readRegistration(c *call) error {
	client, token, err := managed(c)
	if err != nil {
		return err
	}
	writeJSON(c.w, http.StatusOK, registrationOf(c, client, "", token))
	return nil
}

// rewriteRegistration replaces a client's metadata. Its secret remains, unless the authentication method changes.
func rewriteRegistration(c *call) error {
	client, token, err := managed(c)
	if err != nil {
		return err
	}
	says, err := readMetadata(c)
	if err != nil {
		return err
	}
	if says.ClientID != "" && says.ClientID != client.ID {
		return invalidMetadata("client_id: it is not the id of the registered client")
	}
	content, err := contentOf(says.Metadata)
	if err != nil {
		return err
	}
	if content.Authentication == string(v1alpha1.ClientAuthenticationNone) {
		return invalidMetadata("token_endpoint_auth_method: a registered client with a secret or keys cannot become public: register a new one")
	}
	secret := ""
	if content.Verifiers = client.Verifiers; len(content.Verifiers) == 0 || content.Authentication == string(v1alpha1.ClientAuthenticationPrivateKeyJWT) {
		content.Verifiers = nil
		if secret, err = consent.GiveSecret(rand.Reader, content); err != nil {
			return err
		}
	}
	var changed *consent.Client // the transaction may run again, so it must not change its input
	err = c.change(func(u *account.Unit) (err error) {
		changed, err = consent.Reregister(u, client, *content)
		return err
	})
	var wait *account.WaitError
	if errors.As(err, &wait) {
		return &Error{Status: http.StatusTooManyRequests, Code: "slow_down", Description: "the client changed its registration too often today: try again later", RetryAfter: wait.Wait}
	}
	if errors.Is(err, consent.ErrClientDeleted) {
		return noSuchRegistration()
	}
	if err != nil {
		return err
	}
	writeJSON(c.w, http.StatusOK, registrationOf(c, changed, secret, token))
	return nil
}

func removeRegistration(c *call) error {
	client, _, err := managed(c)
	if err != nil {
		return err
	}
	err = c.change(func(u *account.Unit) error { return consent.Unregister(u, client) })
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}
