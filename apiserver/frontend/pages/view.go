package pages

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/document"
)

// view is the data of a page's templates.
type view struct {
	// Language is the page's language. Languages are links to this page in each language.
	Language  string
	Languages []languageLink
	Title     string
	// Name is the name of the deployment, and Pages are the settings of its pages.
	Name  string
	Pages document.Pages
	// Style, Brand, Script and Icon are paths of assets; Brand and Icon are "" if no deployment has the host.
	Style, Brand, Script, Icon string
	// Account reports that the page is about the user's account.
	Account bool
	Section string
	User    *enduserapi.EndUser
	// Organizations reports that organizations are enabled, so that the page links to them.
	Organizations bool
	Notice        string
	// Action is the address to which forms are sent: that of this page.
	Action string
	Token  string
	visit  *visit
	// Page is the data of the page itself.
	Page any
}

type languageLink struct {
	Language, Name, Address string
	Current                 bool
}

// Form returns the page's form with an action: the sent form if it has this action, else an empty one. The action
// distinguishes the ids of the fields of different forms.
func (v view) Form(action string) formView {
	f := v.visit.form
	if f == nil || f.Action != action {
		f = &form{}
	}
	return formView{form: f, Name: action}
}

// Failed returns the form that was refused or restored, nil for none.
func (v view) Failed() *formView {
	f := v.visit.form
	if f == nil || !f.refused() && !f.Restored {
		return nil
	}
	return &formView{form: f, Name: f.Action}
}

// Refused reports whether the sent form has an error.
func (v view) Refused() bool { return v.visit.form.refused() }

// In reports whether the page belongs to a part of the site, such as /account.
func (v view) In(part string) bool {
	return v.Section == part || strings.HasPrefix(v.Section, part+"/")
}

// Initial returns the letter that is shown in place of a picture of the signed-in user.
func (v view) Initial() string { return initial(v.User.FirstName + v.User.Email) }

// Keys reports whether users can create API keys in the deployment.
func (v view) Keys() bool { return len(v.visit.tenant.SelfServiceApps()) > 0 }

// Authorizes reports whether users can grant apps access in the deployment.
func (v view) Authorizes() bool { return v.visit.tenant.Authorizes() }

// Approvals reports whether calls of agents can need an approval in the deployment. The page of approvals links to
// itself in any case.
func (v view) Approvals() bool { return v.In(approvalsPath) || v.visit.tenant.Approves() }

// Connections reports whether the deployment has connections to identity providers.
func (v view) Connections() bool { return v.visit.tenant.HasConnections() }

// Passwords reports whether users can have a password in the deployment.
func (v view) Passwords() bool {
	password, _ := ways(v.visit)
	return password
}

// Security reports whether users can add second factors and passkeys in the deployment.
func (v view) Security() bool {
	_, open := v.visit.tenant.Settings.Strong()
	return open
}

// Held reports that the user must show or add a factor before the other pages open.
func (v view) Held() bool { return v.visit.held }

// Picture returns the address of a picture if pages may show it, else "".
func (v view) Picture(address string) string { return picture(v.visit, address) }

// UserID returns the id of the signed-in user, to whose account the page's forms are bound; "" for none.
func (v view) UserID() string { return v.visit.user() }

// Link returns the address of a page. Its query keeps the address to continue at, and the language.
func (v view) Link(path string, pairs ...string) string { return v.visit.link(path, pairs...) }

// formView is a form in a template.
type formView struct {
	*form
	Name string
}

// Value returns the value of a field.
func (f formView) Value(name string) string { return f.value(name) }

// Fault returns the error of a field, "" for none.
func (f formView) Fault(name string) string { return f.fault(name) }

// Refused reports whether the sent form has an error.
func (f formView) Refused() bool { return f.refused() }

// ID returns the id of a field on the page.
func (f formView) ID(name string) string { return f.Name + "-" + name }

// field is an input with its label, as the template "field" shows it.
type field struct {
	ID, Name, Label, Type, Value, Hint, Fault, Autocomplete, Inputmode, Show, Hide string
	Required, Optional, Focus, Lines                                               bool
	// Digits is the maximum number of digits of a code that a script extracts from pasted text, "" for the default.
	Digits string
}

