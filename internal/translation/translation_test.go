package translation

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
)

func TestAbsentFieldsHaveTheirDocumentedMeaning(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "resource"}
	for _, tc := range []struct {
		name      string
		got, want any
	}{
		{"deployment", Deployment(&v1alpha1.IdentityDeployment{ObjectMeta: meta}, Keys{}),
			document.Deployment{
				DisplayName: "resource", Mode: "Production", FieldConflicts: "Reject", ManagementWrites: "Enabled",
				Session: ptr.To(document.DefaultSession()), SignIn: ptr.To(document.DefaultSignIn()),
				Assurance: &document.Assurance{Passkey: true, TOTP: true, TOTPIssuer: "resource"},
			}},
		{"scheme", RateLimitScheme(&v1alpha1.RateLimitScheme{ObjectMeta: meta, Spec: v1alpha1.RateLimitSchemeSpec{Slug: "free"}}),
			document.RateLimitScheme{Slug: "free", Name: "free", Rules: []scheme.Rule{}}},
		{"app", APIAuthApp(&v1alpha1.APIAuthApp{ObjectMeta: meta, Spec: v1alpha1.APIAuthAppSpec{Slug: "backend"}}),
			document.APIAuthApp{Slug: "backend", Name: "backend", Active: true}},
		{"key", APIKey(&v1alpha1.APIKey{ObjectMeta: meta, Spec: v1alpha1.APIKeySpec{AppRef: v1alpha1.APIAuthAppReference{Name: "backend"}}}, nil),
			document.APIKey{App: "backend", Name: "resource"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !reflect.DeepEqual(tc.got, tc.want) {
				t.Errorf("got %+v, want %+v", tc.got, tc.want)
			}
		})
	}
}

func TestDeclaredFields(t *testing.T) {
	name, description := ptr.To(v1alpha1.DisplayName("  Name\u00a0")), ptr.To(v1alpha1.Description(" two\nlines\n"))
	ref := &v1alpha1.RateLimitSchemeReference{Name: "free"}
	verifiers := []document.Verifier{{ID: "abc"}}
	for _, tc := range []struct {
		name      string
		got, want any
	}{
		{"deployment", Deployment(&v1alpha1.IdentityDeployment{Spec: v1alpha1.IdentityDeploymentSpec{
			DisplayName: name, Mode: ptr.To(v1alpha1.DeploymentModeStaging), FrontendHosts: []v1alpha1.Hostname{"localhost"}, DefaultRateLimitSchemeRef: ref,
			Management: &v1alpha1.ManagementPolicy{FieldConflicts: ptr.To(v1alpha1.FieldConflictsOverride), Writes: ptr.To(v1alpha1.ManagementWritesDisabled)},
		}}, Keys{}), document.Deployment{
			DisplayName: "Name", Mode: "Staging", FrontendHosts: []string{"localhost"}, DefaultScheme: "free", FieldConflicts: "Override", ManagementWrites: "Disabled",
			Session: ptr.To(document.DefaultSession()), SignIn: ptr.To(document.DefaultSignIn()),
			Assurance: &document.Assurance{Passkey: true, TOTP: true, RelyingParty: "localhost", TOTPIssuer: "Name"},
		}},
		{"scheme", RateLimitScheme(&v1alpha1.RateLimitScheme{Spec: v1alpha1.RateLimitSchemeSpec{Slug: "free", DisplayName: name, Description: description}}),
			document.RateLimitScheme{Slug: "free", Name: "Name", Description: ptr.To("two\nlines"), Rules: []scheme.Rule{}}},
		{"app", APIAuthApp(&v1alpha1.APIAuthApp{Spec: v1alpha1.APIAuthAppSpec{
			Slug: "backend", DisplayName: name, Description: description, Permissions: []v1alpha1.Permission{"*"}, Active: ptr.To(false), RateLimitSchemeRef: ref,
		}}), document.APIAuthApp{Slug: "backend", Name: "Name", Description: ptr.To("two\nlines"), Permissions: []string{"*"}, Scheme: "free"}},
		{"key", APIKey(&v1alpha1.APIKey{Spec: v1alpha1.APIKeySpec{
			AppRef: v1alpha1.APIAuthAppReference{Name: "backend"}, DisplayName: name, Permissions: []v1alpha1.Permission{"a:b"}, AllowedCIDRs: []v1alpha1.CIDR{"10.0.0.0/8"}, RateLimitSchemeRef: ref,
		}}, verifiers), document.APIKey{
			App: "backend", Name: "Name", Permissions: []string{"a:b"}, AllowedCIDRs: []string{"10.0.0.0/8"}, Scheme: "free", Verifiers: verifiers,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !reflect.DeepEqual(tc.got, tc.want) {
				t.Errorf("got %+v, want %+v", tc.got, tc.want)
			}
		})
	}
}

func TestRulesAreStoredAsSent(t *testing.T) {
	for _, rules := range [][]scheme.Rule{
		{},
		{{Unit: "minute", Duration: 1, MaxRequests: 60}},
		{{Unit: "millisecond", Duration: 60000, MaxRequests: scheme.MaxRequests, Mode: "per_ip", Endpoints: []string{"*", "POST /v1/*"}, Priority: ptr.To[int64](-1 << 31)}},
		{{Unit: "day", Duration: 30, MaxRequests: 1, Priority: ptr.To[int64](0)}, {Unit: "month", Duration: 1, MaxRequests: 1, Priority: ptr.To[int64](1<<31 - 1)}},
	} {
		if got := Rules(DeclareRules(rules)); !reflect.DeepEqual(got, rules) {
			t.Errorf("got %+v, want %+v", got, rules)
		}
	}
}

func TestSelfServiceIsServedWhereItIsEnabled(t *testing.T) {
	for name, c := range map[string]struct {
		declared *v1alpha1.KeySelfService
		want     *document.KeySelfService
	}{
		"absent":   {nil, nil},
		"disabled": {&v1alpha1.KeySelfService{MaxKeysPerUser: ptr.To(int32(3))}, nil},
		"defaults": {&v1alpha1.KeySelfService{Enabled: ptr.To(true)}, &document.KeySelfService{MaxKeysPerUser: 10}},
		"whole": {
			&v1alpha1.KeySelfService{Enabled: ptr.To(true), MaxKeysPerUser: ptr.To(int32(3)), Permissions: []v1alpha1.Permission{"orders:read"}},
			&document.KeySelfService{MaxKeysPerUser: 3, Permissions: []string{"orders:read"}},
		},
	} {
		app := &v1alpha1.APIAuthApp{Spec: v1alpha1.APIAuthAppSpec{Slug: "shop", KeyPrefix: ptr.To(v1alpha1.KeyPrefix("shop")), SelfService: c.declared}}
		got := APIAuthApp(app)
		if !reflect.DeepEqual(got.SelfService, c.want) || got.KeyPrefix != "shop" {
			t.Errorf("%s: %+v, want %+v", name, got.SelfService, c.want)
		}
	}
}
