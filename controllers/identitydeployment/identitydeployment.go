// Package identitydeployment is the kind IdentityDeployment: a tenant.
package identitydeployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/configmapvalue"
	"github.com/cardea-iam/cardea/controllers/shared/hostpolicy"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/controllers/shared/signingkey"
	"github.com/cardea-iam/cardea/internal/claimpermission"
	"github.com/cardea-iam/cardea/internal/contrast"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=identitydeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=identitydeployments/status,verbs=patch

const defaultSchemeField = "spec.defaultRateLimitSchemeRef"

// Options are the kind's dependencies other than the engine.
type Options struct {
	// Client reads and writes Secrets and reads ConfigMaps, without a cache.
	Client client.Client
	// ConfigMaps and Secrets report changes of ConfigMaps and Secrets in watched namespaces.
	ConfigMaps, Secrets *objectwatch.Watch
	// Keyring seals signing keys and the values of Secrets; it may be empty.
	Keyring *seal.Keyring
	// People finds the users of a former deployment, and erases users' rows.
	People People
	// Grants say which hosts a namespace may declare.
	Grants *hostpolicy.Grants
	// Local is the scheme and port under which browsers reach hosts of this machine.
	Local  translation.LocalFrontend
	Clock  func() time.Time
	Random io.Reader
}

// Kind returns how an IdentityDeployment is reconciled.
func Kind(opts Options) engine.Kind[*v1alpha1.IdentityDeployment] {
	return engine.Kind[*v1alpha1.IdentityDeployment]{
		Name:       v1alpha1.KindIdentityDeployment,
		RefersTo:   []string{v1alpha1.KindRateLimitScheme},
		References: references,
		Reserves:   needed,
		Check:      check,
		Permit: func(ctx context.Context, d *v1alpha1.IdentityDeployment) error {
			return opts.Grants.Permit(ctx, d.Namespace, "spec.frontendHosts", d.Spec.FrontendHosts...)
		},
		Prepare: func(ctx context.Context, p engine.Preparation[*v1alpha1.IdentityDeployment]) (engine.Prepared, error) {
			return prepare(ctx, opts, p.Object)
		},
		Translate: func(d *v1alpha1.IdentityDeployment, _ engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
			keys, _ := prepared.Value.(translation.Keys)
			return engine.Content{Deployment: d.Namespace + "/" + d.Name, Key: d.Name, Value: translation.Deployment(d, keys)}
		},
		// Retention applies to users' rows; the document itself is deleted in either case.
		Retention: engine.RetainNothing,
		Cleanup: func(ctx context.Context, d *v1alpha1.IdentityDeployment) error {
			if policy := d.Spec.DeletionPolicy; policy != nil && *policy == v1alpha1.DeletionPolicyDelete {
				if err := opts.People.eraseAll(ctx, d.Namespace+"/"+d.Name); err != nil {
					return err
				}
			}
			return errors.Join(opts.keeper().Remove(ctx, sessionKeys(d)), opts.keeper().Remove(ctx, webhookKeys(d)))
		},
		Sources: append([]source.TypedSource[reconcile.Request]{opts.ConfigMaps.Source(), opts.Secrets.Source()}, opts.Grants.Sources(func() v1alpha1.ResourceList { return &v1alpha1.IdentityDeploymentList{} })...),
		Indexes: map[string]func(*v1alpha1.IdentityDeployment) []string{objectwatch.Index: objectNames},
	}
}

func references(d *v1alpha1.IdentityDeployment) []engine.Reference {
	return engine.SchemeReference(defaultSchemeField, d.Spec.DefaultRateLimitSchemeRef)
}

