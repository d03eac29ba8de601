package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
)

// The world of the document's examples: one deployment with one object of every kind, at one moment, with the same ids
// in every run. So the examples can show exactly what the server responds.

// exampleNow is when the examples are sent.
var exampleNow = time.Date(2026, time.May, 10, 12, 0, 0, 0, time.UTC)

func exampleDay(day, hour int) time.Time {
	return time.Date(2026, time.May, day, hour, 0, 0, 0, time.UTC)
}

// exampleID returns the id of a row that was created at a time.
func exampleID(at time.Time, low int64) int64 {
	return at.Sub(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)).Milliseconds()<<21 | low
}

// The ids of the rows in the store.
var (
	ada, grace         = exampleID(exampleDay(4, 8), 1001), exampleID(exampleDay(9, 9), 1002)
	engines, navy      = exampleID(exampleDay(5, 10), 2001), exampleID(exampleDay(9, 10), 2002)
	laboratory, bridge = exampleID(exampleDay(5, 10), 3001), exampleID(exampleDay(9, 10), 3002)
	customerKey        = exampleID(exampleDay(6, 7), 4001)
	adasApp, adasKey   = exampleID(exampleDay(4, 10), 1003), exampleID(exampleDay(4, 10), 1004)
	adasPhone          = exampleID(exampleDay(4, 9), 5001)
	adasSession        = exampleID(exampleDay(10, 7), 6001)
	reportsClient      = exampleID(exampleDay(6, 8), 8001)
	adasGrant          = exampleID(exampleDay(9, 12), 8002)
	refusedCall        = exampleID(exampleDay(9, 13), 9001)
	weatherCall        = exampleID(exampleDay(10, 11), 9002)
	weatherApproval    = exampleID(exampleDay(10, 11), 9003)
	adasIdentity       = exampleID(exampleDay(4, 10), 1005)
	adasGoogle         = exampleID(exampleDay(4, 10), 1008)
	googleID           = exampleID(exampleDay(4, 10), 1009)
	enginesDomain      = exampleID(exampleDay(4, 10), 1007)
	enginesConnection  = exampleID(exampleDay(4, 10), 1007)
)

// The ids of resources.
const (
	exampleDeployment = 6152837465019283746
	shopID            = 7306112409600000002
	toolID            = 7306112409600000003
	agentID           = 7306112409600000004
	organizationRole  = 7306112409600000005
	workspaceRole     = 7306112409600000006
	globexID          = 419539451904001006
	exampleTenant     = "acme/acme"
)

// exampleDocuments are the configuration, and the resources that declare it.
type exampleDocuments struct {
	t         testing.TB
	documents []store.Document
	objects   []client.Object
}

// declares adds a resource that is in effect.
func (d *exampleDocuments) declares(id int64, key string, content any, obj v1alpha1.Resource) {
	d.t.Helper()
	created, updated := exampleDay(1, 9), exampleDay(2, 15)
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", len(d.documents)+1)
	payload, err := document.Encode(document.Meta{CreatedAt: created, UpdatedAt: updated}, content)
	if err != nil {
		d.t.Fatal(err)
	}
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	obj.SetNamespace("acme")
	obj.SetUID(types.UID(uid))
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.NewTime(created))
	for _, condition := range []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Synced", Message: "Servers answer with generation 1."},
		{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Accepted", Message: "The spec is in force."},
	} {
		condition.ObservedGeneration, condition.LastTransitionTime = 1, metav1.NewTime(updated)
		obj.CommonStatus().Conditions = append(obj.CommonStatus().Conditions, condition)
	}
	d.objects = append(d.objects, obj)
	d.documents = append(d.documents, store.Document{
		Owner:      store.Owner{Identity: store.Identity{Kind: kind, Namespace: "acme", Name: obj.GetName()}, UID: uid},
		Generation: 1, Deployment: exampleTenant, ID: id, Key: key, Payload: payload,
	})
}

