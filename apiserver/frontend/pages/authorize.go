package pages

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/users/consent"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/text"
)

// authorizePath is where the page is that asks whether to grant a client what it asks for; below it are the requests.
const authorizePath = "/authorize"

// authorizePage asks whether to grant a client what it asks for, and where.
type authorizePage struct {
	enduserapi.Authorization
	// Scopes are in words.
	Scopes []askedScope
	// Places are those to choose among, and Elsewhere those where something is missing.
	Places    []authorizePlace
	Elsewhere []authorizePlace
	// Stuck reports that it can be granted nowhere.
	Stuck bool
	// Others are the other accounts of the session, and Add leads to one more.
	Others []enduserapi.Account
	Add    string
}

// askedScope is a scope in words.
type askedScope struct{ Name, Description string }

// authorizePlace is a place in words, with what a form calls it.
type authorizePlace struct {
	Value, Name, Missing string
	Chosen               bool
}

// showAuthorize goes on by itself where nothing is left to be asked, and else shows what is.
func showAuthorize(v *visit) error {
	request := v.r.PathValue("request")
	if v.form == nil {
		decided, err := v.api.DecideAuthorization(v.r.Context(), request, enduserapi.AuthorizationDecision{Decision: enduserapi.Continue})
		if err != nil {
			return withoutAuthorization(v, err)
		}
		next := decided.Data
		switch {
		case next.RedirectTo != nil:
			v.location(*next.RedirectTo)
			return nil
		case next.ReturnTo != nil:
			return showRefused(v, request, *next.ReturnTo)
		case consent.Step(next.Step) == consent.StepSignIn:
			pairs := onTheWay(v)
			if v.who.User != nil { // the requested user has no sign-in in this browser
				pairs = append(pairs, "add", "1")
			}
			v.location(v.link("/sign-in", pairs...))
			return nil
		case consent.Step(next.Step) == consent.StepProve:
			v.location(v.link("/reauthenticate", onTheWay(v)...))
			return nil
		}
	}
	asked, err := v.api.ReadAuthorization(v.r.Context(), request)
	if err != nil {
		return withoutAuthorization(v, err)
	}
	own := authorizePage{Authorization: asked.Data}
	if v.who.User == nil { // signed out while the page was open
		v.location(v.link("/sign-in", onTheWay(v)...))
		return nil
	}
	if v.form == nil && own.UserId != nil && *own.UserId != v.who.User.Id { // another account is asked than was active when this began
		v.location(v.r.URL.RequestURI())
		return nil
	}
	if err := own.word(v); err != nil {
		return err
	}
	return v.render("authorize", v.text.Text("authorize.title", "client", own.Client.Name, "name", v.name()), own)
}

// showRefused shows that a client which is not verified was refused, with a link back to it: the browser is not
// redirected there without a click.
func showRefused(v *visit, request, back string) error {
	asked, err := v.api.ReadAuthorization(v.r.Context(), request)
	if err != nil {
		return withoutAuthorization(v, err)
	}
	to, err := url.Parse(back)
	if err != nil {
		return err
	}
	v.refused(consent.Refused{Client: asked.Data.Client.Name, Host: asked.Data.RedirectHost, Reason: to.Query().Get("error"), Back: back})
	return nil
}

// refused shows the page of a refusal, or of a sign-out, with the link back to a client that is not verified.
func (v *visit) refused(of consent.Refused) {
	var key string
	status := http.StatusBadRequest
	if of.Reason != "" {
		key = "authorize_app"
	} else {
		key = "logout_app"
		status = http.StatusOK
	}
	v.fail(status, failurePage{
		Heading: v.text.Text("failure."+key+".heading", "client", of.Client), Message: v.text.Text("failure."+key+".message", "name", v.name(), "host", of.Host),
		Reason: of.Reason, BackTo: of.Host,
		Back: template.URL(of.Back), //nolint:gosec // it was registered, and checked: no script
	})
}

// onTheWay returns the query pairs that lead back here after the steps before the decision, with the login hint.
func onTheWay(v *visit) []string {
	pairs := []string{"continue", v.r.URL.Path}
	if hint := v.r.URL.Query().Get("login_hint"); hint != "" && len(hint) <= maxHint {
		pairs = append(pairs, "login_hint", hint)
	}
	return pairs
}

// withoutAuthorization shows that a request is over.
func withoutAuthorization(v *visit, err error) error {
	if refusedBy(err, "AUTHORIZATION_NOT_FOUND") {
		failure(v, http.StatusNotFound, "authorization")
		return errAnswered
	}
	return err
}