// check refuses a default scheme of another deployment, audiences with Cardea's prefix other than the deployment's own,
// expressions that do not compile, accent colors that are too light, and relying parties that browsers refuse.
func check(d *v1alpha1.IdentityDeployment, refs engine.ResolvedRefs) error {
	own := reservation.OwnAudience(d.Namespace, d.Name)
	for i, issuer := range d.Spec.JWTIssuers {
		for _, audience := range issuer.Audiences {
			if strings.HasPrefix(string(audience), reservation.AudiencePrefix) && string(audience) != own {
				return engine.Terminal(v1alpha1.ReasonInvalid,
					"spec.jwtIssuers[%d].audiences: %q belongs to another deployment: of the audiences that begin with %q, this deployment may use %q",
					i, audience, reservation.AudiencePrefix, own)
			}
		}
		if issuer.PermissionsExpression == nil {
			continue
		}
		if _, err := claimpermission.Compile(*issuer.PermissionsExpression); err != nil {
			return engine.Terminal(v1alpha1.ReasonInvalid, "spec.jwtIssuers[%d].permissionsExpression: %v", i, err)
		}
	}
	if err := checkPages(d.Spec.Pages); err != nil {
		return err
	}
	if err := checkRelyingParty(d); err != nil {
		return err
	}
	return engine.CheckScheme(defaultSchemeField, d.Name, refs)
}

// checkPages refuses an accent color on which white text cannot be read. Admission validates it too, but by an
// approximation that accepts some colors that are slightly too light: CEL has no power function.
func checkPages(pages *v1alpha1.PagesSettings) error {
	if pages == nil || pages.AccentColor == nil {
		return nil
	}
	colour, err := contrast.Parse(string(*pages.AccentColor))
	if err != nil {
		return engine.Terminal(v1alpha1.ReasonInvalid, "spec.pages.accentColor: %v", err)
	}
	if ratio := contrast.Ratio(colour, contrast.White); ratio < contrast.Minimum {
		// Truncated, not rounded: 4.496 must not be reported as 4.50.
		return engine.Terminal(v1alpha1.ReasonInvalid, "spec.pages.accentColor: the contrast of white text on %s is %.2f, and must be at least %.1f: choose a darker color",
			colour, math.Floor(ratio*100)/100, contrast.Minimum)
	}
	return nil
}

// needed returns the reservations of a deployment: its hosts, and its pairs of issuer and audience.
func needed(d *v1alpha1.IdentityDeployment) []string {
	var list []string
	for _, host := range d.Spec.FrontendHosts {
		list = append(list, reservation.Host(string(host)))
	}
	for _, issuer := range d.Spec.JWTIssuers {
		if issuer.OAuthApp != nil {
			continue // an app's issuer belongs to the app, and needs no reservation here
		}
		for _, audience := range translation.Audiences(d, issuer) {
			list = append(list, reservation.JWT(translation.Issuer(d, issuer), audience))
		}
	}
	return list
}

// prepare reads the ConfigMaps and Secrets that the spec names. If the deployment signs session tokens, it also
// generates and rotates its signing keys.
func prepare(ctx context.Context, opts Options, d *v1alpha1.IdentityDeployment) (engine.Prepared, error) {
	keys := translation.Keys{}
	var prepared engine.Prepared
	var err error
	if keys.Sets, err = readKeySets(ctx, opts, d); err != nil {
		return prepared, err
	}
	if keys.Sealed, err = sealSecrets(ctx, opts, d); err != nil {
		return prepared, err
	}
	// A deployment that only serves end users does not need a root key: without one, its sessions have no JWTs.
	if signingkey.OwnSessions(d) || signingkey.Signs(d) && !opts.Keyring.Empty() {
		if opts.Keyring.Empty() {
			return prepared, signingkey.NoRootKey("ownSessions")
		}
		opts.Secrets.Ensure(d.Namespace)
		if prepared.RequeueAfter, err = keepKeys(ctx, opts, d, &keys); err != nil {
			return prepared, err
		}
	}
	for _, issuer := range d.Spec.JWTIssuers {
		if issuer.OwnSessions == nil {
			continue
		}
		if keys.Sets[issuer.Name], err = signingkey.PublicSet(keys.Signing); err != nil {
			return prepared, err
		}
	}
	prepared.Value = keys
	public, err := webhookPublicKeys(keys.Webhooks)
	if err != nil {
		return prepared, err
	}
	err = observeUsers(ctx, opts, d, &prepared)
	committed := prepared.Committed
	prepared.Committed = func(ctx context.Context) error {
		d.Status.WebhookPublicKeys = public
		return committed(ctx)
	}
	return prepared, err
}

