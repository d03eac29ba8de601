package upstream

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestUserinfoIsOfThePersonOfTheIDToken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		page    http.HandlerFunc
		subject string
		reason  string // "" for ErrUnavailable, "-" for none
		got     string
	}{
		"the same person":       {says(200, `{"sub":"ann","email":"ann@globex.example"}`), "ann", "-", ""},
		"another person":        {says(200, `{"sub":"bob"}`), "ann", connection.ReasonUserinfoSubject, "bob"},
		"another spelling":      {says(200, `{"sub":"Ann"}`), "ann", connection.ReasonUserinfoSubject, "Ann"},
		"nobody":                {says(200, `{"email":"ann@globex.example"}`), "ann", connection.ReasonUserinfoSubject, ""},
		"a number":              {says(200, `{"sub":7}`), "7", connection.ReasonUserinfoSubject, ""},
		"no person was asked":   {says(200, `{"sub":""}`), "", connection.ReasonUserinfoSubject, ""},
		"doubled members":       {says(200, `{"sub":"bob","sub":"ann"}`), "ann", connection.ReasonUserinfo, "no valid JSON"},
		"null":                  {says(200, `null`), "ann", connection.ReasonUserinfoSubject, ""},
		"a refused token":       {says(401, `{"error":"invalid_token"}`), "ann", connection.ReasonUserinfo, "invalid_token"},
		"more than 64 KiB":      {says(200, `{"sub":"ann","x":"`+strings.Repeat("x", maxAnswer)+`"}`), "ann", connection.ReasonUserinfo, "more than 65536 bytes"},
		"a redirect":            {http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, "ann", connection.ReasonUserinfo, "302 Found"},
		"an unavailable server": {says(502, ``), "ann", "", ""},
		"a signed answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/jwt")
			_, _ = w.Write([]byte(testIDToken))
		}, "ann", connection.ReasonUserinfo, "application/jwt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			w.provider.serve("/userinfo", tc.page)
			c := w.connection(w.direct)
			claims, err := w.server().Userinfo(t.Context(), c, testAccess, tc.subject)
			var fault *connection.Fault
			errors.As(err, &fault)
			switch {
			case tc.reason == "-":
				if err != nil || claims["email"] != "ann@globex.example" {
					t.Errorf("%v, %v", claims, err)
				}
			case claims != nil, tc.reason == "" && !errors.Is(err, ErrUnavailable), tc.reason != "" && (fault == nil || fault.Reason != tc.reason || fault.Got != tc.got):
				t.Errorf("%v, %v", claims, err)
			}
			if got := w.provider.last("/userinfo").Header.Get("Authorization"); got != "Bearer "+testAccess || w.provider.hit("/elsewhere") != 0 {
				t.Errorf("%q", got)
			}
			w.silent(c, fmt.Sprint(err))
		})
	}
}

func TestProviderWithoutUserinfoIsNotAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c := w.connection(func(c *document.Connection) { w.direct(c); c.Provider.UserinfoURL = "" })
	_, err := w.server().Userinfo(t.Context(), c, testAccess, "ann")
	var fault *connection.Fault
	if !errors.As(err, &fault) || fault.Reason != connection.ReasonUserinfo {
		t.Errorf("%v", err)
	}
}

// mailbox is an email of a GitHub user.
type mailbox struct {
	Email    string `json:"email"`
	Primary  bool   `json:"primary"`
	Verified bool   `json:"verified"`
}

// pageOf serves emails in pages, as GitHub does.
func pageOf(emails []mailbox) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var size, page int
		_, _ = fmt.Sscan(r.FormValue("per_page"), &size)
		_, _ = fmt.Sscan(r.FormValue("page"), &page)
		from := min((page-1)*size, len(emails))
		says(200, encoded(emails[from:min(from+size, len(emails))]))(w, r)
	}
}

