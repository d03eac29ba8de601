package enduser_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/internal/totp"
)

// scene is the setting of an operation's example: ada is signed in, alone in her organization's workspace.
type scene struct {
	*browser
	email, user, organization, workspace string
	// live has the values that replace those of the example: placeholders of the path as {name}, and members of the
	// body.
	live map[string]string
	// query is that of the request.
	query string
}

func (s *scene) set(name string, value any) { s.live[name] = fmt.Sprint(value) }

// member has bob join ada's organization, and returns his browser. It sets {membership_id} and user_id to his.
func (s *scene) member(n int) *browser {
	bob, membership, user := s.w.joins(s.browser, s.organization, fmt.Sprintf("bob%d@example.com", n))
	s.set("{membership_id}", membership)
	s.set("user_id", user)
	return bob
}

// invite invites a user. It sets {invitation_id} and token to the invitation's.
func (s *scene) invite(email string) {
	invited := s.ok("POST", "/organizations/"+s.organization+"/invitations", fmt.Sprintf(`{"email":%q}`, email))
	s.set("{invitation_id}", invited["id"])
	s.set("token", s.w.InvitationFor(email, 1))
}

// address adds an address and requests a code. It sets {id} to the address's id, and code.
func (s *scene) address(email string) {
	id := s.ok("POST", "/me/email-addresses", fmt.Sprintf(`{"email":%q}`, email))["id"]
	s.set("{id}", id)
	s.ok("POST", fmt.Sprintf("/me/email-addresses/%s/prepare-verification", id), `{}`)
	s.set("code", s.w.CodeFor(email, 1))
}

// phone adds a number and requests a code. It sets {id} to the number's id, and code.
func (s *scene) phone(number string, verified bool) {
	id := s.addPhone(number)
	s.set("{id}", id)
	s.ok("POST", "/me/phone-numbers/"+id+"/prepare-verification", `{}`)
	s.set("code", s.w.CodeFor(number, 1))
	if verified {
		s.ok("POST", "/me/phone-numbers/"+id+"/attempt-verification", fmt.Sprintf(`{"code":%q}`, s.live["code"]))
	}
}

