package v1alpha1

// ConnectionType is the type of an identity provider.
// +kubebuilder:validation:Enum=OIDC;SAML;Google;Microsoft;GitHub;GitLab;Apple
type ConnectionType string

const (
	// ConnectionTypeOIDC is any OpenID provider, described in oidc.
	ConnectionTypeOIDC ConnectionType = "OIDC"
	// ConnectionTypeSAML is any provider of SAML 2.0, described in saml.
	ConnectionTypeSAML ConnectionType = "SAML"
	// ConnectionTypeGoogle is Google, for Google accounts or for the domains of Google Workspace in google.
	ConnectionTypeGoogle ConnectionType = "Google"
	// ConnectionTypeMicrosoft is Microsoft Entra ID, for the tenants in microsoft.
	ConnectionTypeMicrosoft ConnectionType = "Microsoft"
	// ConnectionTypeGitHub is GitHub (OAuth 2.0 and its user API), or the GitHub Enterprise Server in github.
	ConnectionTypeGitHub ConnectionType = "GitHub"
	// ConnectionTypeGitLab is GitLab, or the instance in gitlab.
	ConnectionTypeGitLab ConnectionType = "GitLab"
	// ConnectionTypeApple is Sign in with Apple, with the team and key in apple.
	ConnectionTypeApple ConnectionType = "Apple"
)

// UpstreamAuthentication is how Cardea authenticates to an identity provider.
// +kubebuilder:validation:Enum=ClientSecretBasic;ClientSecretPost;PrivateKeyJWT
type UpstreamAuthentication string

const (
	// UpstreamAuthenticationBasic sends the secret in the Authorization header (client_secret_basic).
	UpstreamAuthenticationBasic UpstreamAuthentication = "ClientSecretBasic"
	// UpstreamAuthenticationPost sends the secret in the body (client_secret_post), for providers without Basic.
	UpstreamAuthenticationPost UpstreamAuthentication = "ClientSecretPost"
	// UpstreamAuthenticationPrivateKeyJWT signs an assertion (private_key_jwt), so that no secret is shared.
	UpstreamAuthenticationPrivateKeyJWT UpstreamAuthentication = "PrivateKeyJWT"
)

// UserinfoUse selects when the userinfo endpoint is called.
// +kubebuilder:validation:Enum=IfMissing;Always;Never
type UserinfoUse string

const (
	// UserinfoUseIfMissing calls it if the ID token lacks the user's address.
	UserinfoUseIfMissing UserinfoUse = "IfMissing"
	// UserinfoUseAlways calls it at each sign-in, for providers with further claims there.
	UserinfoUseAlways UserinfoUse = "Always"
	// UserinfoUseNever never calls it.
	UserinfoUseNever UserinfoUse = "Never"
)

// ResponseMode is how an identity provider sends its authorization response.
// +kubebuilder:validation:Enum=Query;FormPost
type ResponseMode string

const (
	// ResponseModeQuery is a redirect with a query.
	ResponseModeQuery ResponseMode = "Query"
	// ResponseModeFormPost is a form that the browser posts (response_mode=form_post), for providers that require it.
	ResponseModeFormPost ResponseMode = "FormPost"
)

// UpstreamSigningAlg is an algorithm that signs ID tokens (RFC 7518, RFC 8037).
// +kubebuilder:validation:Enum=RS256;PS256;ES256;EdDSA
type UpstreamSigningAlg string

// UpstreamURL is a URL at an identity provider of at most 2048 printable ASCII characters: https, without user and
// fragment. http is only for 127.0.0.1, [::1] and localhost, in deployments with mode Staging.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:Pattern=`^https?://([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)*|\[[0-9A-Fa-f:.]{2,45}\])(:[1-9][0-9]{0,4})?([/?][!$-;=?-Z_a-z~]*)?$`
// +kubebuilder:validation:XValidation:rule="!self.startsWith('http:') || self.matches('^http://(127[.]0[.]0[.]1|\\\\[::1\\\\]|localhost)([:/?].*)?$')",message="http is only for 127.0.0.1, [::1] and localhost: use https"
type UpstreamURL string

// UpstreamClient is Cardea's registration at an identity provider.
// +kubebuilder:validation:XValidation:rule="!has(self.clientSecretRef) || !has(self.privateKeySecretRef)",message="clientSecretRef and privateKeySecretRef exclude each other: remove one"
type UpstreamClient struct {
	// clientID is the id that the identity provider assigned.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	ClientID string `json:"clientID"`

	// authentication is how Cardea authenticates. `ClientSecretBasic`: with the secret in a header. `ClientSecretPost`:
	// with the secret in the body. `PrivateKeyJWT`: with an assertion that the private key signs. Absent:
	// ClientSecretBasic; GitHub and Apple accept one way only, and the field is not allowed with them.
	// +optional
	Authentication *UpstreamAuthentication `json:"authentication,omitempty"`

	// clientSecretRef names the Secret and key with the client secret: one line of at most 512 bytes. The Secret needs the
	// label iam.cardea.dev/deployment with the deployment's name. Absent: see privateKeySecretRef.
	// +optional
	ClientSecretRef *SecretKeyReference `json:"clientSecretRef,omitempty"`

	// privateKeySecretRef names the Secret and key with a private key in PEM without passphrase, for PrivateKeyJWT and for
	// type Apple: P-256, or RSA of at least 2048 bits. Apple's key is P-256. The Secret needs the label
	// iam.cardea.dev/deployment with the deployment's name. Absent: see clientSecretRef.
	// +optional
	PrivateKeySecretRef *SecretKeyReference `json:"privateKeySecretRef,omitempty"`
}

