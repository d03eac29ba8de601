package approvals

import (
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// readAtOnce is how many rows one statement reads.
	readAtOnce = 100
	// MaxRead bounds the rows that one List reads.
	MaxRead = 1000
)

// States are the states of approvals.
var States = []string{people.ApprovalPending, people.ApprovalApproved, people.ApprovalDenied, people.ApprovalUsed, Expired, Void}

// List returns up to limit approvals of a filter that keep accepts, the newest first, without arguments. The filter's
// status is one of States, or "" for any. next is the approval before which the next page begins, 0 if there is none. A
// page is shorter than limit if MaxRead rows have no more.
func List(u *account.Unit, filter people.ApprovalFilter, limit int, keep func(*people.Approval) (bool, error)) (found []people.Approval, next int64, err error) {
	status := filter.Status
	if status == Expired || status == Void { // the store does not know these states
		filter.Status = ""
	}
	for read := 0; read < MaxRead; read += readAtOnce {
		page, err := u.Approvals().ListApprovals(filter, readAtOnce)
		if err != nil {
			return nil, 0, err
		}
		for i := range page {
			kept := status == "" || Status(&page[i], Content(u.Snapshot(), u.Key(), page[i].Agent, page[i].Tool), u.Now) == status
			if kept {
				if kept, err = keep(&page[i]); err != nil {
					return nil, 0, err
				}
			}
			if !kept {
				continue
			}
			if len(found) == limit {
				return found, found[limit-1].ID, nil
			}
			found = append(found, page[i])
		}
		if len(page) < readAtOnce {
			return found, 0, nil
		}
		filter.Before = page[readAtOnce-1].ID
	}
	return found, filter.Before, nil
}
