package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

func TestSummarize(t *testing.T) {
	missing := Waiting(v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonNotFound, "no such deployment")
	noSecret := Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretNotFound, "no such Secret")
	conflict := Terminal(v1alpha1.ReasonConflict, "held by another")
	away := &storeError{fmt.Errorf("%w: down", store.ErrUnavailable)}
	for name, tc := range map[string]struct {
		outcome outcome
		want    string
	}{
		"all is well": {outcome{synced: true}, "Accepted=True/Accepted Ready=True/Ready ReferencesResolved=True/Resolved Synced=True/Synced"},
		"a referent is missing": {outcome{err: missing, unresolved: missing},
			"Accepted=Unknown/Pending Ready=False/NotFound Reconciling=True/NotFound ReferencesResolved=False/NotFound Synced=False/Pending"},
		"a referent went missing": {outcome{err: missing, unresolved: missing, synced: true},
			"Accepted=Unknown/Pending Ready=False/NotFound Reconciling=True/NotFound ReferencesResolved=False/NotFound Synced=True/Synced"},
		"a conflict": {outcome{err: conflict},
			"Accepted=False/Conflict Ready=False/Conflict ReferencesResolved=True/Resolved Stalled=True/Conflict Synced=False/Pending"},
		"invalid, and a referent missing": {outcome{err: Terminal(v1alpha1.ReasonInvalid, "bad"), unresolved: missing},
			"Accepted=False/Invalid Ready=False/Invalid ReferencesResolved=False/NotFound Stalled=True/Invalid Synced=False/Pending"},
		"the store is away": {outcome{err: away},
			"Accepted=Unknown/Pending Ready=False/StoreUnavailable Reconciling=True/StoreUnavailable ReferencesResolved=True/Resolved Synced=False/StoreUnavailable"},
		"a Secret is missing": {outcome{err: noSecret},
			"Accepted=True/Accepted CredentialsReady=False/SecretNotFound Ready=False/SecretNotFound Reconciling=True/SecretNotFound ReferencesResolved=True/Resolved Synced=False/Pending"},
		"a part is left out": {outcome{synced: true, lacks: noSecret.(*WaitingError)},
			"Accepted=True/Accepted CredentialsReady=False/SecretNotFound Ready=False/SecretNotFound Reconciling=True/SecretNotFound ReferencesResolved=True/Resolved Synced=True/Synced"},
		"an own condition that stops nothing": {outcome{synced: true, own: []metav1.Condition{condition("CredentialsReady", "False", "Expired", "past")}},
			"Accepted=True/Accepted CredentialsReady=False/Expired Ready=True/Ready ReferencesResolved=True/Resolved Synced=True/Synced"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range sorted(summarize(tc.outcome)) {
				got = append(got, c.Type+"="+string(c.Status)+"/"+c.Reason)
				if c.Message == "" {
					t.Errorf("%s has no message", c.Type)
				}
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("got  %s\nwant %s", text, tc.want)
			}
			stalled := slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "Stalled") })
			reconciling := slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "Reconciling") })
			if stalled && reconciling {
				t.Error("Stalled and Reconciling at once")
			}
		})
	}
}

func TestMergeKeepsTransitionTimesAndDropsWhatIsOver(t *testing.T) {
	before, now := time.Unix(1000, 0), time.Unix(2000, 0)
	have := merge(nil, summarize(outcome{err: Terminal(v1alpha1.ReasonConflict, "held")}), 1, before)
	got := merge(have, summarize(outcome{synced: true}), 2, now)
	for _, c := range got {
		want := now
		if c.Type == v1alpha1.ConditionReferencesResolved {
			want = before
		}
		if !c.LastTransitionTime.Time.Equal(want) || c.ObservedGeneration != 2 {
			t.Errorf("%s: transition %v, generation %d", c.Type, c.LastTransitionTime, c.ObservedGeneration)
		}
		if c.Type == v1alpha1.ConditionStalled {
			t.Error("Stalled stays although it is over")
		}
	}
	if again := merge(got, summarize(outcome{synced: true}), 2, now.Add(time.Hour)); !slices.Equal(again, got) {
		t.Error("the same outcome later changes conditions")
	}
}

