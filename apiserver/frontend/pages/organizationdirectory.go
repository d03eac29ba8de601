package pages

import (
	"net/http"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// directoryPage shows the directories of an organization to its admins, who set them up there.
type directoryPage struct {
	place
	Directories []directoryRow
	// MayAdd reports that the deployment lets organizations set up directories.
	MayAdd bool
	// Unproven reports that the organization has no verified domain, and MayProve that the page links to the domains.
	Unproven, MayProve bool
	Guides             []guide
	// Connections, Roles, Deletions and Lifetimes are the options of the forms.
	Connections, Roles, Deletions, Lifetimes []option
	roleNames                                map[string]string
	// declared reports that the service declares a connection of the organization. It can have domains that the page
	// does not know.
	declared bool
}

// directoryRow is a directory with its numbers in words.
type directoryRow struct {
	enduserapi.OrganizationDirectory
	// Own reports that the organization or a backend set the directory up. Others are read-only.
	Own                   bool
	UsersText, GroupsText string
	// Connection is the id of the connection by which its users sign in, "" for none. ConnectionName is its name.
	Connection, ConnectionName string
	// DeletionText says what a deletion of a user does.
	DeletionText string
	// Made is a token that was just made, nil for none. It is shown only this time.
	Made *enduserapi.IssuedDirectoryToken
}

// madeToken is a new token of a directory.
type madeToken struct {
	directory string
	token     enduserapi.IssuedDirectoryToken
}

// RoleName returns the name of a role, or its id if the role was deleted or is unknown to the page.
func (own directoryPage) RoleName(id string) string {
	if name, known := own.roleNames[id]; known {
		return name
	}
	return id
}

// provisions reports whether an organization may set up directories, or has one.
func provisions(v *visit, organization string) (bool, error) {
	if !v.tenant.Settings.EffectiveConnections().NoDirectories {
		return true, nil
	}
	list, err := v.api.ListOrganizationDirectories(v.r.Context(), organization)
	switch {
	case refusal(err) != nil:
		return false, nil
	case err != nil:
		return false, err
	}
	return len(list.Data) > 0, nil
}

// permitted reports whether the visit is one of a member, or its setup link has an intent.
func permitted(v *visit, intent string) bool {
	return v.setup == nil || slices.Contains(v.setup.Intents, intent)
}

func showDirectory(v *visit) error {
	in, err := connecting(v)
	if err != nil {
		return err
	}
	return renderDirectory(v, in, nil)
}

func renderDirectory(v *visit, in place, made *madeToken) error {
	own := directoryPage{
		place: in, MayAdd: in.MayConnect && !v.tenant.Settings.EffectiveConnections().NoDirectories,
		MayProve: in.MayConnect && permitted(v, "domains"), Guides: directoryGuides(v), Deletions: deletions(v), Lifetimes: tokenLifetimes(v), roleNames: map[string]string{},
	}
	if !in.MayConnect {
		return v.render("directory", v.text.Text("directory.title"), own)
	}
	for _, load := range []func(*visit) error{own.loadAssigned, own.loadDomains} {
		if err := load(v); err != nil {
			return err
		}
	}
	list, err := v.api.ListOrganizationDirectories(v.r.Context(), in.Membership.Organization.Id)
	if err != nil {
		return err
	}
	for _, d := range list.Data {
		row := own.row(v, d)
		if made != nil && made.directory == d.Id {
			row.Made = &made.token
		}
		own.Directories = append(own.Directories, row)
	}
	return v.render("directory", v.text.Text("directory.title"), own)
}

// row returns a directory as the page shows it.
func (own *directoryPage) row(v *visit, d enduserapi.OrganizationDirectory) directoryRow {
	row := directoryRow{
		OrganizationDirectory: d, Own: d.Source == enduserapi.OrganizationDirectorySourceRuntime,
		UsersText: v.text.Count("directory.users", d.Users), GroupsText: v.text.Count("directory.groups", d.Groups),
	}
	if d.ConnectionId != nil {
		row.Connection, row.ConnectionName = *d.ConnectionId, *d.ConnectionId
	}
	for _, o := range own.Connections {
		if o.Value == row.Connection {
			row.ConnectionName = o.Label
		}
	}
	for _, o := range own.Deletions {
		if o.Value == d.OnDelete {
			row.DeletionText = o.Label
		}
	}
	return row
}

// ConnectionChoices returns the connections that a directory can have. They include its present one, so that another
// change of the directory keeps it.
func (own directoryPage) ConnectionChoices(row directoryRow) []option {
	if slices.ContainsFunc(own.Connections, func(o option) bool { return o.Value == row.Connection }) {
		return own.Connections
	}
	return append(slices.Clone(own.Connections), option{row.Connection, row.ConnectionName})
}

// loadAssigned reads the connections and the roles that a directory can name.
func (own *directoryPage) loadAssigned(v *visit) error {
	organization := own.Membership.Organization.Id
	list, err := v.api.ListOrganizationConnections(v.r.Context(), organization)
	if err != nil {
		return err
	}
	own.Connections = []option{{"", v.text.Text("directory.no_connection")}}
	for _, c := range list.Data {
		own.Connections = append(own.Connections, option{c.Id, c.DisplayName})
	}
	roles, err := roles(v, organization, "organization")
	if err != nil {
		return err
	}
	for _, role := range roles {
		own.roleNames[*role.Id] = role.Name
	}
	own.Roles = choices(v, roles, "sso.choose_role", func(permission string) bool { return own.Setup || own.may(permission) })
	own.declared = slices.ContainsFunc(list.Data, func(c enduserapi.OrganizationConnection) bool {
		return c.Source == enduserapi.OrganizationConnectionSourceDeclared
	})
	return nil
}

// loadDomains reads whether a domain of the organization is verified.
func (own *directoryPage) loadDomains(v *visit) error {
	if !own.MayProve || own.declared {
		return nil
	}
	list, err := v.api.ListDomains(v.r.Context(), own.Membership.Organization.Id)
	if err != nil {
		return err
	}
	own.Unproven = !slices.ContainsFunc(list.Data, func(d enduserapi.Domain) bool { return d.Effect == "active" })
	return nil
}

// directoryGuides returns what to enter at each provider.
func directoryGuides(v *visit) []guide {
	return []guide{
		{v.text.Text("sso.okta"), v.text.Text("directory.okta_steps")}, {v.text.Text("sso.entra"), v.text.Text("directory.entra_steps")},
		{v.text.Text("directory.other"), v.text.Text("directory.other_steps")},
	}
}

// deletions returns what the deletion of a user can do to the account.
func deletions(v *visit) []option {
	return []option{{"Keep", v.text.Text("directory.keep")}, {"Erase", v.text.Text("directory.erase")}}
}

// codeDirectoryChanged is the error code of a change of a directory that another change preceded.
const codeDirectoryChanged = "DIRECTORY_CHANGED"

// The lifetimes of tokens that the form offers. tokenYear is in seconds.
const (
	lifetimeYear    = "year"
	lifetimeEndless = "endless"
	tokenYear       = 365 * 24 * 60 * 60
)

func tokenLifetimes(v *visit) []option {
	return []option{{lifetimeYear, v.text.Text("keys.year")}, {lifetimeEndless, v.text.Text("keys.forever")}}
}

// takeDirectory takes the forms of the page. The action of a form that is about a directory ends in its id.
func takeDirectory(v *visit) error {
	in, err := connecting(v)
	if err != nil {
		return err
	}
	sent, organization, notice := v.form, in.Membership.Organization.Id, ""
	action, id, _ := strings.Cut(sent.Action, "-")
	switch action {
	case "add":
		notice = "directory_added"
		_, err = v.api.AddOrganizationDirectory(v.r.Context(), organization, enduserapi.OrganizationDirectoryCreate{})
	case "token":
		return makeDirectoryToken(v, in, id)
	case "revoke":
		notice = "directory_token_removed"
		_, err = v.api.RemoveDirectoryToken(v.r.Context(), organization, id, sent.value("token_id"))
	case "delete":
		if !sent.ticked("confirmation") {
			sent.fail("confirmation", v.text.Text("directory.unconfirmed"))
			return v.show(sent, http.StatusBadRequest)
		}
		notice = "directory_removed"
		_, err = v.api.RemoveOrganizationDirectory(v.r.Context(), organization, id)
	case "rules", "map", "unmap":
		notice = "directory_changed"
		err = changeDirectory(v, in, action, id)
	default:
		failure(v, http.StatusBadRequest, "bad_form")
		return nil
	}
	if sent.refused() {
		return v.show(sent, http.StatusBadRequest)
	}
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect(notice, at("/organizations/{id}", in.Membership.Organization.Slug)+"/directory")
}

// makeDirectoryToken makes a token, and shows it, this once.
func makeDirectoryToken(v *visit, in place, id string) error {
	sent, body := v.form, enduserapi.DirectoryTokenCreate{}
	switch sent.value("lifetime") {
	case lifetimeYear:
		seconds := tokenYear
		body.ExpiresIn = &seconds
	case lifetimeEndless:
	default:
		sent.fail("lifetime", v.text.Text("invalid.expires_at"))
		return v.show(sent, http.StatusBadRequest)
	}
	made, err := v.api.MakeDirectoryToken(v.r.Context(), in.Membership.Organization.Id, id, body)
	if err != nil {
		return v.again(sent, err)
	}
	// The page is shown without a redirect, so that the token is not stored anywhere, not even briefly in a cookie.
	v.form = nil
	return renderDirectory(v, in, &madeToken{id, made.Data})
}

// changeDirectory changes what a form of the page has of a directory. Faults of the form are added to it.
func changeDirectory(v *visit, in place, action, id string) error {
	sent, organization, body := v.form, in.Membership.Organization.Id, enduserapi.OrganizationDirectoryUpdate{}
	if action == "rules" {
		active := sent.ticked("is_active")
		body.IsActive, body.OnDelete = &active, (*enduserapi.OrganizationDirectoryUpdateOnDelete)(sent.member("on_delete"))
		if connection := sent.member("connection"); connection != nil {
			body.ConnectionId = nullable.NewNullNullable[string]()
			if *connection != "" {
				body.ConnectionId = nullable.NewNullableWithValue(*connection)
			}
		}
	} else {
		if action == "map" && sent.value("role") == "" {
			sent.fail("role", v.text.Text("invalid.role"))
			return nil
		}
		return mapGroup(v, organization, action, id)
	}
	_, err := v.api.UpdateOrganizationDirectory(v.r.Context(), organization, id, body)
	return err
}

// mapGroup adds or removes a role of a group of a directory.
func mapGroup(v *visit, organization, action, id string) error {
	return untilUnchanged(codeDirectoryChanged, func() error {
		now, err := v.api.GetOrganizationDirectory(v.r.Context(), organization, id)
		if err != nil {
			return err
		}
		_, err = v.api.UpdateOrganizationDirectory(v.r.Context(), organization, id, enduserapi.OrganizationDirectoryUpdate{
			GroupRoles: changedGroupRoles(v.form, action, now.Data.GroupRoles), ExpectedUpdatedAt: now.Data.UpdatedAt,
		})
		return err
	})
}

// changedGroupRoles returns the roles of groups after the form's change: one is added at the end, or one is removed.
func changedGroupRoles(sent *form, action string, now []enduserapi.GroupRole) *[]enduserapi.GroupRole {
	if action == "map" {
		now = append(slices.Clone(now), enduserapi.GroupRole{Group: sent.trimmed("group"), RoleId: sent.value("role")})
		return &now
	}
	now = slices.DeleteFunc(slices.Clone(now), func(g enduserapi.GroupRole) bool { return g.Group == sent.value("group") })
	return &now
}
