package backend

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	portalClients = "/oauth/apps/portal/clients"
	documentID    = "https://agent.example/client.json"
)

// oauthWorld serves the OAuth app portal with two declared clients, one that registered itself, and one with a metadata
// document. The app empty has no clients. Another deployment has an app and a client too. limited is a key that may
// only read clients.
func oauthWorld(t *testing.T, kubernetes Kubernetes) (s served, limited string) {
	t.Helper()
	at, reader, elsewhere := time.Unix(1700000000, 0), mint(t), time.Unix(1700000000, 0)
	foreign := func(d store.Document) store.Document {
		d.Deployment, d.Owner.Namespace = "other/acme", "other"
		return d
	}
	s = serveWith(t, kubernetes, nil,
		fixed(t, "OAuthApp", "portal", "uid-30", 30, "portal", at, document.OAuthApp{Slug: "portal", Active: true, SigningKeys: exampleSigningKeys(t)}),
		fixed(t, "OAuthApp", "empty", "uid-31", 31, "empty", at, document.OAuthApp{Slug: "empty", Active: true}),
		fixed(t, "OAuthScope", "read", "uid-32", 32, document.ScopeKey("portal", "read"), at, document.OAuthScope{App: "portal", Scope: "read", DisplayName: "Read"}),
		fixed(t, "OAuthClient", "web", "uid-33", 33, "", at, document.OAuthClient{
			App: "portal", Name: "Web", Authentication: "ClientSecretBasic", GrantTypes: []string{"AuthorizationCode"}, RedirectURIs: []string{"https://web.example/cb"}, Active: true,
			Verifiers: []document.Verifier{{ID: "2Kd8rW1nZxQp", Last4: "tR3s"}},
		}),
		fixed(t, "OAuthClient", "mobile", "uid-34", 34, "", at.Add(time.Hour), document.OAuthClient{App: "portal", Name: "Mobile", Authentication: "None", GrantTypes: []string{"AuthorizationCode"}}),
		fixed(t, "APIKey", "limited", "uid-35", 35, "", at, document.APIKey{App: "app", Permissions: []string{"oauth_clients:read"}, Verifiers: []document.Verifier{{ID: reader.ID(), Digest: reader.Digest()}}}),
		foreign(fixed(t, "IdentityDeployment", "acme", "uid-40", 40, "acme", elsewhere, document.Deployment{ManagementWrites: "Enabled", FieldConflicts: "Reject"})),
		foreign(fixed(t, "OAuthApp", "secret", "uid-41", 41, "secret", elsewhere, document.OAuthApp{Slug: "secret", Active: true})),
		foreign(fixed(t, "OAuthClient", "theirs", "uid-42", 42, "", elsewhere, document.OAuthClient{App: "secret", Name: "Theirs", Authentication: "None"})),
	)
	s.rowsOf(t, "ns/acme", func(tx people.Tx) error {
		content := `{"name":"Agent","authentication":"ClientSecretBasic","grant_types":["AuthorizationCode"],"redirect_uris":["https://agent.example/cb"],"active":true}`
		return errors.Join(
			tx.OAuthClients().InsertOAuthClient(people.OAuthClient{App: 30, Client: "77", Content: content, CreatedAt: at}),
			tx.OAuthClients().InsertOAuthClient(people.OAuthClient{App: 30, Client: documentID, Content: content, CreatedAt: at.Add(time.Minute), FreshUntil: at}),
			putGrant(tx, people.Grant{ID: 501, App: 30, Client: "77", User: 1, Scopes: []string{"read"}, CreatedAt: at, UpdatedAt: at}),
			putGrant(tx, people.Grant{ID: 502, App: 30, Client: "33", User: 2, Organization: 5, Scopes: []string{"read"}, Resources: []string{"https://a.example", "https://b.example"}, CreatedAt: at, UpdatedAt: at}),
			putGrant(tx, people.Grant{ID: 503, App: 31, Client: "33", User: 1, Scopes: []string{"read"}, CreatedAt: at, UpdatedAt: at}),
		)
	})
	s.rowsOf(t, "other/acme", func(tx people.Tx) error {
		return errors.Join(
			tx.OAuthClients().InsertOAuthClient(people.OAuthClient{App: 41, Client: "88", Content: `{"name":"Theirs"}`, CreatedAt: at}),
			putGrant(tx, people.Grant{ID: 601, App: 41, Client: "88", User: 1, CreatedAt: at, UpdatedAt: at}))
	})
	return s, reader.Plain()
}