// asks has a client request an authorization. It sets {request} to the request's handle.
func (s *scene) asks() {
	query := url.Values{
		"client_id": {s.live["client"]}, "redirect_uri": {"https://client.example/callback"}, "response_type": {"code"}, "scope": {"openid"}, "state": {"st"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	plain := *s.client
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r, err := http.NewRequest(http.MethodGet, s.base+"/oauth/portal/authorize?"+query.Encode(), nil)
	s.w.Must(err)
	r.Host = s.host
	led, err := plain.Do(r)
	s.w.Must(err)
	s.w.Must(led.Body.Close())
	to, err := led.Location()
	s.w.Must(err)
	s.set("{request}", strings.TrimPrefix(to.Path, "/authorize/"))
}

// grants allows a client's request. It sets {id} to the grant's id.
func (s *scene) grants() {
	s.asks()
	s.ok("POST", "/session/authorizations/"+s.live["{request}"], `{"decision":"allow"}`)
	s.set("{id}", s.list("/me/oauth-grants")[0]["id"])
}

// elsewhere signs ada in at another browser. It sets {id} to the id of this sign-in.
func (s *scene) elsewhere() {
	other := s.w.browser()
	other.signIn(s.email)
	s.set("{id}", other.last.Body.Session.ActiveSignIn["id"])
}

// device begins a device's authorization. It sets user_code to the code that the device shows.
func (s *scene) device() {
	r, err := http.NewRequest(http.MethodPost, s.base+"/oauth/portal/device_authorization", strings.NewReader(url.Values{"client_id": {s.live["client"]}, "scope": {"openid"}}.Encode()))
	s.w.Must(err)
	r.Host = s.host
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(r)
	s.w.Must(err)
	defer func() { _ = answer.Body.Close() }()
	var begun struct {
		UserCode string `json:"user_code"`
	}
	s.w.Must(json.NewDecoder(answer.Body).Decode(&begun))
	s.set("user_code", begun.UserCode)
}

// signUp begins a sign-up at another browser, which then sends the example.
func (s *scene) signUp() {
	s.browser = s.w.browser()
	s.email = "new-" + s.email
	s.ok("POST", "/auth/signup", fmt.Sprintf(`{"email":%q,"password":%q}`, s.email, goodPassword))
	s.set("signup_attempt_id", s.last.Body.Session.SignUpAttempts[0]["id"])
}

// another creates another workspace, which new members of the organization do not join. It sets {id} to the workspace's
// id.
func (s *scene) another() {
	s.workspace = s.ok("POST", "/workspaces", fmt.Sprintf(`{"name":"Another","organization_id":%q}`, s.organization))["workspace"].(map[string]any)["id"].(string)
	s.set("{id}", s.workspace)
}

// workspaceMember has bob join another workspace. It sets {membership_id} to his membership there.
func (s *scene) workspaceMember(n int) {
	s.member(n)
	s.another()
	joined := s.ok("POST", "/workspaces/"+s.workspace+"/members", fmt.Sprintf(`{"user_id":%q}`, s.live["user_id"]))
	s.set("{membership_id}", joined["id"])
}

// second adds an authenticator app, and begins a sign-in at another browser, which then sends the example. It sets
// signin_attempt_id.
func (s *scene) second() *app {
	a, _ := s.addApp()
	s.browser = s.w.browser()
	s.set("signin_attempt_id", s.firstStep(s.email))
	return a
}

// toolCall has an agent ask for an approval. It sets {id} to its id, and arguments_digest.
func (s *scene) toolCall() {
	asked := s.w.DeclareApprovable(nil).Ask(byUser(s.user), cancels)
	s.set("{id}", asked.ID)
	s.set("arguments_digest", asked.Digest)
}

// scenes are the preparations of operations that need more than ada, her organization and her workspace.
var scenes = map[string]func(s *scene, n int){
	"endUserSignUp": func(s *scene, _ int) { s.browser = s.w.browser(); s.set("email", "new-"+s.email) },
	"endUserSignIn": func(s *scene, _ int) {
		s.browser = s.w.browser()
		s.set("email", s.email)
		s.set("password", goodPassword)
	},
	"endUserPrepareVerification": func(s *scene, _ int) { s.signUp(); s.w.Clock.Advance(31 * time.Second) },
	"endUserAttemptVerification": func(s *scene, _ int) { s.signUp(); s.set("code", s.w.CodeFor(s.email, 1)) },
	"endUserForgotPassword":      func(s *scene, _ int) { s.browser = s.w.browser(); s.set("email", s.email) },
	"endUserResetPassword": func(s *scene, _ int) {
		s.browser = s.w.browser()
		attempt := s.forgot(s.email)
		s.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, s.w.CodeFor(s.email, 2)))
		s.set("signin_attempt_id", attempt)
	},
	"endUserDeleteAccount":      nil,
	"endUserAddApiKey":          nil,
	"endUserRemoveApiKey":       func(s *scene, _ int) { id, _ := s.makesKey(laptop); s.set("{id}", id) },
	"endUserAddEmailAddress":    func(s *scene, n int) { s.set("email", fmt.Sprintf("added%d@example.com", n)) },
	"endUserRemoveEmailAddress": func(s *scene, n int) { s.address(fmt.Sprintf("second%d@example.com", n)) },
	"endUserVerifyEmailAddress": func(s *scene, n int) { s.address(fmt.Sprintf("second%d@example.com", n)) },
	"endUserPrepareEmailVerification": func(s *scene, n int) {
		s.address(fmt.Sprintf("second%d@example.com", n))
		s.w.Clock.Advance(31 * time.Second)
	},
	"endUserMakeEmailAddressPrimary": func(s *scene, n int) {
		s.address(fmt.Sprintf("second%d@example.com", n))
		s.ok("POST", "/me/email-addresses/"+s.live["{id}"]+"/attempt-verification", fmt.Sprintf(`{"code":%q}`, s.live["code"]))
	},
	"endUserRemoveOauthGrant":         func(s *scene, _ int) { s.grants() },
	"endUserListOauthGrants":          func(s *scene, _ int) { s.grants() },
	"endUserLeaveOrganization":        func(s *scene, n int) { s.browser = s.member(n); s.set("{id}", s.live["{membership_id}"]) },
	"endUserRemovePassword":           func(s *scene, _ int) { s.set("current_password", goodPassword) },
	"endUserUpdatePassword":           func(s *scene, _ int) { s.set("current_password", goodPassword) },
	"endUserReauthenticate":           func(s *scene, _ int) { s.set("password", goodPassword) },
	"endUserAddPhoneNumber":           func(s *scene, n int) { s.set("phone_number", numberOf(n)) },
	"endUserListPhoneNumbers":         func(s *scene, n int) { s.phone(numberOf(n), true) },
	"endUserRemovePhoneNumber":        func(s *scene, n int) { s.phone(numberOf(n), false) },
	"endUserVerifyPhoneNumber":        func(s *scene, n int) { s.phone(numberOf(n), false) },
	"endUserMakePhoneNumberPrimary":   func(s *scene, n int) { s.phone(numberOf(n), true); s.phone(numberOf(n+100), true) },
	"endUserPreparePhoneVerification": func(s *scene, n int) { s.set("{id}", s.addPhone(numberOf(n))) },
	"endUserSignOutElsewhere":         func(s *scene, _ int) { s.elsewhere() },
	"endUserSignOut":                  func(s *scene, _ int) { s.set("signin_id", s.do("GET", "/session", "").Body.Session.ActiveSignIn["id"]) },
	"endUserSwitchSignIn":             func(s *scene, _ int) { s.set("signin_id", s.do("GET", "/session", "").Body.Session.ActiveSignIn["id"]) },
	"endUserDeleteOrganization":       func(s *scene, _ int) { s.set("confirmation", s.slug()) },
	"endUserListInvitations":          func(s *scene, n int) { s.invite(fmt.Sprintf("eve%d@example.com", n)) },
	"endUserRevokeInvitation":         func(s *scene, n int) { s.invite(fmt.Sprintf("eve%d@example.com", n)) },
	"endUserResendInvitation":         func(s *scene, n int) { s.invite(fmt.Sprintf("eve%d@example.com", n)) },
	"endUserLookUpInvitation":         func(s *scene, n int) { s.invite(fmt.Sprintf("eve%d@example.com", n)) },
	"endUserAcceptInvitation": func(s *scene, n int) {
		email := fmt.Sprintf("eve%d@example.com", n)
		s.invite(email)
		s.browser, _ = s.w.signedUp(email)
	},
	"endUserInvite":                func(s *scene, n int) { s.set("email", fmt.Sprintf("eve%d@example.com", n)) },
	"endUserRemoveMember":          func(s *scene, n int) { s.member(n) },
	"endUserChangeMember":          func(s *scene, n int) { s.member(n) },
	"endUserAddWorkspaceMember":    func(s *scene, n int) { s.member(n); s.another() },
	"endUserListWorkspaceMembers":  func(s *scene, _ int) { s.set("{id}", s.workspace) },
	"endUserRenameWorkspace":       func(s *scene, _ int) { s.set("{id}", s.workspace) },
	"endUserRemoveWorkspaceMember": func(s *scene, n int) { s.workspaceMember(n) },
	"endUserChangeWorkspaceMember": func(s *scene, n int) {
		s.workspaceMember(n)
		s.set("role_id", s.live["workspace role"])
	},
	"endUserPrepareSecondFactor": func(s *scene, _ int) { s.second() },
	"endUserAttemptSecondFactor": func(s *scene, _ int) { a := s.second(); s.set("code", a.next()) },
	"endUserListSecondFactors":   func(s *scene, _ int) { s.addApp() },
	"endUserGetAssurance":        nil,
	"endUserChangeTwoStep":       func(s *scene, _ int) { s.addApp() },
	"endUserConfirmAuthenticator": func(s *scene, _ int) {
		begun := s.ok("POST", "/me/second-factors/totp", `{}`)
		secret, err := totp.ParseSecret(begun["secret"].(string))
		s.w.Must(err)
		s.set("{id}", begun["id"])
		s.set("code", (&app{w: s.w, secret: secret}).code())
	},
	"endUserRemoveAuthenticator": func(s *scene, _ int) { a, _ := s.addApp(); s.set("{id}", a.id) },
	"endUserAddTextFactor":       func(s *scene, n int) { s.phone(numberOf(n), true); s.set("phone_number_id", s.live["{id}"]) },
	"endUserRemoveTextFactor": func(s *scene, n int) {
		s.phone(numberOf(n), true)
		s.ok("POST", "/me/second-factors/sms", fmt.Sprintf(`{"phone_number_id":%q}`, s.live["{id}"]))
		s.ok("POST", "/session/reauthenticate", `{"strategy":"sms"}`)
		attempt := s.last.Body.Session.SignInAttempts[0]["id"].(string)
		s.w.Clock.Advance(31 * time.Second)
		s.ok("POST", "/auth/prepare-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q,"strategy":"sms"}`, attempt))
		s.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "sms", s.w.CodeFor(numberOf(n), 2)))
	},
	"endUserListToolApprovals": func(s *scene, _ int) { s.toolCall() },
	"endUserGetToolApproval":   func(s *scene, _ int) { s.toolCall() },
	"endUserApproveToolCall":   func(s *scene, _ int) { s.toolCall() },
	"endUserDenyToolCall":      func(s *scene, _ int) { s.toolCall() },
	"endUserMakeRecoveryCodes": func(s *scene, _ int) { s.addApp() },
	"endUserListPasskeys":      func(s *scene, _ int) { s.addPasskey(s.w.device()) },
	"endUserAddPasskey": func(s *scene, _ int) {
		s.set("credential", s.w.device().created(s.ok("POST", "/me/passkeys/options", `{}`)))
	},
	"endUserRenamePasskey":       func(s *scene, _ int) { s.set("{id}", s.addPasskey(s.w.device())) },
	"endUserRemovePasskey":       func(s *scene, _ int) { s.set("{id}", s.addPasskey(s.w.device())) },
	"endUserReadAuthorization":   func(s *scene, _ int) { s.asks() },
	"endUserDecideAuthorization": func(s *scene, _ int) { s.asks() },
	"endUserClaimUserCode":       func(s *scene, _ int) { s.device() },
	"endUserBeginSSO": func(s *scene, n int) {
		s.set("connection_id", s.w.connection(fmt.Sprintf("conn%d", n), s.w.provider(), nil))
	},
	"endUserDiscoverSSO": func(s *scene, n int) {
		s.w.connection(fmt.Sprintf("conn%d", n), s.w.provider(), func(c *document.Connection) { c.Domains = []string{"globex.example"} })
	},
	"endUserGetConfig": func(s *scene, n int) { s.w.connection(fmt.Sprintf("conn%d", n), s.w.provider(), nil) },
	"endUserCompleteSSO": func(s *scene, n int) {
		p := s.w.provider()
		id := s.w.connection(fmt.Sprintf("conn%d", n), p, func(c *document.Connection) { c.Domains = []string{"ada.example"} })
		values, err := p.Authorize(s.begin(id, `,"continue":"/account"`), identityprovider.User{"sub": s.email, "email": "ann@ada.example"})
		s.w.Must(err)
		s.set("{connection_id}", id)
		s.query = values.Encode()
	},
	"endUserListIdentities":  func(s *scene, n int) { s.links(n) },
	"endUserListSetupLinks":  func(s *scene, n int) { s.setsUp(n) },
	"endUserRemoveSetupLink": func(s *scene, n int) { s.setsUp(n) },
	"endUserPrepareSetup":    func(s *scene, n int) { s.setsUp(n); s.browser = s.w.browser() },
	"endUserVerifySetup": func(s *scene, n int) {
		email := s.setsUp(n)
		s.browser = s.w.browser()
		s.ok("POST", "/setup/prepare-verification", fmt.Sprintf(`{"token":%q}`, s.live["token"]))
		s.set("code", s.w.CodeFor(email, 1))
	},
	"endUserGetSetup": func(s *scene, n int) {
		email := s.setsUp(n)
		s.browser = s.w.browser()
		s.opens(s.live["token"], email, 1)
	},
	"endUserAddOrganizationConnection":          func(s *scene, _ int) { s.set("issuer", s.w.provider().URL) },
	"endUserListOrganizationConnections":        func(s *scene, _ int) { s.connects() },
	"endUserGetOrganizationConnection":          func(s *scene, _ int) { s.connects() },
	"endUserUpdateOrganizationConnection":       func(s *scene, _ int) { s.connects() },
	"endUserRemoveOrganizationConnection":       func(s *scene, _ int) { s.connects() },
	"endUserListOrganizationConnectionFailures": func(s *scene, _ int) { s.connects() },
	"endUserListOrganizationDirectories":        func(s *scene, _ int) { s.provisions() },
	"endUserGetOrganizationDirectory":           func(s *scene, _ int) { s.provisions() },
	"endUserAddOrganizationDirectory": func(s *scene, _ int) {
		s.set("connection_id", s.setUp(s.organization, s.w.provider(), ""))
		s.set("group_roles", fmt.Sprintf(`[{"group":"Engineering","role_id":%q}]`, s.live["role_id"]))
	},
	"endUserUpdateOrganizationDirectory": func(s *scene, _ int) { s.provisions() },
	"endUserRemoveOrganizationDirectory": func(s *scene, _ int) { s.provisions() },
	"endUserMakeDirectoryToken":          func(s *scene, _ int) { s.provisions() },
	"endUserRemoveDirectoryToken":        func(s *scene, _ int) { s.provisions() },
	"endUserRemoveIdentity":              func(s *scene, n int) { s.set("{id}", s.links(n)) },
	"endUserListDomains":                 func(s *scene, n int) { s.domain(n) },
	"endUserAddDomain":                   func(s *scene, n int) { s.set("name", fmt.Sprintf("added%d.example", n)) },
	"endUserRemoveDomain":                func(s *scene, n int) { s.domain(n) },
	"endUserVerifyDomain":                func(s *scene, n int) { s.domain(n) },
}

