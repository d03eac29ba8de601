package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

const (
	// clockDrift is the difference from which clocks count as different, because an HTTP date has the precision of a
	// second.
	clockDrift = 5 * time.Second
	// clockFault is the difference that the server allows between its clock and that of a token's issuer.
	clockFault = 60 * time.Second
	// leaseAge is the age of a Lease from which no operator leads: a leader renews every second, and another operator
	// takes over within 12 s.
	leaseAge = 15 * time.Second
)

// checkAPIServer asks for the version, and compares the clocks.
func (d *doctor) checkAPIServer(ctx context.Context) ([]check, error) {
	const name = "API server"
	asker, err := rest.HTTPClientFor(d.config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(d.config)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), nil)
	if err != nil {
		return nil, err
	}
	before := d.now()
	resp, err := asker.Do(req)
	if err != nil {
		return nil, d.explain(err, "ask", "for the version", "")
	}
	defer resp.Body.Close()
	after := d.now()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, d.explain(err, "ask", "for the version", "")
	}
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	_ = json.Unmarshal(body, &answer)
	served := ok(name, "%s, Kubernetes %s", d.config.Host, orNone(answer.GitVersion))
	return []check{served, checkClock("clock", resp.Header.Get("Date"), before, after)}, nil
}

// checkClock compares the date of a response with the times of request and response.
func checkClock(name, date string, before, after time.Time) check {
	theirs, err := http.ParseTime(date)
	if err != nil {
		return check{name, levelWarn, "the API server sends no date", "compare the clocks by hand"}
	}
	// The date is cut to the second, and was set between request and response.
	drift := max(before.Sub(theirs)-time.Second, theirs.Sub(after), 0)
	const fix = "synchronize both with NTP: tokens, rotations and limits depend on clocks"
	switch {
	case drift > clockFault:
		return check{name, levelFail, fmt.Sprintf("this clock and the API server's are %s apart", drift.Round(time.Second)), fix}
	case drift > clockDrift:
		return check{name, levelWarn, fmt.Sprintf("this clock and the API server's are %s apart", drift.Round(time.Second)), fix}
	}
	return ok(name, "this clock and the API server's agree within %s", clockDrift)
}

// Names of the workloads in the manifests and the chart.
const (
	operatorName   = "cardea-operator"
	standaloneName = "cardea-standalone"
)

// installed is the workload that reconciles: the operator's, or that of standalone. The zero value is an unknown
// workload.
type installed struct {
	// kind is Deployment or StatefulSet, name its name.
	kind, name string
	// ready is true if it has a ready replica.
	ready    bool
	template corev1.PodTemplateSpec
}

// find returns the workload. If both exist, it returns the running one: after a change between the two forms, the other
// can be left behind.
func (d *doctor) find(ctx context.Context) (installed, error) {
	var deployment appsv1.Deployment
	var set appsv1.StatefulSet
	var found []installed
	for _, candidate := range []struct {
		kind string
		obj  client.Object
		name string
	}{{"Deployment", &deployment, operatorName}, {"StatefulSet", &set, standaloneName}} {
		err := d.client.Get(ctx, client.ObjectKey{Namespace: d.system, Name: candidate.name}, candidate.obj)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return installed{}, d.explain(err, "get", strings.ToLower(candidate.kind)+"s", d.system)
		}
		running := installed{kind: candidate.kind, name: candidate.name, template: deployment.Spec.Template, ready: deployment.Status.ReadyReplicas > 0}
		if candidate.name == standaloneName {
			running.template, running.ready = set.Spec.Template, set.Status.ReadyReplicas > 0
		}
		found = append(found, running)
	}
	for _, running := range found {
		if running.ready {
			return running, nil
		}
	}
	return append(found, installed{})[0], nil
}

// checkInstall checks whether the operator runs, and reads its version from its image.
func (d *doctor) checkInstall(ctx context.Context) (installed, []check) {
	const name = "operator"
	running, err := d.find(ctx)
	switch {
	case err != nil:
		return running, []check{{name, levelWarn, "its state and version are not known: " + err.Error(), "ask a cluster admin"}}
	case running.name == "":
		return running, []check{{name, levelWarn, "neither Deployment cardea-operator nor StatefulSet cardea-standalone is in namespace " + d.system,
			"name the namespace with --system-namespace; if Cardea runs outside of the cluster, there is no such workload"}}
	}
	image := checkImage(name, running.template, version)
	if !running.ready {
		return running, []check{{name, levelFail, fmt.Sprintf("%s %s in namespace %s has no ready replica: declared changes do not become active", running.kind, running.name, d.system),
			fmt.Sprintf("find out why its Pods are not ready: kubectl describe %s %s -n %s, and their logs", strings.ToLower(running.kind), running.name, d.system)}, image}
	}
	return running, []check{image}
}