func putGrant(tx people.Tx, g people.Grant) error {
	_, err := tx.OAuth().PutGrant(g, 500)
	return err
}

func (s served) rowsOf(t *testing.T, tenant string, do func(people.Tx) error) {
	t.Helper()
	if err := s.rows.Change(context.Background(), tenant, do); err != nil {
		t.Fatal(err)
	}
}

// makesClient creates a client of the app portal.
func (s served) makesClient(t *testing.T, body string) (made backendapi.OAuthClient) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.says(t, "POST", portalClients, body, 200)), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

// audited returns the actions and objects in the audit, the newest first.
func (s served) audited(t *testing.T) (actions []string) {
	t.Helper()
	for _, record := range asks[backendapi.AuditList](t, s, "/audit").Data {
		actions = append(actions, record.Action+" "+record.Object)
	}
	return actions
}

func TestBackendClientLifecycle(t *testing.T) {
	s, _ := oauthWorld(t, failing{}) // clients in the store need no Kubernetes API
	made := s.makesClient(t, `{"client_name":" Reports ","client_auth_method":"client_secret_post","grant_types":["authorization_code","client_credentials"],"redirect_uris":["https://reports.example/cb"],"logo_uri":null}`)
	at := portalClients + "/" + made.Id
	if made.ClientName != "Reports" || made.ClientId != made.Id || made.OauthAppId != "30" || made.Source != "backend" || !made.IsActive || made.ClientSecret == nil ||
		made.ClientAuthMethod != "client_secret_post" || made.IdTokenSignedResponseAlg != "RS256" || made.Resource != nil {
		t.Fatalf("%+v", made)
	}
	if changed := s.says(t, "PATCH", at, `{"logo_uri":"https://reports.example/logo.png","redirect_uris":["https://reports.example/cb","http://127.0.0.1/cb"]}`, 200, `logo.png`, `127.0.0.1`, `"client_name":"Reports"`); strings.Contains(changed, "client_secret\":") {
		t.Errorf("a response contains a secret without need: %s", changed)
	}
	s.says(t, "PATCH", at, `{}`, 200, `logo.png`)
	s.says(t, "PATCH", at, `{"is_active":false,"logo_uri":null}`, 200, `"is_active":false`, `"logo_uri":null`)
	s.says(t, "PATCH", at, `{"is_active":true,"client_auth_method":"none","grant_types":["authorization_code"]}`, 200, `"client_auth_method":"none"`)
	s.says(t, "POST", at+"/rotate-secret", ``, 409, "client_auth_method")
	s.says(t, "PATCH", at, `{"client_auth_method":"client_secret_basic"}`, 200, `"client_secret":"cs_`)
	first := s.says(t, "POST", at+"/rotate-secret", ``, 200, `"client_secret":"cs_`)
	second := s.says(t, "POST", at+"/rotate-secret", `{"overlap_seconds":60}`, 200, `"client_secret":"cs_`)
	if first == second {
		t.Error("the secret stays")
	}
	s.rowsOf(t, "ns/acme", func(tx people.Tx) error {
		row, _, err := tx.OAuthClients().OAuthClient(30, made.Id)
		var content document.OAuthClient
		err = errors.Join(err, json.Unmarshal([]byte(row.Content), &content))
		if len(content.Verifiers) != 2 || content.Verifiers[0].ExpiresAt != nil || content.Verifiers[1].ExpiresAt == nil || !row.ByBackend {
			t.Errorf("within the overlap: %+v", content.Verifiers)
		}
		return err
	})
	s.says(t, "DELETE", at, "", 204)
	for _, method := range []string{"PATCH", "DELETE"} {
		s.says(t, method, at, `{}`, 404, "oauth_client_id")
	}
	id := " oauth_client:" + made.Id
	want := []string{
		"oauth.client_deleted" + id, "oauth.client_secret_rotated" + id, "oauth.client_secret_rotated" + id, "oauth.client_changed" + id, "oauth.client_changed" + id,
		"oauth.client_changed" + id, "oauth.client_changed" + id, "oauth.client_created" + id,
	}
	if got := s.audited(t); !slices.Equal(got, want) {
		t.Errorf("audited %q", got)
	}
}