func TestStoreMessageStaysTheSame(t *testing.T) {
	a := storeMessage(&storeError{fmt.Errorf("%w: attempt 1", store.ErrUnavailable)})
	b := storeMessage(&storeError{fmt.Errorf("%w: attempt 2", store.ErrUnavailable)})
	if a != b {
		t.Errorf("%q and %q", a, b)
	}
	if foreign := storeMessage(&storeError{fmt.Errorf("take: %w", store.ErrForeignInstall)}); !strings.Contains(foreign, "another live install") {
		t.Errorf("a foreign install is not reported: %s", foreign)
	}
}

func TestUpdatedAt(t *testing.T) {
	inStore, inStatus, now := time.UnixMicro(1_000_000_000_000_001).UTC(), time.UnixMicro(1_100_000_000_000_002).UTC(), time.UnixMicro(1_200_000_000_000_003).UTC()
	payload, err := document.Encode(document.Meta{UpdatedAt: inStore}, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	holding := store.Stored{Found: true, Document: store.Document{Hash: "same", Payload: payload}}
	status := &v1alpha1.CommonStatus{ContentHash: "same", UpdatedAt: &metav1.MicroTime{Time: inStatus}}
	for name, tc := range map[string]struct {
		hash   string
		held   store.Stored
		status *v1alpha1.CommonStatus
		want   time.Time
	}{
		"the store holds the content":           {"same", holding, status, inStore},
		"the store was lost":                    {"same", store.Stored{}, status, inStatus},
		"the status was lost":                   {"same", holding, &v1alpha1.CommonStatus{}, inStore},
		"both were lost":                        {"same", store.Stored{}, &v1alpha1.CommonStatus{}, now},
		"the content changed":                   {"other", holding, status, now},
		"a backup with older content came back": {"same", store.Stored{Found: true, Document: store.Document{Hash: "older", Payload: payload}}, status, inStatus},
	} {
		t.Run(name, func(t *testing.T) {
			if got := updatedAt(tc.hash, tc.held, tc.status, now); !got.Equal(tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestErrorKinds(t *testing.T) {
	var waiting *WaitingError
	if err := fmt.Errorf("wrapped: %w", inUse([]string{"APIKey a", "APIKey b", "APIKey c", "APIKey d", "APIKey e", "APIKey f"})); !errors.As(err, &waiting) ||
		!strings.Contains(waiting.Message, "and 1 more") {
		t.Errorf("%v", err)
	}
	if transient(nil) || transient(waiting) || transient(Terminal("R", "m")) || !transient(errors.New("x")) || !transient(&storeError{errors.New("x")}) {
		t.Error("kinds of errors are mixed up")
	}
}

// If the status cannot be written, the reconcile is repeated soon, even if its result is a wait for a watch.
func TestAStatusThatCouldNotBeWrittenIsWrittenSoon(t *testing.T) {
	for name, refused := range map[string]error{
		"changed meanwhile": apierrors.NewConflict(resource, "free", errors.New("changed")),
		"out of reach":      apierrors.NewServiceUnavailable("starting"),
	} {
		for _, found := range []error{nil, Waiting(v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonNotFound, "no such deployment"), Terminal(v1alpha1.ReasonInvalid, "bad")} {
			r := testReconciler()
			r.client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					return refused
				},
			}).Build()
			s := &state{obj: &v1alpha1.RateLimitScheme{}, base: &v1alpha1.RateLimitScheme{}}
			again, err := r.result(t.Context(), reconcile.Request{}, r.report(t.Context(), s, found), 0)
			if err != nil || again.RequeueAfter > time.Second {
				t.Errorf("%s, after %v: again in %s, %v", name, found, again.RequeueAfter, err)
			}
		}
	}
}
