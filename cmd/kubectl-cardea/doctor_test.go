package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// resources are one whose conditions say something, written as Type/Reason.
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
		"a leader":                {judgeLease("leader", lease("a", 2*time.Second), now), levelOK, "a leads"},
		"a leader that is away":   {judgeLease("leader", lease("a", time.Minute), now), levelFail, "renewed the Lease 1m0s ago"},
		"a Lease that was let go": {judgeLease("leader", lease("", 0), now), levelFail, "no operator leads"},
		"an empty Lease":          {judgeLease("leader", coordinationv1.Lease{}, now), levelFail, "no operator leads"},
		"clocks that agree":       {judgeClock("clock", date(-time.Second), now, now), levelOK, "agree"},
		"a slow answer":           {judgeClock("clock", date(0), now.Add(-9*time.Second), now.Add(9*time.Second)), levelOK, "agree"},
		"a clock that drifts":     {judgeClock("clock", date(-20*time.Second), now, now), levelWarn, "19s apart"},
		"a clock that is wrong":   {judgeClock("clock", date(5*time.Minute), now, now), levelFail, "5m0s apart"},
		"no date":                 {judgeClock("clock", "", now, now), levelWarn, "does not say"},
		"the same version":        {judgeImage("operator", pod("registry:5000/cardea:v1"), "v1"), levelOK, "of this plugin's version"},
		"another version":         {judgeImage("operator", pod("cardea:v2"), "v1"), levelWarn, "this plugin is v1"},
		"no tag":                  {judgeImage("operator", pod("registry:5000/cardea"), "5000/cardea"), levelWarn, "this plugin is"},
		"no container":            {judgeImage("operator", corev1.PodTemplateSpec{}, "v1"), levelWarn, "no container"},
		"a store that answers":    {judgeConditions("acme", resources("Ready/Ready"))[0], levelOK, "reaches it"},
		"a store that does not":   {judgeConditions("acme", resources("Synced/StoreUnavailable"))[0], levelFail, "does not reach it: web waits"},
		"no root key":             {judgeConditions("acme", resources("CredentialsReady/RootKeyMissing"))[1], levelFail, "has none: web waits"},
		"not ready":               {judgeConditions("acme", resources("Ready/Conflict"))[2], levelWarn, "not ready: web"},
		"not looked at":           {judgeConditions("acme", resources())[2], levelWarn, "has not looked at web"},
		"no resources":            {judgeConditions("acme", nil)[0], levelWarn, "no resource of Cardea"},
		"a feed that follows":     {judgeMetrics("server", readGauges("# HELP x\n"+gaugeStaleness+" 0.4\n"))[0], levelOK, "0.4 s old"},
		"a feed that lags":        {judgeMetrics("server", readGauges(gaugeStaleness+" 62.5\n"))[0], levelFail, "62 s old"},
		"Redis away":              {judgeMetrics("server", readGauges(gaugeStaleness+" 0\n"+gaugeDegraded+" 1\n"))[1], levelWarn, "limits are not shared"},
		"an operator's metrics":   {judgeMetrics("server", readGauges("workqueue_depth 1\n"))[0], levelOK, "no server"},
	} {
		if tc.got.Level != tc.want || !strings.Contains(tc.got.Message, tc.says) || tc.want != levelOK && tc.got.Mend == "" {
			t.Errorf("%s: %+v, want %s and %q", name, tc.got, tc.want, tc.says)
		}
	}
}
