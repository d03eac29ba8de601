package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/httpapi/asset"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/client"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/text"
)

// ssoPath is the prefix of the paths of connections.
const ssoPath = "/sso/"

// The steps of a sign-in by a connection.
const (
	stepEnterEmail  = "enter_email"
	stepVerifyEmail = "verify_email"
)

// connectionButton is a connection that a page offers.
type connectionButton struct {
	Name, LogoURL, Address string
	// Organization is the name of the connection's organization, "" for none.
	Organization string
}

// connectionButtons returns the connections that the sign-in page offers to everybody.
func connectionButtons(v *visit) (buttons []connectionButton, err error) {
	if !v.tenant.HasConnections() {
		return nil, nil
	}
	config, err := v.api.GetConfig(v.r.Context())
	if err != nil {
		return nil, err
	}
	for _, c := range config.Data.Connections {
		buttons = append(buttons, connectionButton{Name: c.DisplayName, LogoURL: c.LogoUrl, Address: startAddress(v, c.Id, "")})
	}
	return buttons, nil
}

// requiredButtons returns the connections by which the user must sign in. The user continues at the page that was
// refused.
func requiredButtons(v *visit) (buttons []connectionButton) {
	query := url.Values{}
	if v.r.Method == http.MethodGet {
		query.Set("continue", retry(v))
	}
	for _, c := range v.api.demand.Connections {
		buttons = append(buttons, connectionButton{Name: c.DisplayName, LogoURL: c.LogoUrl, Address: v.address(ssoPath+c.Id+"/start", query)})
	}
	return buttons
}

// startAddress returns the address that begins a sign-in by a connection. The user continues where the page's query
// says, or with the invitation that is accepted.
func startAddress(v *visit, connection, hint string) string {
	query := url.Values{}
	if hint != "" {
		query.Set("login_hint", hint)
	}
	if token := invitation(v); token != "" {
		query.Set("continue", "/invitations/"+url.PathEscape(token))
	}
	return v.address(ssoPath+connection+"/start", query)
}

// connectionsPage lets the user choose a connection for an address.
type connectionsPage struct {
	Email   string
	Buttons []connectionButton
	// Other is the address of the page that signs the user in without a connection, "" if the domain requires one.
	Other string
}

// discovered looks up the connections for an address. It redirects the browser to the only connection if the domain
// requires it, and to a choice if there are several or other ways. It reports whether the response is written.
func discovered(v *visit, email string) (bool, error) {
	found, err := v.api.DiscoverSSO(v.r.Context(), enduserapi.SSODiscover{Email: email})
	if refused := refusal(err); refused != nil && refused.Status == http.StatusTooManyRequests {
		return false, nil // the sign-in itself is still checked
	}
	if err != nil || len(found.Data.Connections) == 0 {
		return false, err
	}
	if found.Data.Required && len(found.Data.Connections) == 1 {
		v.location(startAddress(v, found.Data.Connections[0].Id, email))
		return true, nil
	}
	v.state.begin(flow{Email: email}, v.now)
	return true, v.redirect("", "/sign-in/connection", v.kept()...)
}

func showConnections(v *visit) error {
	if v.state.Flow == nil || v.state.Flow.Email == "" {
		return v.redirect("", "/sign-in", v.kept()...)
	}
	own := connectionsPage{Email: v.state.Flow.Email}
	found, err := v.api.DiscoverSSO(v.r.Context(), enduserapi.SSODiscover{Email: own.Email})
	if err != nil {
		return err
	}
	for _, c := range found.Data.Connections {
		button := connectionButton{Name: c.DisplayName, LogoURL: c.LogoUrl, Address: startAddress(v, c.Id, own.Email)}
		if c.Organization != nil && c.Organization.Name != c.DisplayName {
			button.Organization = c.Organization.Name
		}
		own.Buttons = append(own.Buttons, button)
	}
	if password, code := ways(v); !found.Data.Required && (password || code) {
		own.Other = v.link("/sign-in/password", v.kept()...)
	}
	return v.render("connections", v.text.Text("connections.title"), own)
}

