package snapshot

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/store"
)

// decode decodes a document. It returns nil for an unknown kind, which a newer operator wrote for newer servers.
func decode(doc *store.Document) (*Entry, error) {
	e := &Entry{Owner: doc.Owner, Generation: doc.Generation, Deployment: doc.Deployment, ID: doc.ID, Key: doc.Key}
	read, known := decoders[doc.Kind]
	if !known {
		return nil, nil
	}
	return e, read(e, doc.Payload)
}

// decoders decode the content of each kind, record its references, and render the content that is served unchanged.
var decoders = map[string]func(*Entry, []byte) error{
	v1alpha1.KindIdentityDeployment: func(e *Entry, payload []byte) error {
		content := &document.Deployment{}
		err := e.read(payload, content, content)
		e.refer(v1alpha1.KindRateLimitScheme, content.DefaultScheme)
		return err
	},
	v1alpha1.KindRateLimitScheme: func(e *Entry, payload []byte) (err error) {
		content := &document.RateLimitScheme{}
		if err = e.read(payload, content, content); err == nil {
			e.Body, err = RenderScheme(e.Meta, content)
		}
		return err
	},
	v1alpha1.KindAPIAuthApp: func(e *Entry, payload []byte) error {
		content := &App{}
		err := e.read(payload, &content.APIAuthApp, content)
		content.Ceiling = permission.NewSet(content.Permissions)
		e.refer(v1alpha1.KindRateLimitScheme, content.Scheme)
		return err
	},
	v1alpha1.KindAPIKey: func(e *Entry, payload []byte) error {
		content := &document.APIKey{}
		err := e.read(payload, content, content)
		e.refer(v1alpha1.KindAPIAuthApp, content.App)
		e.refer(v1alpha1.KindRateLimitScheme, content.Scheme)
		return err
	},
	v1alpha1.KindB2BSettings: func(e *Entry, payload []byte) error {
		content := &document.B2BSettings{}
		err := e.read(payload, content, content)
		e.refer(v1alpha1.KindMembershipRole, content.OrgRole)
		e.refer(v1alpha1.KindMembershipRole, content.WorkspaceRole)
		return err
	},
	v1alpha1.KindMembershipRole: func(e *Entry, payload []byte) error {
		content := &document.MembershipRole{}
		return e.read(payload, content, content)
	},
	v1alpha1.KindOAuthApp: func(e *Entry, payload []byte) error {
		content := &document.OAuthApp{}
		return e.read(payload, content, content)
	},
	v1alpha1.KindOAuthScope: func(e *Entry, payload []byte) error {
		content := &document.OAuthScope{}
		err := e.read(payload, content, content)
		e.refer(v1alpha1.KindOAuthApp, content.App)
		return err
	},
	v1alpha1.KindOAuthClient: func(e *Entry, payload []byte) error {
		content := &Client{}
		if err := e.read(payload, &content.OAuthClient, content); err != nil {
			return err
		}
		e.refer(v1alpha1.KindOAuthApp, content.App)
		e.refer(v1alpha1.KindRateLimitScheme, content.Scheme)
		content.prepare()
		return nil
	},
	v1alpha1.KindJWTTemplate: func(e *Entry, payload []byte) error {
		content := &JWTTemplate{}
		return e.read(payload, &content.JWTTemplate, content)
	},
	v1alpha1.KindConnection: func(e *Entry, payload []byte) (err error) {
		content := &Connection{}
		if err = e.read(payload, &content.Connection, content); err == nil {
			err = content.prepare()
		}
		return err
	},
	v1alpha1.KindDirectory: func(e *Entry, payload []byte) error {
		content := &document.Directory{}
		err := e.read(payload, content, content)
		e.refer(v1alpha1.KindConnection, content.Connection)
		for _, given := range content.GroupRoles {
			e.refer(v1alpha1.KindMembershipRole, given.Role)
		}
		return err
	},
	v1alpha1.KindWebhookEndpoint: func(e *Entry, payload []byte) error {
		content := &document.WebhookEndpoint{}
		return e.read(payload, content, content)
	},
	v1alpha1.KindAITool: func(e *Entry, payload []byte) (err error) {
		content := &Tool{}
		if err = e.read(payload, &content.AITool, content); err == nil {
			err = content.render(e)
		}
		e.refer(v1alpha1.KindRateLimitScheme, content.Scheme)
		e.refer(v1alpha1.KindJWTTemplate, content.Authorization.JWTTemplate)
		return err
	},
	v1alpha1.KindAIAgent: func(e *Entry, payload []byte) (err error) {
		content := &Agent{}
		if err = e.read(payload, &content.AIAgent, content); err == nil {
			err = content.render(e)
		}
		for _, tool := range content.Tools {
			e.refer(v1alpha1.KindAITool, tool)
		}
		e.refer(v1alpha1.KindOAuthApp, content.OAuthApp)
		e.refer(v1alpha1.KindRateLimitScheme, content.Scheme)
		return err
	},
}

// read decodes a payload into content. prepared becomes the entry's Content: it is content itself, or the struct that
// contains it.
func (e *Entry) read(payload []byte, content, prepared any) (err error) {
	e.Content = prepared
	e.Meta, err = document.Decode(payload, content)
	return err
}

func (e *Entry) refer(kind, name string) {
	if name != "" {
		e.refersTo = append(e.refersTo, store.Identity{Kind: kind, Namespace: e.Namespace, Name: name})
	}
}
