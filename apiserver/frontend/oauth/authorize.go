package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/asset"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/redirecturi"
)

const (
	// maxQuery is the longest query of an authorization request, in bytes.
	maxQuery = 8 << 10
	// maxOpaque bounds state and nonce together, in bytes.
	maxOpaque = 2 << 10
	// maxResources bounds the resources of one request.
	maxResources = 20
)

// challenge is the form of a code_challenge (RFC 7636 4.2): 32 bytes in base64url.
var challenge = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// prompts are the supported values of prompt (OpenID Connect Core 3.1.2.1).
var prompts = []string{"none", "login", "consent", "select_account"}

// refusal is an error response that reaches the client through the browser, once the redirect URI is verified.
type refusal struct{ Code, Description string }

func (r *refusal) Error() string { return r.Code + ": " + r.Description }

func refuse(code, description string) error { return &refusal{code, description} }

// authorizeByForm redirects a posted request to the GET request: on a navigation from another site, a browser only
// sends its session with a GET.
func authorizeByForm(c *call) error {
	form, err := c.form()
	if err != nil || len(form.Encode()) > maxQuery {
		return page(c, "request")
	}
	redirectTo(c, c.Content.FrontendURL+"/oauth/"+c.Content.Slug+"/authorize?"+form.Encode())
	return nil
}

// authorize stores a client's authorization request, and redirects the browser to the page that asks the user. Until
// the redirect URI is verified, errors are shown on a page (RFC 9700 4.11).
func authorize(c *call) error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil || len(c.r.URL.RawQuery) > maxQuery || strings.ContainsRune(query.Get("client_id"), 0) {
		return page(c, "request")
	}
	if strings.HasPrefix(query.Get("request_uri"), pushedPrefix) {
		return authorizePushed(c, query)
	}
	client, known, err := visitingClient(c, query)
	if err != nil {
		return err
	}
	if !known {
		return page(c, "client")
	}
	redirect := query.Get("redirect_uri")
	if len(query["redirect_uri"]) != 1 || !client.Registers(redirect) {
		return page(c, "redirect_uri")
	}
	asked, err := asked(c, client, query)
	if err == nil && client.RequirePAR {
		err = refuse("invalid_request", "the client must push its requests (RFC 9126)")
	}
	var refused *refusal
	if errors.As(err, &refused) {
		return redirectError(c, client, query, refused)
	}
	if err != nil {
		return err
	}
	handle := ""
	err = c.change(func(u *account.Unit) (err error) {
		handle, err = consent.Insert(u, c.App, client, asked)
		return err
	})
	if err != nil {
		return err
	}
	to := url.Values{}
	if locales := query.Get("ui_locales"); locales != "" {
		to.Set("ui_locales", locales)
	}
	if asked.LoginHint != "" {
		to.Set("login_hint", asked.LoginHint)
	}
	path := pages(c) + "/authorize/" + handle
	if len(to) > 0 {
		path += "?" + to.Encode()
	}
	redirectTo(c, path)
	return nil
}

// redirectError returns an error to a client at the query's redirect URI, which is verified. If the client is not
// trusted, it shows the user a page with a link to that URI instead.
func redirectError(c *call, client *consent.Client, query url.Values, refused *refusal) error {
	audit(c, refused.Code, refused.Description)
	redirect, state := query.Get("redirect_uri"), ""
	if len(query["state"]) == 1 && len(query.Get("state")) <= maxOpaque {
		state = query.Get("state")
	}
	back := consent.Answer(redirect, c.Content.Issuer, state, "error", refused.Code, "error_description", refused.Description)
	if !client.Trusted() {
		return refusedPage(c, client, redirect, refused, back)
	}
	redirectTo(c, back)
	return nil
}

// visitingClient returns the client that a browser's request names exactly once.
func visitingClient(c *call, query url.Values) (*consent.Client, bool, error) {
	if len(query["client_id"]) != 1 {
		return nil, false, nil
	}
	id, find := query.Get("client_id"), c.findClient
	if c.Content.AllowDynamicClientRegistration && c.Content.Active && consent.IsDocumentID(id) {
		find = c.documentClient
	}
	client, known, err := find(id)
	c.names(client)
	return client, known, err
}

