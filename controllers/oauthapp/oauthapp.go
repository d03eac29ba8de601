// Package oauthapp is the kind OAuthApp: an authorization server of a deployment, with an issuer and signing keys of
// its own.
package oauthapp

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/hostpolicy"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/controllers/shared/signingkey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=oauthapps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=oauthapps/status,verbs=patch

// issuerChangesAfter is how long a change of the issuer is announced before it takes effect.
const issuerChangesAfter = time.Minute

// Options are the kind's dependencies other than the engine.
type Options struct {
	// Client reads and writes Secrets without a cache.
	Client client.Client
	// Secrets reports when a Secret of a namespace changed.
	Secrets *objectwatch.Watch
	// Keyring seals signing keys; if it is empty, the app issues no tokens.
	Keyring *seal.Keyring
	// Grants say which hosts a namespace may declare.
	Grants *hostpolicy.Grants
	// Local is the scheme and port under which browsers reach hosts of this machine.
	Local  translation.LocalFrontend
	Clock  func() time.Time
	Random io.Reader
}

// Kind returns how an OAuthApp is reconciled.
func Kind(opts Options) engine.Kind[*v1alpha1.OAuthApp] {
	return engine.Kind[*v1alpha1.OAuthApp]{
		Name:     v1alpha1.KindOAuthApp,
		RefersTo: []string{v1alpha1.KindIdentityDeployment},
		References: func(o *v1alpha1.OAuthApp) []engine.Reference {
			return []engine.Reference{engine.CatalogReference(o.Spec.DeploymentRef)} // its hosts make the issuer
		},
		Reserves: reserves,
		Check:    check,
		Permit: func(ctx context.Context, o *v1alpha1.OAuthApp) error {
			if o.Spec.FQDN == nil {
				return nil
			}
			return opts.Grants.Permit(ctx, o.Namespace, "spec.fqdn", *o.Spec.FQDN)
		},
		Prepare: opts.prepare,
		Translate: func(o *v1alpha1.OAuthApp, _ engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(o, o.Spec.DeploymentRef), Key: string(o.Spec.Slug), Value: prepared.Value.(document.OAuthApp)}
		},
		Cleanup: func(ctx context.Context, o *v1alpha1.OAuthApp) error { return opts.keeper().Remove(ctx, keysOf(o)) },
		Sources: append([]source.TypedSource[reconcile.Request]{opts.Secrets.Source()},
			opts.Grants.Sources(func() v1alpha1.ResourceList { return &v1alpha1.OAuthAppList{} })...),
		Indexes: map[string]func(*v1alpha1.OAuthApp) []string{objectwatch.Index: func(o *v1alpha1.OAuthApp) []string { return []string{keysOf(o).Name} }},
	}
}

func reserves(o *v1alpha1.OAuthApp) []string {
	list := []string{reservation.Slug(v1alpha1.KindOAuthApp, engine.DeploymentOf(o, o.Spec.DeploymentRef), string(o.Spec.Slug))}
	if o.Spec.FQDN != nil {
		list = append(list, reservation.Host(string(*o.Spec.FQDN)))
	}
	return list
}

// check refuses http resources unless the deployment has mode Staging.
func check(o *v1alpha1.OAuthApp, refs engine.ResolvedRefs) error {
	deployment, found := engine.DeploymentIn(refs)
	if !found || translation.Staging(deployment) {
		return nil
	}
	for i, resource := range o.Spec.Resources {
		if len(resource) > 5 && resource[:5] == "http:" {
			return engine.Terminal(v1alpha1.ReasonInvalid, "spec.resources[%d]: http is only for deployments with mode Staging: use https", i)
		}
	}
	return nil
}