// showSSOEmail asks for the address of a user whose identity provider stated none.
func showSSOEmail(v *visit) error {
	if !atStep(v, stepEnterEmail) {
		return attemptOver(v, "/sign-in")
	}
	return v.render("ssoemail", v.text.Text("ssoemail.title"), nil)
}

func takeSSOEmail(v *visit) error {
	sent := v.form
	sent.Action = "email"
	email, err := text.Email(sent.value("email"))
	if err != nil {
		sent.fail("email", v.text.Text("invalid.email"))
		return v.show(sent, http.StatusBadRequest)
	}
	id := attempt(v)
	if _, err := v.api.PrepareVerification(v.r.Context(), enduserapi.AttemptChoice{SigninAttemptId: &id, Email: &email}); err != nil {
		if refusedBy(err, "INVALID_ATTEMPT") {
			return attemptOver(v, "/sign-in")
		}
		return v.again(sent, err)
	}
	return toSSOCode(v, id, email)
}

func toSSOCode(v *visit, id, email string) error {
	v.state.begin(flow{Email: email, Attempt: id, Sends: 1, SentAt: v.now.Unix()}, v.now)
	return v.redirect("", "/sign-in/code", append(adding(v), "attempt", id)...)
}

// atStep reports whether the page's attempt waits at a step.
func atStep(v *visit, step string) bool {
	return slices.ContainsFunc(v.api.session.SigninAttempts, func(a enduserapi.SignInAttempt) bool {
		return a.Id == attempt(v) && !a.Completed && a.CurrentStep == step
	})
}

// connectionPages serves the requests of browsers to the paths of connections.
func (p *Pages) connectionPages(tenant *account.Tenant, r *http.Request) (http.Handler, bool) {
	if tenant == nil || !strings.HasPrefix(r.URL.Path, ssoPath) || !asset.NamesHTML(r) {
		return nil, false
	}
	if pages := tenant.Settings.EffectivePages(); pages.Disabled && pages.URL == "" {
		return nil, false
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := p.visit(w, r, tenant)
		r = r.WithContext(withVisit(r.Context(), v))
		v.r = r
		defer v.End(r, v)
		if strings.HasSuffix(r.URL.Path, "/callback") && r.Method == http.MethodGet {
			completeSSO(v, tenant)
			return
		}
		forwardSSO(v)
	}), true
}

// forwardSSO forwards a request to the API, and shows a refusal as a page.
func forwardSSO(v *visit) {
	answer := newAnswer()
	v.Pages.API.ServeHTTP(answer, v.r)
	to := answer.header.Get("Location")
	switch refused := answer.refused(); {
	case refused != nil:
		failed(v, refused)
	case to != "":
		v.api.keep(answer.header)
		v.location(to)
	default:
		answer.copyTo(v)
	}
}

// completeSSO completes a sign-in by a connection and redirects the browser to what comes next: to the deployment's own
// pages if those of Cardea are disabled.
func completeSSO(v *visit, tenant *account.Tenant) {
	done, err := v.api.completeSSO(v.r.Context())
	pages := tenant.Settings.EffectivePages()
	if pages.Disabled {
		toOwnPages(v, pages.URL, done, refusal(err))
		return
	}
	switch {
	case err != nil:
		v.Refuse(err)
	case !done.Data.Completed:
		if err := toPending(v, done.Data); err != nil {
			v.Refuse(err)
		}
	default:
		v.state.Flow, v.state.changed = nil, true
		toContinue(v, done.Data)
	}
}

// toContinue redirects the browser to where the attempt continues.
func toContinue(v *visit, done enduserapi.SSOResult) {
	switch {
	case done.Continue != "":
		v.location(done.Continue)
	case done.Intent == "link":
		v.state.notify("identity_added", v.now)
		v.location("/account/identities")
	default:
		v.location("/account")
	}
}

