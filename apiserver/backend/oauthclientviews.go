package backend

import (
	"cmp"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// clientView is the served form of a runtime client.
func clientView(client *consent.Client, app *snapshot.Entry) backendapi.OAuthClient {
	row := client.Registered
	served := viewOfClient(client.ID, client.OAuthClient, app)
	served.CreatedAt, served.UpdatedAt = row.CreatedAt, row.UpdatedAt
	if row.UpdatedAt.IsZero() {
		served.UpdatedAt = row.CreatedAt
	}
	switch {
	case row.ByBackend:
		served.Source = backendapi.OAuthClientSourceBackend
	case consent.IsDocumentID(row.Client):
		served.Source = backendapi.OAuthClientSourceMetadataDocument
	default:
		served.Source = backendapi.OAuthClientSourceRegistered
	}
	return served
}

// declaredClientView is the served form of a client that a resource declares.
func declaredClientView(e, app *snapshot.Entry) backendapi.OAuthClient {
	served := viewOfClient(ids.Format(e.ID), snapshot.ContentOf[snapshot.Client](e).OAuthClient, app)
	served.CreatedAt, served.UpdatedAt = e.Meta.CreatedAt.UTC(), e.Meta.UpdatedAt.UTC()
	served.Source, served.Resource = backendapi.OAuthClientSourceDeclared, &e.Name
	return served
}

func viewOfClient(id string, content document.OAuthClient, app *snapshot.Entry) backendapi.OAuthClient {
	is := consent.MetadataOf(content)
	served := backendapi.OAuthClient{
		Id: id, OauthAppId: ids.Format(app.ID), ClientId: id, ClientAuthMethod: backendapi.OAuthClientClientAuthMethod(is.AuthMethod), GrantTypes: listed(is.GrantTypes),
		RedirectUris: listed(is.RedirectURIs), PostLogoutRedirectUris: listed(is.PostLogoutURIs), ClientName: is.Name, ClientUri: optional(is.ClientURI),
		LogoUri: optional(is.LogoURI), PolicyUri: optional(is.PolicyURI), TosUri: optional(is.TOSURI), JwksUri: optional(is.JWKSURI),
		IdTokenSignedResponseAlg:  cmp.Or(is.IDTokenSigningAlg, snapshot.ContentOf[document.OAuthApp](app).EffectiveIDTokenSigningAlg()),
		UserinfoSignedResponseAlg: optional(is.UserinfoSigningAlg), BackchannelLogoutUri: optional(is.BackchannelLogoutURI), IsActive: content.Active,
	}
	if len(is.JWKS) > 0 {
		served.Jwks = &is.JWKS
	}
	return served
}

// declaredClient returns the client of an app that a resource declares under an id.
func (c *call) declaredClient(app *snapshot.Entry, id string) (*snapshot.Entry, bool) {
	number, err := ids.Parse(id)
	if err != nil || ids.Format(number) != id {
		return nil, false
	}
	e, found := c.snapshot.ByID(v1alpha1.KindOAuthClient, c.tenant(), number)
	if !found || snapshot.ContentOf[snapshot.Client](e).App != app.Name {
		return nil, false
	}
	return e, true
}

// clientCursor is where a list of clients continues: after a declared one (0: at the beginning), or after a runtime
// one.
type clientCursor struct {
	declared bool
	id       int64
	row      people.OAuthClientPlace
}

func (k clientCursor) String() string {
	plain := "d" + ids.Format(k.id)
	if !k.declared {
		plain = "r" + strconv.FormatInt(k.row.At.UnixMicro(), 10) + "-" + k.row.Client
	}
	return base64.RawURLEncoding.EncodeToString([]byte(plain))
}

// clientCursor reads the parameter cursor of a list of clients.
func (q *parameters) clientCursor() clientCursor {
	sent, ok := q.Text("cursor")
	if !ok || sent == "" {
		return clientCursor{declared: true}
	}
	raw, err := base64.RawURLEncoding.DecodeString(sent)
	if plain := string(raw); err == nil && plain != "" {
		if id, err := ids.Parse(plain[1:]); err == nil && plain[0] == 'd' {
			return clientCursor{declared: true, id: id}
		}
		micros, client, _ := strings.Cut(plain[1:], "-")
		if at, err := ids.Parse(micros); err == nil && plain[0] == 'r' && consent.MayBeRegistered(client) {
			return clientCursor{row: people.OAuthClientPlace{At: time.UnixMicro(at).UTC(), Client: client}}
		}
	}
	q.Fault("cursor", "must be next_cursor of the page before")
	return clientCursor{}
}