// keepKeys puts the deployment's sealed keys into its content. It returns the time until one of them changes.
func keepKeys(ctx context.Context, opts Options, d *v1alpha1.IdentityDeployment, keys *translation.Keys) (wake time.Duration, err error) {
	if keys.Signing, wake, err = opts.keeper().Keep(ctx, sessionKeys(d)); err != nil {
		return 0, err
	}
	var sooner time.Duration
	keys.Webhooks, sooner, err = opts.keeper().Keep(ctx, webhookKeys(d))
	return min(wake, sooner), err
}

// observeUsers adds the conditions and the status that concern users: where their passkeys can be used, and users and
// passkeys from before a change of the deployment.
func observeUsers(ctx context.Context, opts Options, d *v1alpha1.IdentityDeployment, prepared *engine.Prepared) error {
	former, err := opts.People.former(ctx, d)
	if err != nil {
		return err
	}
	passkeys := translation.PasskeysOf(d, opts.Local)
	others, err := opts.People.otherPasskeys(ctx, d, passkeys.RelyingParty)
	prepared.Conditions = slices.Concat(former, passkeysReady(passkeys), others)
	prepared.Committed = func(context.Context) error {
		d.Status.Passkeys = passkeyStatus(passkeys)
		return nil
	}
	return err
}

// annotationDeployment on a Secret names the deployment whose signing key it holds.
const annotationDeployment = "iam.cardea.dev/signing-key-of"

func signingSecretName(d *v1alpha1.IdentityDeployment) string { return d.Name + "-session-signing-key" }

// sessionKeys is the Secret with the keys that sign the tokens of the deployment's sessions.
func sessionKeys(d *v1alpha1.IdentityDeployment) signingkey.Wanted {
	owner := ownedsecret.Owner{Object: d, Kind: v1alpha1.KindIdentityDeployment, Marker: annotationDeployment, Taken: "copy it to a Secret of another name, and delete it when no program uses it"}
	return signingkey.Wanted{Owner: owner, Name: signingSecretName(d), Slots: signingkey.ForSessions, Kind: document.SealedSigningKey}
}

func (o Options) keeper() signingkey.Keeper {
	return signingkey.Keeper{Secrets: ownedsecret.Manager{Client: o.Client}, Keyring: o.Keyring, Clock: o.Clock, Random: o.Random}
}

// readKeySets reads the key sets of the issuers that name a ConfigMap.
func readKeySets(ctx context.Context, opts Options, d *v1alpha1.IdentityDeployment) (map[string]json.RawMessage, error) {
	sets := map[string]json.RawMessage{}
	for i, issuer := range d.Spec.JWTIssuers {
		ref := issuer.JWKSConfigMapRef
		if ref == nil {
			continue
		}
		opts.ConfigMaps.Ensure(d.Namespace)
		text, err := configmapvalue.Field{Path: fmt.Sprintf("spec.jwtIssuers[%d]", i), Ref: *ref}.Read(ctx, opts.Client, d.Namespace)
		if err != nil {
			return nil, err
		}
		set, err := keyset.Parse([]byte(text), keyset.MaxBytes)
		if err != nil {
			return nil, engine.Terminal(v1alpha1.ReasonInvalid, "spec.jwtIssuers[%d]: ConfigMap %q, key %q: %v", i, ref.Name, ref.Key, err)
		}
		// The set is encoded again from its parsed public keys, so that private keys in it are not copied to the store.
		if sets[issuer.Name], err = json.Marshal(set); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// objectNames returns the names of the ConfigMaps and Secrets that a deployment uses.
func objectNames(d *v1alpha1.IdentityDeployment) []string {
	var names []string
	for _, issuer := range d.Spec.JWTIssuers {
		if issuer.JWKSConfigMapRef != nil {
			names = append(names, issuer.JWKSConfigMapRef.Name)
		}
	}
	for _, field := range secretFields(d) {
		names = append(names, field.ref.Name)
	}
	if signingkey.Signs(d) {
		names = append(names, signingSecretName(d), webhookSecretName(d))
	}
	return names
}
