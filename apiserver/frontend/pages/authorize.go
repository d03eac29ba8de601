package pages

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/users/consent"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/text"
)

// authorizePath is the path of the page for faulty authorization requests. The page that asks the user to decide a
// request is at authorizePath/{request}.
const authorizePath = "/authorize"

// authorizePage asks the user whether to grant a client the requested scopes, and in which organization or workspace.
type authorizePage struct {
	enduserapi.Authorization
	// Scopes are the requested scopes as the page shows them.
	Scopes []askedScope
	// Places are the places that the user can choose. Elsewhere are the places where the user does not have all scopes.
	Places    []authorizePlace
	Elsewhere []authorizePlace
	// Stuck reports that the scopes need a place, and that the user does not have all of them in any place.
	Stuck bool
	// Others are the other accounts of the session. Add is the address of a sign-in that adds another account.
	Others []enduserapi.Account
	Add    string
}

// askedScope is a scope as a page shows it.
type askedScope struct{ Name, Description string }

// authorizePlace is a place as the page shows it. Value identifies it in the form. Missing names the scopes that the
// user does not have there.
type authorizePlace struct {
	Value, Name, Missing string
	Chosen               bool
	// Proof reports that the organization requires more of the sign-in, which the user shows after choosing the place.
	Proof bool
}

// showAuthorize shows the page that asks the user to decide a request. If no decision is needed, or a sign-in must come
// first, it redirects the browser instead.
func showAuthorize(v *visit) error {
	request := v.r.PathValue("request")
	if v.form == nil && v.held {
		v.toAndBack(requiredPath)
		return nil
	}
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
		case consent.Step(next.Step) == consent.StepStepUp:
			v.location(v.link("/reauthenticate", append(onTheWay(v), "ways", strings.Join(next.Strategies, " "))...))
			return nil
		case consent.Step(next.Step) == consent.StepEnroll && next.RequiredAssurance != nil:
			v.location(v.link(requiredPath, append(onTheWay(v), "level", *next.RequiredAssurance, "by", byApp)...))
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
	if v.form == nil && own.UserId != nil && *own.UserId != v.who.User.Id { // the request is for another account: load the page again
		v.location(v.r.URL.RequestURI())
		return nil
	}
	if err := own.word(v); err != nil {
		return err
	}
	return v.render("authorize", v.text.Text("authorize.title", "client", own.Client.Name, "name", v.name()), own)
}

// showRefused shows that the request of an unverified client was refused, with a link back to the client. The browser
// is not redirected to an unverified client without a click.
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

// refused shows the page of a refusal, or of a sign-out, with the link back to an unverified client.
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

// onTheWay returns the query parameters for the pages that come before the decision: the path of this page, to which
// they return, and the login hint.
func onTheWay(v *visit) []string {
	pairs := []string{"continue", v.r.URL.Path}
	if hint := v.r.URL.Query().Get("login_hint"); hint != "" && len(hint) <= maxHint {
		pairs = append(pairs, "login_hint", hint)
	}
	return pairs
}

// withoutAuthorization shows that an authorization request has ended, if err says so. It returns any other error.
func withoutAuthorization(v *visit, err error) error {
	if refusedBy(err, "AUTHORIZATION_NOT_FOUND") {
		failure(v, http.StatusNotFound, "authorization")
		return errAnswered
	}
	return err
}

// word sets the texts of the scopes and places, and the other accounts.
func (own *authorizePage) word(v *visit) error {
	own.Scopes = wordScopes(v, own.Authorization.Scopes)
	for i, place := range own.Authorization.Places {
		shown := authorizePlace{Value: place.OrganizationId, Name: text.Isolate(place.OrganizationName), Chosen: own.Place != nil && *own.Place == i}
		if place.WorkspaceId != nil {
			shown.Value, shown.Name = shown.Value+":"+*place.WorkspaceId, shown.Name+" / "+text.Isolate(*place.WorkspaceName)
		}
		shown.Proof = slices.Equal(place.Missing, []string{consent.MissingAssurance})
		if len(place.Missing) > 0 && !shown.Proof {
			shown.Missing = strings.Join(own.names(place.Missing), ", ")
			if slices.Contains(place.Missing, consent.MissingConnection) {
				shown.Missing = v.text.Text("authorize.connection")
			}
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

// names returns the names that the page shows for scopes.
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

// needsPlace reports whether a requested scope applies to an organization or a workspace.
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
		if v.held {
			v.toAndBack(requiredPath)
			return nil
		}
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
		return errors.New("the API returned no redirect for a decision")
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
		if !found { // the browser opened this address directly
			return nothingThere()
		}
		v.refused(refused)
	default:
		return nothingThere()
	}
	return nil
}

// authorizes reports whether the response to a form of the page may redirect the browser to a client. That applies to
// the page of an authorization request, to pages that continue there or at an authorization server, and to pages that
// continue at the identity provider of a connection.
func authorizes(v *visit) bool {
	if continuesAtProvider(v) {
		return true
	}
	target, ok := target(v, v.r.URL.Query().Get("continue"))
	if u, err := url.Parse(target); !ok || err != nil || u.Host != "" {
		target = ""
	}
	return strings.HasPrefix(v.r.URL.Path, authorizePath+"/") || strings.HasPrefix(target, authorizePath+"/") || strings.HasPrefix(target, "/oauth/")
}
