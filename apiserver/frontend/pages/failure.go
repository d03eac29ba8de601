package pages

import (
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/client"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// failurePage is the content of an error page.
type failurePage struct {
	Heading, Message, RequestID string
	// Reason is the OAuth error code that is meant for the client. Back is the link to the client, and BackTo the text
	// of the link.
	Reason, BackTo string
	Back           template.URL
	// Connections are those by which the user must sign in.
	Connections []connectionButton
	// Retry is the address at which the user can try again, "" if a retry cannot help.
	Retry string
	// Home shows a link to the start page.
	Home bool
}

// failure shows the error page whose texts the catalog has under a key.
func failure(v *visit, status int, key string) {
	own := failurePage{Heading: v.text.Text("failure." + key + ".heading"), Message: v.text.Text("failure." + key + ".message")}
	if status >= http.StatusInternalServerError {
		own.Retry = retry(v)
		v.Header().Set("Retry-After", "5")
	}
	v.fail(status, own)
}

// failed shows the error page for a refusal by the API that no form can show.
func failed(v *visit, refused *client.Error) {
	key := "refused"
	switch {
	case refused.Status == http.StatusServiceUnavailable:
		key = "unavailable"
	case refused.Status >= http.StatusInternalServerError:
		key = "broken"
	case refused.Code == "NOT_FOUND":
		key = "not_found"
	case refused.Status == http.StatusMethodNotAllowed:
		key = "method"
	case refused.Code == "DEPLOYMENT_NOT_FOUND":
		key = "unknown_host"
	}
	if key != "refused" {
		failure(v, refused.Status, key)
		return
	}
	own := failurePage{Heading: v.text.Text("failure.refused.heading"), Message: word(v, refused)}
	if refused.Code == "SSO_REQUIRED" {
		own.Connections = requiredButtons(v)
	}
	if refused.RetryAfter > 0 {
		own.Retry = retry(v)
		v.Header().Set("Retry-After", strconv.Itoa(seconds(refused.RetryAfter)))
	}
	v.fail(refused.Status, own)
}

func (v *visit) fail(status int, own failurePage) {
	own.RequestID, own.Home = v.ID[0], v.tenant != nil
	v.form, v.page = nil, page{}
	raw, err := v.compose("failure", own.Heading, own)
	if err != nil {
		broken(v, err)
		return
	}
	v.send(status, raw)
}

// retry returns the address at which a failed request can be tried again: that of the page itself. For a path that
// browsers would treat as an address on another host, it returns "/".
func retry(v *visit) string {
	if strings.HasPrefix(v.r.URL.Path, "//") || strings.Contains(v.r.URL.Path, "\\") {
		return "/"
	}
	if v.r.URL.RawQuery == "" {
		return v.r.URL.Path
	}
	return v.r.URL.Path + "?" + v.r.URL.RawQuery
}

// broken responds to an unexpected error with plain text, because the templates may be the cause. The error is only
// logged.
func broken(v *visit, err error) {
	if v.r.Context().Err() == nil {
		tracing.Logger(v.r.Context(), v.Log).Error(err, "A page failed", "method", v.r.Method, "route", v.r.Pattern, "request_id", v.ID[0])
	}
	v.sendHeader()
	v.Header().Set("Content-Type", "text/plain; charset=utf-8")
	v.WriteHeader(http.StatusInternalServerError)
	_, _ = fmt.Fprintf(v, "%s\n%s\n\n%s\n", v.text.Text("failure.broken.heading"), v.text.Text("failure.broken.message"), v.text.Text("failure.request_id", "id", v.ID[0]))
}
