package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/test/testkit/argohealth"
)

// health asks Argo CD's script for an object's health.
func health(t *testing.T, object map[string]any) (status, message string) {
	t.Helper()
	status, message, err := argohealth.Of(object)
	if err != nil {
		t.Fatal(err)
	}
	return status, message
}

// reported is a resource of generation 2 as the operator reports it with conditions.
func reported(t *testing.T, conditions []metav1.Condition) map[string]any {
	t.Helper()
	scheme := &v1alpha1.RateLimitScheme{ObjectMeta: metav1.ObjectMeta{Name: "free", Namespace: "acme", Generation: 2}}
	scheme.APIVersion, scheme.Kind = v1alpha1.GroupVersion.String(), v1alpha1.KindRateLimitScheme
	scheme.Status.ObservedGeneration = 2
	scheme.Status.Conditions = merge(nil, conditions, 2, time.Now())
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scheme)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// documented returns every pair of condition and reason in docs/operations.md.
func documented(t *testing.T) (rows [][2]string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)## Conditions, and what to do\n(.*?)\n## `).FindString(string(raw))
	row := regexp.MustCompile(`^\| ([A-Za-z= ]*?) ?\| (?:<a id="reason-[a-z]+"></a>)?([A-Za-z ]+) \|`)
	condition := ""
	_, below, _ := strings.Cut(table, "|---|---|---|---|\n")
	for line := range strings.Lines(below) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		found := row.FindStringSubmatch(line)
		if found == nil {
			t.Fatalf("a row of conditions that cannot be read: %s", line)
		}
		if found[1] != "" {
			condition = found[1]
		}
		rows = append(rows, [2]string{condition, found[2]})
	}
	if len(rows) < 20 {
		t.Fatalf("the table of conditions has %d rows", len(rows))
	}
	return rows
}

// Argo CD's script and Flux' kstatus report the expected health for every documented condition.
func TestHealthInArgoCDAndFlux(t *testing.T) {
	now := time.Now()
	away := &storeError{fmt.Errorf("%w: down", store.ErrUnavailable)}
	for _, row := range documented(t) {
		t.Run(row[0]+"/"+row[1], func(t *testing.T) {
			var conditions []metav1.Condition
			argo, flux, deleted := "Progressing", kstatus.InProgressStatus, false
			switch reason := row[1]; row[0] {
			case "Ready=True":
				conditions, argo, flux = summarize(outcome{synced: true}), "Healthy", kstatus.CurrentStatus
			case "Accepted=False":
				conditions, argo, flux = summarize(outcome{err: Terminal(reason, "because")}), "Degraded", kstatus.FailedStatus
			case "ReferencesResolved=False":
				if reason == v1alpha1.ReasonOrganizationNotFound { // the kind's own, in place of the engine's
					conditions = summarize(outcome{synced: true, own: []metav1.Condition{condition(v1alpha1.ConditionReferencesResolved, metav1.ConditionFalse, reason, "because")}})
					argo, flux = "Healthy", kstatus.CurrentStatus
					break
				}
				waiting := Waiting(v1alpha1.ConditionReferencesResolved, reason, "because")
				conditions = summarize(outcome{err: waiting, unresolved: waiting})
			case "CredentialsReady=False":
				conditions = summarize(outcome{err: Waiting(v1alpha1.ConditionCredentialsReady, reason, "because")})
			case "Accepted=Unknown":
				conditions = summarize(outcome{err: away})
			case "Synced=False":
				conditions = summarize(outcome{err: map[string]error{v1alpha1.ReasonStoreUnavailable: away}[reason]})
			case "Deleting=True":
				deleted, flux = true, kstatus.TerminatingStatus
				failed := error(away)
				if reason != v1alpha1.ReasonStoreUnavailable {
					failed = Waiting(v1alpha1.ConditionDeleting, reason, "because")
				}
				conditions = withDeleting(summarize(outcome{synced: true}), failed, 2, now)
			case "FormerPeople=True", "IssuerChanged=True", "NamedAsPermission=True", "RelyingPartyChanged=True", "PasskeysReady=False",
				"Callable=True", "Callable=False", "Served=True", "Served=False", "Reachable=True", "Reachable=False", "Reachable=Unknown",
				"CertificateExpiring=True", "MetadataChanged=True":
				own, status, _ := strings.Cut(row[0], "=")
				conditions = summarize(outcome{synced: true, own: []metav1.Condition{condition(own, metav1.ConditionStatus(status), reason, "because")}})
				argo, flux = "Healthy", kstatus.CurrentStatus
			case "Delivering=True", "Delivering=False", "Delivering=Unknown":
				_, status, _ := strings.Cut(row[0], "=")
				if reason == v1alpha1.ReasonDisabled {
					conditions = summarize(outcome{synced: true, lacks: &WaitingError{Condition: v1alpha1.ConditionDelivering, Reason: reason, Message: "because"}})
					break
				}
				conditions = summarize(outcome{synced: true, own: []metav1.Condition{condition(v1alpha1.ConditionDelivering, metav1.ConditionStatus(status), reason, "because")}})
				argo, flux = "Healthy", kstatus.CurrentStatus
			case "Ready as it was":
				conditions, argo, flux = whileSuspended(summarize(outcome{synced: true}), 2, now), "Suspended", kstatus.CurrentStatus
			case "Reconciling=True", "Stalled=True":
				return // each comes with another row's condition and is covered by that row
			default:
				t.Fatalf("this test does not cover %s", row[0])
			}
			object := reported(t, conditions)
			if deleted {
				object["metadata"].(map[string]any)["deletionTimestamp"] = now.UTC().Format(time.RFC3339)
			}
			expectHealth(t, object, argo, flux)
		})
	}
}

func expectHealth(t *testing.T, object map[string]any, argo string, flux kstatus.Status) {
	t.Helper()
	status, message := health(t, object)
	if status != argo || message == "" || message == "nil" {
		t.Errorf("Argo CD says %s (%s), want %s", status, message, argo)
	}
	result, err := kstatus.Compute(&unstructured.Unstructured{Object: object})
	if err != nil || result.Status != flux {
		t.Errorf("Flux says %v, %v, want %s", result, err, flux)
	}
}

func TestHealthOfWhatIsNotReportedYet(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"not reconciled yet": func(o map[string]any) { delete(o, "status") },
		"an edit since":      func(o map[string]any) { o["metadata"].(map[string]any)["generation"] = int64(3) },
	} {
		t.Run(name, func(t *testing.T) {
			object := reported(t, summarize(outcome{synced: true}))
			change(object)
			if status, message := health(t, object); status != "Progressing" || message == "" {
				t.Errorf("%s (%s)", status, message)
			}
		})
	}
	// Flux does not report a resource as current that was never active: its wait times out.
	t.Run("suspended before it was ever active", func(t *testing.T) {
		expectHealth(t, reported(t, whileSuspended(nil, 2, time.Now())), "Suspended", kstatus.InProgressStatus)
	})
	t.Run("refused, with the reason", func(t *testing.T) {
		if _, message := health(t, reported(t, summarize(outcome{err: errors.Join(Terminal(v1alpha1.ReasonConflict, "held by another"))}))); message != "held by another" {
			t.Errorf("it says %q", message)
		}
	})
}
