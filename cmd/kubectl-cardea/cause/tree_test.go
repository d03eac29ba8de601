package cause

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// world is a cluster in memory. It maps kind/name to an object, or to the error that reading the object returns.
type world map[string]any

func (w world) Resource(_ context.Context, kind, _, name string) (v1alpha1.Resource, error) {
	switch found := w[kind+"/"+name].(type) {
	case v1alpha1.Resource:
		return found, nil
	case error:
		return nil, found
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

func (w world) Metadata(_ context.Context, kind, _, name string) (*metav1.PartialObjectMetadata, error) {
	switch found := w[kind+"/"+name].(type) {
	case *metav1.PartialObjectMetadata:
		return found, nil
	case error:
		return nil, found
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

// in sets a resource's name and its conditions, written as Type=Status/Reason. Without conditions, the resource is
// Ready.
func in[R v1alpha1.Resource](obj R, name string, conditions ...string) R {
	obj.SetNamespace("acme")
	obj.SetName(name)
	if len(conditions) == 0 {
		conditions = []string{"Ready=True/Ready"}
	}
	for _, text := range conditions {
		kind, rest, _ := strings.Cut(text, "=")
		status, reason, _ := strings.Cut(rest, "/")
		obj.CommonStatus().Conditions = append(obj.CommonStatus().Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "in the operator's words",
		})
	}
	return obj
}

func key(app, name string, conditions ...string) *v1alpha1.APIKey {
	k := in(&v1alpha1.APIKey{}, name, conditions...)
	k.Spec.AppRef.Name = app
	return k
}

func app(deployment, name string, conditions ...string) *v1alpha1.APIAuthApp {
	a := in(&v1alpha1.APIAuthApp{}, name, conditions...)
	a.Spec.DeploymentRef.Name = deployment
	return a
}

// mailing is a deployment that names a Secret.
func mailing(name string, conditions ...string) *v1alpha1.IdentityDeployment {
	d := in(&v1alpha1.IdentityDeployment{}, name, conditions...)
	d.Spec.Email = &v1alpha1.EmailSettings{SMTP: &v1alpha1.SMTPServer{PasswordSecretRef: &v1alpha1.SecretKeyReference{Name: "mail", Key: "password"}}}
	return d
}

// tool is a tool with a header from a Secret.
func tool(deployment, name string, conditions ...string) *v1alpha1.AITool {
	t := in(&v1alpha1.AITool{}, name, conditions...)
	t.Spec.DeploymentRef.Name = deployment
	t.Spec.Headers = []v1alpha1.ToolHeader{{Name: "X-Api-Token", ValueFrom: &v1alpha1.HeaderValueSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "token", Key: "token"}}}}
	return t
}

// upstream is a connection whose client secret is in a Secret.
func upstream(deployment, name string, conditions ...string) *v1alpha1.Connection {
	c := in(&v1alpha1.Connection{}, name, conditions...)
	c.Spec.DeploymentRef.Name = deployment
	c.Spec.Client.ClientSecretRef = &v1alpha1.SecretKeyReference{Name: "globex", Key: "client-secret"}
	c.Status.RedirectURIs, c.Status.BackchannelLogoutURL = []string{"https://id.acme.example/sso/7/callback"}, "https://id.acme.example/sso/7/backchannel-logout"
	return c
}

// samlUpstream is a connection of type SAML whose metadata is in a ConfigMap.
func samlUpstream(deployment, name string, conditions ...string) *v1alpha1.Connection {
	c := in(&v1alpha1.Connection{}, name, conditions...)
	c.Spec.DeploymentRef.Name, c.Spec.Type = deployment, v1alpha1.ConnectionTypeSAML
	c.Spec.SAML = &v1alpha1.SAMLProvider{MetadataConfigMapRef: &v1alpha1.ConfigMapKeyReference{Name: "globex-metadata", Key: "metadata.xml"}}
	c.Status.EntityID, c.Status.MetadataURL = "https://id.acme.example/sso/7/metadata", "https://id.acme.example/sso/7/metadata"
	c.Status.ACSURLs = []string{"https://id.acme.example/sso/7/acs"}
	c.Status.Upstream = &v1alpha1.ConnectionUpstream{CertificateExpiresAt: "2030-01-01T00:00:00Z"}
	return c
}

// directory is a directory whose token is in a Secret of its user.
func directory(deployment, name string, conditions ...string) *v1alpha1.Directory {
	d := in(&v1alpha1.Directory{}, name, conditions...)
	d.Spec.DeploymentRef.Name = deployment
	d.Spec.ConnectionRef = &v1alpha1.ConnectionReference{Name: "globex"}
	d.Spec.ExistingSecretRef = &v1alpha1.ExistingTokenReference{Name: "globex-scim"}
	d.Status.URL, d.Status.SecretName = "https://id.acme.example/scim/v2/7", "globex-scim"
	return d
}

var notShared = "CredentialsReady=False/SecretNotShared"

// sketch writes a tree as nested kind/name:State[reasons](children).
func sketch(n *Node) string {
	var reasons, children []string
	for _, f := range n.Findings {
		reasons = append(reasons, f.Reason)
	}
	for _, child := range n.DependsOn {
		children = append(children, sketch(child))
	}
	text := n.Kind + "/" + n.Name + ":" + string(n.State)
	if n.Above {
		text += ":above"
	}
	if len(reasons) > 0 {
		text += "[" + strings.Join(reasons, " ") + "]"
	}
	if len(children) > 0 {
		text += "(" + strings.Join(children, ", ") + ")"
	}
	return text
}

func TestDiagnose(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "mail", errors.New("no"))
	circle := in(&v1alpha1.RateLimitScheme{}, "free", "Ready=False/Invalid", "Accepted=False/Invalid")
	circle.Spec.DeploymentRef.Name = "acme"
	limited := in(&v1alpha1.IdentityDeployment{}, "acme")
	limited.Spec.DefaultRateLimitSchemeRef = &v1alpha1.RateLimitSchemeReference{Name: "free"}
	unseen := in(&v1alpha1.IdentityDeployment{}, "acme")
	unseen.Generation = 2
	gone := in(&v1alpha1.IdentityDeployment{}, "acme")
	gone.DeletionTimestamp = ptr.To(metav1.Now())
	for _, tc := range []struct {
		name  string
		world world
		obj   v1alpha1.Resource
		kind  string
		want  string
		well  bool
	}{
		{"all in force", world{"APIAuthApp/shop": app("acme", "shop"), "IdentityDeployment/acme": in(&v1alpha1.IdentityDeployment{}, "acme")},
			key("shop", "web"), "APIKey", "APIKey/web:Ready", true},
		{"key, app, deployment, Secret without label",
			world{"APIAuthApp/shop": app("acme", "shop"), "IdentityDeployment/acme": mailing("acme", "Ready=False/SecretNotShared", notShared),
				"Secret/mail": &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "mail", Namespace: "acme"}}},
			key("shop", "web"), "APIKey",
			"APIKey/web:Ready(APIAuthApp/shop:Ready(IdentityDeployment/acme:NotReady[SecretNotShared](Secret/mail:NotReady[SecretNotShared])))", false},
		{"a Secret that is shared by its annotation",
			world{"Secret/mail": &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.LabelDeployment: "*"}}}},
			mailing("acme", notShared), "IdentityDeployment", "IdentityDeployment/acme:NotReady[SecretNotShared]", false},
		{"a tool whose Secret has no label", world{"IdentityDeployment/acme": in(&v1alpha1.IdentityDeployment{}, "acme"), "Secret/token": &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: "acme"}}},
			tool("acme", "find-order", notShared), "AITool",
			"AITool/find-order:NotReady[SecretNotShared](Secret/token:NotReady[SecretNotShared])", false},
		{"a tool whose Secret names other hosts", world{"IdentityDeployment/acme": in(&v1alpha1.IdentityDeployment{}, "acme"), "Secret/token": &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelDeployment: "acme"}}}},
			tool("acme", "find-order", notShared), "AITool", "AITool/find-order:NotReady[SecretNotShared]", false},
		{"a connection whose Secret has no label", world{"IdentityDeployment/acme": in(&v1alpha1.IdentityDeployment{}, "acme"), "Secret/globex": &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "globex", Namespace: "acme"}}},
			upstream("acme", "globex", notShared), "Connection",
			"Connection/globex:NotReady[SecretNotShared](Secret/globex:NotReady[SecretNotShared])", false},
		{"a connection whose provider and organization are missing", world{"IdentityDeployment/acme": in(&v1alpha1.IdentityDeployment{}, "acme")},
			upstream("acme", "globex", "Reachable=False/Refused", "ReferencesResolved=False/OrganizationNotFound"), "Connection",
			"Connection/globex:Ready[Refused OrganizationNotFound]", true},
		{"a connection without the ConfigMap of its metadata", world{"IdentityDeployment/acme": in(&v1alpha1.IdentityDeployment{}, "acme")},
			samlUpstream("acme", "globex", "CredentialsReady=False/ConfigMapNotFound"), "Connection",
			"Connection/globex:NotReady[ConfigMapNotFound](ConfigMap/globex-metadata:Missing[Missing])", false},
		{"a connection whose provider changes its certificates", world{"IdentityDeployment/acme": in(&v1alpha1.IdentityDeployment{}, "acme")},
			samlUpstream("acme", "globex", "CertificateExpiring=True/Expiring", "MetadataChanged=True/Changed"), "Connection",
			"Connection/globex:Ready[Expiring Changed]", true},
		{"a connection without its Secret and its deployment", world{}, upstream("acme", "globex", "CredentialsReady=False/SecretNotFound"), "Connection",
			"Connection/globex:NotReady[SecretNotFound](IdentityDeployment/acme:Missing[Missing], Secret/globex:Missing[Missing])", false},
		{"a directory without its Secret and its connection", world{"IdentityDeployment/acme": in(&v1alpha1.IdentityDeployment{}, "acme")},
			directory("acme", "staff", "CredentialsReady=False/SecretNotFound"), "Directory",
			"Directory/staff:NotReady[SecretNotFound](Connection/globex:Missing[Missing], Secret/globex-scim:Missing[Missing])", false},
		{"a directory that is not served", world{"IdentityDeployment/acme": in(&v1alpha1.IdentityDeployment{}, "acme"), "Connection/globex": upstream("acme", "globex")},
			directory("acme", "staff", "Served=False/NoFrontendHost", "ReferencesResolved=False/OrganizationNotFound"), "Directory",
			"Directory/staff:Ready[NoFrontendHost OrganizationNotFound]", true},
		{"a Secret that one may not read", world{"Secret/mail": forbidden}, mailing("acme", notShared), "IdentityDeployment",
			"IdentityDeployment/acme:NotReady[SecretNotShared](Secret/mail:Unreadable[Unreadable])", false},
		{"a missing Secret", world{}, mailing("acme", "CredentialsReady=False/SecretNotFound"), "IdentityDeployment",
			"IdentityDeployment/acme:NotReady[SecretNotFound](Secret/mail:Missing[Missing])", false},
		{"a Secret is not looked for while the operator is content", world{"Secret/mail": errors.New("asked for")}, mailing("acme"), "IdentityDeployment",
			"IdentityDeployment/acme:Ready", true},
		{"a missing app", world{}, key("shop", "web", "Ready=False/NotFound", "Accepted=Unknown/Pending", "ReferencesResolved=False/NotFound", "Synced=False/Pending"), "APIKey",
			"APIKey/web:NotReady[NotFound Pending Pending](APIAuthApp/shop:Missing[Missing])", false},
		{"references in a circle", world{"IdentityDeployment/acme": limited, "RateLimitScheme/free": circle}, limited, "IdentityDeployment",
			"IdentityDeployment/acme:Ready(RateLimitScheme/free:NotReady[Invalid])", false},
		{"an edit that the operator has not seen", world{}, unseen, "IdentityDeployment", "IdentityDeployment/acme:NotReady[NotSeen]", false},
		{"no condition at all", world{}, &v1alpha1.IdentityDeployment{ObjectMeta: metav1.ObjectMeta{Name: "acme", Namespace: "acme"}}, "IdentityDeployment",
			"IdentityDeployment/acme:NotReady[NotSeen]", false},
		{"a deployment that is being deleted hides its children", world{"APIAuthApp/shop": app("acme", "shop"), "IdentityDeployment/acme": gone}, key("shop", "web"), "APIKey",
			"APIKey/web:Ready(APIAuthApp/shop:Ready(IdentityDeployment/acme:NotReady[BeingDeleted]))", false},
		{"suspended, and in force", world{}, in(&v1alpha1.IdentityDeployment{}, "acme", "Ready=True/Suspended"), "IdentityDeployment", "IdentityDeployment/acme:Ready[Suspended]", true},
		{"suspended before it was in force", world{}, in(&v1alpha1.IdentityDeployment{}, "acme", "Ready=False/Suspended"), "IdentityDeployment",
			"IdentityDeployment/acme:NotReady[Suspended]", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node, err := NewDiagnosis(tc.world).Diagnose(t.Context(), tc.obj, tc.kind)
			if err != nil {
				t.Fatal(err)
			}
			if got := sketch(node); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if node.Well() != tc.well {
				t.Errorf("Well() = %v", node.Well())
			}
		})
	}
}