// notJSON are the operations whose request is a form or whose response is a redirect. The tests of sign-ins by
// connections send them.
var notJSON = []string{
	"endUserStartSSO", "endUserReceiveSSO", "endUserBackchannelLogout", "endUserReceiveSAML", "endUserReceiveSAMLLogout", "endUserReturnFromSAMLLogout",
	"endUserGetSAMLMetadata", "endUserShowSSORequest",
}

// setsUp makes a setup link of ada's organization, and returns its address. It sets {setup_link_id} and token.
func (s *scene) setsUp(n int) (email string) {
	email = fmt.Sprintf("it%d@example.com", n)
	id, token := s.makesLink(s.organization, email, `"sso","domains"`)
	s.set("{setup_link_id}", id)
	s.set("token", token)
	return email
}

// connects sets up a connection of ada's organization, at which a sign-in failed.
func (s *scene) connects() {
	p := s.w.provider()
	id := s.setUp(s.organization, p, "")
	s.set("{connection_id}", id)
	values, err := p.Authorize(s.begin(id, ""), identityprovider.User{"sub": "1", "email": "ann@ada.example"})
	s.w.Must(err)
	values.Set("iss", "https://another.example")
	s.do(http.MethodGet, callback(id, values), "")
}

// provisions sets up a directory of ada's organization with a token, and sets {directory_id} and {token_id}.
func (s *scene) provisions() {
	body := fmt.Sprintf(`{"connection_id":%q,"group_roles":[{"group":"Engineering","role_id":%q}]}`, s.setUp(s.organization, s.w.provider(), ""), s.live["role_id"])
	id := s.ok("POST", directoriesOf(s.organization), body)["id"].(string)
	token, _ := s.makesToken(s.organization, id, `{}`)
	s.set("{directory_id}", id)
	s.set("{token_id}", token)
}

