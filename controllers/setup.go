// Package controllers composes the operator: the list of kinds, and their shared parts.
package controllers

import (
	"context"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/aiagent"
	"github.com/cardea-iam/cardea/controllers/aitool"
	"github.com/cardea-iam/cardea/controllers/apiauthapp"
	"github.com/cardea-iam/cardea/controllers/apikey"
	"github.com/cardea-iam/cardea/controllers/b2bsettings"
	"github.com/cardea-iam/cardea/controllers/connection"
	"github.com/cardea-iam/cardea/controllers/directory"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/identitydeployment"
	"github.com/cardea-iam/cardea/controllers/jwttemplate"
	"github.com/cardea-iam/cardea/controllers/membershiprole"
	"github.com/cardea-iam/cardea/controllers/oauthapp"
	"github.com/cardea-iam/cardea/controllers/oauthclient"
	"github.com/cardea-iam/cardea/controllers/oauthscope"
	"github.com/cardea-iam/cardea/controllers/ratelimitscheme"
	"github.com/cardea-iam/cardea/controllers/shared/hostpolicy"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/controllers/webhookendpoint"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store"
)

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get

// Options are the operator's dependencies other than its manager.
type Options struct {
	// Store is the runtime store.
	Store store.Store
	// Clock returns the time; Random is the source of keys.
	Clock  func() time.Time
	Random io.Reader
	// Keyring holds the root keys; if it is empty, deployments cannot sign and take no values from Secrets.
	Keyring *seal.Keyring
	// Resync is the time between two reconciles of an unchanged resource.
	Resync time.Duration
	// Heartbeat is the time between two heartbeats to the store.
	Heartbeat time.Duration
	// Workers is the number of reconciles of one kind at once.
	Workers int
	// LocalFrontend is the scheme and port under which browsers reach hosts of this machine.
	LocalFrontend translation.LocalFrontend
	// RequireHostGrants lets a namespace declare only the hosts that its annotation AnnotationAllowedHosts lists.
	RequireHostGrants bool
	// Hook is called before each step of each reconcile. An error ends the reconcile; engine.ErrCrash also skips the
	// report, as a crash would. Nil outside tests.
	Hook func(kind, step string) error
	// Tracer makes a trace of each reconcile; nil: none.
	Tracer *tracing.Tracer
	// Limits bound the number and bytes of a deployment's documents; zero: no bound.
	Limits engine.Limits
	// Registry gets the operator's own metrics; nil: none does.
	Registry prometheus.Registerer
}

// setup adds every controller to a manager.
func setup(ctx context.Context, mgr manager.Manager, lock *resourcelock.LeaseLock, api *engine.APIServer, opts Options) error {
	term := engine.NewTerm(engine.TermOptions{
		Store: opts.Store, Install: installID(mgr.GetAPIReader()), StillLeader: stillLeader(lock), Heartbeat: opts.Heartbeat,
	})
	for _, runnable := range []manager.Runnable{term, api} {
		if err := mgr.Add(runnable); err != nil {
			return err
		}
	}
	e := engine.New(mgr, engine.Options{
		Store: opts.Store, Term: term, API: api, Clock: opts.Clock, Resync: opts.Resync, Workers: opts.Workers, Hook: opts.Hook, Tracer: opts.Tracer,
		Limits: opts.Limits,
	})
	if err := addKinds(e, mgr, term, opts); err != nil {
		return err
	}
	return e.Start(ctx, mgr)
}