// prepare keeps the signing keys and decides about the issuer.
func (opts Options) prepare(ctx context.Context, p engine.Preparation[*v1alpha1.OAuthApp]) (engine.Prepared, error) {
	var prepared engine.Prepared
	app, frontend := p.Object, ""
	if deployment, found := engine.DeploymentIn(p.Refs); found {
		frontend = opts.Local.URL(deployment)
	}
	content := translation.OAuthApp(app, frontend, nil)
	wait := opts.announce(p, &content, &prepared)
	if !opts.Keyring.Empty() && content.Issuer != "" { // a withdrawn issuer signs until the change takes effect
		opts.Secrets.Ensure(app.Namespace)
		var err error
		if content.SigningKeys, prepared.RequeueAfter, err = opts.keeper().Keep(ctx, keysOf(app)); err != nil {
			return prepared, err
		}
	}
	if wait > 0 && (prepared.RequeueAfter == 0 || wait < prepared.RequeueAfter) {
		prepared.RequeueAfter = wait
	}
	prepared.Value = content
	prepared.Committed = func(context.Context) error {
		app.Status.Issuer = content.Issuer
		return nil
	}
	return prepared, nil
}

// announce keeps the active issuer until its change was announced for issuerChangesAfter, so that services that trust
// the old issuer can add the new one. It returns the rest of this time, 0 if no change is announced.
func (opts Options) announce(p engine.Preparation[*v1alpha1.OAuthApp], content *document.OAuthApp, prepared *engine.Prepared) time.Duration {
	app := p.Object
	var before document.OAuthApp
	if p.Stored == nil {
		return 0
	}
	if _, err := document.Decode(p.Stored, &before); err != nil || before.Issuer == "" || before.Issuer == content.Issuer {
		return 0
	}
	told := metav1.Condition{
		Type: v1alpha1.ConditionIssuerChanged, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHostsChanged,
		Message: fmt.Sprintf("the issuer changes from %s to %s in a minute: announce the new issuer to all clients and APIs that use the old one", before.Issuer, orNone(content.Issuer)),
	}
	wait := issuerChangesAfter
	if now := opts.Clock(); meta.IsStatusConditionTrue(app.Status.Conditions, told.Type) {
		since := meta.FindStatusCondition(app.Status.Conditions, told.Type)
		if wait -= now.Sub(since.LastTransitionTime.Time); since.Message == told.Message && wait <= 0 {
			return 0
		}
		if since.Message != told.Message {
			wait = issuerChangesAfter
		}
	}
	content.Issuer = before.Issuer
	if deployment, found := engine.DeploymentIn(p.Refs); found && declares(deployment, before.FrontendURL) {
		content.FrontendURL = before.FrontendURL // clients know this URL from the metadata and send browsers to it
	}
	prepared.Conditions = append(prepared.Conditions, told)
	return max(wait, time.Second)
}

// declares reports whether a URL is one of a deployment's frontend hosts.
func declares(d *v1alpha1.IdentityDeployment, frontend string) bool {
	at, err := url.Parse(frontend)
	return err == nil && slices.ContainsFunc(d.Spec.FrontendHosts, func(host v1alpha1.Hostname) bool { return string(host) == at.Hostname() })
}

func orNone(issuer string) string {
	if issuer == "" {
		return "none"
	}
	return issuer
}

// annotationApp on a Secret names the app whose signing keys it holds.
const annotationApp = "iam.cardea.dev/oauth-signing-keys-of"

// keysOf is the Secret with the keys with which an app signs.
func keysOf(o *v1alpha1.OAuthApp) signingkey.Wanted {
	owner := ownedsecret.Owner{Object: o, Kind: v1alpha1.KindOAuthApp, Marker: annotationApp, Taken: "copy it to a Secret of another name, and delete it when no program uses it"}
	return signingkey.Wanted{
		Owner: owner, Name: o.Name + "-oauth-signing-keys", Slots: signingkey.ForApps, Dated: true, Kind: document.SealedOAuthKey, RotateAt: o.Annotations[v1alpha1.AnnotationRotateAt],
	}
}

func (opts Options) keeper() signingkey.Keeper {
	return signingkey.Keeper{Secrets: ownedsecret.Manager{Client: opts.Client}, Keyring: opts.Keyring, Clock: opts.Clock, Random: opts.Random}
}
