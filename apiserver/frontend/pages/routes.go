package pages

// pages maps paths to pages.
var pages = map[string]page{
	"/{$}":                      {get: home},
	"/sign-in":                  {get: showSignIn, post: takeSignIn},
	"/sign-in/password":         {get: showPassword, post: takePassword},
	"/sign-in/code":             {get: showSignInCode, post: takeSignInCode},
	"/sign-in/connection":       {get: showConnections},
	"/sign-in/email":            {get: showSSOEmail, post: takeSSOEmail},
	"/sign-in/second-factor":    {get: showSecondFactor, post: takeSecondFactor},
	"/sign-up":                  {get: showSignUp, post: takeSignUp},
	"/sign-up/code":             {get: showSignUpCode, post: takeSignUpCode},
	"/forgot-password":          {get: showForgotten, post: takeForgotten},
	"/forgot-password/code":     {get: showForgottenCode, post: takeForgottenCode},
	"/forgot-password/new":      {get: showNewPassword, post: takeNewPassword},
	"/reauthenticate":           {get: showReauthenticate, post: takeReauthenticate, signedIn: true, bare: true, held: true},
	"/reauthenticate/code":      {get: showReauthenticateCode, post: takeReauthenticateCode, signedIn: true, bare: true, held: true},
	"/reauthenticate/text":      {get: showReauthenticateText, post: takeReauthenticateText, signedIn: true, bare: true, held: true},
	"/sign-out":                 {get: showSignOut, post: takeSignOut, signedIn: true, bare: true, held: true},
	"/invitations/{token}":      {get: showInvitation, post: takeInvitation},
	"/authorize":                {get: showAuthorizeProblem},
	"/authorize/{request}":      {get: showAuthorize, post: takeAuthorize, bare: true},
	"/device":                   {get: showDevice, post: takeDevice, signedIn: true, bare: true},
	"/account":                  {get: showAccount, post: takeAccount, signedIn: true},
	"/account/emails":           {get: showEmails, post: emailContact.take, signedIn: true},
	"/account/emails/{id}":      {get: showEmail, post: emailContact.takeCode, signedIn: true},
	"/account/password":         {get: showOwnPassword, post: takeOwnPassword, signedIn: true},
	"/account/phones":           {get: showPhones, post: phoneContact.take, signedIn: true},
	"/account/phones/{id}":      {get: showPhone, post: phoneContact.takeCode, signedIn: true},
	"/account/security":         {get: showSecurity, post: takeSecurity, signedIn: true, held: true},
	"/account/security/totp":    {get: showAuthenticator, post: takeAuthenticator, signedIn: true, held: true},
	"/account/security/passkey": {get: showNewPasskey, post: takeNewPasskey, signedIn: true, held: true},
	"/account/security/codes":   {get: showCodes, post: takeCodes, signedIn: true, held: true},
	requiredPath:                {get: showRequired, signedIn: true, bare: true, held: true},
	"/account/sessions":         {get: showSignIns, post: takeSignIns, signedIn: true},
	"/account/delete":           {get: showDeleteAccount, post: takeDeleteAccount, signedIn: true},
	"/account/keys":             {get: showKeys, post: takeKeys, signedIn: true},
	"/account/identities":       {get: showIdentities, post: takeIdentities, signedIn: true},
	"/account/apps":             {get: showConnectedApps, post: takeConnectedApps, signedIn: true},
	approvalsPath:               {get: showApprovals, signedIn: true},
	approvalsPath + "/{id}":     {get: showApproval, post: takeApproval, signedIn: true, bare: true},
	"/organizations":            {get: showOrganizations, post: takeOrganizations, signedIn: true},
	"/organizations/new":        {get: showNewOrganization, post: takeNewOrganization, signedIn: true},
	// The API also has paths below /organizations, with other segments and methods; those of domains are the same, and
	// requests of browsers for pages differ from them by their headers (Handler).
	"/organizations/{slug}":                 {get: showOrganization, post: takeOrganization, signedIn: true},
	"/organizations/{slug}/settings":        {get: showSettings, post: takeSettings, signedIn: true},
	"/organizations/{slug}/sso":             {get: showSSO, post: takeSSO, signedIn: true, setup: "sso"},
	"/organizations/{slug}/sso/{id}":        {get: showOrganizationConnection, post: takeOrganizationConnection, signedIn: true, setup: "sso"},
	"/setup":                                {get: showSetup},
	"/setup/{token}":                        {get: showSetupLink, post: takeSetupLink},
	"/organizations/{slug}/domains":         {get: showDomains, post: takeDomains, signedIn: true, setup: "domains"},
	"/organizations/{slug}/directory":       {get: showDirectory, post: takeDirectory, signedIn: true, setup: "directory"},
	"/organizations/{slug}/members/{id}":    {get: showMember, post: takeMember, signedIn: true},
	"/organizations/{slug}/workspaces/{id}": {get: showWorkspace, post: takeWorkspace, signedIn: true},
}

// home redirects a signed-in user to the account page, and others to the sign-in page.
func home(v *visit) error {
	if v.who.User == nil {
		return v.redirect("", "/sign-in")
	}
	return v.redirect("", "/account")
}
