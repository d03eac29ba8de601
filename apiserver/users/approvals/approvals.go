// Package approvals holds the rules of approvals of agents' calls: what an approval covers, which user decides, and
// when it has ended.
package approvals

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// UsableFor is how long an approved call can be made.
	UsableFor = 5 * time.Minute
	// RefusedFor is how long a denied call is refused at once.
	RefusedFor = 10 * time.Minute
	// FreshFor is how old the newest proof of an approver may be, for tools that ask for a fresh one.
	FreshFor = 10 * time.Minute
	// MaxPending is how many approvals of an agent wait for one user.
	MaxPending = 20
	// sealedArguments is the kind under which arguments are sealed, for the deployment and the approval's id.
	sealedArguments = "tool-approval-arguments"
)

// The states of approvals that only a time or a change of the configuration makes.
const (
	// Expired: it was not decided or not used in time.
	Expired = "expired"
	// Void: the tool or the agent has changed or is gone.
	Void = "void"
)

// Status returns the state of an approval at a time. content is the digest of its agent and tool now, "" if one of them
// is gone or inactive.
func Status(a *people.Approval, content string, now time.Time) string {
	switch a.Status {
	case people.ApprovalPending, people.ApprovalApproved:
		if content != a.Content {
			return Void
		}
		if !now.Before(a.EndsAt) {
			return Expired
		}
	}
	return a.Status
}

// Content returns the digest of an agent and its tool as declared now, "" if one of them is gone or inactive, or the
// agent does not have the tool.
func Content(s *snapshot.Snapshot, deployment string, agent, tool int64) string {
	agentEntry, hasAgent := s.ByID(v1alpha1.KindAIAgent, deployment, agent)
	toolEntry, hasTool := s.ByID(v1alpha1.KindAITool, deployment, tool)
	if !hasAgent || !hasTool {
		return ""
	}
	return ContentOf(agentEntry, toolEntry)
}

// ContentOf is Content for entries.
func ContentOf(agent, tool *snapshot.Entry) string {
	a, t := snapshot.ContentOf[snapshot.Agent](agent), snapshot.ContentOf[snapshot.Tool](tool)
	if !a.Active || !t.Active || !slices.Contains(a.Tools, tool.Name) {
		return ""
	}
	sum := sha256.New()
	encoder := json.NewEncoder(sum)
	if encoder.Encode(a.AIAgent) != nil || encoder.Encode(t.AITool) != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Decides reports whether a user decides an approval: the user of the call, or a member of the call's organization with
// the permission.
func Decides(u *account.Unit, a *people.Approval, user int64) (bool, error) {
	if a.Permission == "" {
		return user != 0 && a.Caller.User == user, nil
	}
	if user == 0 || a.Caller.Organization == 0 || !u.B2B.Enabled {
		return false, nil
	}
	member, found, err := u.Organizations().Member(a.Caller.Organization, user)
	if err != nil || !found {
		return false, err
	}
	role := u.RoleOf(v1alpha1.RoleLevelOrganization, member.Owner, member.Role)
	return role != nil && (slices.Contains(role.Permissions, a.Permission) || slices.Contains(role.Permissions, "*")), nil
}

// Sees reports whether a user sees an approval: one's own, and those that one decides.
func Sees(u *account.Unit, a *people.Approval, user int64) (bool, error) {
	if user != 0 && a.Caller.User == user {
		return true, nil
	}
	return Decides(u, a, user)
}

// Seal seals the arguments of an approval, a JSON object.
func Seal(keyring *seal.Keyring, deployment string, id int64, arguments []byte) string {
	return keyring.Seal(sealedArguments, sealedFor(deployment, id), arguments)
}

// Open opens the arguments of an approval.
func Open(keyring *seal.Keyring, deployment string, a *people.Approval) (json.RawMessage, error) {
	return keyring.Open(sealedArguments, sealedFor(deployment, a.ID), a.Arguments)
}

func sealedFor(deployment string, id int64) string { return deployment + "/" + ids.Format(id) }