func TestConnectionsAndDirectoriesComeWithWhatToRegister(t *testing.T) {
	deployment := world{"IdentityDeployment/acme": in(&v1alpha1.IdentityDeployment{}, "acme")}
	renamed := directory("acme", "staff")
	renamed.Spec.ExistingSecretRef.Key = ptr.To("token")
	waiting := directory("acme", "staff")
	waiting.Status.SecretName = ""
	for name, tc := range map[string]struct {
		obj  v1alpha1.Resource
		kind string
		want *Registration
	}{
		"a connection": {upstream("acme", "globex"), v1alpha1.KindConnection,
			&Registration{RedirectURIs: []string{"https://id.acme.example/sso/7/callback"}, BackchannelLogoutURL: "https://id.acme.example/sso/7/backchannel-logout"}},
		"a connection of type SAML": {samlUpstream("acme", "globex"), v1alpha1.KindConnection, &Registration{
			EntityID: "https://id.acme.example/sso/7/metadata", ACSURLs: []string{"https://id.acme.example/sso/7/acs"},
			MetadataURL: "https://id.acme.example/sso/7/metadata", CertificateExpiresAt: "2030-01-01T00:00:00Z",
		}},
		"a connection of a deployment without hosts": {in(&v1alpha1.Connection{}, "globex"), v1alpha1.KindConnection, nil},
		"a directory": {directory("acme", "staff"), v1alpha1.KindDirectory,
			&Registration{SCIMURL: "https://id.acme.example/scim/v2/7", TokenSecret: "globex-scim", TokenKey: "scim-token"}},
		"a directory with another key of its Secret": {renamed, v1alpha1.KindDirectory,
			&Registration{SCIMURL: "https://id.acme.example/scim/v2/7", TokenSecret: "globex-scim", TokenKey: "token"}},
		"a directory without a token": {waiting, v1alpha1.KindDirectory, &Registration{SCIMURL: "https://id.acme.example/scim/v2/7"}},
		"another kind":                {app("acme", "shop"), v1alpha1.KindAPIAuthApp, nil},
	} {
		node, err := NewDiagnosis(deployment).Diagnose(t.Context(), tc.obj, tc.kind)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(node.Register, tc.want) {
			t.Errorf("%s: got %+v, want %+v", name, node.Register, tc.want)
		}
	}
}