// pages returns the base address of the pages that ask users: the deployment's own pages or the built-in ones.
func pages(c *call) string {
	if pages := c.settings().EffectivePages(); pages.URL != "" {
		return pages.URL
	}
	return c.Content.FrontendURL
}

// redirectTo redirects the browser with a GET.
func redirectTo(c *call, to string) {
	header := c.w.Header()
	header.Set("Location", to)
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	c.w.WriteHeader(http.StatusSeeOther)
}

// page shows the user, not the client, what is wrong: "request", "client" or "redirect_uri".
func page(c *call, problem string) error {
	refused := c.problem(problem)
	auditError(c, refused)
	if showPage(c, problem) {
		return nil
	}
	return refused
}

// showPage shows the page of a problem if the request accepts pages, and reports whether it did.
func showPage(c *call, problem string) bool {
	if asset.WantsPage(c.r) {
		shown := c.r.Clone(c.r.Context())
		shown.Method, shown.Body = http.MethodGet, http.NoBody
		shown.URL.Path, shown.URL.RawQuery = "/authorize", url.Values{"problem": {problem}}.Encode()
		if handler, shows := c.Pages.Handler(shown); shows {
			handler.ServeHTTP(c.w, shown)
			return true
		}
	}
	return false
}

// problem returns a problem as an OAuth error.
func (c *call) problem(problem string) *Error {
	switch problem {
	case "client":
		return &Error{Status: http.StatusBadRequest, Code: "invalid_client", Description: "client_id is missing, repeated, or not the id of an active client of this app"}
	case "redirect_uri":
		return &Error{Status: http.StatusBadRequest, Code: "invalid_request", Description: "redirect_uri is missing, repeated, or not registered for the client: it must be equal, character by character"}
	}
	return &Error{Status: http.StatusBadRequest, Code: "invalid_request", Description: "the request cannot be read, or is longer than 8 KiB"}
}

// refusedPage shows the user the faulty request of a client that is not trusted, with a link to the client.
func refusedPage(c *call, client *consent.Client, redirect string, refused *refusal, back string) error {
	c.r = c.r.WithContext(consent.WithRefused(c.r.Context(), consent.Refused{
		Client: client.Name, Host: redirecturi.Host(redirect), Reason: refused.Error(), Back: back,
	}))
	if err := page(c, "app"); err != nil {
		return asRefused(refused)
	}
	return nil
}

// asked reads the parameters of an authorization request. A refusal is returned to the client.
func asked(c *call, client *consent.Client, query url.Values) (asked consent.Parameters, err error) {
	if err := single(query); err != nil {
		return asked, refuse("invalid_request", "a parameter is repeated, or contains a NUL")
	}
	query = nonEmpty(query)
	for _, check := range []func(*consent.Client, url.Values, *consent.Parameters) error{c.askedForm, c.askedPerson, c.askedScopes, c.askedResources} {
		if err := check(client, query, &asked); err != nil {
			return asked, err
		}
	}
	return asked, nil
}

func (c *call) askedForm(client *consent.Client, query url.Values, asked *consent.Parameters) error {
	switch {
	case query.Has("request"):
		return refuse("request_not_supported", "send the parameters themselves")
	case query.Has("request_uri"):
		return refuse("request_uri_not_supported", "send the parameters themselves")
	case query.Get("response_type") == "":
		return refuse("invalid_request", "response_type is missing: use code")
	case query.Get("response_type") != "code":
		return refuse("unsupported_response_type", "response_type must be code")
	case query.Has("response_mode") && query.Get("response_mode") != "query":
		return refuse("invalid_request", "response_mode must be query")
	case !client.May(string(v1alpha1.GrantTypeAuthorizationCode)):
		return refuse("unauthorized_client", "the client may not use authorization codes: add AuthorizationCode to its grantTypes")
	case !challenge.MatchString(query.Get("code_challenge")) || query.Get("code_challenge_method") != "S256":
		return refuse("invalid_request", "send code_challenge, 43 characters, with code_challenge_method=S256 (PKCE)")
	case len(query.Get("state"))+len(query.Get("nonce")) > maxOpaque || len(query.Get("login_hint")) > 320:
		return refuse("invalid_request", "state and nonce have at most 2048 characters together, login_hint 320")
	}
	asked.RedirectURI, asked.State, asked.Nonce, asked.Challenge = query.Get("redirect_uri"), query.Get("state"), query.Get("nonce"), query.Get("code_challenge")
	asked.LoginHint = query.Get("login_hint")
	return nil
}

