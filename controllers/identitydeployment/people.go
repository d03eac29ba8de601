package identitydeployment

import (
	"context"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/store"
)

// People erases people's rows, and tells the tenure to do so under.
type People struct {
	Store  store.Erasure
	Tenure func(context.Context) (store.Tenure, error)
}

const (
	// eraseBatch bounds one deletion, so that nobody waits for it.
	eraseBatch = 500
	// lastWrites is how long a server that has not yet seen the deployment go may still write: it follows within 1 s.
	lastWrites = 2 * time.Second
)

// eraseAll deletes every row of a deployment that servers no longer serve: what is there, and then what was being written
// meanwhile. A pass that is cut short begins again.
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
		tenure, err := p.Tenure(ctx)
		if err != nil {
			return err
		}
		erased, err := p.Store.Erase(ctx, tenure, deployment, eraseBatch)
		if err != nil {
			return fmt.Errorf("erase people's rows: %w", err)
		}
		if erased == 0 {
			return nil
		}
	}
}