// domain adds a domain to ada's organization, and sets {domain_id}. Its record is there, with another one of the name.
func (s *scene) domain(n int) {
	name := fmt.Sprintf("domain%d.example", n)
	id, value := s.addsDomain(s.organization, name)
	s.w.Carrier.DNS().Set(record(name), "v=spf1 -all", value)
	s.ok("POST", domainsOf(s.organization)+"/"+id+"/verify", `{}`)
	s.set("{domain_id}", id)
}

// links adds an identity to ada's account, and returns its id.
func (s *scene) links(n int) string {
	p := s.w.provider()
	id := s.w.connection(fmt.Sprintf("conn%d", n), p, nil)
	if a := s.ssoFor(id, p, identityprovider.User{"sub": "ada", "email": s.email}, `,"intent":"link"`); a.Status != http.StatusOK {
		s.w.T.Fatal(a.Raw)
	}
	return s.list("/me/identities")[0]["id"].(string)
}

// numberOf returns a phone number for the nth operation.
func numberOf(n int) string { return fmt.Sprintf("+1202555%04d", 100+n) }

// slug returns the slug of ada's organization.
func (s *scene) slug() string {
	return s.list("/me/organization-memberships")[0]["organization"].(map[string]any)["slug"].(string)
}

// Each operation is sent as in the document's example, with live ids, codes and tokens. The response must be successful
// and have the form of the example: the same members on all levels.
func TestDocumentExamplesMatchResponses(t *testing.T) {
	t.Parallel()
	contract, err := openapi.LoadEndUser()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "")
	w.sign()
	d := w.signedDeployment()
	d.Connections = &document.OrganizationConnections{SelfService: true, Types: []string{"OIDC", "SAML"}, MaxPerOrganization: 5}
	d.Assurance = strong()
	d.OrganizationPermissions = []string{"organization:invite", "organization:manage", "workspace:create", "billing:read"}
	d.WorkspacePermissions = []string{"workspace:manage", "documents:read"}
	w.Declare(d)
	w.keyApps(10)
	role, workspaceRole := w.role("clerk", "Organization", "billing:read"), w.role("writer", "Workspace", "documents:read")
	w.DeclareOAuthApp("http://localhost:8081")
	client := w.Put(v1alpha1.KindOAuthClient, "public", deploymentName, "", document.OAuthClient{
		App: "portal", Name: "Reports", Authentication: string(v1alpha1.ClientAuthenticationNone), RedirectURIs: []string{"https://client.example/callback"}, AccessTokenSeconds: 600, Active: true,
		GrantTypes: []string{string(v1alpha1.GrantTypeAuthorizationCode), string(v1alpha1.GrantTypeDeviceCode)},
	})
	probe, _ := w.signedUp("first@example.com")
	organization := probe.organization("Probe")
	w.Eventually("roles, app and client are known", func() bool {
		return len(probe.list("/organizations/"+organization+"/roles?level=organization")) == 1 && len(probe.list("/organizations/"+organization+"/roles?level=workspace")) == 1 && w.client(client)
	})
	operations := map[string]string{}
	for path, item := range contract.Spec().Paths.Map() {
		for method, op := range item.Operations() {
			operations[op.OperationID] = method + " " + path
		}
	}
	for name := range scenes {
		if operations[name] == "" {
			t.Errorf("the scene %s belongs to no operation", name)
		}
	}
	for n, name := range slices.Sorted(maps.Keys(operations)) {
		if slices.Contains(notJSON, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			defer func(whole testing.TB) { w.T = whole }(w.T)
			w.T = t
			method, path, _ := strings.Cut(operations[name], " ")
			op := contract.Spec().Paths.Find(path).GetOperation(method)
			w.Clock.Advance(4 * time.Minute) // a wide network may request sixty codes an hour
			s := w.scene(n)
			s.set("role_id", role)
			s.set("workspace role", workspaceRole)
			s.set("client", client)
			if prepare := scenes[name]; prepare != nil {
				prepare(s, n)
			}
			s.execute(t, method, path, op)
		})
	}
}