// A second value of the label would take the Secret from the deployment that has it.
func TestASecretOfAnotherDeploymentIsNotTakenFromIt(t *testing.T) {
	for name, tc := range map[string]struct {
		labels   map[string]string
		has, not string
	}{
		"no label":        {nil, "kubectl label secret mail -n acme " + v1alpha1.LabelDeployment + "=acme", "annotate"},
		"another's label": {map[string]string{v1alpha1.LabelDeployment: "globex"}, "kubectl annotate secret mail -n acme '" + v1alpha1.LabelDeployment + "=*'", "kubectl label"},
		"Cardea made it":  {map[string]string{v1alpha1.LabelDeployment: "globex", v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator}, "your own Secret", "kubectl"},
	} {
		secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "mail", Namespace: "acme", Labels: tc.labels}}
		node, err := NewDiagnosis(world{"Secret/mail": secret}).Diagnose(t.Context(), mailing("acme", notShared), "IdentityDeployment")
		if err != nil {
			t.Fatal(err)
		}
		if got := node.DependsOn[0].Findings[0].Fix; !strings.Contains(got, tc.has) || strings.Contains(got, tc.not) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A fix that loses data says so, and comes after the fix that does not. A command names no ServiceAccount that may not
// exist.
func TestFixesSayWhatTheyLose(t *testing.T) {
	for reason, want := range map[cause][]string{
		{v1alpha1.ConditionFormerPeople, v1alpha1.ReasonFoundPeople}:         {"nothing is lost", "kubectl annotate identitydeployment main", "deletionPolicy: Delete", "permanently loses", "cardea backup"},
		{v1alpha1.ConditionAccepted, v1alpha1.ReasonSecretNotOwned}:          {"another name", "Deleting it", "permanently loses"},
		{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretForbidden}: {"-n acme --clusterrole=cardea-operator-secrets --serviceaccount=<namespace of Cardea>:<cardea-operator or cardea-standalone>"},
	} {
		rest := fixOf(in(&v1alpha1.IdentityDeployment{}, "main"), "IdentityDeployment", reason.condition, reason.reason)
		for _, part := range want {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("%s: %q is not in its place in %q", reason.reason, part, rest)
			}
			rest = after
		}
	}
	for reason, text := range fixes {
		if strings.Contains(text, "cardea-system") || strings.Contains(text, "--serviceaccount=cardea") {
			t.Errorf("%s names a namespace or ServiceAccount that other installs may not have: %s", reason.reason, text)
		}
		if strings.HasPrefix(text, "kubectl ") && strings.HasSuffix(text, ")") {
			t.Errorf("%s cannot be pasted: %s", reason.reason, text)
		}
	}
}