func TestBackendClientValidation(t *testing.T) {
	s, _ := oauthWorld(t, failing{})
	keys := `{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`
	good := s.makesClient(t, `{"redirect_uris":["https://a.example/cb"]}`)
	at := portalClients + "/" + good.Id
	for body, want := range map[string][]string{
		`{}`: {"/redirect_uris"},
		`{"redirect_uris":["http://a.example/","https://a.example/#x","com.example.app:/cb"]}`:                                           {"/redirect_uris/0", "/redirect_uris/1", "/redirect_uris/2"},
		`{"redirect_uris":["https://a.example/"],"post_logout_redirect_uris":["https://*.example/"]}`:                                    {"/post_logout_redirect_uris/0"},
		`{"redirect_uris":"https://a.example/"}`:                                                                                         {"/redirect_uris"},
		`{"redirect_uris":["https://a.example/"],"client_auth_method":"tls"}`:                                                            {"/client_auth_method"},
		`{"redirect_uris":["https://a.example/"],"client_auth_method":"private_key_jwt"}`:                                                {"/client_auth_method"},
		`{"redirect_uris":["https://a.example/"],"client_auth_method":"private_key_jwt","jwks":{"keys":[]}}`:                             {"/jwks"},
		`{"redirect_uris":["https://a.example/"],"client_auth_method":"private_key_jwt","jwks_uri":"http://a.example"}`:                  {"/jwks_uri"},
		`{"redirect_uris":["https://a.example/"],"jwks_uri":"https://a.example/keys"}`:                                                   {"/jwks_uri"},
		`{"redirect_uris":["https://a.example/"],"grant_types":["password"]}`:                                                            {"/grant_types"},
		`{"redirect_uris":["https://a.example/"],"grant_types":["authorization_code","client_credentials"],"client_auth_method":"none"}`: {"/grant_types"},
		`{"redirect_uris":["https://a.example/"],"client_name":"a\u202eb","tos_uri":"javascript:x"}`:                                     {"/client_name", "/tos_uri"},
		`{"redirect_uris":["https://a.example/"],"id_token_signed_response_alg":"none","userinfo_signed_response_alg":"HS256"}`:          {"/id_token_signed_response_alg", "/userinfo_signed_response_alg"},
		`{"redirect_uris":["https://a.example/"],"is_active":true,"scopes":["x"]}`:                                                       {"/is_active", "/scopes"},
	} {
		fields := []string{}
		for _, field := range want {
			fields = append(fields, `"field":"`+field+`"`)
		}
		s.says(t, "POST", portalClients, body, 400, fields...)
		if body != `{}` && !strings.Contains(body, "is_active") {
			s.says(t, "PATCH", at, body, 400, fields...)
		}
	}
	s.says(t, "POST", at+"/rotate-secret", `{"overlap_seconds":-1}`, 400, `"field":"/overlap_seconds"`)
	s.says(t, "PATCH", at, `{"is_active":null}`, 400, `"field":"/is_active"`)
	for body, want := range map[string]string{
		`{"client_auth_method":"none","redirect_uris":["com.example.app:/cb"]}`:                               `"client_auth_method":"none"`,
		`{"client_auth_method":"private_key_jwt","redirect_uris":["https://a.example/"],"jwks":` + keys + `}`: `"jwks":{"keys":[`,
		`{"grant_types":["client_credentials"],"client_name":"Machine"}`:                                      `"grant_types":["client_credentials"]`,
		`{"grant_types":["urn:ietf:params:oauth:grant-type:device_code","refresh_token"],"client_name":"TV"}`: `device_code`,
		`{"redirect_uris":["https://a.example/"],"client_name":null,"post_logout_redirect_uris":null}`:        `"client_name":"a.example"`,
	} {
		s.says(t, "POST", portalClients, body, 200, want)
	}
}