// client reports whether the authorization server knows a client.
func (w *world) client(id int64) bool {
	r, err := http.NewRequest(http.MethodPost, w.Server.URL+"/oauth/portal/device_authorization", strings.NewReader(fmt.Sprintf("client_id=%d&scope=openid", id)))
	w.Must(err)
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(r)
	w.Must(err)
	w.Must(answer.Body.Close())
	return answer.StatusCode == http.StatusOK
}

// scene signs ada up, with an organization and its workspace.
func (w *world) scene(n int) *scene {
	s := &scene{browser: w.browser(), email: fmt.Sprintf("ada%d@example.com", n), live: map[string]string{}}
	s.user = s.browser.signUp(s.email)
	s.organization = s.browser.organization("Acme")
	s.workspace = s.list("/organizations/" + s.organization + "/workspaces")[0]["id"].(string)
	s.set("{id}", s.organization)
	s.set("organization_id", s.organization)
	s.set("workspace_id", s.workspace)
	s.set("user_id", s.user)
	return s
}

// execute sends the examples and compares the responses with those of the same names in the document.
func (s *scene) execute(t *testing.T, method, path string, op *openapi3.Operation) {
	names := []string{"typical"}
	if op.RequestBody != nil {
		names = slices.Sorted(maps.Keys(op.RequestBody.Value.Content.Get("application/json").Examples))
	}
	for _, name := range names {
		s.executeExample(t, name, method, path, op)
	}
}

