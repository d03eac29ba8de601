package credential

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

// Fresh returns a 503 if the configuration was never loaded, or if it has been stale for longer than most. If most is
// 0, any staleness is accepted.
func Fresh(snapshots *snapshot.Follower, most time.Duration) error {
	select {
	case <-snapshots.Loaded():
	default:
		return apierror.Unavailable(nil, "the configuration is not loaded yet: try again")
	}
	if most > 0 && snapshots.Staleness() > most {
		return apierror.Unavailable(nil, "the configuration could not be refreshed for too long (--max-staleness): try again")
	}
	return nil
}
