package oauthapp

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/translation"
)

// TestAChangeOfTheIssuerIsToldForAMinute: until then the old issuer stays active. Users are asked for consent at the
// old host as long as it is a host of the deployment.
func TestAChangeOfTheIssuerIsToldForAMinute(t *testing.T) {
	now := time.Unix(1700000000, 0)
	before := document.OAuthApp{Slug: "portal", Issuer: "https://a.example/oauth/portal", FrontendURL: "https://a.example"}
	for _, tt := range []struct {
		what, fqdn, issuer, frontend string
		hosts                        []v1alpha1.Hostname
		told                         bool
	}{
		{what: "nothing changed", hosts: []v1alpha1.Hostname{"a.example"}, issuer: before.Issuer, frontend: "https://a.example"},
		{what: "a host of its own", fqdn: "id.example", hosts: []v1alpha1.Hostname{"a.example"}, issuer: before.Issuer, frontend: "https://a.example", told: true},
		{what: "another first host", hosts: []v1alpha1.Hostname{"b.example", "a.example"}, issuer: before.Issuer, frontend: "https://a.example", told: true},
		{what: "the host was left", hosts: []v1alpha1.Hostname{"b.example"}, issuer: before.Issuer, frontend: "https://b.example", told: true},
		{what: "no host is left", issuer: before.Issuer, told: true},
	} {
		deployment := &v1alpha1.IdentityDeployment{Spec: v1alpha1.IdentityDeploymentSpec{FrontendHosts: tt.hosts}}
		app := &v1alpha1.OAuthApp{Spec: v1alpha1.OAuthAppSpec{Slug: "portal"}}
		if tt.fqdn != "" {
			fqdn := v1alpha1.Hostname(tt.fqdn)
			app.Spec.FQDN = &fqdn
		}
		stored, err := document.Encode(document.Meta{}, before)
		if err != nil {
			t.Fatal(err)
		}
		opts := Options{Clock: func() time.Time { return now }}
		decide := func() (document.OAuthApp, engine.Prepared, time.Duration) {
			var prepared engine.Prepared
			content := translation.OAuthApp(app, opts.Local.URL(deployment), nil)
			wait := opts.announce(engine.Preparation[*v1alpha1.OAuthApp]{Object: app, Refs: engine.ResolvedRefs{"spec.deploymentRef": deployment}, Stored: stored}, &content, &prepared)
			return content, prepared, wait
		}
		content, prepared, wait := decide()
		if content.Issuer != tt.issuer || content.FrontendURL != tt.frontend || (len(prepared.Conditions) > 0) != tt.told || (wait > 0) != tt.told {
			t.Errorf("%s: %+v, %v, wait %s", tt.what, content, prepared.Conditions, wait)
		}
		if !tt.told {
			continue
		}
		prepared.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-issuerChangesAfter))
		app.Status.Conditions = prepared.Conditions
		if content, prepared, wait = decide(); content.Issuer == before.Issuer || wait != 0 || len(prepared.Conditions) > 0 {
			t.Errorf("%s, a minute later: %+v, wait %s", tt.what, content, wait)
		}
	}
}