// newField returns a field of a form. options are names and values: label, type, hint, autocomplete, inputmode, digits,
// value, show, hide, and the flags required, optional, focus and lines.
func newField(f formView, name string, options ...any) (field, error) {
	out := field{ID: f.ID(name), Name: name, Type: "text", Value: f.Value(name), Fault: f.fault(name)}
	if secret(name) {
		out.Value = ""
	}
	for i := 0; i+1 < len(options); i += 2 {
		text, _ := options[i+1].(string)
		flag, _ := options[i+1].(bool)
		switch options[i] {
		case "label":
			out.Label = text
		case "type":
			out.Type = text
		case "hint":
			out.Hint = text
		case "autocomplete":
			out.Autocomplete = text
		case "inputmode":
			out.Inputmode = text
		case "digits":
			out.Digits = text
		case "show":
			out.Show = text
		case "hide":
			out.Hide = text
		case "value":
			if _, typed := f.values[name]; !typed {
				out.Value = text
			}
		case "required":
			out.Required = flag
		case "optional":
			out.Optional = flag
		case "focus":
			// If the form has an error, the summary of errors takes the focus instead.
			out.Focus = flag && len(f.Faults) == 0 && f.Message == ""
		case "lines":
			out.Lines = flag
		default:
			return out, fmt.Errorf("a field has no option %v", options[i])
		}
	}
	return out, nil
}

// box is a checkbox with its label, as the template "tick" shows it.
type box struct {
	ID, Name, Label, Fault string
	Ticked                 bool
}

// newBox returns a checkbox of a form. ticked is its state before the form is sent.
func newBox(f formView, name, label string, ticked bool) box {
	if f.values != nil {
		ticked = f.ticked(name)
	}
	return box{ID: f.ID(name), Name: name, Label: label, Fault: f.fault(name), Ticked: ticked}
}

// choice is a select field with its label, as the template "choice" shows it.
type choice struct {
	ID, Name, Label, Value, Fault string
	Options                       []option
}

// newChoice returns a select field of a form. value is the selected value before the form is sent.
func newChoice(f formView, name, label string, options []option, value string) choice {
	if sent, there := f.values[name]; there {
		value = sent
	}
	return choice{ID: f.ID(name), Name: name, Label: label, Value: value, Fault: f.fault(name), Options: options}
}

// DescribedBy returns the ids of the elements that describe a field: its hint and its error.
func (f field) DescribedBy() string {
	var ids []string
	if f.Hint != "" {
		ids = append(ids, f.ID+"-hint")
	}
	if f.Fault != "" {
		ids = append(ids, f.ID+"-fault")
	}
	return strings.Join(ids, " ")
}

func (v *visit) view(title string, own any) view {
	out := view{
		Language: v.text.Name, Title: title, Name: v.name(), Style: v.assets.style.path, Script: v.assets.script.path, visit: v, Page: own,
		User: v.who.User, Account: v.page.signedIn && !v.page.bare && v.who.User != nil && !v.held, Section: section(v.r.URL.Path), Languages: v.languages(), Action: v.link(v.r.URL.Path, v.kept()...),
	}
	if v.tenant == nil {
		return out
	}
	out.Pages = v.tenant.Settings.EffectivePages()
	brand := v.assets.brandOf(v.tenant)
	out.Brand, out.Icon = brand.style.path, brand.icon.path
	out.Organizations = v.tenant.B2B.Enabled
	if key := v.state.takeNotice(); v.text.Has("notice."+key) && (v.form == nil || !v.form.Restored) {
		out.Notice = v.text.Text("notice." + key)
	}
	out.Token = v.keys.token(v.tenant.Key(), v.nonce(), v.user())
	return out
}

// kept returns the query parameters that the page's forms and language links keep.
func (v *visit) kept() (pairs []string) {
	for _, name := range []string{"attempt", "invitation", "add", "way", "ways", "level", "kind"} {
		if value := v.r.URL.Query().Get(name); value != "" && len(value) <= site.MaxTarget {
			pairs = append(pairs, name, value)
		}
	}
	return pairs
}

// section returns the first two segments of a path, which identify a part of the account.
func section(path string) string {
	segments := strings.SplitN(path, "/", 4)
	return strings.Join(segments[:min(len(segments), 3)], "/")
}

func (v *visit) languages() (links []languageLink) {
	for _, l := range v.Pages.texts.All() {
		query := url.Values{"ui_locales": {l.Name}}
		for kept := v.kept(); len(kept) > 0; kept = kept[2:] {
			query.Set(kept[0], kept[1])
		}
		links = append(links, languageLink{l.Name, l.Text("language.name"), v.address(v.r.URL.Path, query), l == v.text})
	}
	return links
}
