package translation

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// spring is a time as clients may declare it, and as documents have it.
var (
	spring    = metav1.NewTime(time.Date(2027, time.March, 1, 1, 0, 0, 0, time.FixedZone("CET", 3600)))
	springUTC = time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
)

func TestStrongAuthenticationOfADeployment(t *testing.T) {
	for name, tc := range map[string]struct {
		spec v1alpha1.IdentityDeploymentSpec
		want document.Assurance
	}{
		"nothing declared": {v1alpha1.IdentityDeploymentSpec{}, document.Assurance{Passkey: true, TOTP: true, TOTPIssuer: "acme"}},
		"empty settings": {v1alpha1.IdentityDeploymentSpec{
			SignIn:       &v1alpha1.SignInSettings{Passkey: &v1alpha1.PasskeySettings{}},
			SecondFactor: &v1alpha1.SecondFactorSettings{TOTP: &v1alpha1.TOTPSettings{}, SMS: &v1alpha1.SMSFactorSettings{}},
			Assurance:    &v1alpha1.DeploymentAssurance{},
		}, document.Assurance{Passkey: true, TOTP: true, TOTPIssuer: "acme"}},
		"everything": {v1alpha1.IdentityDeploymentSpec{
			DisplayName: ptr.To[v1alpha1.DisplayName]("Acme: Identity"), FrontendHosts: []v1alpha1.Hostname{"login.acme.example"},
			SignIn: &v1alpha1.SignInSettings{Passkey: &v1alpha1.PasskeySettings{Enabled: ptr.To(true), RelyingPartyID: ptr.To[v1alpha1.Hostname]("acme.example")}},
			SecondFactor: &v1alpha1.SecondFactorSettings{
				TOTP: &v1alpha1.TOTPSettings{Enabled: ptr.To(true), Issuer: ptr.To[v1alpha1.TOTPIssuer](" Acme Ltd. ")}, SMS: &v1alpha1.SMSFactorSettings{Enabled: ptr.To(true)},
			},
			Assurance: &v1alpha1.DeploymentAssurance{Required: ptr.To(v1alpha1.AssuranceTwoFactors), EnforceFrom: &spring, GracePeriodSeconds: ptr.To[int32](604800)},
		}, document.Assurance{
			Required: &document.Requirement{Level: "two_factors", From: &springUTC}, GraceSeconds: 604800,
			Passkey: true, TOTP: true, SMS: true, RelyingParty: "acme.example", TOTPIssuer: "Acme Ltd.",
		}},
		"everything off": {v1alpha1.IdentityDeploymentSpec{
			FrontendHosts: []v1alpha1.Hostname{"acme.example", "www.acme.example"},
			SignIn:        &v1alpha1.SignInSettings{Passkey: &v1alpha1.PasskeySettings{Enabled: ptr.To(false)}},
			SecondFactor:  &v1alpha1.SecondFactorSettings{TOTP: &v1alpha1.TOTPSettings{Enabled: ptr.To(false)}, SMS: &v1alpha1.SMSFactorSettings{Enabled: ptr.To(false)}},
			Assurance:     &v1alpha1.DeploymentAssurance{Required: ptr.To(v1alpha1.AssuranceOneFactor)},
		}, document.Assurance{RelyingParty: "acme.example", TOTPIssuer: "acme"}},
		"required at once": {v1alpha1.IdentityDeploymentSpec{Assurance: &v1alpha1.DeploymentAssurance{Required: ptr.To(v1alpha1.AssurancePhishingResistant)}},
			document.Assurance{Required: &document.Requirement{Level: "phishing_resistant"}, Passkey: true, TOTP: true, TOTPIssuer: "acme"}},
		"a displayName with colons":  {v1alpha1.IdentityDeploymentSpec{DisplayName: ptr.To[v1alpha1.DisplayName]("Acme: Identity")}, document.Assurance{Passkey: true, TOTP: true, TOTPIssuer: "Acme Identity"}},
		"a displayName of colons":    {v1alpha1.IdentityDeploymentSpec{DisplayName: ptr.To[v1alpha1.DisplayName](": :")}, document.Assurance{Passkey: true, TOTP: true, TOTPIssuer: "acme"}},
		"a displayName with accents": {v1alpha1.IdentityDeploymentSpec{DisplayName: ptr.To[v1alpha1.DisplayName]("Café")}, document.Assurance{Passkey: true, TOTP: true, TOTPIssuer: "Café"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Deployment(&v1alpha1.IdentityDeployment{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: tc.spec}, Keys{}).Assurance
			if !reflect.DeepEqual(got, &tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestRequiredLevelsOfMembersAndClients(t *testing.T) {
	level := func(name string) *document.Requirement { return &document.Requirement{Level: name} }
	for name, tc := range map[string]struct {
		declared *v1alpha1.MemberAssurance
		want     *document.Requirement
	}{
		"nothing":         {nil, nil},
		"empty":           {&v1alpha1.MemberAssurance{}, nil},
		"one factor":      {&v1alpha1.MemberAssurance{Required: ptr.To(v1alpha1.AssuranceOneFactor)}, nil},
		"two factors":     {&v1alpha1.MemberAssurance{Required: ptr.To(v1alpha1.AssuranceTwoFactors)}, level("two_factors")},
		"a passkey later": {&v1alpha1.MemberAssurance{Required: ptr.To(v1alpha1.AssurancePhishingResistant), EnforceFrom: &spring}, &document.Requirement{Level: "phishing_resistant", From: &springUTC}},
	} {
		if got := MembershipRole(&v1alpha1.MembershipRole{Spec: v1alpha1.MembershipRoleSpec{Assurance: tc.declared}}).Assurance; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("role, %s: got %+v, want %+v", name, got, tc.want)
		}
		if got := B2BSettings(&v1alpha1.B2BSettings{Spec: v1alpha1.B2BSettingsSpec{OwnerAssurance: tc.declared}}).OwnerAssurance; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("owners, %s: got %+v, want %+v", name, got, tc.want)
		}
	}
	for name, tc := range map[string]struct {
		declared *v1alpha1.ClientAssurance
		want     *document.ClientAssurance
	}{
		"nothing":            {nil, nil},
		"empty":              {&v1alpha1.ClientAssurance{}, nil},
		"one factor":         {&v1alpha1.ClientAssurance{Required: ptr.To(v1alpha1.AssuranceOneFactor)}, nil},
		"a new proof":        {&v1alpha1.ClientAssurance{MaxAgeSeconds: ptr.To[int32](0)}, &document.ClientAssurance{Level: "one_factor", MaxAgeSeconds: ptr.To[int64](0)}},
		"two factors hourly": {&v1alpha1.ClientAssurance{Required: ptr.To(v1alpha1.AssuranceTwoFactors), MaxAgeSeconds: ptr.To[int32](3600)}, &document.ClientAssurance{Level: "two_factors", MaxAgeSeconds: ptr.To[int64](3600)}},
		"a passkey":          {&v1alpha1.ClientAssurance{Required: ptr.To(v1alpha1.AssurancePhishingResistant)}, &document.ClientAssurance{Level: "phishing_resistant"}},
	} {
		if got := OAuthClient(&v1alpha1.OAuthClient{Spec: v1alpha1.OAuthClientSpec{Assurance: tc.declared}}, nil, nil).Assurance; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("client, %s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestOrganizationsMayRequireUnlessDisabled(t *testing.T) {
	for declared, off := range map[v1alpha1.OrganizationAssurance]bool{"": false, v1alpha1.OrganizationAssuranceOwnersMayRequire: false, v1alpha1.OrganizationAssuranceDisabled: true} {
		b := &v1alpha1.B2BSettings{}
		if declared != "" {
			b.Spec.OrganizationAssurance = &declared
		}
		if got := B2BSettings(b).OrganizationAssuranceOff; got != off {
			t.Errorf("%q: got %t", declared, got)
		}
	}
}