func resourceNamed(kind, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}, metav1.ObjectMeta{Name: name}
}

// configuration declares all resources. admin verifies the key that sends the examples.
func (d *exampleDocuments) configuration(admin document.Verifier) {
	ref := v1alpha1.DeploymentReference{Name: "acme"}
	deployment := &v1alpha1.IdentityDeployment{}
	deployment.TypeMeta, deployment.ObjectMeta = resourceNamed(v1alpha1.KindIdentityDeployment, "acme")
	d.declares(exampleDeployment, "acme", document.Deployment{
		DisplayName: "Acme", Mode: "Production", ManagementWrites: "Enabled", FieldConflicts: "Reject", FrontendHosts: []string{"acme.example"},
		Connections: &document.OrganizationConnections{Types: []string{"OIDC"}, MaxPerOrganization: 5},
		Assurance:   &document.Assurance{Passkey: true, TOTP: true, RelyingParty: "acme.example"},
	}, deployment)

	d.schemes(ref)
	d.apps(ref)
	d.keys(admin)
	d.oauthAndAI(ref)
	d.organizations(ref)
	d.directories(ref)
	d.webhooks(ref)
}

func (d *exampleDocuments) schemes(ref v1alpha1.DeploymentReference) {
	for i, spec := range []v1alpha1.RateLimitSchemeSpec{
		{
			Slug: "free", DisplayName: ptr.To[v1alpha1.DisplayName]("Free"), Description: ptr.To[v1alpha1.Description]("For everybody who tries the API."),
			Rules: []v1alpha1.RateLimitRule{{Unit: "minute", Duration: 1, MaxRequests: 60, Mode: ptr.To[v1alpha1.RateLimitMode]("per_app")}},
		},
		{
			Slug: "internal", DisplayName: ptr.To[v1alpha1.DisplayName]("Internal"),
			Rules: []v1alpha1.RateLimitRule{{Unit: "second", Duration: 1, MaxRequests: 100}},
		},
	} {
		spec.DeploymentRef = ref
		obj := &v1alpha1.RateLimitScheme{Spec: spec}
		obj.TypeMeta, obj.ObjectMeta = resourceNamed(v1alpha1.KindRateLimitScheme, "acme."+string(spec.Slug))
		d.declares(int64(7306112409600000020+i), string(spec.Slug), translation.RateLimitScheme(obj), obj)
	}
}

func (d *exampleDocuments) apps(ref v1alpha1.DeploymentReference) {
	for i, spec := range []v1alpha1.APIAuthAppSpec{
		{
			Slug: "operations", DisplayName: ptr.To[v1alpha1.DisplayName]("Operations"), Permissions: []v1alpha1.Permission{"*"},
			RateLimitSchemeRef: &v1alpha1.RateLimitSchemeReference{Name: "acme.internal"},
		},
		{
			Slug: "shop", DisplayName: ptr.To[v1alpha1.DisplayName]("Shop"), Description: ptr.To[v1alpha1.Description]("Keys of our customers."),
			KeyPrefix: ptr.To[v1alpha1.KeyPrefix]("shop"), Permissions: []v1alpha1.Permission{"orders:read", "orders:write"},
		},
		{Slug: "trial", DisplayName: ptr.To[v1alpha1.DisplayName]("Trial"), Active: ptr.To(false)},
	} {
		spec.DeploymentRef = ref
		obj := &v1alpha1.APIAuthApp{Spec: spec}
		obj.TypeMeta, obj.ObjectMeta = resourceNamed(v1alpha1.KindAPIAuthApp, "acme."+string(spec.Slug))
		d.declares(int64(7306112409600000030+i), string(spec.Slug), translation.APIAuthApp(obj), obj)
	}
}

