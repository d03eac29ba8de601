package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// issued is when the key of these tests was issued.
var issued = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// inMemory returns a cluster in memory. funcs can replace its responses.
func inMemory(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	made := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	served := []metav1.APIResource{
		{Name: "apikeys", SingularName: "apikey", Kind: v1alpha1.KindAPIKey, ShortNames: []string{"akey"}},
		{Name: "oauthclients", SingularName: "oauthclient", Kind: v1alpha1.KindOAuthClient, ShortNames: []string{"oclient"}},
		{Name: "directories", SingularName: "directory", Kind: v1alpha1.KindDirectory, ShortNames: []string{"dir"}},
		{Name: "webhookendpoints", SingularName: "webhookendpoint", Kind: v1alpha1.KindWebhookEndpoint, ShortNames: []string{"whe"}},
		{Name: "aitools", SingularName: "aitool", Kind: v1alpha1.KindAITool},
	}
	return &cluster{config: &rest.Config{Host: "https://cluster.example"}, client: made, namespace: "acme", served: served}
}

// issuedKey returns an APIKey whose key was generated, and its Secret. until is the Secret's annotation with the end of
// the overlap, "" for none.
func issuedKey(until string) []client.Object {
	key := &v1alpha1.APIKey{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "acme"}}
	key.Spec.SecretTemplate = &v1alpha1.SecretTemplate{}
	key.Status.SecretName, key.Status.LastRotatedAt = "web", &metav1.Time{Time: issued}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "acme"}}
	if until != "" {
		secret.Annotations = map[string]string{v1alpha1.AnnotationPreviousExpiresAt: until}
	}
	return []client.Object{key, secret}
}

func TestRevokeAcceptsOnlyAPIKeys(t *testing.T) {
	web := metav1.ObjectMeta{Name: "web", Namespace: "acme"}
	c := inMemory(t, interceptor.Funcs{}, &v1alpha1.APIKey{ObjectMeta: web}, &v1alpha1.OAuthClient{ObjectMeta: web}, &v1alpha1.Directory{ObjectMeta: web},
		&v1alpha1.WebhookEndpoint{ObjectMeta: web})
	check := func(argument string) error {
		named, err := c.credential(t.Context(), argument)
		if err != nil {
			return err
		}
		return named.checkRevocable()
	}
	for argument, refused := range map[string]bool{"web": false, "apikey/web": false, "akey/web": false, "oclient/web": true, "oauthclients/web": true, "dir/web": true, "whe/web": true, "aitool/x": true, "oclient/": true} {
		err := check(argument)
		if refused != (err != nil) || refused && exitCode(&runError{err}) != exitUsage {
			t.Errorf("%s: %v", argument, err)
		}
	}
	refusal := check("oclient/web").Error()
	for _, part := range []string{
		"permanently ends the consents of its users", "kubectl cardea key rotate oclient/web -n acme", "active: false", "kubectl delete oauthclient web -n acme",
	} {
		if !strings.Contains(refusal, part) {
			t.Errorf("%q is not in %s", part, refusal)
		}
	}
}

func TestTheCredentialOfADirectoryIsItsToken(t *testing.T) {
	directory := func(name string) *v1alpha1.Directory {
		d := &v1alpha1.Directory{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "acme"}}
		d.Status.SecretName = name + "-scim"
		return d
	}
	generated, brought, renamed := directory("generated"), directory("brought"), directory("renamed")
	generated.Spec.SecretTemplate, generated.Status.LastRotatedAt = &v1alpha1.SecretTemplate{}, &metav1.Time{Time: issued}
	brought.Spec.ExistingSecretRef = &v1alpha1.ExistingTokenReference{Name: "brought-scim"}
	other := "token"
	renamed.Spec.ExistingSecretRef = &v1alpha1.ExistingTokenReference{Name: "renamed-scim", Key: &other}
	secret := func(name, key string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "acme"}, Data: map[string][]byte{key: []byte("of " + name)}}
	}
	c := inMemory(t, interceptor.Funcs{}, generated, brought, renamed, secret("generated-scim", "scim-token"), secret("brought-scim", "scim-token"), secret("renamed-scim", "token"))
	for _, name := range []string{"generated", "brought", "renamed"} {
		named, err := c.credential(t.Context(), "dir/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if value, from, err := named.read(t.Context()); err != nil || value != "of "+name+"-scim" || from != name+"-scim" {
			t.Errorf("%s: %q from %q, %v", name, value, from, err)
		}
		if err := named.rotate(t.Context(), time.Millisecond, false); name != "generated" && (err == nil || !strings.Contains(err.Error(), "write a new value to your Secret")) {
			t.Errorf("%s is rotated: %v", name, err)
		}
	}
	var rotated v1alpha1.Directory
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(generated), &rotated); err != nil || rotated.Annotations[v1alpha1.AnnotationRotateAt] == "" {
		t.Errorf("no rotation is requested: %v, %v", rotated.Annotations, err)
	}
	check, err := c.credential(t.Context(), "directory/generated")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"kubectl cardea key rotate dir/generated -n acme", "active: false", "kubectl delete directory generated"} {
		if refusal := check.checkRevocable(); refusal == nil || !strings.Contains(refusal.Error(), part) {
			t.Errorf("%q is not in %v", part, refusal)
		}
	}
}