func TestListClientsPagesWithoutSecrets(t *testing.T) {
	s, limited := oauthWorld(t, failing{})
	made := s.makesClient(t, `{"redirect_uris":["https://a.example/cb"]}`)
	s.key = limited
	var got []string
	for cursor, more := "", true; more; {
		page := asks[backendapi.OAuthClientList](t, s, portalClients+"?limit=2&cursor="+cursor)
		for _, c := range page.Clients {
			resource := "-"
			if c.Resource != nil {
				resource = *c.Resource
			}
			got = append(got, c.ClientId+" "+string(c.Source)+" "+resource)
		}
		if more = page.HasMore; more {
			cursor = *page.NextCursor
		}
	}
	if want := []string{"34 declared mobile", "33 declared web", made.Id + " backend -", documentID + " metadata_document -", "77 registered -"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if all := s.says(t, "GET", portalClients, "", 200); strings.Contains(all, "secret\":") || strings.Contains(all, "cs_") || strings.Contains(all, "tR3s") || strings.Contains(all, "verifier") {
		t.Errorf("a secret is listed: %s", all)
	}
	s.says(t, "GET", "/oauth/apps/empty/clients", "", 200, `"clients":[]`, `"next_cursor":null`)
	for query, field := range map[string]string{"limit=0": "?limit", "cursor=x": "?cursor", "cursor=ZHg": "?cursor", "cursor=cjEteA": "?cursor"} {
		s.says(t, "GET", portalClients+"?"+query, "", 400, field)
	}
}

func TestOAuthPermissionsAndNotFound(t *testing.T) {
	s, limited := oauthWorld(t, failing{})
	reader, nobody := s, s
	reader.key, nobody.key = limited, s.reader
	escaped := url.PathEscape(documentID)
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"PATCH", portalClients + "/33", `{"client_name":"New"}`, 409, `OAuthClient \"web\"`},
		{"DELETE", portalClients + "/33", ``, 409, `OAuthClient \"web\"`},
		{"POST", portalClients + "/33/rotate-secret", ``, 409, `OAuthClient \"web\"`},
		{"PATCH", portalClients + "/77", `{"client_name":"New"}`, 409, "registered itself"},
		{"POST", portalClients + "/77/rotate-secret", ``, 409, "registered itself"},
		{"PATCH", portalClients + "/77", `{"is_active":false}`, 200, `"is_active":false`},
		{"PATCH", portalClients + "/" + escaped, `{"is_active":false}`, 200, `"is_active":false`},
		{"GET", portalClients + "/" + escaped + "/grants", ``, 200, `"grants":[]`},
		{"DELETE", portalClients + "/" + escaped, ``, 204, ""},
		// A client of another tenant, one of another app, and an unknown one.
		{"PATCH", portalClients + "/42", `{}`, 404, ":oauth_client_id"},
		{"PATCH", portalClients + "/88", `{}`, 404, ":oauth_client_id"},
		{"DELETE", "/oauth/apps/empty/clients/33", ``, 404, ":oauth_client_id"},
		{"DELETE", "/oauth/apps/empty/clients/77", ``, 404, ":oauth_client_id"},
		{"DELETE", portalClients + "/x", ``, 404, ":oauth_client_id"},
		{"GET", portalClients + "/88/grants", ``, 404, ":oauth_client_id"},
		{"GET", portalClients + "/x/grants", ``, 404, ":oauth_client_id"},
		{"GET", "/oauth/apps/secret/clients", ``, 404, ":oauth_app_slug"},
		{"POST", "/oauth/apps/secret/clients", `{"redirect_uris":["https://a.example/"]}`, 404, ":oauth_app_slug"},
		{"GET", "/oauth/apps/secret/grants", ``, 404, ":oauth_app_slug"},
		{"GET", "/oauth/apps/secret/signing-keys", ``, 404, ":oauth_app_slug"},
		{"POST", "/oauth/apps/secret/signing-keys/rotate", ``, 404, ":oauth_app_slug"},
		{"POST", "/oauth/apps/portal/grants/601/revoke", ``, 404, ":grant_id"},
		{"POST", "/oauth/apps/portal/grants/503/revoke", ``, 404, ":grant_id"},
		{"POST", "/oauth/apps/portal/grants/x/revoke", ``, 404, ":grant_id"},
		{"POST", portalClients + "/77/grants/502/revoke", ``, 404, ":grant_id"},
		{"POST", "/oauth/apps/portal/scopes/nothing/archive", ``, 404, ":scope"},
		{"POST", "/oauth/apps/empty/signing-keys/rotate", ``, 409, "no signing keys"},
		{"GET", "/oauth/apps/empty/signing-keys", ``, 200, `"keys":[]`},
		// Resources cannot be written while the Kubernetes API is unavailable.
		{"POST", "/oauth/apps/portal/scopes/read/archive", ``, 503, "read before retrying"},
		{"POST", "/oauth/apps/portal/signing-keys/rotate", ``, 503, "read before retrying"},
	} {
		s.says(t, c.method, c.path, c.body, c.status, c.text)
		if c.method != "GET" {
			reader.says(t, c.method, c.path, c.body, 403, "the credential lacks the permission oauth_")
		}
		nobody.says(t, c.method, c.path, c.body, 403, "the credential lacks the permission oauth_")
	}
}

