package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/pages/texts"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/client"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// page is one page.
type page struct {
	// get shows the page; post takes its forms, nil if it has none.
	get, post func(*visit) error
	// signedIn requires a signed-in user.
	signedIn bool
	// setup is the intent of setup links whose sessions may use the page without a signed-in user, "" for none.
	setup string
	// bare means that the page has one task and no navigation.
	bare bool
	// held means that the page is open to a user whose sign-in is below the required level.
	held bool
}

// visit is one request of a browser, with what the server knows about it.
type visit struct {
	*Pages
	httpapi.Exchange
	r   *http.Request
	now time.Time
	// tenant is nil if no deployment has the host.
	tenant *account.Tenant
	text   *texts.Language
	api    *api
	state  state
	// setup is what the session's setup link permits on the page, nil for none.
	setup *enduserapi.Setup
	// page is the requested page, and who the signed-in user.
	page page
	who  enduserapi.ActiveSession
	// held reports that the user's sign-in is below the level that the account or the deployment requires: only pages
	// with page.held are open.
	held bool
	// form is the form that was sent, or the draft that was kept during a sign-in; nil for none.
	form *form
	// unknown is the id of a passkey that the API did not accept for a sign-in.
	unknown string
	// status is the status of the response if it is a page.
	status int
}

type visitKey struct{}

func visitOf(r *http.Request) *visit { return r.Context().Value(visitKey{}).(*visit) }

func withVisit(ctx context.Context, v *visit) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}

func (p *Pages) visit(w http.ResponseWriter, r *http.Request, tenant *account.Tenant) *visit {
	v := &visit{Pages: p, r: r, tenant: tenant, status: http.StatusOK}
	v.Begin(w, r, nil, p.Clock) // the API measures forwarded requests
	v.now = v.Received.UTC()
	v.text = p.texts.Choose(r.URL.Query().Get("ui_locales"), r.Header.Get("Accept-Language"))
	v.state = v.loadState()
	v.api = newAPI(p.API, r, v.ID[0])
	return v
}

// serve checks a request and shows the page or takes its form. The order of checks is the API's.
func (v *visit) serve(r *http.Request, page page) {
	v.r, v.page = r, page
	defer func() { v.Metrics.Observe(r, v.Status, v.Clock().Sub(v.now)) }()
	if err := v.prepare(); err != nil {
		v.Refuse(err)
		return
	}
	handle := page.get
	if r.Method == http.MethodPost {
		handle = page.post
	}
	err := handle(v)
	if v.form != nil && refusedBy(err, codeOtherAccount) {
		err = v.askOther(v.form)
	}
	if err != nil {
		v.Refuse(err)
	}
}

// errAnswered means that the response has been written already.
var errAnswered = errors.New("answered")

// prepare reads the session's signed-in user, and checks the token of a form.
func (v *visit) prepare() error {
	if len(v.r.CookiesNamed(site.SessionCookie)) > 1 {
		// Another site set one of them, and the server cannot distinguish them. It deletes all, so that the next sign-in
		// works.
		site.ClearPlanted(v.Header(), v.tenant.Settings, v.r)
		failure(v, http.StatusUnauthorized, "two_cookies")
		return errAnswered
	}
	posted := v.r.Method == http.MethodPost
	var sent *form
	if posted {
		var err error
		if sent, err = readForm(v); err != nil {
			return err
		}
		if !v.ownOrigin() {
			failure(v, http.StatusForbidden, "origin")
			return errAnswered
		}
	}
	if err := readSession(v); err != nil {
		if posted && genuine(v, sent) {
			v.keepDraft(sent, sent.user)
		}
		return err
	}
	if err := readSetup(v); err != nil {
		return err
	}
	if posted {
		return admit(v, sent)
	}
	if v.page.signedIn && v.who.User == nil {
		v.toSignIn()
		return errAnswered
	}
	if closed(v) {
		v.toAndBack(requiredPath)
		return errAnswered
	}
	v.restoreDraft()
	return nil
}

// closed reports whether the user must show or add a factor before this page opens.
func closed(v *visit) bool { return v.held && v.page.signedIn && !v.page.held }

// readSession reads the current session. For a user whose sign-in is below the required level, the API names no user in
// the session; readSession reads the account then.
func readSession(v *visit) error {
	session, err := v.api.GetSession(v.r.Context())
	if err != nil {
		return err
	}
	v.who, v.held = session.Data, false
	if v.who.User != nil || v.api.session.ActiveSignin == nil {
		return nil
	}
	me, err := v.api.GetMe(v.r.Context())
	switch {
	case refusedBy(err, "NOT_AUTHENTICATED"):
		return nil
	case err != nil:
		return err
	}
	v.held, v.who.User = true, &enduserapi.EndUser{
		Id: me.Data.Id, Email: me.Data.Email, FirstName: me.Data.FirstName, LastName: me.Data.LastName,
		PrimaryPhoneNumber: me.Data.PrimaryPhoneNumber, CreatedAt: me.Data.CreatedAt,
	}
	return nil
}

// ownOrigin reports whether the request comes from a page of this site. A browser sends the cookie with requests of
// other sites too, without the user's intent.
func (v *visit) ownOrigin() bool {
	origins := v.r.Header.Values("Origin")
	if len(origins) == 0 {
		fetched := v.r.Header.Get("Sec-Fetch-Site")
		return fetched == "" || fetched == "same-origin" || fetched == "none"
	}
	return len(origins) == 1 && site.OwnOrigin(v.tenant.Settings, v.r, origins[0])
}

