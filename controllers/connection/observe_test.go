package connection

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store/people"
)

func TestConditionsFromTheRowsOfAConnection(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 1, 12, 0, 0, 5000, time.UTC)
	good := func(kind string) people.UpstreamDocument {
		return people.UpstreamDocument{Kind: kind, Body: "https://idp.example\n{}", SHA256: "hash of " + kind, FetchedAt: at}
	}
	failed := func(d people.UpstreamDocument, text string) people.UpstreamDocument {
		d.Error = text
		return d
	}
	discovery, keys := good(people.UpstreamDiscovery), good(people.UpstreamJWKS)
	first := people.UpstreamDocument{Kind: people.UpstreamDiscovery}
	endpoints := &v1alpha1.OIDCProvider{Endpoints: &v1alpha1.OIDCEndpoints{}}
	for name, row := range map[string]struct {
		kind         v1alpha1.ConnectionType
		oidc         *v1alpha1.OIDCProvider
		organization string
		o            observed
		want         []string
		fetched      bool
	}{
		"no row":           {kind: "Google", want: []string{"Reachable=Unknown/Pending"}},
		"both documents":   {kind: "Google", o: observed{discovery: discovery, keys: keys}, want: []string{"Reachable=True/Fetched"}, fetched: true},
		"no keys yet":      {kind: "Google", o: observed{discovery: discovery}, want: []string{"Reachable=Unknown/Pending"}},
		"no answer":        {kind: "OIDC", o: observed{discovery: failed(first, "Unreachable: idp.example: connection refused")}, want: []string{"Reachable=False/Unreachable discovery: idp.example: connection refused"}},
		"a private host":   {kind: "OIDC", o: observed{discovery: failed(discovery, "Refused: 10.0.0.1"), keys: keys}, want: []string{"Reachable=False/Refused discovery: 10.0.0.1"}, fetched: true},
		"a broken key set": {kind: "OIDC", o: observed{discovery: discovery, keys: failed(keys, "InvalidMetadata: not JSON")}, want: []string{"Reachable=False/InvalidMetadata jwks: not JSON"}, fetched: true},
		"another issuer":   {kind: "OIDC", o: observed{discovery: failed(first, "IssuerMismatch: it states x: y")}, want: []string{"Reachable=False/IssuerMismatch discovery: it states x: y"}},
		"a reason of newer servers": {kind: "OIDC", o: observed{discovery: failed(first, "Strange: text")},
			want: []string{"Reachable=False/Unreachable discovery: Strange: text"}},
		"declared endpoints": {kind: "OIDC", oidc: endpoints, o: observed{discovery: failed(first, "Unreachable: former issuer"), keys: keys},
			want: []string{"Reachable=True/Fetched"}, fetched: true},
		"GitHub":          {kind: "GitHub"},
		"an organization": {kind: "GitHub", organization: "globex", o: observed{organization: true}},
		"an organization that does not exist": {kind: "GitHub", organization: "globex",
			want: []string{`ReferencesResolved=False/OrganizationNotFound spec.organization.slug: no organization of the deployment has the slug "globex"; the connection counts from its creation on`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{Type: row.kind, OIDC: row.oidc}}
			if row.organization != "" {
				c.Spec.Organization = &v1alpha1.ConnectionOrganization{Slug: row.organization}
			}
			conditions, upstream := conclude(c, row.o, at)
			if diff := cmp.Diff(row.want, shown(conditions)); diff != "" {
				t.Error(diff)
			}
			var want *v1alpha1.ConnectionUpstream
			if row.fetched {
				want = &v1alpha1.ConnectionUpstream{FetchedAt: "2026-03-01T12:00:00Z", SHA256: "hash of jwks"}
			}
			if diff := cmp.Diff(want, upstream); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// shown returns conditions as texts, with the messages of those that are False.
func shown(conditions []metav1.Condition) (texts []string) {
	for _, c := range conditions {
		text := c.Type + "=" + string(c.Status) + "/" + c.Reason
		if c.Status == metav1.ConditionFalse {
			text += " " + c.Message
		}
		texts = append(texts, text)
	}
	return texts
}

// unreadable are rows of a store that does not answer.
type unreadable struct{}

func (unreadable) View(context.Context, string, func(people.Tx) error) error {
	return errors.New("down")
}

func TestConditionsStayWhileTheStoreIsUnreadable(t *testing.T) {
	t.Parallel()
	c := &v1alpha1.Connection{}
	c.Status.Upstream = &v1alpha1.ConnectionUpstream{FetchedAt: "2026-03-01T12:00:00Z", SHA256: "x"}
	c.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReachable, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRefused, Message: "m"},
		{Type: v1alpha1.ConditionCertificateExpiring, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonExpiring, Message: "e"},
		{Type: v1alpha1.ConditionMetadataChanged, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonChanged, Message: "c"},
		{Type: v1alpha1.ConditionReferencesResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonOrganizationNotFound, Message: "n"},
	}
	before := c.DeepCopy()
	got := Options{Rows: unreadable{}}.observe(t.Context(), c, 1)
	if diff := cmp.Diff(before.Status.Conditions, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, c); diff != "" {
		t.Errorf("the status changed: %s", diff)
	}
	c.Status.Conditions[3].Reason = v1alpha1.ReasonNotFound
	if got := (Options{Rows: unreadable{}}).observe(t.Context(), c, 1); len(got) != 3 {
		t.Errorf("the engine's own condition was kept: %v", got)
	}
}