func TestGrantsAreListedAndRevoked(t *testing.T) {
	s, _ := oauthWorld(t, failing{})
	for query, want := range map[string]string{
		"/grants": "502 501", "/grants?user_id=1": "501", "/grants?client_id=33": "502", "/grants?client_id=33&user_id=1": "", "/clients/77/grants": "501", "/clients/33/grants?user_id=2": "502",
		"/grants?cursor=502": "501",
	} {
		var got []string
		for _, g := range asks[backendapi.OAuthGrantList](t, s, "/oauth/apps/portal"+query).Grants {
			got = append(got, g.Id)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	if page := asks[backendapi.OAuthGrantList](t, s, "/oauth/apps/portal/grants?limit=1"); !page.HasMore || *page.NextCursor != "502" || page.Grants[0].Resource != "https://a.example" ||
		len(page.Grants[0].Resources) != 2 || page.Grants[0].GrantedByUserId != "2" || *page.Grants[0].OrganizationId != "5" || page.Grants[0].Status != "active" {
		t.Errorf("%+v", page)
	}
	for query, field := range map[string]string{"limit=0": "?limit", "cursor=x": "?cursor", "user_id=x": "?user_id"} {
		s.says(t, "GET", "/oauth/apps/portal/grants?"+query, "", 400, field)
	}
	s.says(t, "POST", "/oauth/apps/portal/grants/502/revoke", "", 200, `"status":"revoked"`, `"revoked_at":"`)
	s.says(t, "POST", portalClients+"/77/grants/501/revoke", "", 200, `"status":"revoked"`)
	s.says(t, "POST", "/oauth/apps/portal/grants/502/revoke", "", 404)
	s.says(t, "GET", "/oauth/apps/portal/grants", "", 200, `"grants":[]`)
	if got, want := s.audited(t), []string{"oauth.grant_revoked oauth_grant:501", "oauth.grant_revoked oauth_grant:502"}; !slices.Equal(got, want) {
		t.Errorf("audited %q", got)
	}
}

// resourcesOf is a Kubernetes API that holds resources.
func resourcesOf(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	known := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build()
}

func TestArchiveScopeChangesItsResource(t *testing.T) {
	scope := &v1alpha1.OAuthScope{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "read", UID: "uid-32", Generation: 2}, Spec: v1alpha1.OAuthScopeSpec{OAuthAppRef: v1alpha1.OAuthAppReference{Name: "portal"}, Scope: "read"},
	}
	k := resourcesOf(t, scope)
	s, _ := oauthWorld(t, k)
	live := func() *v1alpha1.OAuthScope {
		var obj v1alpha1.OAuthScope
		if err := k.Get(t.Context(), client.ObjectKeyFromObject(scope), &obj); err != nil {
			t.Fatal(err)
		}
		return &obj
	}
	s.says(t, "POST", "/oauth/apps/portal/scopes/read/archive", "", 200, `"archived":true`, `"slug":"portal"`)
	if archived := live().Spec.Archived; archived == nil || !*archived {
		t.Error("the resource is not archived")
	}
	s.says(t, "POST", "/oauth/apps/portal/scopes/read/archive", "", 200)
	s.says(t, "POST", "/oauth/apps/portal/scopes/read/unarchive", "", 200, `"archived":false`)
	if live().Spec.Archived != nil {
		t.Error("the resource still has the member archived")
	}
	s.says(t, "POST", "/oauth/apps/portal/scopes/read/unarchive", "", 200)
	if got, want := s.audited(t), []string{"oauth_scope.unarchived oauth_scope:portal read", "oauth_scope.archived oauth_scope:portal read"}; !slices.Equal(got, want) {
		t.Errorf("audited %q", got)
	}

	declared := newCluster()
	declared.objects["read"] = `{"metadata":{"namespace":"ns","name":"read","uid":"uid-32","resourceVersion":"1","generation":1,"managedFields":[
		{"manager":"flux","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:archived":{}}}}]},"spec":{"oauthAppRef":{"name":"portal"},"scope":"read","archived":true}}`
	s, _ = oauthWorld(t, declared)
	s.says(t, "POST", "/oauth/apps/portal/scopes/read/archive", "", 200)
	s.says(t, "POST", "/oauth/apps/portal/scopes/read/unarchive", "", 409, `"manager":"flux"`, `"resource_path":"spec.archived"`)
}

func TestListAndRotateSigningKeys(t *testing.T) {
	app := &v1alpha1.OAuthApp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "portal", UID: "uid-30"}, Spec: v1alpha1.OAuthAppSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: "acme"}, Slug: "portal"}}
	k := resourcesOf(t, app)
	s, _ := oauthWorld(t, k)
	keys := asks[backendapi.OAuthSigningKeyList](t, s, "/oauth/apps/portal/signing-keys").Keys
	if len(keys) == 0 || keys[0].Kid != "key-2" || keys[0].Status != "active" || keys[0].Algorithm != "ES256" || keys[0].CreatedAt == nil || !strings.Contains(keys[0].PublicKeyPem, "BEGIN PUBLIC KEY") {
		t.Errorf("%+v", keys)
	}
	answer := s.send("POST", "/oauth/apps/portal/signing-keys/rotate", "")
	if answer.Code != 200 || answer.Header().Get("Cardea-Synced") != "false" || !strings.Contains(answer.Body.String(), `"new":{"kid":"key-2"`) || strings.Contains(answer.Body.String(), "sealed") {
		t.Errorf("%d %v %s", answer.Code, answer.Header(), answer.Body)
	}
	if err := k.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
	if at, err := time.Parse(time.RFC3339, app.Annotations[v1alpha1.AnnotationRotateAt]); err != nil || time.Since(at) > time.Minute {
		t.Errorf("the resource says %v", app.Annotations)
	}
	if got, want := s.audited(t), []string{"oauth_app.signing_keys_rotated oauth_app:portal"}; !slices.Equal(got, want) {
		t.Errorf("audited %q", got)
	}
	if err := k.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	s.says(t, "POST", "/oauth/apps/portal/signing-keys/rotate", "", 404, ":oauth_app_slug")
}
