package enduser

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"

	"golang.org/x/text/language"

	"github.com/cardea-iam/cardea/apiserver/connection/saml"
)

// submitsForm is the script of the page that sendForm shows. Without scripts, the user presses the button.
const submitsForm = "document.forms[0].submit()"

// formScript names the script in the Content-Security-Policy.
var formScript = func() string {
	sum := sha256.Sum256([]byte(submitsForm))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// formPage is a page with one form, which the browser posts to an identity provider.
var formPage = template.Must(template.New("form").Parse(`<!doctype html>
<html lang="{{.Language}}" dir="ltr">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{{.Title}}</title></head>
<body>
<main>
<h1>{{.Title}}</h1>
<form method="post" action="{{.Form.URL}}">
<input type="hidden" name="{{.Form.Name}}" value="{{.Form.Message}}">
{{with .Form.RelayState}}<input type="hidden" name="RelayState" value="{{.}}">
{{end}}<button type="submit">{{.Button}}</button>
</form>
</main>
<script>{{.Script}}</script>
</body>
</html>
`))

// formLanguages are the languages of the page, the default first, and formWords its words: the title, which the name of
// the connection follows, and the button.
var (
	formLanguages = language.NewMatcher([]language.Tag{language.English, language.German})
	formWords     = [][3]string{{"en", "Continue to ", "Continue"}, {"de", "Weiter zu ", "Weiter"}}
)

// sendForm shows a page with a form that the browser posts to an identity provider. The form's fields are signed
// messages, and its action is an endpoint of the provider's metadata.
func sendForm(c *call, name string, form saml.Form) error {
	_, at := language.MatchStrings(formLanguages, c.r.Header.Get("Accept-Language"))
	words := formWords[at]
	var page bytes.Buffer
	err := formPage.Execute(&page, map[string]any{
		"Language": words[0], "Title": words[1] + name, "Button": words[2], "Form": form, "Script": template.JS(submitsForm), //nolint:gosec // a constant
	})
	if err != nil {
		return c.answerTo(err)
	}
	header := c.Header()
	setHeader(c, header)
	header.Set("Content-Type", "text/html; charset=utf-8")
	// There is no form-action: it would also apply to redirects of the provider after the form.
	header.Set("Content-Security-Policy", "default-src 'none'; script-src "+formScript+"; frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Add("Vary", "Accept-Language")
	c.WriteHeader(http.StatusOK)
	if c.r.Method != http.MethodHead {
		_, _ = c.Write(page.Bytes()) // an error means that the client disconnected
	}
	return nil
}