func (s *scene) executeExample(t *testing.T, example, method, path string, op *openapi3.Operation) {
	for name, value := range s.live {
		if strings.HasPrefix(name, "{") {
			path = strings.ReplaceAll(path, name, url.PathEscape(value))
		}
	}
	body := ""
	if op.RequestBody != nil {
		sent := maps.Clone(op.RequestBody.Value.Content.Get("application/json").Examples[example].Value.Value.(map[string]any))
		for name := range sent {
			switch value, drawn := s.live[name]; {
			case drawn && (name == "credential" || name == "group_roles"):
				sent[name] = json.RawMessage(value)
			case drawn:
				sent[name] = value
			}
		}
		raw, err := json.Marshal(sent)
		s.w.Must(err)
		body = string(raw)
	}
	if s.query != "" {
		path += "?" + s.query
	}
	answer := s.do(method, path, body)
	if answer.Status != http.StatusOK {
		t.Fatalf("%s %s %s: %s", method, path, body, answer.Raw)
	}
	var got any
	s.w.Must(json.Unmarshal([]byte(answer.Raw), &got))
	for _, fault := range differences("", op.Responses.Status(200).Value.Content.Get("application/json").Examples[example].Value.Value, got) {
		t.Errorf("%s %s: %s\n%s", method, path, fault, answer.Raw)
	}
}