// addKinds adds every kind to the engine. Engine.Start returns an error if a kind of v1alpha1.Kinds is missing here.
func addKinds(e *engine.Engine, mgr manager.Manager, term *engine.Term, opts Options) error {
	objects, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	watch := func(resource schema.GroupVersionResource, newList func() client.ObjectList) *objectwatch.Watch {
		w := objectwatch.New(objects, resource, mgr.GetCache(), newList)
		e.WhenGone(w.Release)
		return w
	}
	// Secrets and ConfigMaps do not go through the manager's client: its read-your-writes consistency would watch and
	// cache all of them.
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	var grants *hostpolicy.Grants
	if opts.RequireHostGrants {
		grants = &hostpolicy.Grants{Cache: mgr.GetCache()}
	}
	deployments := func() client.ObjectList { return &v1alpha1.IdentityDeploymentList{} }
	engine.Add(e, identitydeployment.Kind(identitydeployment.Options{
		Client: direct, ConfigMaps: watch(objectwatch.ConfigMaps, deployments), Secrets: watch(objectwatch.Secrets, deployments), Grants: grants,
		Keyring: opts.Keyring, People: identitydeployment.People{Store: opts.Store, Term: term.Current}, Local: opts.LocalFrontend, Clock: opts.Clock, Random: opts.Random,
	}))
	engine.Add(e, ratelimitscheme.Kind())
	engine.Add(e, apiauthapp.Kind())
	engine.Add(e, apikey.Kind(apikey.Options{
		Client:  direct,
		Secrets: watch(objectwatch.Secrets, func() client.ObjectList { return &v1alpha1.APIKeyList{} }),
		Events:  mgr.GetEventRecorder("cardea"),
		Clock:   opts.Clock,
		Random:  opts.Random,
	}))
	engine.Add(e, membershiprole.Kind())
	engine.Add(e, b2bsettings.Kind())
	engine.Add(e, oauthapp.Kind(oauthapp.Options{
		Client: direct, Secrets: watch(objectwatch.Secrets, func() client.ObjectList { return &v1alpha1.OAuthAppList{} }), Keyring: opts.Keyring,
		Grants: grants, Local: opts.LocalFrontend, Clock: opts.Clock, Random: opts.Random,
	}))
	engine.Add(e, oauthscope.Kind())
	clients := func() client.ObjectList { return &v1alpha1.OAuthClientList{} }
	engine.Add(e, oauthclient.Kind(oauthclient.Options{
		Client: direct, Secrets: watch(objectwatch.Secrets, clients), ConfigMaps: watch(objectwatch.ConfigMaps, clients),
		Events: mgr.GetEventRecorder("cardea"), Clock: opts.Clock, Random: opts.Random,
	}))
	engine.Add(e, jwttemplate.Kind())
	engine.Add(e, aitool.Kind(aitool.Options{
		Client: direct, Secrets: watch(objectwatch.Secrets, func() client.ObjectList { return &v1alpha1.AIToolList{} }), Keyring: opts.Keyring,
	}))
	engine.Add(e, aiagent.Kind(aiagent.Options{Local: opts.LocalFrontend}))
	connections := func() client.ObjectList { return &v1alpha1.ConnectionList{} }
	engine.Add(e, connection.Kind(connection.Options{
		Client: direct, Secrets: watch(objectwatch.Secrets, connections), ConfigMaps: watch(objectwatch.ConfigMaps, connections), Keyring: opts.Keyring,
		Events: mgr.GetEventRecorder("cardea"), Rows: opts.Store, Local: opts.LocalFrontend, Clock: opts.Clock, Random: opts.Random,
	}))
	engine.Add(e, directory.Kind(directory.Options{
		Client: direct, Secrets: watch(objectwatch.Secrets, func() client.ObjectList { return &v1alpha1.DirectoryList{} }),
		Events: mgr.GetEventRecorder("cardea"), Rows: opts.Store, Local: opts.LocalFrontend, Clock: opts.Clock, Random: opts.Random,
	}))
	engine.Add(e, webhookendpoint.Kind(webhookendpoint.Options{
		Client: direct, Secrets: watch(objectwatch.Secrets, func() client.ObjectList { return &v1alpha1.WebhookEndpointList{} }), Keyring: opts.Keyring,
		Events: mgr.GetEventRecorder("cardea"), Rows: opts.Store, Clock: opts.Clock, Random: opts.Random, Registry: opts.Registry,
	}))
	return nil
}