// word puts what is asked for in words.
func (own *authorizePage) word(v *visit) error {
	own.Scopes = wordScopes(v, own.Authorization.Scopes)
	for i, place := range own.Authorization.Places {
		shown := authorizePlace{Value: place.OrganizationId, Name: text.Isolate(place.OrganizationName), Chosen: own.Place != nil && *own.Place == i}
		if place.WorkspaceId != nil {
			shown.Value, shown.Name = shown.Value+":"+*place.WorkspaceId, shown.Name+" / "+text.Isolate(*place.WorkspaceName)
		}
		if len(place.Missing) > 0 {
			shown.Missing = strings.Join(own.names(place.Missing), ", ")
			own.Elsewhere = append(own.Elsewhere, shown)
			continue
		}
		own.Places = append(own.Places, shown)
	}
	if len(own.Places) == 1 {
		own.Places[0].Chosen = true
	}
	own.Stuck = own.needsPlace() && len(own.Places) == 0
	if own.OneAccount {
		return nil
	}
	accounts, err := v.api.ListAccounts(v.r.Context())
	if err != nil {
		return err
	}
	for _, account := range accounts.Data {
		if !account.Active {
			own.Others = append(own.Others, account)
		}
	}
	own.Add = v.link("/sign-in", append(onTheWay(v), "add", "1")...)
	return nil
}

// names are what people are shown of scopes.
func (own *authorizePage) names(scopes []string) (names []string) {
	for i, scope := range own.Authorization.Scopes {
		for _, wanted := range scopes {
			if scope.Scope == wanted {
				names = append(names, text.Isolate(own.Scopes[i].Name))
			}
		}
	}
	return names
}

// needsPlace reports whether something of it is held in an organization.
func (own *authorizePage) needsPlace() bool {
	for _, scope := range own.Authorization.Scopes {
		if scope.Category == "organization" || scope.Category == "workspace" {
			return true
		}
	}
	return false
}

func takeAuthorize(v *visit) error {
	sent := v.form
	switch sent.Action {
	case "switch":
		if err := switchSignIn(v, sent); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("", v.r.URL.Path)
	case "allow", "deny":
	default:
		return nothingThere()
	}
	body := enduserapi.AuthorizationDecision{Decision: enduserapi.AuthorizationDecisionDecision(sent.Action), UserId: given(sent.user)} // the user that the page showed
	if organization, workspace, _ := strings.Cut(sent.value("place"), ":"); organization != "" && sent.Action == "allow" {
		body.OrganizationId, body.WorkspaceId = &organization, given(workspace)
	}
	next, err := v.api.DecideAuthorization(v.r.Context(), v.r.PathValue("request"), body)
	switch {
	case refusedBy(err, "INVALID_PLACE"):
		sent.Message = v.text.Text("error.INVALID_PLACE")
		return v.show(sent, http.StatusBadRequest)
	case refusedBy(err, codeOtherAccount):
		return v.askOther(sent)
	case refusedBy(err, "AUTHORIZATION_NOT_FOUND"), refusedBy(err, "NOT_AUTHENTICATED"):
		v.form = nil
		return showAuthorize(v)
	case err != nil:
		return v.again(sent, err)
	case next.Data.RedirectTo == nil:
		return errors.New("a decision led nowhere")
	}
	v.location(*next.Data.RedirectTo)
	return nil
}

// showAuthorizeProblem shows a faulty request on a page, because its redirect URI is not verified and so the client
// cannot be notified.
func showAuthorizeProblem(v *visit) error {
	switch v.r.URL.Query().Get("problem") {
	case "client":
		failure(v, http.StatusBadRequest, "authorize_client")
	case "redirect_uri":
		failure(v, http.StatusBadRequest, "authorize_redirect_uri")
	case "request":
		failure(v, http.StatusBadRequest, "authorize_request")
	case "app":
		refused, found := consent.RefusedIn(v.r.Context())
		if !found { // a link to the page itself
			return nothingThere()
		}
		v.refused(refused)
	default:
		return nothingThere()
	}
	return nil
}

// authorizes reports whether the answer to a form of the page may lead to a client: that of the request itself, and of
// the pages before it, or after which an authorization server sends the browser back.
func authorizes(v *visit) bool {
	target, ok := target(v, v.r.URL.Query().Get("continue"))
	if u, err := url.Parse(target); !ok || err != nil || u.Host != "" {
		target = ""
	}
	return strings.HasPrefix(v.r.URL.Path, authorizePath+"/") || strings.HasPrefix(target, authorizePath+"/") || strings.HasPrefix(target, "/oauth/")
}
