package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// resources returns one resource with conditions, written as Type/Reason. Only conditions with the reason Ready are
// True.
func resources(conditions ...string) []v1alpha1.Resource {
	obj := &v1alpha1.APIKey{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for _, c := range conditions {
		kind, reason, _ := strings.Cut(c, "/")
		status := metav1.ConditionFalse
		if reason == v1alpha1.ReasonReady {
			status = metav1.ConditionTrue
		}
		obj.Status.Conditions = append(obj.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason})
	}
	return []v1alpha1.Resource{obj}
}

func TestDoctorsJudgements(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	lease := func(holder string, age time.Duration) coordinationv1.Lease {
		return coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-age)))}}
	}
	pod := func(image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
	}
	date := func(drift time.Duration) string { return now.Add(drift).Format(http.TimeFormat) }
	for name, tc := range map[string]struct {
		got  check
		want level
		says string
	}{
		"a leader":                 {evaluateLease("leader", lease("a", 2*time.Second), now), levelOK, "a leads"},
		"a leader that is away":    {evaluateLease("leader", lease("a", time.Minute), now), levelFail, "renewed the Lease 1m0s ago"},
		"a Lease that was let go":  {evaluateLease("leader", lease("", 0), now), levelFail, "no operator leads"},
		"an empty Lease":           {evaluateLease("leader", coordinationv1.Lease{}, now), levelFail, "no operator leads"},
		"clocks that agree":        {checkClock("clock", date(-time.Second), now, now), levelOK, "agree"},
		"a slow answer":            {checkClock("clock", date(0), now.Add(-9*time.Second), now.Add(9*time.Second)), levelOK, "agree"},
		"a clock that drifts":      {checkClock("clock", date(-20*time.Second), now, now), levelWarn, "19s apart"},
		"a clock that is wrong":    {checkClock("clock", date(5*time.Minute), now, now), levelFail, "5m0s apart"},
		"no date":                  {checkClock("clock", "", now, now), levelWarn, "sends no date"},
		"the same version":         {checkImage("operator", pod("registry:5000/cardea:v1"), "v1"), levelOK, "of this plugin's version"},
		"another version":          {checkImage("operator", pod("cardea:v2"), "v1"), levelWarn, "this plugin is v1"},
		"no tag":                   {checkImage("operator", pod("registry:5000/cardea"), "5000/cardea"), levelWarn, "this plugin is"},
		"no container":             {checkImage("operator", corev1.PodTemplateSpec{}, "v1"), levelWarn, "no container"},
		"a store that answers":     {evaluateConditions("acme", resources("Ready/Ready"), "an operator leads")[0], levelOK, "no resource waits for it, and an operator leads"},
		"a store that does not":    {evaluateConditions("acme", resources("Synced/StoreUnavailable"), "an operator leads")[0], levelFail, "cannot reach it: web waits"},
		"a store without a report": {evaluateConditions("acme", resources("Ready/Ready"), "")[0], levelWarn, "no sign that an operator runs"},
		"a store away, no sign":    {evaluateConditions("acme", resources("Synced/StoreUnavailable"), "")[0], levelFail, "cannot reach it: web waits"},
		"no root key":              {evaluateConditions("acme", resources("CredentialsReady/RootKeyMissing"), "an operator leads")[1], levelFail, "has none: web waits"},
		"not ready":                {evaluateConditions("acme", resources("Ready/Conflict"), "an operator leads")[2], levelWarn, "not ready: web"},
		"not reconciled yet":       {evaluateConditions("acme", resources(), "an operator leads")[2], levelWarn, "has not seen the present generation of web"},
		"no resources":             {evaluateConditions("acme", nil, "an operator leads")[0], levelWarn, "no resource of Cardea"},
		"a feed that follows":      {evaluateMetrics("server", readGauges("# HELP x\n"+gaugeStaleness+" 0.4\n"))[0], levelOK, "0.4 s old"},
		"a feed that lags":         {evaluateMetrics("server", readGauges(gaugeStaleness+" 62.5\n"))[0], levelFail, "62 s old"},
		"Redis away":               {evaluateMetrics("server", readGauges(gaugeStaleness+" 0\n"+gaugeDegraded+" 1\n"))[1], levelWarn, "limits are not shared"},
		"an operator's metrics":    {evaluateMetrics("server", readGauges("workqueue_depth 1\n"))[0], levelOK, "not a server"},
	} {
		if tc.got.Level != tc.want || !strings.Contains(tc.got.Message, tc.says) || tc.want != levelOK && tc.got.Fix == "" {
			t.Errorf("%s: %+v, want %s and %q", name, tc.got, tc.want, tc.says)
		}
	}
}

