package exports

// providers are the provider names that reports may contain. Other names are not reported, because they may be
// arbitrary text.
var providers = map[string]bool{
	// Auth0's strategies.
	"google-oauth2": true, "windowslive": true, "waad": true, "samlp": true, "oidc": true, "ad": true, "adfs": true, "google-apps": true,
	// Firebase's ids.
	"google.com": true, "apple.com": true, "facebook.com": true, "github.com": true, "twitter.com": true, "microsoft.com": true, "yahoo.com": true, "linkedin.com": true,
	// Keycloak's suggested aliases, and common ones.
	"google": true, "apple": true, "facebook": true, "github": true, "gitlab": true, "microsoft": true, "twitter": true, "linkedin": true, "bitbucket": true,
	"linkedin-openid-connect": true, "instagram": true, "paypal": true, "stackoverflow": true, "saml": true,
}

// leaveLogin records that a login by a provider is left out.
func (l *Lines) leaveLogin(provider string) {
	if !providers[provider] {
		provider = "another provider"
	}
	l.leave("a login by " + provider)
}