// differences returns the places where the form of a response differs from that of an example. Null and empty lists
// match any form; the schema checks them.
func differences(at string, example, got any) (faults []string) {
	if at == "/data/public_key" {
		return nil // the standard's options differ by ceremony
	}
	switch example := example.(type) {
	case map[string]any:
		object, is := got.(map[string]any)
		if !is {
			return nonNull(at, got)
		}
		for name := range example {
			if _, there := object[name]; !there {
				faults = append(faults, at+"/"+name+" is only in the example")
			}
		}
		for name, value := range object {
			if _, there := example[name]; !there {
				faults = append(faults, at+"/"+name+" is only in the response")
				continue
			}
			faults = append(faults, differences(at+"/"+name, example[name], value)...)
		}
	case []any:
		list, is := got.([]any)
		if !is {
			return nonNull(at, got)
		}
		for i := range list {
			if len(example) > 0 {
				faults = append(faults, differences(fmt.Sprintf("%s/%d", at, i), example[0], list[i])...)
			}
		}
	default:
		if example != nil && got != nil && fmt.Sprintf("%T", example) != fmt.Sprintf("%T", got) {
			faults = append(faults, fmt.Sprintf("%s is a %T in the example, and a %T in the answer", at, example, got))
		}
	}
	return faults
}

func nonNull(at string, got any) []string {
	if got == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s is a %T in the answer", at, got)}
}