// keys declares the key that sends the examples, and a customer's key.
func (d *exampleDocuments) keys(admin document.Verifier) {
	for i, key := range []document.APIKey{
		{App: "acme.operations", Name: "Administrator", Permissions: []string{"*"}, Verifiers: []document.Verifier{admin}},
		{App: "acme.shop", Name: "Partner", Permissions: []string{"orders:read"}, Verifiers: []document.Verifier{{ID: "0Jx7kQ2mVb9c", Last4: "7pLd"}}},
	} {
		obj := &v1alpha1.APIKey{}
		obj.TypeMeta, obj.ObjectMeta = resourceNamed(v1alpha1.KindAPIKey, []string{"administrator", "partner"}[i])
		d.declares(int64(7306112409600000010+i), "", key, obj)
	}
}

func (d *exampleDocuments) oauthAndAI(ref v1alpha1.DeploymentReference) {
	app := &v1alpha1.OAuthApp{Spec: v1alpha1.OAuthAppSpec{DeploymentRef: ref, Slug: "shop"}}
	app.TypeMeta, app.ObjectMeta = resourceNamed(v1alpha1.KindOAuthApp, "shop")
	d.declares(shopID, "shop", document.OAuthApp{
		Slug: "shop", Name: "Shop", Description: "Where customers order.", LogoURL: "https://shop.example.com/logo.png", FQDN: "shop.example.com", Active: true,
		SigningKeys: exampleSigningKeys(d.t),
	}, app)
	web := &v1alpha1.OAuthClient{Spec: v1alpha1.OAuthClientSpec{OAuthAppRef: v1alpha1.OAuthAppReference{Name: "shop"}, DisplayName: ptr.To[v1alpha1.DisplayName]("Partner"), RedirectURIs: []v1alpha1.RedirectURI{"https://partner.example/callback"}}}
	web.TypeMeta, web.ObjectMeta = resourceNamed(v1alpha1.KindOAuthClient, "partner")
	d.declares(7306112409600000014, "", translation.OAuthClient(web, []document.Verifier{{ID: "2Kd8rW1nZxQp", Last4: "tR3s"}}, nil), web)
	scope := &v1alpha1.OAuthScope{Spec: v1alpha1.OAuthScopeSpec{OAuthAppRef: v1alpha1.OAuthAppReference{Name: "shop"}, Scope: "read:orders"}}
	scope.TypeMeta, scope.ObjectMeta = resourceNamed(v1alpha1.KindOAuthScope, "read-orders")
	d.declares(7306112409600000012, document.ScopeKey("shop", "read:orders"), document.OAuthScope{
		App: "shop", Scope: "read:orders", DisplayName: "Orders", Category: "personal",
	}, scope)
	template := &v1alpha1.JWTTemplate{}
	template.TypeMeta, template.ObjectMeta = resourceNamed(v1alpha1.KindJWTTemplate, "orders")
	d.declares(7306112409600000031, "", document.JWTTemplate{
		Name: "Orders", LifetimeSeconds: 60, Claims: []document.TemplateClaim{{Name: "email", Expression: "user.email"}, {Name: "tenant", Value: json.RawMessage(`"eu"`)}},
	}, template)
	tool := &v1alpha1.AITool{}
	tool.TypeMeta, tool.ObjectMeta = resourceNamed(v1alpha1.KindAITool, "weather")
	d.declares(toolID, "", document.AITool{
		Name: "Weather", Description: "Tells the weather of a city.", Type: "api", Active: true, Endpoint: "https://tools.example.com/weather", Method: "GET",
		TimeoutSeconds: 30, Headers: []document.ToolHeader{{Name: "Authorization", Secret: true, Sealed: "sealed"}}, Parameters: []document.ToolParameter{{Name: "city", Type: "STRING", Required: true}},
	}, tool)
	agent := &v1alpha1.AIAgent{}
	agent.TypeMeta, agent.ObjectMeta = resourceNamed(v1alpha1.KindAIAgent, "helper")
	d.declares(agentID, "", document.AIAgent{
		Name: "Helper", Description: "Answers visitors.", Model: "gpt-5", SystemPrompt: "Answer in one sentence.", Temperature: "0.2", MaxTokens: ptr.To[int64](4096),
		Tools: []string{"weather"}, Active: true, URL: "https://acme.example/mcp/helper", Sessions: true,
	}, agent)
}