func TestTheCredentialOfAWebhookEndpointIsItsSigningSecret(t *testing.T) {
	endpoint := func(name string, signing *v1alpha1.WebhookSigning) *v1alpha1.WebhookEndpoint {
		e := &v1alpha1.WebhookEndpoint{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "acme"}}
		e.Spec.Signing = signing
		return e
	}
	key, ed25519 := "hmac", v1alpha1.WebhookSchemeEd25519
	generated, public := endpoint("crm", nil), endpoint("public", &v1alpha1.WebhookSigning{Scheme: &ed25519})
	generated.Status.SecretName, generated.Status.LastRotatedAt = "crm", &metav1.Time{Time: issued}
	brought := endpoint("brought", &v1alpha1.WebhookSigning{ExistingSecretRef: &v1alpha1.ExistingSigningSecretReference{Name: "mine", Key: &key}})
	secret := func(name, key string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "acme"}, Data: map[string][]byte{key: []byte("of " + name)}}
	}
	own := secret("crm", "signing-secret")
	own.Annotations = map[string]string{v1alpha1.AnnotationPreviousExpiresAt: time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
	c := inMemory(t, interceptor.Funcs{}, generated, brought, public, own, secret("mine", "hmac"))
	for _, tc := range []struct {
		name, secret, noRead, noRotation string
	}{
		{name: "crm", secret: "crm", noRotation: "requests are also signed with the previous secret until 20"},
		{name: "brought", secret: "mine", noRotation: "write a new value to your Secret"},
		{name: "public", noRead: "status.webhookPublicKeys", noRotation: "has no secret to rotate"},
	} {
		named, err := c.credential(t.Context(), "whe/"+tc.name)
		if err != nil {
			t.Fatal(err)
		}
		value, from, err := named.read(t.Context())
		if tc.noRead == "" && (err != nil || value != "of "+tc.secret || from != tc.secret) || tc.noRead != "" && (err == nil || !strings.Contains(err.Error(), tc.noRead)) {
			t.Errorf("%s: %q from %q, %v", tc.name, value, from, err)
		}
		if err := named.rotate(t.Context(), time.Millisecond, false); err == nil || !strings.Contains(err.Error(), tc.noRotation) {
			t.Errorf("%s is rotated: %v", tc.name, err)
		}
	}
	named, err := c.credential(t.Context(), "webhookendpoint/crm")
	if err != nil {
		t.Fatal(err)
	}
	_ = named.rotate(t.Context(), time.Millisecond, true) // no operator runs
	var rotated v1alpha1.WebhookEndpoint
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(generated), &rotated); err != nil || rotated.Annotations[v1alpha1.AnnotationRotateAt] == "" {
		t.Errorf("no rotation is requested: %v, %v", rotated.Annotations, err)
	}
	for _, part := range []string{"kubectl cardea key rotate whe/crm -n acme", "\"active\":false", "kubectl delete webhookendpoint crm"} {
		if refusal := named.checkRevocable(); refusal == nil || !strings.Contains(refusal.Error(), part) {
			t.Errorf("%q is not in %v", part, refusal)
		}
	}
}

func TestASecondRotationDoesNotCutOffAKeyInUse(t *testing.T) {
	later, earlier := time.Now().Add(time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339), issued.Format(time.RFC3339)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "web", errors.New("no"))
	for _, tc := range []struct {
		name  string
		until string
		yes   bool
		// answer is the error of reading the Secret's metadata, nil for none.
		answer error
		code   int
		says   string
	}{
		{name: "the first rotation"},
		{name: "the overlap is over", until: earlier},
		{name: "the overlap lasts", until: later, code: exitUsage, says: "the previous key is accepted until " + later},
		{name: "the overlap lasts, and --yes confirms", until: later, yes: true},
		{name: "the Secret may not be read", answer: forbidden, code: exitNoAccess, says: `you may not get Secret "web" in namespace acme`},
		{name: "the Secret may not be read, and nobody minds", answer: forbidden, yes: true},
		{name: "the Secret is gone", answer: apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "web")},
	} {
		patched := false
		c := inMemory(t, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, isMetadata := obj.(*metav1.PartialObjectMetadata); isMetadata && tc.answer != nil {
					return tc.answer
				}
				return c.Get(ctx, key, obj, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				patched = true
				return asOperator(ctx, c, obj, patch, opts...)
			},
		}, issuedKey(tc.until)...)
		key, err := c.credential(t.Context(), "web")
		if err != nil {
			t.Fatal(err)
		}
		err = key.rotate(t.Context(), time.Minute, tc.yes)
		if patched == (tc.says != "") || tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "--yes")) {
			t.Errorf("%s: %v, patched %v", tc.name, err, patched)
		}
		if err != nil && exitCode(&runError{err}) != tc.code {
			t.Errorf("%s: exit code %d", tc.name, exitCode(&runError{err}))
		}
	}
}