// kubectl cardea webhooks selects an endpoint by its display name or its id, not by the name of a resource that has a
// display name.
func TestFixesOfWebhookEndpointsCanBePasted(t *testing.T) {
	display := v1alpha1.DisplayName("Customer hub")
	plain, named := in(&v1alpha1.WebhookEndpoint{}, "crm"), in(&v1alpha1.WebhookEndpoint{}, "hub")
	named.Spec.DisplayName, named.Status.ID = &display, "7306112409600000007"
	for reason, want := range map[string]string{
		v1alpha1.ReasonFailing: "kubectl cardea webhooks deliveries %s --status failed -n acme", v1alpha1.ReasonDisabled: "kubectl cardea webhooks reactivate %s -n acme",
	} {
		for endpoint, obj := range map[string]*v1alpha1.WebhookEndpoint{"crm": plain, "7306112409600000007": named} {
			if fix := fixOf(obj, v1alpha1.KindWebhookEndpoint, v1alpha1.ConditionDelivering, reason); !strings.Contains(fix, fmt.Sprintf(want, endpoint)) {
				t.Errorf("%s: %s", reason, fix)
			}
		}
	}
}

// Where a fix can lose data, docs/operations.md has the same text.
func TestThePageHasTheSameFixesWhereDataIsLost(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cause := range []cause{{v1alpha1.ConditionAccepted, v1alpha1.ReasonSecretNotOwned}, {v1alpha1.ConditionFormerPeople, v1alpha1.ReasonFoundPeople}} {
		_, row, _ := strings.Cut(string(text), `<a id="reason-`+strings.ToLower(cause.reason)+`"></a>`)
		row, _, _ = strings.Cut(row, "\n")
		cells := strings.Split(strings.ReplaceAll(row, "`", ""), " | ")
		got := strings.TrimSuffix(cells[len(cells)-1], " |")
		if want := fixOf(in(&v1alpha1.IdentityDeployment{}, "NAME"), "IdentityDeployment", cause.condition, cause.reason); got != want {
			t.Errorf("%s\nthe page:   %s\nthe plugin: %s", cause.reason, got, want)
		}
	}
}