// exampleSigningKeys returns the current signing key and the previous one.
func exampleSigningKeys(t testing.TB) []document.SigningKey {
	t.Helper()
	var keys []document.SigningKey
	for i, point := range [][2]string{
		{"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
		{"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"},
	} {
		raw := fmt.Sprintf(`{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"key-%d","x":"%s","y":"%s"}`, 2-i, point[0], point[1])
		keys = append(keys, document.SigningKey{ID: fmt.Sprintf("key-%d", 2-i), Public: []byte(raw), CreatedAt: ptr.To(exampleDay(10-i, 6))})
	}
	keys[1].ExpiresAt = ptr.To(exampleDay(11, 6))
	return keys
}

func (d *exampleDocuments) organizations(ref v1alpha1.DeploymentReference) {
	settings := &v1alpha1.B2BSettings{Spec: v1alpha1.B2BSettingsSpec{DeploymentRef: ref, Enabled: ptr.To(true)}}
	settings.TypeMeta, settings.ObjectMeta = resourceNamed(v1alpha1.KindB2BSettings, "acme")
	d.declares(7306112409600000013, document.B2BKey, document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5}, settings)
	for i, level := range []v1alpha1.RoleLevel{v1alpha1.RoleLevelOrganization, v1alpha1.RoleLevelWorkspace} {
		role := &v1alpha1.MembershipRole{}
		role.TypeMeta, role.ObjectMeta = resourceNamed(v1alpha1.KindMembershipRole, []string{"member", "workspace-member"}[i])
		d.declares([]int64{organizationRole, workspaceRole}[i], "", document.MembershipRole{Level: string(level), Name: "Member", Permissions: []string{"workspace:create"}[:1-i]}, role)
	}
	globex := &v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{DeploymentRef: ref, Slug: "globex", Type: v1alpha1.ConnectionTypeOIDC}}
	globex.TypeMeta, globex.ObjectMeta = resourceNamed(v1alpha1.KindConnection, "globex")
	d.declares(globexID, "globex", document.Connection{
		Slug: "globex", Type: "OIDC", Name: "Globex", Active: true, Organization: "globex", Domains: []string{"globex.example"}, Enforcement: "Domains",
		Membership: document.ConnectionMembership{JustInTime: true}, Client: document.ConnectionClient{ID: "abc"},
		Provider: document.UpstreamProvider{Issuer: "https://globex.okta.example"},
	}, globex)
	google := &v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{DeploymentRef: ref, Slug: "google", Type: v1alpha1.ConnectionTypeGoogle}}
	google.TypeMeta, google.ObjectMeta = resourceNamed(v1alpha1.KindConnection, "google")
	d.declares(googleID, "google", document.Connection{
		Slug: "google", Type: "Google", Name: "Google", Active: true, Enforcement: "Optional", Scopes: []string{"openid", "email", "profile"},
		Client: document.ConnectionClient{ID: "abc"}, Provider: document.UpstreamProvider{Issuer: "https://accounts.google.com"},
	}, google)
}