// checkImage compares the tag of the image with the plugin's version.
func checkImage(name string, template corev1.PodTemplateSpec, mine string) check {
	if len(template.Spec.Containers) == 0 {
		return check{name, levelWarn, "its Pod has no container", "check whether all manifests were applied"}
	}
	image := template.Spec.Containers[0].Image
	tag := ""
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") && !strings.Contains(image, "@") {
		tag = image[i+1:]
	}
	if tag == mine {
		return ok(name, "image %s, of this plugin's version", image)
	}
	return check{name, levelWarn, fmt.Sprintf("image %s, this plugin is %s", image, mine), "use the plugin of the operator's version, if the tag is a version"}
}

// checkLease reports how long ago the leader renewed its Lease. Standalone has no Lease, and the Lease of a previous
// operator does not count.
func (d *doctor) checkLease(ctx context.Context, running installed) []check {
	const name = "leader"
	if running.name == standaloneName {
		return nil
	}
	var lease coordinationv1.Lease
	err := d.client.Get(ctx, client.ObjectKey{Namespace: d.system, Name: operatorName}, &lease)
	switch {
	case apierrors.IsNotFound(err):
		return []check{{name, levelWarn, "there is no Lease cardea-operator in namespace " + d.system,
			"no action is needed if cardea standalone runs; otherwise check whether the operator runs, and name its namespace with --system-namespace"}}
	case apierrors.IsForbidden(err):
		return []check{{name, levelWarn, "the leader is not known: you may not get Lease cardea-operator in namespace " + d.system,
			"ask a cluster admin to check it, or to bind you a Role for it, because ClusterRole view does not include it: kubectl create role cardea-lease-reader -n " + d.system +
				" --verb=get --resource=leases.coordination.k8s.io --resource-name=cardea-operator"}}
	case err != nil:
		return []check{{name, levelWarn, "the leader is not known: " + d.explain(err, "get", "leases", d.system).Error(), "ask a cluster admin"}}
	}
	return []check{evaluateLease(name, lease, d.now())}
}

func evaluateLease(name string, lease coordinationv1.Lease, now time.Time) check {
	const fix = "check the operator's Pods and their logs; without a leader, declared changes do not become active"
	holder, renewed := lease.Spec.HolderIdentity, lease.Spec.RenewTime
	if holder == nil || *holder == "" || renewed == nil {
		return check{name, levelFail, "no operator leads: the last one released the Lease", fix}
	}
	age := max(now.Sub(renewed.Time), 0).Round(time.Second)
	if age > leaseAge {
		return check{name, levelFail, fmt.Sprintf("no operator leads: %s renewed the Lease %s ago", *holder, age), fix}
	}
	return ok(name, "%s leads, and renewed its Lease %s ago", *holder, age)
}

// right is a right that a command of this plugin needs.
type right struct {
	verb, group, resource string
	// lets names the commands that need it.
	lets string
}

// rights are needed in addition to reading every kind.
var rights = []right{
	{"get", "", "secrets", "key reveal and --use-key"},
	{"patch", v1alpha1.GroupVersion.Group, "apikeys", "key rotate"},
	{"delete", v1alpha1.GroupVersion.Group, "apikeys", "key revoke"},
}

// checkRights asks what the caller may do in the namespace.
func (d *doctor) checkRights(ctx context.Context) []check {
	const name = "your rights"
	var denied []string
	for _, info := range v1alpha1.Kinds {
		allowed, err := d.may(ctx, right{verb: "list", group: v1alpha1.GroupVersion.Group, resource: info.Resource})
		if err != nil {
			return []check{{name, levelWarn, d.explain(err, "ask", "what you may do", "").Error(), "ask a cluster admin"}}
		}
		if !allowed {
			denied = append(denied, info.Resource)
		}
	}
	if len(denied) > 0 {
		return []check{{name, levelFail, fmt.Sprintf("in namespace %s you may not list %s", d.namespace, some(denied)),
			"ask for ClusterRole view in that namespace, or name another with -n"}}
	}
	checks := []check{ok(name, "in namespace %s you may read every kind", d.namespace)}
	for _, r := range rights {
		allowed, err := d.may(ctx, r)
		if err == nil && !allowed {
			checks = append(checks, check{name, levelWarn, fmt.Sprintf("you may not %s %s, so you cannot use %s", r.verb, r.resource, r.lets),
				"ask for ClusterRole edit in that namespace, if you need it"})
		}
	}
	return checks
}

func (d *doctor) may(ctx context.Context, r right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{}, Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: d.namespace, Verb: r.verb, Group: r.group, Resource: r.resource},
	}}
	err := d.client.Create(ctx, review)
	return review.Status.Allowed, err
}
