package translation

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestWhatConcernsEndUsers(t *testing.T) {
	ref := v1alpha1.SecretKeyReference{Name: "s", Key: "k"}
	sealed := map[string]string{document.SealedSMTPPassword: "p", document.SealedTwilioToken: "t", document.SealedWebhookSecret: "w"}
	session, signIn := document.DefaultSession(), document.DefaultSignIn()
	minutes, noCode := session, signIn
	minutes.IdleTimeoutSeconds = 600
	noCode.EmailCode = false
	for _, tc := range []struct {
		name string
		spec v1alpha1.IdentityDeploymentSpec
		want document.Deployment
	}{
		{"empty settings", v1alpha1.IdentityDeploymentSpec{
			Session: &v1alpha1.SessionSettings{}, SignIn: &v1alpha1.SignInSettings{Password: &v1alpha1.PasswordSignIn{}, EmailCode: &v1alpha1.EmailCodeSignIn{}},
		}, document.Deployment{Session: &session, SignIn: &signIn}},
		{"some settings", v1alpha1.IdentityDeploymentSpec{
			AllowedOrigins: []v1alpha1.Origin{"https://a.example"}, Session: &v1alpha1.SessionSettings{IdleTimeoutSeconds: ptr.To[int32](600)},
			SignIn: &v1alpha1.SignInSettings{EmailCode: &v1alpha1.EmailCodeSignIn{Enabled: ptr.To(false)}},
		}, document.Deployment{AllowedOrigins: []string{"https://a.example"}, Session: &minutes, SignIn: &noCode}},
		{"all settings", v1alpha1.IdentityDeploymentSpec{
			Session: &v1alpha1.SessionSettings{IdleTimeoutSeconds: ptr.To[int32](60), LifetimeSeconds: ptr.To[int32](300), MaxSignIns: ptr.To[int32](1)},
			SignIn: &v1alpha1.SignInSettings{
				Password: &v1alpha1.PasswordSignIn{Enabled: ptr.To(false), MinLength: ptr.To[int32](8)}, EmailCode: &v1alpha1.EmailCodeSignIn{Enabled: ptr.To(true)},
			},
		}, document.Deployment{
			Session: &document.SessionSettings{IdleTimeoutSeconds: 60, LifetimeSeconds: 300, MaxSignIns: 1},
			SignIn:  &document.SignInSettings{PasswordMinLength: 8, EmailCode: true},
		}},
		{"connections only", v1alpha1.IdentityDeploymentSpec{SignIn: &v1alpha1.SignInSettings{
			Password: &v1alpha1.PasswordSignIn{Enabled: ptr.To(false)}, EmailCode: &v1alpha1.EmailCodeSignIn{Enabled: ptr.To(false)}, Connections: &v1alpha1.ConnectionSignIn{Only: ptr.To(true)},
		}}, document.Deployment{Session: &session, SignIn: &document.SignInSettings{PasswordMinLength: 15, ConnectionsOnly: true}}},
		{"connections only where codes sign users in too", v1alpha1.IdentityDeploymentSpec{SignIn: &v1alpha1.SignInSettings{
			Password: &v1alpha1.PasswordSignIn{Enabled: ptr.To(false)}, Connections: &v1alpha1.ConnectionSignIn{Only: ptr.To(true)},
		}}, document.Deployment{Session: &session, SignIn: &document.SignInSettings{PasswordMinLength: 15, EmailCode: true}}},
		{"connections that say nothing", v1alpha1.IdentityDeploymentSpec{SignIn: &v1alpha1.SignInSettings{Connections: &v1alpha1.ConnectionSignIn{}}},
			document.Deployment{Session: &session, SignIn: &signIn}},
		{"the level AAL1", v1alpha1.IdentityDeploymentSpec{Session: &v1alpha1.SessionSettings{Preset: ptr.To(v1alpha1.SessionPresetAAL1), RequireReauthenticationSeconds: ptr.To[int32](60)}},
			document.Deployment{Session: &document.SessionSettings{IdleTimeoutSeconds: 2592000, LifetimeSeconds: 2592000, MaxSignIns: 5, ReauthenticateSeconds: 60}, SignIn: &signIn}},
		{"the level AAL2", v1alpha1.IdentityDeploymentSpec{Session: &v1alpha1.SessionSettings{Preset: ptr.To(v1alpha1.SessionPresetAAL2)}},
			document.Deployment{Session: &document.SessionSettings{IdleTimeoutSeconds: 3600, LifetimeSeconds: 86400, MaxSignIns: 5}, SignIn: &signIn}},
		{"analytics that say nothing", v1alpha1.IdentityDeploymentSpec{Analytics: &v1alpha1.AnalyticsSettings{}}, document.Deployment{Session: &session, SignIn: &signIn}},
		{"addresses kept for a week", v1alpha1.IdentityDeploymentSpec{Analytics: &v1alpha1.AnalyticsSettings{AddressRetentionDays: ptr.To[int32](7)}},
			document.Deployment{Session: &session, SignIn: &signIn, AddressRetentionDays: 7}},
		{"connections of organizations that say nothing", v1alpha1.IdentityDeploymentSpec{Connections: &v1alpha1.OrganizationConnections{}},
			document.Deployment{Session: &session, SignIn: &signIn, Connections: &document.OrganizationConnections{Types: []string{"OIDC", "SAML"}, MaxPerOrganization: 5}}},
		{"all of connections of organizations", v1alpha1.IdentityDeploymentSpec{Connections: &v1alpha1.OrganizationConnections{
			SelfService: ptr.To(v1alpha1.ConnectionSelfServiceEnabled), Types: []v1alpha1.RuntimeConnectionType{v1alpha1.RuntimeConnectionOIDC}, MaxPerOrganization: ptr.To[int32](2), Directories: ptr.To(false),
		}}, document.Deployment{Session: &session, SignIn: &signIn, Connections: &document.OrganizationConnections{SelfService: true, Types: []string{"OIDC"}, MaxPerOrganization: 2, NoDirectories: true}}},
		{"pages that say nothing", v1alpha1.IdentityDeploymentSpec{Pages: &v1alpha1.PagesSettings{}}, document.Deployment{Session: &session, SignIn: &signIn, Pages: &document.Pages{}}},
		{"no pages", v1alpha1.IdentityDeploymentSpec{Pages: &v1alpha1.PagesSettings{Enabled: ptr.To(false), URL: ptr.To[v1alpha1.HTTPSURL]("https://acme.example/me/")}},
			document.Deployment{Session: &session, SignIn: &signIn, Pages: &document.Pages{Disabled: true, URL: "https://acme.example/me"}}},
		{"all of pages", v1alpha1.IdentityDeploymentSpec{Pages: &v1alpha1.PagesSettings{
			Enabled: ptr.To(true), URL: ptr.To[v1alpha1.HTTPSURL]("https://acme.example"), LogoURL: ptr.To[v1alpha1.HTTPSURL]("https://cdn.example/l.svg"),
			AccentColor: ptr.To[v1alpha1.AccentColor]("#1d4ed8"), SupportEmail: ptr.To[v1alpha1.MailAddress]("help@acme.example"),
			PrivacyURL: ptr.To[v1alpha1.HTTPSURL]("https://acme.example/p"), TermsURL: ptr.To[v1alpha1.HTTPSURL]("https://acme.example/t"),
		}}, document.Deployment{Session: &session, SignIn: &signIn, Pages: &document.Pages{
			URL: "https://acme.example", LogoURL: "https://cdn.example/l.svg", AccentColor: "#1d4ed8", SupportEmail: "help@acme.example",
			PrivacyURL: "https://acme.example/p", TermsURL: "https://acme.example/t",
		}}},
		{"the least mail", v1alpha1.IdentityDeploymentSpec{Email: &v1alpha1.EmailSettings{From: "a@b", SMTP: &v1alpha1.SMTPServer{Host: "mail"}}},
			document.Deployment{Session: &session, SignIn: &signIn, Email: &document.Email{
				From: "a@b", FromName: "Acme", SMTP: &document.SMTP{Host: "mail", Port: 587, Security: "StartTLS", SealedPassword: "p"},
			}}},
		{"all of mail", v1alpha1.IdentityDeploymentSpec{Email: &v1alpha1.EmailSettings{
			From: "a@b", FromName: ptr.To[v1alpha1.DisplayName](" Us "),
			SMTP: &v1alpha1.SMTPServer{Host: "mail", Port: ptr.To[int32](465), Security: ptr.To(v1alpha1.SMTPSecurityTLS), Username: ptr.To("u"), PasswordSecretRef: &ref},
		}}, document.Deployment{Session: &session, SignIn: &signIn, Email: &document.Email{
			From: "a@b", FromName: "Us", SMTP: &document.SMTP{Host: "mail", Port: 465, Security: "TLS", Username: "u", SealedPassword: "p"},
		}}},
		{"mail to the log", v1alpha1.IdentityDeploymentSpec{Email: &v1alpha1.EmailSettings{From: "a@b", Log: &v1alpha1.MessageLog{}}},
			document.Deployment{Session: &session, SignIn: &signIn, Email: &document.Email{From: "a@b", FromName: "Acme", Log: true}}},
		{"Twilio", v1alpha1.IdentityDeploymentSpec{SMS: &v1alpha1.SMSSettings{
			Provider: v1alpha1.SMSProviderTwilio, Twilio: &v1alpha1.TwilioAccount{AccountSID: "AC", AuthTokenSecretRef: ref, From: ptr.To("+1")},
		}}, document.Deployment{Session: &session, SignIn: &signIn, SMS: &document.SMS{
			Provider: "Twilio", DailyBudget: 1000, Twilio: &document.Twilio{AccountSID: "AC", SealedAuthToken: "t", From: "+1", BaseURL: "https://api.twilio.com"},
		}}},
		{"Twilio elsewhere, in no country", v1alpha1.IdentityDeploymentSpec{SMS: &v1alpha1.SMSSettings{
			Provider: v1alpha1.SMSProviderTwilio, AllowedCountries: &[]v1alpha1.CountryCode{}, DailyBudget: ptr.To[int32](0),
			Twilio: &v1alpha1.TwilioAccount{AccountSID: "AC", AuthTokenSecretRef: ref, MessagingServiceSID: ptr.To("MG"), BaseURL: ptr.To("https://proxy/twilio/")},
		}}, document.Deployment{Session: &session, SignIn: &signIn, SMS: &document.SMS{
			Provider: "Twilio", AllowedCountries: &[]string{}, Twilio: &document.Twilio{AccountSID: "AC", SealedAuthToken: "t", MessagingServiceSID: "MG", BaseURL: "https://proxy/twilio"},
		}}},
		{"a webhook, in two countries", v1alpha1.IdentityDeploymentSpec{SMS: &v1alpha1.SMSSettings{
			Provider: v1alpha1.SMSProviderWebhook, AllowedCountries: &[]v1alpha1.CountryCode{"US", "DE"}, DailyBudget: ptr.To[int32](7),
			Webhook: &v1alpha1.SMSWebhook{URL: "https://hook/?a", SigningSecretRef: ref},
		}}, document.Deployment{Session: &session, SignIn: &signIn, SMS: &document.SMS{
			Provider: "Webhook", AllowedCountries: &[]string{"US", "DE"}, DailyBudget: 7, Webhook: &document.Webhook{URL: "https://hook/?a", SealedSigningSecret: "w"},
		}}},
		{"messages to the log", v1alpha1.IdentityDeploymentSpec{SMS: &v1alpha1.SMSSettings{Provider: v1alpha1.SMSProviderLog}},
			document.Deployment{Session: &session, SignIn: &signIn, SMS: &document.SMS{Provider: "Log", DailyBudget: 1000}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spec.DisplayName = ptr.To[v1alpha1.DisplayName]("Acme")
			tc.want.DisplayName, tc.want.Mode, tc.want.FieldConflicts, tc.want.ManagementWrites = "Acme", "Production", "Reject", "Enabled"
			tc.want.Assurance = &document.Assurance{Passkey: true, TOTP: true, TOTPIssuer: "Acme"}
			got := Deployment(&v1alpha1.IdentityDeployment{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: tc.spec}, Keys{Sealed: sealed})
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