// exampleRows fills a store with users and their organizations, sessions, grants and events.
func exampleRows(tx people.Tx) error {
	user := func(id int64, at time.Time, first, last, address string) (people.User, people.Email) {
		return people.User{ID: id, FirstName: first, LastName: last, CreatedAt: at, UpdatedAt: at},
			people.Email{ID: id + 1, User: id, Address: address, Primary: true, CreatedAt: at, VerifiedAt: at}
	}
	organization := func(id, workspace int64, at time.Time, name, slug string, owner int64) error {
		o := people.Organization{ID: id, Name: name, Slug: slug, Workspace: workspace, CreatedAt: at}
		return firstError(
			func() error { return tx.Organizations().InsertOrganization(o) },
			func() error {
				return tx.Organizations().InsertWorkspace(people.Workspace{ID: workspace, Organization: id, Name: "Default", Slug: "default", CreatedAt: at})
			},
			func() error {
				return tx.Organizations().InsertMember(people.Member{ID: id + 1, User: owner, Organization: o, Owner: true, CreatedAt: at})
			},
		)
	}
	event := func(id int64, kind string, at time.Time, user int64) error {
		return tx.Records().RecordEvent(people.Event{ID: id, Kind: kind, At: at, User: user, Method: people.MethodPassword, Address: "192.0.2.7", UserAgent: "Mozilla/5.0"})
	}
	audit := func(id int64, at time.Time, actor, action, object string) error {
		return tx.Records().RecordAudit(people.Audit{ID: id, At: at, Actor: actor, Action: action, Object: object, Address: "192.0.2.7"})
	}
	return firstError(
		func() error {
			return tx.Users().InsertUser(user(ada, exampleDay(4, 8), "Ada", "Lovelace", "ada@example.com"))
		},
		func() error {
			return tx.Users().InsertUser(user(grace, exampleDay(9, 9), "Grace", "Hopper", "grace@example.com"))
		},
		func() error {
			return tx.Users().PutCredential(ada, people.CredentialPassword, "hash", exampleDay(4, 8))
		},
		func() error {
			return tx.Phones().InsertPhone(people.Phone{ID: adasPhone, User: ada, Number: "+12025550123", Region: "US", Primary: true, CreatedAt: exampleDay(4, 9), VerifiedAt: exampleDay(4, 9)})
		},
		func() error { return exampleFactors(tx) },
		func() error { return exampleCalls(tx) },
		func() error {
			return organization(engines, laboratory, exampleDay(5, 10), "Analytical Engines", "analytical-engines", ada)
		},
		func() error { return organization(navy, bridge, exampleDay(9, 10), "Navy", "navy", grace) },
		func() error { return exampleDirectories(tx) },
		func() error {
			return tx.Sessions().InsertSession(people.Session{
				ID: adasSession, ActiveSignIn: adasSession + 1, Address: "192.0.2.7", UserAgent: "Mozilla/5.0", CreatedAt: exampleDay(10, 7), UsedAt: exampleDay(10, 11), ExpiresAt: exampleDay(17, 7),
			})
		},
		func() error {
			return tx.Sessions().InsertSignIn(people.SignIn{ID: adasSession + 1, Session: adasSession, User: ada, Method: people.MethodPassword, CreatedAt: exampleDay(10, 7)})
		},
		func() error {
			return tx.APIKeys().InsertAPIKey(people.APIKey{
				ID: customerKey, PublicID: "7Gk2hPz0QwXe", Digest: [32]byte{1}, Prefix: "shop", Suffix: "9xQz", App: "shop", Name: "Customer 17", Permissions: []string{"orders:read"},
				Metadata: []byte(`{"plan":"gold"}`), CreatedAt: exampleDay(6, 7), UpdatedAt: exampleDay(6, 7),
			})
		},
		func() error {
			return tx.OAuthClients().InsertOAuthClient(people.OAuthClient{
				App: shopID, Client: fmt.Sprint(reportsClient), ByBackend: true, CreatedAt: exampleDay(6, 8), UpdatedAt: exampleDay(6, 8),
				Content: `{"name":"Reports","authentication":"ClientSecretBasic","grant_types":["AuthorizationCode","RefreshToken"],"redirect_uris":["https://reports.example/callback"],` +
					`"verifiers":[{"id":"5Hn3vT8kLwYc","digest":"` + strings.Repeat("0", 64) + `"}],"id_token_signing_alg":"RS256","active":true}`,
			})
		},
		func() error {
			_, err := tx.OAuth().PutGrant(people.Grant{
				ID: adasGrant, App: shopID, Client: fmt.Sprint(reportsClient), User: ada, Organization: engines, Scopes: []string{"openid", "read:orders"},
				Resources: []string{"https://api.shop.example.com"}, CreatedAt: exampleDay(9, 12), UpdatedAt: exampleDay(9, 12),
			}, 500)
			return err
		},
		func() error { _, err := tx.Imports().LockImport(exampleFile, exampleDay(10, 11)); return err },
		func() error {
			return tx.Imports().PutImport(people.Import{File: exampleFile, Done: 4711, Imported: 20, Rejected: 1})
		},
		func() error { return event(1, people.EventSignUp, exampleDay(4, 8), ada) },
		func() error { return event(2, people.EventSignIn, exampleDay(4, 8), ada) },
		func() error { return event(3, people.EventOrganization, exampleDay(5, 10), ada) },
		func() error { return event(4, people.EventWorkspace, exampleDay(5, 10), ada) },
		func() error { return event(5, people.EventSignUp, exampleDay(9, 9), grace) },
		func() error { return event(6, people.EventSignIn, exampleDay(9, 9), grace) },
		func() error { return event(7, people.EventOrganization, exampleDay(9, 10), grace) },
		func() error { return event(8, people.EventWorkspace, exampleDay(9, 10), grace) },
		func() error { return event(9, people.EventSignIn, exampleDay(10, 7), ada) },
		func() error { return exampleEvents(tx) },
		func() error { return exampleWebhooks(tx) },
		func() error {
			return audit(exampleID(exampleDay(9, 10), 7001), exampleDay(9, 10), fmt.Sprintf("user:%d", grace), "organization.created", fmt.Sprintf("organization:%d", navy))
		},
		func() error {
			return audit(exampleID(exampleDay(10, 11), 7002), exampleDay(10, 11), "key:3hTq8LmZ0aRc", "user.updated", fmt.Sprintf("user:%d", ada))
		},
	)
}

