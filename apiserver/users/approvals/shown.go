package approvals

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// Shown is what the approver of a call sees of it, beside its arguments.
type Shown struct {
	// Status is the state now.
	Status string
	// Title is the display name of the tool, Method its method and Host the host of its endpoint. If the tool is no
	// longer the one that was asked for, Title is its name, and the others are "".
	Title, Method, Host string
	// Fresh reports that the tool needs an approver with a recent proof.
	Fresh bool
	// Client is the program that asked, nil for a session of the user.
	Client *Client
}

// Client is the program that asked for an approval.
type Client struct {
	Name string
	// Verified reports that an operator named the program, rather than the program itself.
	Verified bool
}

// Show returns what the approver sees of an approval.
func Show(u *account.Unit, a *people.Approval) (Shown, error) {
	content := Content(u.Snapshot(), u.Key(), a.Agent, a.Tool)
	shown := Shown{Status: Status(a, content, u.Now), Title: a.ToolName}
	if entry, found := u.Snapshot().ByID(v1alpha1.KindAITool, u.Key(), a.Tool); found && content == a.Content {
		tool := snapshot.ContentOf[snapshot.Tool](entry)
		shown.Title, shown.Method, shown.Host = tool.Name, tool.RequestMethod(), tool.Host()
		shown.Fresh = tool.Approval != nil && tool.Approval.Fresh
	}
	var err error
	shown.Client, err = clientOf(u, a)
	return shown, err
}

// clientOf returns the program that asked. A client that is deleted is shown by its id.
func clientOf(u *account.Unit, a *people.Approval) (*Client, error) {
	switch a.Caller.Kind {
	case people.CallerSession:
		return nil, nil
	case people.CallerClient:
		if app := appOf(u, a.Agent); app != nil {
			client, _, err := consent.FindClient(u, app, a.Caller.ID)
			if err != nil {
				return nil, err
			}
			if client != nil {
				return &Client{Name: client.Name, Verified: client.Trusted()}, nil
			}
		}
	}
	return &Client{Name: a.Caller.ID}, nil
}

// appOf returns the OAuth app of an agent, nil if there is none.
func appOf(u *account.Unit, agent int64) *consent.App {
	entry, found := u.Snapshot().ByID(v1alpha1.KindAIAgent, u.Key(), agent)
	if !found {
		return nil
	}
	id := store.Identity{Kind: v1alpha1.KindOAuthApp, Namespace: entry.Namespace, Name: snapshot.ContentOf[snapshot.Agent](entry).OAuthApp}
	app, found := u.Snapshot().Get(id)
	if !found || app.Deployment != u.Key() || snapshot.ContentOf[document.OAuthApp](app) == nil {
		return nil
	}
	return consent.NewApp(u.Snapshot(), app)
}