func (c *call) askedPerson(client *consent.Client, query url.Values, asked *consent.Parameters) error {
	asked.Prompts = strings.Fields(query.Get("prompt"))
	for _, prompt := range asked.Prompts {
		if !slices.Contains(prompts, prompt) || prompt == "none" && len(asked.Prompts) > 1 {
			return refuse("invalid_request", "prompt must be none alone, or some of login, consent and select_account")
		}
	}
	if err := c.askedAssurance(client, query, asked); err != nil {
		return err
	}
	return askedHint(c, client, query.Get("id_token_hint"), asked)
}

// askedAssurance reads the level that the client wants of the user, and how old its proof may be.
func (c *call) askedAssurance(_ *consent.Client, query url.Values, asked *consent.Parameters) error {
	asked.ACRValues, _ = assurance.Requested(strings.Fields(query.Get("acr_values")))
	if query.Has("max_age") {
		age, err := strconv.ParseInt(query.Get("max_age"), 10, 32)
		if err != nil || age < 0 {
			return refuse("invalid_request", "max_age must be a number of seconds")
		}
		asked.MaxAge = &age
	}
	return nil
}

// askedHint reads the id_token_hint (OpenID Connect Core 3.1.2.1): only the user of the ID token may respond. The token
// must have been issued to this client, and may have expired. It takes precedence over the login hint.
func askedHint(c *call, client *consent.Client, raw string, asked *consent.Parameters) error {
	if raw == "" {
		return nil
	}
	refused := refuse("invalid_request", "id_token_hint must be an ID token that was issued to this client here")
	hint := readIDToken(c, raw)
	if hint == nil || hint.AuthorizedParty != client.ID || !hint.Audience.Contains(client.ID) {
		return refused
	}
	user, err := ids.Parse(hint.Subject)
	if err != nil {
		return refused
	}
	if asked.Hinted = user; hint.Email != "" { // known to the client: the user's id alone must not reveal it
		asked.LoginHint = hint.Email
	}
	return nil
}

func (c *call) askedScopes(client *consent.Client, query url.Values, asked *consent.Parameters) error {
	scopes, err := scopesOf(query.Get("scope"))
	if err != nil {
		return refuse("invalid_scope", "a scope has a character that is not allowed in scopes")
	}
	declared := query.Get("scope") == "" && client.Scopes != nil
	if declared {
		scopes = slices.DeleteFunc(slices.Clone(*client.Scopes), func(scope string) bool { return !c.MayAsk(client, scope) })
	}
	for _, scope := range scopes {
		switch {
		case scope == consent.ScopeOffline && !client.May(string(v1alpha1.GrantTypeRefreshToken)):
			// Access that outlives the sign-in needs refresh tokens, which the client cannot have: the scope is ignored (OpenID
			// Connect Core 11).
		case c.MayAsk(client, scope):
			asked.Scopes = append(asked.Scopes, scope)
		default:
			return refuse("invalid_scope", "a scope is unknown, archived, or not the client's")
		}
	}
	return nil
}

func (c *call) askedResources(client *consent.Client, query url.Values, asked *consent.Parameters) error {
	asked.Resources = slices.Compact(slices.Sorted(slices.Values(query["resource"])))
	if len(asked.Resources) > maxResources {
		return refuse("invalid_target", "there are too many resources")
	}
	for _, resource := range asked.Resources {
		if !maySeek(c, client, resource) {
			return refuse("invalid_target", "a resource is unknown, or not the client's")
		}
	}
	return nil
}

// maySeek reports whether a client may request tokens for a resource.
func maySeek(c *call, client *consent.Client, resource string) bool {
	if resource == c.Content.Issuer { // the app itself, which serves userinfo
		return true
	}
	return c.Serves(c.Snapshot, resource) && (client.Resources == nil || slices.Contains(*client.Resources, resource))
}