// The state of the operator is that of its ready replicas, and standalone ignores a Lease that an operator left behind.
func TestDoctorLooksAtWhatRuns(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "cardea-system"} }
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "cardea:" + version}}}}
	operator := func(ready int32) client.Object {
		return &appsv1.Deployment{ObjectMeta: meta(operatorName), Spec: appsv1.DeploymentSpec{Template: template}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
	}
	standalone := func(ready int32) client.Object {
		return &appsv1.StatefulSet{ObjectMeta: meta(standaloneName), Spec: appsv1.StatefulSetSpec{Template: template}, Status: appsv1.StatefulSetStatus{ReadyReplicas: ready}}
	}
	lease := func(age time.Duration) client.Object {
		return &coordinationv1.Lease{ObjectMeta: meta(operatorName), Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a"), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-age)))}}
	}
	barred := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, isLease := obj.(*coordinationv1.Lease); isLease {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, key.Name, errors.New("no"))
		}
		return c.Get(ctx, key, obj, opts...)
	}}
	for _, tc := range []struct {
		name    string
		funcs   interceptor.Funcs
		objects []client.Object
		// want are the lines' levels and names, and life whether there is a sign of life.
		want string
		life bool
		says string
	}{
		{"an operator that leads", interceptor.Funcs{}, []client.Object{operator(1), lease(time.Second)}, "OK operator, OK leader, WARN servers", true, "service/cardea-server-metrics 8090"},
		{"an operator whose Pods do not come up", interceptor.Funcs{}, []client.Object{operator(0), lease(time.Hour)}, "FAIL operator, OK operator, FAIL leader, WARN servers", false, "Deployment cardea-operator in namespace cardea-system has no ready replica"},
		{"standalone, with the Lease of before", interceptor.Funcs{}, []client.Object{standalone(1), lease(time.Hour)}, "OK operator, WARN servers", true, "service/cardea-standalone-metrics 8090"},
		{"standalone, with the Deployment of before", interceptor.Funcs{}, []client.Object{operator(0), standalone(1), lease(time.Hour)}, "OK operator, WARN servers", true, "service/cardea-standalone-metrics 8090"},
		{"standalone whose Pod does not come up", interceptor.Funcs{}, []client.Object{standalone(0), lease(time.Hour)}, "FAIL operator, OK operator, WARN servers", false, "kubectl describe statefulset cardea-standalone"},
		{"a Lease that one may not read", barred, []client.Object{operator(1)}, "OK operator, WARN leader, WARN servers", true, "kubectl create role cardea-lease-reader -n cardea-system --verb=get"},
		{"nothing", interceptor.Funcs{}, nil, "WARN operator, WARN leader, WARN servers", false, "cardea-standalone-metrics"},
		{"outside of the cluster", interceptor.Funcs{}, []client.Object{lease(time.Second)}, "WARN operator, OK leader, WARN servers", true, "a leads"},
	} {
		d := &doctor{cluster: inMemory(t, tc.funcs, tc.objects...), system: "cardea-system", now: func() time.Time { return now }}
		running, checks := d.checkInstall(t.Context())
		leader, servers := d.checkLease(t.Context(), running), d.checkServers(t.Context(), running)
		var lines, texts []string
		for _, c := range slices.Concat(checks, leader, servers) {
			lines, texts = append(lines, string(c.Level)+" "+c.Name), append(texts, c.Message+" "+c.Fix)
		}
		if got := strings.Join(lines, ", "); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		if text := strings.Join(texts, "\n"); !strings.Contains(text, tc.says) || strings.Contains(text, "ask for ClusterRole view") {
			t.Errorf("%s: %q is not in %s", tc.name, tc.says, text)
		}
		if life := signOfLife(running, leader, servers); (life != "") != tc.life {
			t.Errorf("%s: sign of life %q", tc.name, life)
		}
	}
	if life := signOfLife(installed{}, nil, []check{ok("server a", "ready")}); life != "server a is ready" {
		t.Errorf("of a server: %q", life)
	}
}