// exampleEvents logs and numbers the events of what was done last.
func exampleEvents(tx people.Tx) error {
	var list []people.LoggedEvent
	for _, one := range []struct {
		at    time.Time
		actor string
		event events.Event
	}{
		{exampleDay(9, 10), fmt.Sprintf("user:%d", grace), events.OfOrganization(events.OrganizationCreated, navy)},
		{exampleDay(10, 11), "key:3hTq8LmZ0aRc", events.OfUser(events.UserUpdated, ada, "first_name")},
	} {
		logged, err := one.event.Log(one.at, one.actor)
		if err != nil {
			return err
		}
		list = append(list, logged)
	}
	if err := tx.Records().LogEvents(list); err != nil {
		return err
	}
	_, err := tx.EventLog().NumberEvents(10)
	return err
}

// exampleCalls records calls of the agent's tool: one that was refused, and one of Ada's with its arguments and its
// result. It also inserts the approval that Ada gave to an earlier declaration of the tool.
func exampleCalls(tx people.Tx) error {
	refused := people.ToolCall{
		ID: refusedCall, At: exampleDay(9, 13), Agent: agentID, AgentName: "helper", Tool: toolID, ToolName: "weather", Revision: "2025-11-25", Decision: people.CallInvalid,
		Caller: people.ToolCaller{Kind: people.CallerKey, ID: "3hTq8LmZ0aRc", Address: "192.0.2.7"}, CallResult: people.CallResult{Code: "invalid_arguments", Latency: time.Millisecond},
	}
	ended := refused
	ended.ID, ended.At, ended.Revision, ended.Decision, ended.Digest = weatherCall, exampleDay(10, 11), "2026-07-28", people.CallAllowed, strings.Repeat("5f0c6a2d9b7e4c1f", 4)
	ended.Caller = people.ToolCaller{Kind: people.CallerKey, ID: "7Gk2hPz0QwXe", User: ada, Organization: engines, Address: "192.0.2.7"}
	ended.CallResult = people.CallResult{Outcome: people.CallSucceeded, Status: 200, Latency: 48 * time.Millisecond, Upstream: 41 * time.Millisecond, BytesIn: 19}
	keyring, err := exampleKeyring()
	if err != nil {
		return err
	}
	ended.Arguments = keyring.Seal(people.SealedCallArguments, ended.SealedFor(exampleTenant), []byte(`{"city":"London"}`))
	ended.Result = keyring.Seal(people.SealedCallResult, ended.SealedFor(exampleTenant), []byte(`[{"type":"text","text":"{\"degrees\":18}"}]`))
	used := people.Approval{
		ID: weatherApproval, Agent: agentID, AgentName: "helper", Tool: toolID, ToolName: "weather", Caller: ended.Caller, Content: "of an earlier declaration", Digest: ended.Digest,
		Status: people.ApprovalUsed, RequestedAt: ended.At, DecidedAt: ended.At, DecidedBy: ada, EndsAt: ended.At,
	}
	return firstError(
		func() error { return tx.Records().InsertToolCall(refused) }, func() error { return tx.Records().InsertToolCall(ended) },
		func() error { _, err := tx.Approvals().InsertApproval(used); return err },
	)
}