// The start of a deletion increments the generation. status.observedGeneration never reaches the new generation; only
// the condition Deleting observes it.
func TestADeletionReportsOnlyWhatItWaitsFor(t *testing.T) {
	ours, other := []string{v1alpha1.Finalizer}, []string{"example.com/backup"}
	for name, tc := range map[string]struct {
		conditions []string
		finalizers []string
		// lag is how many generations ago the operator looked at the deletion.
		lag  int64
		want []string
		says string
	}{
		"it is in use":                       {[]string{"Ready=True/Ready", "Deleting=True/InUse"}, ours, 0, []string{"InUse"}, "change the references"},
		"the store is unavailable":           {[]string{"Ready=True/Ready", "Deleting=True/StoreUnavailable"}, ours, 0, []string{"StoreUnavailable"}, "store"},
		"what was wrong before is over":      {[]string{"Accepted=False/Invalid", "Deleting=True/InUse", "Ready=False/Invalid"}, ours, 0, []string{"InUse"}, "change the references"},
		"edited while it waits":              {[]string{"Ready=True/Ready", "Deleting=True/InUse"}, ours, 1, []string{"InUse", "NotSeen"}, "change the references"},
		"the operator has not looked":        {[]string{"Ready=True/Ready"}, ours, 0, []string{"BeingDeleted", "NotSeen"}, "kubectl cardea doctor"},
		"nor did before":                     {[]string{}, ours, 0, []string{"BeingDeleted", "NotSeen"}, "kubectl cardea doctor"},
		"a foreign finalizer is left":        {[]string{"Ready=True/Ready"}, other, 0, []string{"BeingDeleted"}, "programs that set these finalizers"},
		"so it is, and it had waited before": {[]string{"Ready=True/Ready", "Deleting=True/InUse"}, other, 0, []string{"BeingDeleted"}, "programs that set these finalizers"},
		"another's finalizer beside ours":    {[]string{"Ready=True/Ready", "Deleting=True/InUse"}, append(other, ours...), 0, []string{"InUse"}, "change the references"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := in(&v1alpha1.RateLimitScheme{}, "doomed", tc.conditions...)
			if len(tc.conditions) == 0 {
				scheme.Status.Conditions = nil
			}
			scheme.Generation, scheme.Status.ObservedGeneration = 4, 3
			scheme.DeletionTimestamp, scheme.Finalizers = ptr.To(metav1.Now()), tc.finalizers
			for i, c := range scheme.Status.Conditions {
				scheme.Status.Conditions[i].ObservedGeneration = 3
				if c.Type == v1alpha1.ConditionDeleting {
					scheme.Status.Conditions[i].ObservedGeneration = scheme.Generation - tc.lag
				}
			}
			found := find(scheme, v1alpha1.KindRateLimitScheme)
			var reasons []string
			for _, f := range found {
				reasons = append(reasons, f.Reason)
			}
			if !slices.Equal(reasons, tc.want) || !strings.Contains(found[0].Fix, tc.says) {
				t.Errorf("got %+v, want %v", found, tc.want)
			}
			if slices.Equal(tc.finalizers, other) && !strings.Contains(found[0].Message, other[0]) {
				t.Errorf("the finalizer is not named: %s", found[0].Message)
			}
		})
	}
}