// nothingThere refuses a page of an object that does not exist or is not visible to the user.
func nothingThere() error { return &client.Error{Status: http.StatusNotFound, Code: "NOT_FOUND"} }

// user is the id of the signed-in user, "" if there is none.
func (v *visit) user() string {
	if v.who.User == nil {
		return ""
	}
	return v.who.User.Id
}

// Refuse responds to an error that no form of the page shows.
func (v *visit) Refuse(err error) {
	switch refused := refusal(err); {
	case errors.Is(err, errAnswered):
	case refused == nil:
		broken(v, err)
	case refused.Code == "NOT_AUTHENTICATED":
		v.toSignIn()
	case toProof(v, refused):
	case refused.Status == http.StatusNotFound:
		failure(v, http.StatusNotFound, "not_found")
	default:
		failed(v, refused)
	}
}

// again shows the page again with the sent form and the reason of its refusal. If the user must sign in first, the form
// is kept until after the sign-in.
func (v *visit) again(sent *form, err error) error {
	refused := refusal(err)
	if refused == nil {
		return err
	}
	if refused.Code == "NOT_AUTHENTICATED" || refused.Status >= http.StatusInternalServerError {
		v.keepDraft(sent, v.user())
		return err
	}
	if asksForProof(refused) {
		v.keepDraft(sent, v.user())
		toProof(v, refused)
		return nil
	}
	if refused.Code == codeOtherAccount {
		return v.askOther(sent)
	}
	wordFaults(v, sent, refused)
	return v.show(sent, refused.Status)
}

// askOther shows the page again for the account that is active now. It reports on the page that nothing was changed.
func (v *visit) askOther(sent *form) error {
	if err := readSession(v); err != nil {
		return err
	}
	if v.who.User == nil && v.page.signedIn {
		v.toSignIn()
		return nil
	}
	if v.who.User != nil {
		sent.Message = v.text.Text("form.other_user", "email", v.who.User.Email)
	}
	return v.show(sent, http.StatusConflict)
}

// show shows the page again with a refused form.
func (v *visit) show(sent *form, status int) error {
	v.form, v.status = sent, status
	return v.page.get(v)
}

// toSignIn redirects the browser to the sign-in, which returns to this page afterwards.
func (v *visit) toSignIn() { v.toAndBack("/sign-in") }

// toAndBack redirects the browser to a page that returns to this one afterwards. pairs are names and values of further
// query parameters; a parameter without a value is omitted.
func (v *visit) toAndBack(path string, pairs ...string) {
	back := v.r.URL.Path
	if v.r.URL.RawQuery != "" {
		back += "?" + v.r.URL.RawQuery
	}
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	if safe, ok := target(v, back); ok && (v.page.signedIn || v.who.User != nil && !strings.HasPrefix(v.r.URL.Path, "/sign-")) {
		query.Set("continue", safe)
	}
	v.redirectTo(path, query)
}

// link returns the address of a page. Its query keeps the address to continue at, and the language.
func (v *visit) link(path string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return v.address(path, query)
}

func (v *visit) address(path string, query url.Values) string {
	asked := v.r.URL.Query()
	if target, ok := target(v, asked.Get("continue")); ok && !query.Has("continue") {
		query.Set("continue", target)
	}
	if locales := asked.Get("ui_locales"); locales != "" && !query.Has("ui_locales") {
		query.Set("ui_locales", locales)
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// redirect redirects the browser to a page of this package, with a notice to show there ("" for none).
func (v *visit) redirect(notice, path string, pairs ...string) error {
	if notice != "" {
		v.state.notify(notice, v.now)
	}
	v.location(v.link(path, pairs...))
	return nil
}

func (v *visit) redirectTo(path string, query url.Values) {
	v.location(v.address(path, query))
}

// onward redirects the browser to the address to continue at in the query, or to the page fallback if there is none.
func (v *visit) onward(fallback string) error {
	if target, ok := target(v, v.r.URL.Query().Get("continue")); ok {
		v.location(target)
		return nil
	}
	return v.redirect("", fallback)
}

// onwardTold is onward with a notice to show on the next page.
func onwardTold(v *visit, notice, fallback string) error {
	v.state.notify(notice, v.now)
	return v.onward(fallback)
}

func (v *visit) location(to string) {
	v.sendHeader()
	v.Header().Set("Location", to)
	v.WriteHeader(http.StatusSeeOther)
}

// passOn forwards a request that is not for a page to the API. If the API only responds that it has no such path or
// method, passOn shows an error page instead.
func (v *visit) passOn() {
	answer := newAnswer()
	v.Pages.API.ServeHTTP(answer, v.r)
	refused := answer.refused()
	switch {
	case refused != nil && refused.Code == "NOT_FOUND" && v.r.Method == http.MethodPost && v.r.Pattern != "":
		failure(v, http.StatusUnsupportedMediaType, "media")
	case refused != nil && (refused.Code == "NOT_FOUND" || refused.Code == "METHOD_NOT_ALLOWED") && v.r.Pattern == "":
		if allow := answer.header.Get("Allow"); allow != "" {
			v.Header().Set("Allow", allow)
		}
		failed(v, refused)
	default:
		answer.copyTo(v)
	}
}

// name returns the name of the deployment, "" if no deployment has the host.
func (v *visit) name() string {
	if v.tenant == nil {
		return ""
	}
	return v.tenant.AppName()
}