// exampleKeyring returns the keyring of the example's servers.
var exampleKeyring = sync.OnceValues(func() (*seal.Keyring, error) {
	folder, err := os.MkdirTemp("", "cardea-examples")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "root.key")
	if err := os.WriteFile(file, make([]byte, 32), 0o600); err != nil {
		return nil, err
	}
	return seal.Load([]string{file})
})

// exampleFactors gives Ada an authenticator app, a passkey, recovery codes and an identity at a provider, where a
// sign-in failed.
func exampleFactors(tx people.Tx) error {
	at := exampleDay(4, 10)
	return firstError(
		func() error {
			return tx.Factors().InsertAuthenticator(people.Authenticator{
				ID: adasApp, User: ada, Name: "Phone", Sealed: "sealed", Algorithm: "SHA1", Digits: 6, Period: 30 * time.Second, ConfirmedAt: at, CreatedAt: at, UsedAt: exampleDay(10, 7),
			})
		},
		func() error {
			return tx.Factors().InsertPasskey(people.Passkey{
				ID: adasKey, User: ada, RelyingParty: "acme.example", Credential: []byte("the credential id"), Handle: []byte("the user's handle"), PublicKey: []byte{1},
				BackupEligible: 1, BackedUp: true, Verified: true, Transports: []string{"internal", "hybrid"}, AAGUID: make([]byte, 16), Name: "Laptop", CreatedAt: at,
			})
		},
		func() error {
			return tx.Identities().InsertIdentity(people.Identity{
				ID: adasIdentity, Connection: globexID, Issuer: "https://globex.okta.example", Subject: "00u1", User: ada, Email: "ada@globex.example", CreatedAt: at, UsedAt: exampleDay(10, 7),
			})
		},
		func() error {
			return tx.Identities().InsertIdentity(people.Identity{
				ID: adasGoogle, Connection: googleID, Issuer: "https://accounts.google.com", Subject: "1107", User: ada, Email: "ada@example.com", CreatedAt: at, UsedAt: exampleDay(10, 7),
			})
		},
		func() error {
			settings := connection.Settings{Type: "OIDC", Name: "Engines", Issuer: "https://login.engines.example", ClientID: "abc", Enforcement: "Optional", JustInTime: true}
			return tx.Connections().InsertConnection(people.Connection{
				ID: enginesConnection, Organization: 419720645836802001, Slug: "c-419539451904001007", Settings: settings.String(), Secrets: "sealed", Active: true, CreatedAt: at, UpdatedAt: at,
			})
		},
		func() error {
			return tx.SetupLinks().InsertSetupLink(people.SetupLink{
				ID: 419539451904001008, Organization: 419720645836802001, Hash: []byte{1}, Email: "it@example.com", Intents: []string{people.SetupDomains, people.SetupSSO},
				CreatedAt: exampleDay(10, 11), ExpiresAt: exampleDay(11, 11),
			})
		},
		func() error {
			return tx.Connections().RecordConnectionFailure(people.ConnectionFailure{
				ID: 1, Connection: globexID, At: exampleDay(10, 8), RequestID: "265cb6c97e16a9802af7d44d46a49c9b", Step: "response", Reason: "aud", Expected: "abc", Got: "[xyz]",
			})
		},
		func() error {
			return tx.Domains().InsertDomain(people.Domain{
				ID: enginesDomain, Organization: navy, Name: "engines.example", Value: "cardea-domain-verification=MFRGGZDFMZTWQ2LKNNWG23TPOB", State: people.DomainFailing, VerifiedBy: people.VerifiedByDNS,
				CreatedAt: at, VerifiedAt: at.Add(time.Hour), LookedUpAt: exampleDay(10, 8), NextLookupAt: exampleDay(11, 8), Seen: `{"outcome":"other_value","texts":["v=spf1 -all"]}`, FailingSince: exampleDay(10, 8), Failures: 1,
			})
		},
		func() error { return tx.Factors().SetTwoStep(ada, true) },
		func() error { return tx.Factors().ReplaceRecoveryCodes(ada, [][]byte{{1}, {2}, {3}}, at) },
	)
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// exampleFile is the SHA-256 of a file that is being imported.
const exampleFile = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// exampleTemplate is the content of a filled store. Every world gets a copy, because filling a store takes longer than
// everything else.
var exampleTemplate = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "cardea-examples")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path, ctx := filepath.Join(folder, "cardea.db"), context.Background()
	rows, err := sqlstore.Open(ctx, "sqlite://"+path, sqlstore.Options{Clock: func() time.Time { return exampleNow }, Logger: logr.Discard()})
	if err != nil {
		return nil, err
	}
	err = firstError(
		func() error { return rows.Migrate(ctx) },
		func() error { return rows.Change(ctx, exampleTenant, exampleRows) },
		func() error {
			_, err := rows.RollUpDay(ctx, people.WaitingEvents{Deployment: exampleTenant, Day: exampleDay(9, 0)}, exampleDay(1, 0), 1000)
			return err
		},
		rows.Close,
	)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// exampleCluster sets the UID, the generation and the creation time of a created resource, as a Kubernetes API does.