// CON-05: the subject is the id, and the only email is the primary one, if it is verified.
func TestGitHubUsersAsClaims(t *testing.T) {
	t.Parallel()
	const user = `{"id":583231,"login":"octocat","name":"Mona Lisa Octocat","email":"profile@evil.example"}`
	many := make([]mailbox, 250)
	for n := range many {
		many[n] = mailbox{Email: fmt.Sprint(n, "@globex.example"), Verified: true}
	}
	late := append(append([]mailbox{}, many...), mailbox{"late@globex.example", true, true})
	for name, tc := range map[string]struct {
		user   http.HandlerFunc
		emails http.HandlerFunc
		email  any
		pages  int
	}{
		"primary and verified":      {says(200, user), pageOf([]mailbox{{"other@globex.example", false, true}, {"mona@globex.example", true, true}}), "mona@globex.example", 1},
		"primary and unverified":    {says(200, user), pageOf([]mailbox{{"other@globex.example", false, true}, {"victim@globex.example", true, false}}), nil, 1},
		"no primary one":            {says(200, user), pageOf([]mailbox{{"other@globex.example", false, true}}), nil, 1},
		"none":                      {says(200, user), pageOf(nil), nil, 1},
		"on the third page":         {says(200, user), pageOf(late), "late@globex.example", 3},
		"not among 500":             {says(200, user), pageOf(append(append(append([]mailbox{}, many...), many...), late...)), nil, maxEmailPages},
		"the scope is not granted":  {says(200, user), says(404, `{"message":"Not Found"}`), nil, 1},
		"emails are not accessible": {says(200, user), says(403, `{"message":"Resource not accessible"}`), nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			w.provider.serve("/userinfo", tc.user)
			w.provider.serve("/userinfo/emails", tc.emails)
			c := w.connection(func(c *document.Connection) { w.direct(c); c.Type = "GitHub" })
			got, err := w.server().Userinfo(t.Context(), c, testAccess, "")
			want := map[string]any{"sub": "583231", "preferred_username": "octocat", "name": "Mona Lisa Octocat", "given_name": "Mona", "family_name": "Lisa Octocat"}
			if tc.email != nil {
				want["email"], want["email_verified"] = tc.email, true
			}
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("%v, %v", got, err)
			}
			if n := w.provider.hit("/userinfo/emails"); n != tc.pages {
				t.Errorf("%d pages were read", n)
			}
			if h := w.provider.last("/userinfo").Header; h.Get("Accept") != "application/json" || h.Get("Authorization") != "Bearer "+testAccess || h.Get("User-Agent") == "" {
				t.Errorf("%v", h)
			}
		})
	}
}

func TestGitHubUsersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	spent := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "0")
		says(403, `{"message":"API rate limit exceeded"}`)(w, r)
	}
	user := says(200, `{"id":583231,"login":"octocat","name":null}`)
	for name, tc := range map[string]struct {
		user, emails http.HandlerFunc
		unavailable  bool
	}{
		"no id":                   {says(200, `{"login":"octocat"}`), pageOf(nil), false},
		"an id that is a text":    {says(200, `{"id":"583231"}`), pageOf(nil), false},
		"an id with a fraction":   {says(200, `{"id":1.5}`), pageOf(nil), false},
		"a negative id":           {says(200, `{"id":-1}`), pageOf(nil), false},
		"a refused token":         {says(401, `{"message":"Bad credentials"}`), pageOf(nil), false},
		"the rate limit":          {spent, pageOf(nil), true},
		"the rate limit, emails":  {user, spent, true},
		"emails that are no list": {user, says(200, `{"email":"mona@globex.example","primary":true,"verified":true}`), false},
		"emails, 500":             {user, says(500, ``), true},
	} {
		w := newWorld(t, "")
		w.provider.serve("/userinfo", tc.user)
		w.provider.serve("/userinfo/emails", tc.emails)
		c := w.connection(func(c *document.Connection) { w.direct(c); c.Type = "GitHub" })
		got, err := w.server().Userinfo(t.Context(), c, testAccess, "")
		var fault *connection.Fault
		if got != nil || errors.Is(err, ErrUnavailable) != tc.unavailable || errors.As(err, &fault) == tc.unavailable {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		w.silent(c, fmt.Sprint(err))
	}
}