// toPending redirects the browser to the page of the step at which the attempt goes on.
func toPending(v *visit, done enduserapi.SSOResult) error {
	pairs := []string{"attempt", done.AttemptId}
	if done.Continue != "" {
		pairs = append(pairs, "continue", done.Continue)
	}
	at := slices.IndexFunc(done.SigninAttempts, func(a enduserapi.SignInAttempt) bool { return a.Id == done.AttemptId })
	if at < 0 {
		return v.redirect("attempt_over", "/sign-in")
	}
	switch done.SigninAttempts[at].CurrentStep {
	case stepEnterEmail:
		return v.redirect("", "/sign-in/email", pairs...)
	case stepSecondFactor:
		return v.redirect("", "/sign-in/second-factor", pairs...)
	}
	return v.redirect("", "/sign-in/code", pairs...)
}

// toOwnPages redirects the browser to the page /sso of the deployment's own pages, with the status of the attempt.
func toOwnPages(v *visit, base string, done *enduserapi.SSOResultEnvelope, refused *client.Error) {
	query := url.Values{"attempt_id": {""}, "status": {"failed"}, "code": {""}}
	switch {
	case refused != nil:
		query.Set("code", refused.Code)
	case done == nil:
		query.Set("code", "UNAVAILABLE")
	default:
		query.Set("attempt_id", done.Data.AttemptId)
		query.Set("status", "pending")
		if done.Data.Completed {
			query.Set("status", "complete")
		}
	}
	v.location(base + "/sso?" + query.Encode())
}

// identitiesPage shows the identities of the user, and the connections by which more can be added.
type identitiesPage struct {
	Identities  []enduserapi.Identity
	Connections []enduserapi.ConnectionOffer
}

func showIdentities(v *visit) error {
	list, err := v.api.ListIdentities(v.r.Context())
	if err != nil {
		return err
	}
	config, err := v.api.GetConfig(v.r.Context())
	if err != nil {
		return err
	}
	return v.render("identities", v.text.Text("identities.title"), identitiesPage{Identities: list.Data, Connections: config.Data.Connections})
}

func takeIdentities(v *visit) error {
	sent := v.form
	switch sent.Action {
	case "remove":
		if _, err := v.api.RemoveIdentity(v.r.Context(), sent.value("id")); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("identity_removed", "/account/identities")
	case "link":
		intent := "link"
		begun, err := v.api.BeginSSO(v.r.Context(), enduserapi.SSOBegin{ConnectionId: sent.value("id"), Intent: &intent})
		if err != nil {
			return v.again(sent, err)
		}
		v.location(begun.Data.AuthorizationUrl)
		return nil
	}
	failure(v, http.StatusBadRequest, "bad_form")
	return nil
}

// continuesAtProvider reports whether the response to a form of the page may redirect the browser to the identity
// provider of a connection.
func continuesAtProvider(v *visit) bool {
	path := v.r.URL.Path
	switch path {
	case "/sign-in", "/sign-out", "/account", "/account/identities", "/reauthenticate":
	default:
		if !strings.HasPrefix(path, "/organizations/") || !strings.Contains(path, "/sso/") { // the test of a connection
			return false
		}
	}
	return v.tenant != nil && v.tenant.HasConnections()
}

// ownConnections returns the connections at which the user has an identity, for a reauthentication there. It returns
// none if the user may not see them.
func ownConnections(v *visit) (own []enduserapi.IdentityConnection) {
	if !v.tenant.HasConnections() {
		return nil
	}
	list, err := v.api.ListIdentities(v.r.Context())
	if err != nil {
		return nil
	}
	for _, i := range list.Data {
		if i.Connection.Slug != "" && !slices.ContainsFunc(own, func(c enduserapi.IdentityConnection) bool { return c.Id == i.Connection.Id }) {
			own = append(own, i.Connection)
		}
	}
	return own
}

// reauthenticateAt redirects the browser to the provider of a connection, which authenticates the user again.
func reauthenticateAt(v *visit, sent *form, connection string) error {
	intent := "reauthenticate"
	body := enduserapi.SSOBegin{ConnectionId: connection, Intent: &intent}
	if to, ok := target(v, v.r.URL.Query().Get("continue")); ok {
		body.Continue = &to
	}
	begun, err := v.api.BeginSSO(v.r.Context(), body)
	if err != nil {
		return v.again(sent, err)
	}
	v.location(begun.Data.AuthorizationUrl)
	return nil
}