func TestAnInquiryTellsOfEachOnce(t *testing.T) {
	w := world{"APIAuthApp/shop": app("acme", "shop", "ReferencesResolved=False/NotFound")}
	all := NewDiagnosis(w)
	for _, want := range []string{
		"APIKey/a:Ready(APIAuthApp/shop:NotReady[NotFound](IdentityDeployment/acme:Missing[Missing]))",
		"APIKey/b:Ready(APIAuthApp/shop:NotReady:above)",
	} {
		name := want[len("APIKey/"):][:1]
		node, err := all.Diagnose(t.Context(), key("shop", name), "APIKey")
		if err != nil {
			t.Fatal(err)
		}
		if got := sketch(node); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAnErrorOfReadingIsNoAbsence(t *testing.T) {
	_, err := NewDiagnosis(world{"APIAuthApp/shop": errors.New("no answer")}).Diagnose(t.Context(), key("shop", "a"), "APIKey")
	if err == nil {
		t.Error("no error, although reading from the cluster failed")
	}
}

// Operators look up conditions in docs/operations.md, so every cause in its table must have a fix here.
func TestEveryDocumentedCauseHasAFix(t *testing.T) {
	causes := documented(t)
	if len(causes) < 20 {
		t.Fatalf("%d causes were found in the table: it is read wrongly", len(causes))
	}
	for _, c := range causes {
		if _, known := fixes[c.cause]; !known {
			t.Errorf("%s=%s %s has no fix", c.condition, c.status, c.reason)
			continue
		}
		deployment := in(&v1alpha1.IdentityDeployment{}, "acme", c.condition+"="+c.status+"/"+c.reason)
		node, err := NewDiagnosis(world{}).Diagnose(t.Context(), deployment, "IdentityDeployment")
		if err != nil {
			t.Fatal(err)
		}
		if len(node.Findings) == 0 || node.Findings[0].Reason != c.reason {
			t.Fatalf("%s=%s %s is not reported: %s", c.condition, c.status, c.reason, sketch(node))
		}
		if text := node.Findings[0].Fix; text == "" || text == unknown || strings.ContainsAny(text, "{}") && !strings.Contains(text, `'[{`) {
			t.Errorf("%s: fix %q", c.reason, text)
		}
	}
}

type documentedCause struct {
	cause
	status string
}

// documented returns the causes in the table of conditions in docs/operations.md, without the rows about good states
// and the rows that repeat another condition.
func documented(t *testing.T) []documentedCause {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Conditions, and what to do")
	section, _, _ = strings.Cut(section, "\n## ")
	row := regexp.MustCompile(`(?m)^\| ([A-Za-z= ]*)\| (?:<a id="reason-[a-z]+"></a>)?([^|]+) \|`)
	var causes []documentedCause
	condition, status := "", ""
	for _, match := range row.FindAllStringSubmatch(section, -1) {
		named, reason := strings.TrimSpace(match[1]), strings.TrimSpace(match[2])
		if kind, value, found := strings.Cut(named, "="); found {
			condition, status = kind, value
		} else if named != "" {
			condition, _, _ = strings.Cut(named, " ")
			status = "True" // the row of Suspended says "Ready as it was"
		}
		if named == "condition" || strings.ContainsAny(reason, " [") || slices.Contains([]string{v1alpha1.ReasonReady, v1alpha1.ReasonCallable, v1alpha1.ReasonServing, v1alpha1.ReasonFetched, v1alpha1.ReasonDelivering}, reason) {
			continue
		}
		causes = append(causes, documentedCause{cause{condition, reason}, status})
	}
	return causes
}

// A tree would end too early at a reference of an unknown type, so every reference type of the API must be known.
func TestEveryTypeOfReferenceIsFollowed(t *testing.T) {
	named := map[string]bool{}
	var visit func(reflect.Type)
	seen := map[reflect.Type]bool{}
	visit = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(typ.Elem())
		case reflect.Struct:
			if seen[typ] || typ.PkgPath() != reflect.TypeFor[v1alpha1.APIKey]().PkgPath() {
				return
			}
			seen[typ] = true
			if strings.HasSuffix(typ.Name(), "Reference") {
				named[typ.Name()] = true
				if _, known := referents[typ]; !known {
					t.Errorf("%s is not followed", typ.Name())
				}
				return
			}
			for i := range typ.NumField() {
				visit(typ.Field(i).Type)
			}
		}
	}
	for _, info := range v1alpha1.Kinds {
		visit(reflect.TypeOf(info.New()).Elem())
	}
	if len(named) != len(referents) {
		t.Errorf("%d types of references are in the API, %d are known", len(named), len(referents))
	}
}

func TestReferencesNameTheirFields(t *testing.T) {
	agent := in(&v1alpha1.AIAgent{}, "support")
	agent.Spec.DeploymentRef.Name = "acme"
	agent.Spec.ToolRefs = []v1alpha1.AIToolReference{{Name: "find"}, {Name: "cancel"}}
	want := []Reference{
		{"spec.deploymentRef", v1alpha1.KindIdentityDeployment, "acme"}, {"spec.toolRefs[0]", v1alpha1.KindAITool, "find"}, {"spec.toolRefs[1]", v1alpha1.KindAITool, "cancel"},
	}
	if got := References(agent); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