// asOperator applies a patch, and then sets the time of issue, as the operator does after a rotation.
func asOperator(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if err := c.Patch(ctx, obj, patch, opts...); err != nil {
		return err
	}
	key := obj.DeepCopyObject().(*v1alpha1.APIKey)
	key.Status.LastRotatedAt = &metav1.Time{Time: issued.Add(time.Hour)}
	return c.Update(ctx, key)
}

func TestRotateGoesOnAfterAnErrorThatPasses(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		// often is how many reads return err.
		often int
		code  int
		says  string
	}{
		{"connections break off", errors.New("connection refused"), 3, 0, ""},
		{"an API server that restarts", apierrors.NewServiceUnavailable("starting"), 2, 0, ""},
		{"a right that was taken", apierrors.NewForbidden(schema.GroupResource{Resource: "apikeys"}, "web", errors.New("no")), 1, exitNoAccess, "you may not get APIKey web"},
		{"deleted meanwhile", apierrors.NewNotFound(schema.GroupResource{Resource: "apikeys"}, "web"), 1, exitFault, "there is no APIKey web"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			asked, failed := false, 0
			c := inMemory(t, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if asked && failed < tc.often {
						failed++
						return tc.err
					}
					return c.Get(ctx, key, obj, opts...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					asked = true
					return asOperator(ctx, c, obj, patch, opts...)
				},
			}, issuedKey("")...)
			key, err := c.credential(t.Context(), "web")
			if err != nil {
				t.Fatal(err)
			}
			if err = key.rotate(t.Context(), time.Minute, false); (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v", err)
			}
			if err != nil && exitCode(&runError{err}) != tc.code || failed != tc.often {
				t.Errorf("exit code %d after %d errors", exitCode(&runError{err}), failed)
			}
		})
	}
}

// The error of a wait that ends early names the cause: the interruption, or the last error of a read.
func TestAWaitSaysHowItEnded(t *testing.T) {
	away := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("connection refused")
	}}
	key := &credential{cluster: inMemory(t, away), obj: issuedKey("")[0].(*v1alpha1.APIKey), info: v1alpha1.KindInfo{Kind: v1alpha1.KindAPIKey}}
	never := func(err error) (bool, error) { return false, err }
	if err := key.await(t.Context(), time.Millisecond, "rotated", never); exitCode(&runError{err}) != exitNoAccess || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("out of reach: %v", err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := key.await(ctx, time.Minute, "rotated", never); exitCode(&runError{err}) != exitFault || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// The requested time depends only on the last issue, not on this machine's clock.
func TestRotateAtIsTheSecondAfterTheIssue(t *testing.T) {
	for at, want := range map[time.Time]string{
		issued:                              "2026-05-04T12:00:01Z",
		issued.Add(900 * time.Millisecond):  "2026-05-04T12:00:01Z",
		issued.In(time.FixedZone("", 7200)): "2026-05-04T12:00:01Z",
	} {
		if got := rotateAt(at); got != want {
			t.Errorf("issued at %s: %s, want %s", at, got, want)
		}
	}
	var patches []string
	c := inMemory(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			data, err := patch.Data(obj)
			if err != nil {
				return err
			}
			patches = append(patches, string(data))
			return asOperator(ctx, c, obj, patch, opts...)
		},
	}, issuedKey("")...)
	key, err := c.credential(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	if err := key.rotate(t.Context(), time.Minute, false); err != nil {
		t.Fatal(err)
	}
	if want := `{"metadata":{"annotations":{"` + v1alpha1.AnnotationRotateAt + `":"2026-05-04T12:00:01Z"}}}`; len(patches) != 1 || patches[0] != want {
		t.Errorf("patches %v, want %s", patches, want)
	}
}

func TestWhatAnAPIServerRefusesHasItsExitCode(t *testing.T) {
	c := inMemory(t, interceptor.Funcs{})
	resource := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "apikeys"}
	for name, tc := range map[string]struct {
		err  error
		code int
	}{
		"unavailable":       {apierrors.NewServiceUnavailable("restarting"), exitNoAccess},
		"too many":          {apierrors.NewTooManyRequests("later", 1), exitNoAccess},
		"gateway's":         {apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "get", resource, "", "", 0, false), exitNoAccess},
		"a proxy's":         {apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", resource, "", "", 0, true), exitNoAccess},
		"timed out":         {apierrors.NewTimeoutError("slow", 1), exitNoAccess},
		"not reached":       {errors.New("connection refused"), exitNoAccess},
		"no answer in time": {context.DeadlineExceeded, exitNoAccess},
		"interrupted":       {context.Canceled, exitFault},
		"invalid":           {apierrors.NewBadRequest("no"), exitFault},
		"not there":         {apierrors.NewNotFound(resource, "web"), exitFault},
	} {
		if got := exitCode(&runError{c.explain(tc.err, "get", "APIKey web", "acme")}); got != tc.code {
			t.Errorf("%s: exit code %d, want %d: %v", name, got, tc.code, c.explain(tc.err, "get", "APIKey web", "acme"))
		}
	}
}