// AuthorizationParameter is a further parameter of the authorization requests.
type AuthorizationParameter struct {
	// name of the parameter, such as `domain_hint`. Parameters that Cardea sets are not allowed: those of RFC 6749, RFC
	// 7636 and OpenID Connect Core, except for prompt, acr_values, max_age and ui_locales.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().matches('^(response_type|response_mode|client_id|client_secret|client_assertion|client_assertion_type|redirect_uri|scope|state|code|error|error_description|error_uri|grant_type|access_token|token_type|expires_in|refresh_token|username|password|code_verifier|code_challenge|code_challenge_method|nonce|display|claims_locales|id_token|id_token_hint|login_hint|claims|registration|request|request_uri|iss)$')",message="Cardea sets this parameter itself: remove it"
	Name string `json:"name"`

	// value of the parameter: at most 512 printable ASCII characters.
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	Value string `json:"value"`
}

// OIDCEndpoints replace the discovery document of a provider that has none.
type OIDCEndpoints struct {
	// authorizationURL is where users' browsers are sent.
	// +required
	AuthorizationURL UpstreamURL `json:"authorizationURL"`

	// tokenURL is where codes are redeemed.
	// +required
	TokenURL UpstreamURL `json:"tokenURL"`

	// jwksURL is where the keys of ID tokens are published.
	// +required
	JWKSURL UpstreamURL `json:"jwksURL"`

	// userinfoURL is where further claims are read. Absent: no endpoint; all claims come from the ID token.
	// +optional
	UserinfoURL *UpstreamURL `json:"userinfoURL,omitempty"`
}

// OIDCProvider configures type OIDC.
// +kubebuilder:validation:XValidation:rule="!has(self.userinfo) || self.userinfo != 'Always' || !has(self.endpoints) || has(self.endpoints.userinfoURL)",message="userinfo Always needs endpoints.userinfoURL: add it",fieldPath=".userinfo"
type OIDCProvider struct {
	// issuer is the provider's issuer, compared character by character with the claim iss. Users are known by issuer and
	// subject: after a change of the issuer, no user of the former one is recognized.
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.contains('?')",message="an issuer has no query (OpenID Connect Discovery 3): remove it"
	Issuer UpstreamURL `json:"issuer"`

	// endpoints replace discovery. Absent: servers read the discovery document below the issuer.
	// +optional
	Endpoints *OIDCEndpoints `json:"endpoints,omitempty"`

	// userinfo selects when the userinfo endpoint is called. `IfMissing`: if the ID token lacks the user's address.
	// `Always`: at each sign-in. `Never`: never. Absent: IfMissing.
	// +optional
	Userinfo *UserinfoUse `json:"userinfo,omitempty"`

	// responseMode is how the provider sends its response. `Query`: by a redirect with a query. `FormPost`: by a form that
	// the browser posts. Absent: Query.
	// +optional
	ResponseMode *ResponseMode `json:"responseMode,omitempty"`

	// idTokenSigningAlgs are the accepted algorithms of ID tokens. Absent: RS256, PS256, ES256 and EdDSA.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	IDTokenSigningAlgs []UpstreamSigningAlg `json:"idTokenSigningAlgs,omitempty"`
}

// MicrosoftProvider configures type Microsoft.
type MicrosoftProvider struct {
	// tenant is the id of one tenant (a GUID in lower case), `organizations` for every work or school account, `consumers`
	// for personal accounts, or `common` for both.
	// +required
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|organizations|consumers|common)$`
	Tenant string `json:"tenant"`

	// allowedTenants are the ids of the tenants whose users may sign in, for tenant `organizations` or `common`. Absent:
	// every tenant that tenant admits.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=36
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`
	AllowedTenants []string `json:"allowedTenants,omitempty"`
}

// GoogleProvider configures type Google.
type GoogleProvider struct {
	// hostedDomains are the domains of Google Workspace whose users may sign in: the claim hd must name one of them.
	// Absent: every Google account.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	HostedDomains []DomainName `json:"hostedDomains,omitempty"`
}

// HostedProvider configures types GitHub and GitLab.
type HostedProvider struct {
	// baseURL is the URL of your own instance, without query. Users are known by it: after a change, no user of the former
	// instance is recognized. Absent: https://github.com or https://gitlab.com.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.contains('?')",message="baseURL must not have a query, because paths are appended: remove the query"
	BaseURL *UpstreamURL `json:"baseURL,omitempty"`
}

// AppleProvider configures type Apple. client.privateKeySecretRef names the private key, and client.clientID is the
// Services ID.
type AppleProvider struct {
	// teamID is the id of the developer team: 10 upper-case letters and digits.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Z0-9]{10}$`
	// +kubebuilder:validation:MaxLength=10
	TeamID string `json:"teamID"`

	// keyID is the id of the private key: 10 upper-case letters and digits.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Z0-9]{10}$`
	// +kubebuilder:validation:MaxLength=10
	KeyID string `json:"keyID"`
}