type exampleCluster struct{ client.Client }

func (k exampleCluster) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	obj.SetUID("00000000-0000-4000-8000-000000000099")
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.NewTime(exampleNow))
	return k.Client.Create(ctx, obj, opts...)
}

// exampleWorld returns a handler that serves the world of the document's examples.
func exampleWorld(t *testing.T) served {
	t.Helper()
	return exampleWorldWith(t, func(*Options) {})
}

// exampleWorldWith is exampleWorld with further options.
func exampleWorldWith(t *testing.T, with func(*Options)) served {
	t.Helper()
	template, err := exampleTemplate()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cardea.db")
	if err := os.WriteFile(path, template, 0o600); err != nil {
		t.Fatal(err)
	}
	admin := mint(t)
	d := &exampleDocuments{t: t}
	d.configuration(document.Verifier{ID: admin.ID(), Digest: admin.Digest()})
	known := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	keyring, err := exampleKeyring()
	if err != nil {
		t.Fatal(err)
	}
	cluster := exampleCluster{fake.NewClientBuilder().WithScheme(known).WithObjects(d.objects...).Build()}
	world := serveFeed(t, cluster, d.documents, "sqlite://"+path, nil, func(o *Options) {
		o.Clock, o.Random = func() time.Time { return exampleNow }, rand.NewChaCha8([32]byte{})
		o.Authenticator.Clock, o.Keyring = o.Clock, keyring
		with(o)
	})
	world.key = admin.Plain()
	return world
}
