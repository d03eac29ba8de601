package organization

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store/people"
)

// unreadable are rows of a store that does not answer.
type unreadable struct{}

func (unreadable) View(context.Context, string, func(people.Tx) error) error {
	return errors.New("down")
}

func TestTheConditionStaysWhileTheStoreIsUnreadable(t *testing.T) {
	t.Parallel()
	missing := NotFound("globex", "directory")
	if want := `spec.organization.slug: no organization of the deployment has the slug "globex"; the directory counts from its creation on`; missing.Message != want {
		t.Errorf("got %s, want %s", missing.Message, want)
	}
	resolved := metav1.Condition{Type: v1alpha1.ConditionReferencesResolved, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonResolved}
	other := metav1.Condition{Type: v1alpha1.ConditionReferencesResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotFound}
	for name, tc := range map[string]struct{ have, want []metav1.Condition }{
		"a missing organization": {[]metav1.Condition{missing}, []metav1.Condition{missing}},
		"a missing resource":     {[]metav1.Condition{other}, nil},
		"nothing missing":        {[]metav1.Condition{resolved}, nil},
		"the first read":         {nil, nil},
	} {
		if diff := cmp.Diff(tc.want, Check(t.Context(), unreadable{}, "ns/acme", "globex", "directory", tc.have)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
