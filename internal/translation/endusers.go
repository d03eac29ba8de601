package translation

import (
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// Defaults of absent fields.
const (
	absentSMTPPort      = 587
	absentTwilioBaseURL = "https://api.twilio.com"
	absentDailyBudget   = 1000
)

func session(declared *v1alpha1.SessionSettings) *document.SessionSettings {
	content := document.DefaultSession()
	if declared != nil {
		content.IdleTimeoutSeconds = int64(ptr.Deref(declared.IdleTimeoutSeconds, int32(content.IdleTimeoutSeconds)))
		content.LifetimeSeconds = int64(ptr.Deref(declared.LifetimeSeconds, int32(content.LifetimeSeconds)))
		switch ptr.Deref(declared.Preset, "") {
		case v1alpha1.SessionPresetAAL1:
			content.IdleTimeoutSeconds, content.LifetimeSeconds = 30*24*60*60, 30*24*60*60
		case v1alpha1.SessionPresetAAL2:
			content.IdleTimeoutSeconds, content.LifetimeSeconds = 60*60, 24*60*60
		}
		content.ReauthenticateSeconds = int64(ptr.Deref(declared.RequireReauthenticationSeconds, 0))
		content.MaxSignIns = int(ptr.Deref(declared.MaxSignIns, int32(content.MaxSignIns)))
	}
	return &content
}

// addressRetentionDays is 0 if nothing is declared, so that documents of earlier versions do not change.
func addressRetentionDays(declared *v1alpha1.AnalyticsSettings) int {
	if declared == nil {
		return 0
	}
	return int(ptr.Deref(declared.AddressRetentionDays, 0))
}

func signIn(declared *v1alpha1.SignInSettings) *document.SignInSettings {
	content := document.DefaultSignIn()
	if declared != nil && declared.Password != nil {
		content.Password = ptr.Deref(declared.Password.Enabled, content.Password)
		content.PasswordMinLength = int(ptr.Deref(declared.Password.MinLength, int32(content.PasswordMinLength)))
	}
	if declared != nil && declared.EmailCode != nil {
		content.EmailCode = ptr.Deref(declared.EmailCode.Enabled, content.EmailCode)
	}
	if declared != nil && declared.Connections != nil {
		content.ConnectionsOnly = ptr.Deref(declared.Connections.Only, false) && !content.Password && !content.EmailCode
	}
	return &content
}

// connections is nil if nothing is declared, so that documents of earlier versions do not change.
func connections(declared *v1alpha1.OrganizationConnections) *document.OrganizationConnections {
	if declared == nil {
		return nil
	}
	content := document.DefaultConnections()
	content.SelfService = ptr.Deref(declared.SelfService, v1alpha1.ConnectionSelfServiceDisabled) == v1alpha1.ConnectionSelfServiceEnabled
	content.MaxPerOrganization = int(ptr.Deref(declared.MaxPerOrganization, int32(content.MaxPerOrganization)))
	content.NoDirectories = !ptr.Deref(declared.Directories, true)
	if declared.Types != nil {
		content.Types = words(declared.Types)
	}
	return &content
}

func email(d *v1alpha1.IdentityDeployment, sealed map[string]string) *document.Email {
	declared := d.Spec.Email
	if declared == nil {
		return nil
	}
	content := &document.Email{
		From: string(declared.From), FromName: named(declared.FromName, named(d.Spec.DisplayName, d.Name)), Log: declared.Log != nil,
	}
	if smtp := declared.SMTP; smtp != nil {
		content.SMTP = &document.SMTP{
			Host: string(smtp.Host), Port: int(ptr.Deref(smtp.Port, absentSMTPPort)),
			Security: string(ptr.Deref(smtp.Security, v1alpha1.SMTPSecurityStartTLS)),
			Username: ptr.Deref(smtp.Username, ""), SealedPassword: sealed[document.SealedSMTPPassword],
		}
	}
	return content
}

func sms(declared *v1alpha1.SMSSettings, sealed map[string]string) *document.SMS {
	if declared == nil {
		return nil
	}
	content := &document.SMS{Provider: string(declared.Provider), DailyBudget: int64(ptr.Deref(declared.DailyBudget, absentDailyBudget))}
	for _, test := range declared.TestNumbers {
		content.TestNumbers = append(content.TestNumbers, document.TestNumber{Number: test.Number, Code: test.Code})
	}
	if twilio := declared.Twilio; twilio != nil {
		content.Twilio = &document.Twilio{
			AccountSID: twilio.AccountSID, SealedAuthToken: sealed[document.SealedTwilioToken],
			From: ptr.Deref(twilio.From, ""), MessagingServiceSID: ptr.Deref(twilio.MessagingServiceSID, ""),
			BaseURL: strings.TrimRight(ptr.Deref(twilio.BaseURL, absentTwilioBaseURL), "/"),
		}
	}
	if webhook := declared.Webhook; webhook != nil {
		content.Webhook = &document.Webhook{URL: webhook.URL, SealedSigningSecret: sealed[document.SealedWebhookSecret]}
	}
	if declared.AllowedCountries != nil {
		countries := make([]string, len(*declared.AllowedCountries))
		for i, country := range *declared.AllowedCountries {
			countries[i] = string(country)
		}
		content.AllowedCountries = &countries
	}
	return content
}

// pages is nil if nothing is declared, so that documents of earlier versions do not change.
func pages(declared *v1alpha1.PagesSettings) *document.Pages {
	if declared == nil {
		return nil
	}
	return &document.Pages{
		Disabled:     !ptr.Deref(declared.Enabled, true),
		URL:          strings.TrimRight(word(declared.URL), "/"),
		LogoURL:      word(declared.LogoURL),
		AccentColor:  word(declared.AccentColor),
		SupportEmail: word(declared.SupportEmail),
		PrivacyURL:   word(declared.PrivacyURL),
		TermsURL:     word(declared.TermsURL),
	}
}

// word is "" where nothing is declared.
func word[S ~string](declared *S) string { return string(ptr.Deref(declared, "")) }
