package identitydeployment

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
)

// People finds and erases users' rows. Term returns the term under which rows are erased.
type People struct {
	Store interface {
		store.Erasure
		store.Tenants
	}
	Term func(context.Context) (store.Term, error)
}

const (
	// eraseBatch bounds one deletion, so that no other transaction waits long.
	eraseBatch = 500
	// lastWrites is how long a server may still write rows of a deleted deployment: every server learns of the deletion
	// within 1 s.
	lastWrites = 2 * time.Second
)

// former warns of users from before the deployment was created: a deployment with the name of a deleted one has the
// users of the deleted one, which may not be intended.
func (p People) former(ctx context.Context, d *v1alpha1.IdentityDeployment) ([]metav1.Condition, error) {
	if d.Annotations[v1alpha1.AnnotationFormerPeopleAccepted] != "" {
		return nil, nil
	}
	oldest, err := p.Store.OldestUser(ctx, d.Namespace+"/"+d.Name)
	if err != nil {
		return nil, engine.StoreError(err)
	}
	if !isFormer(oldest, d.CreationTimestamp.Time) {
		return nil, nil
	}
	return []metav1.Condition{{
		Type: v1alpha1.ConditionFormerPeople, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonFoundPeople,
		Message: "the store has users from before this deployment was created: users of a former deployment with this name, who can sign in here. " +
			"If they belong to this deployment, annotate it with " + v1alpha1.AnnotationFormerPeopleAccepted + "=true; " +
			"otherwise delete it with deletionPolicy Delete, which erases them, and create it again",
	}}, nil
}

// clockSkew is how far the clocks of servers and of the API server may differ.
const clockSkew = time.Minute

// isFormer reports whether a user, by its id, is older than a deployment.
func isFormer(user int64, created time.Time) bool {
	return user != 0 && ids.CreatedAt(user).Before(created.Add(-clockSkew))
}

// eraseAll deletes every row of a deployment that servers no longer serve. It deletes twice, because servers may write
// rows during the first pass. A reconcile that is interrupted begins again.
func (p People) eraseAll(ctx context.Context, deployment string) error {
	if err := p.eraseWhatIs(ctx, deployment); err != nil {
		return err
	}
	timer := time.NewTimer(lastWrites)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	return p.eraseWhatIs(ctx, deployment)
}

func (p People) eraseWhatIs(ctx context.Context, deployment string) error {
	for {
		term, err := p.Term(ctx)
		if err != nil {
			return err
		}
		erased, err := p.Store.Erase(ctx, term, deployment, eraseBatch)
		if err != nil {
			return fmt.Errorf("erase users' rows: %w", err)
		}
		if erased == 0 {
			return nil
		}
	}
}
