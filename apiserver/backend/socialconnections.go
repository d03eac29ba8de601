package backend

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Published clients call connections to the providers of consumers "social connections". These operations show what is
// declared, and users' identities there, in the shapes that those clients know.

// socialProviders are the names that published clients have for the providers of consumers, by the type of a
// connection.
var socialProviders = map[string]backendapi.SocialProvider{
	string(v1alpha1.ConnectionTypeGoogle): backendapi.GoogleOauth, string(v1alpha1.ConnectionTypeMicrosoft): backendapi.MicrosoftOauth, string(v1alpha1.ConnectionTypeGitHub): backendapi.GithubOauth,
	string(v1alpha1.ConnectionTypeGitLab): backendapi.GitlabOauth, string(v1alpha1.ConnectionTypeApple): backendapi.AppleOauth,
}

// listSocialConnections serves the deployment's declared connections to providers of consumers, the newest first, with
// masked secrets. Connections of organizations are not among them.
func listSocialConnections(c *call) (reply, error) {
	list := backendapi.SocialConnectionList{Data: []backendapi.SocialConnection{}}
	c.snapshot.List(v1alpha1.KindConnection, c.tenant(), func(e *snapshot.Entry) bool {
		content := snapshot.ContentOf[snapshot.Connection](e)
		provider, social := socialProviders[content.Type]
		if !social || content.Organization != "" {
			return true
		}
		view := backendapi.SocialConnection{
			Id: ids.Format(e.ID), DeploymentId: ids.Format(c.principal.Deployment.ID), Provider: provider, Enabled: content.Active, CreatedAt: e.Meta.CreatedAt, UpdatedAt: e.Meta.UpdatedAt,
			Credentials: backendapi.SocialCredentials{ClientId: content.Client.ID, ClientSecret: input.MaskedSecret, Scopes: append([]string{}, content.Scopes...)},
		}
		if urls := connectionURLs(c, e.ID, "/callback"); len(urls) > 0 {
			view.Credentials.RedirectUri = urls[0]
		}
		list.Data = append(list.Data, view)
		return true
	})
	list.Total = int64(len(list.Data))
	list.Limit = list.Total
	return object(list), nil
}

// listUserSocialConnections serves a user's identities at providers of consumers, the oldest first.
func listUserSocialConnections(c *call) (reply, error) {
	id, err := c.userID()
	if err != nil {
		return reply{}, err
	}
	list := backendapi.UserSocialConnectionList{Data: []backendapi.UserSocialConnection{}}
	err = c.people().view(func(u *account.Unit) error {
		if _, err := findUser(u, id); err != nil {
			return err
		}
		have, err := u.Identities().IdentitiesOf(id)
		if err != nil {
			return err
		}
		emails, err := u.Users().EmailsOf(id)
		if err != nil {
			return err
		}
		for _, i := range have {
			conn, found, err := account.NamedConnection(u, i.Connection)
			if err != nil {
				return err
			}
			provider, social := socialProviders[conn.Type]
			if !found || !social {
				continue
			}
			view := backendapi.UserSocialConnection{
				Id: ids.Format(i.ID), UserId: ids.Format(id), Provider: provider, EmailAddress: i.Email, CreatedAt: i.CreatedAt, UpdatedAt: i.CreatedAt,
			}
			if i.UsedAt.After(i.CreatedAt) {
				view.UpdatedAt = i.UsedAt
			}
			for _, email := range emails {
				if people.FoldEmail(email.Address) == people.FoldEmail(i.Email) {
					view.UserEmailAddressId = ids.Format(email.ID)
				}
			}
			list.Data = append(list.Data, view)
		}
		return nil
	})
	return object(list), err
}
