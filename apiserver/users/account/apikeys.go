package account

import (
	"errors"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store/people"
)

// MaxKeyOverlap is the longest time for which a rotated key may be accepted together with its successor.
const MaxKeyOverlap = 30 * 24 * time.Hour

// Errors of the rules for API keys.
var (
	ErrKeyUnknown       = errors.New("there is no such API key")
	ErrKeyEnded         = errors.New("the API key was revoked, has expired, or was rotated already")
	ErrWorkspaceUnknown = errors.New("the user is not a member of the workspace")
	ErrTooManyKeys      = errors.New("the user has too many API keys")
)

// CreateKey creates the requested API key with a new secret, which is only in the returned key. A key that is bound to
// a membership requires that membership.
func CreateKey(u *Unit, asked people.APIKey, prefix string) (people.APIKey, apikey.Key, error) {
	if err := BindKey(u, &asked); err != nil {
		return people.APIKey{}, apikey.Key{}, err
	}
	k, secret, err := insertKey(u, asked, prefix)
	if err == nil {
		u.Log(events.OfKey(events.APIKeyCreated, k))
	}
	return k, secret, err
}

// BindKey checks and locks the objects that a key is bound to, so that none of them can end before the key is inserted.
func BindKey(u *Unit, k *people.APIKey) error {
	if k.Owner == 0 {
		return nil
	}
	if _, found, err := u.Users().LockUser(k.Owner); err != nil {
		return err
	} else if !found {
		return ErrUserUnknown
	}
	if k.Workspace != 0 {
		workspace, found, err := u.Organizations().Workspace(k.Workspace)
		if err != nil {
			return err
		}
		if !found || k.Organization != 0 && k.Organization != workspace.Organization {
			return ErrWorkspaceUnknown
		}
		k.Organization = workspace.Organization
	}
	if k.Organization == 0 {
		return nil
	}
	if _, found, err := u.Organizations().Member(k.Organization, k.Owner); err != nil {
		return err
	} else if !found {
		return ErrNotMember
	}
	if k.Workspace == 0 {
		return nil
	}
	_, found, err := u.Organizations().WorkspaceMember(k.Workspace, k.Owner)
	if err == nil && !found {
		err = ErrWorkspaceUnknown
	}
	return err
}

func insertKey(u *Unit, k people.APIKey, prefix string) (people.APIKey, apikey.Key, error) {
	secret, err := apikey.Mint(u.Random, prefix)
	if err != nil {
		return people.APIKey{}, apikey.Key{}, err
	}
	if k.ID, err = u.NewID(); err != nil {
		return people.APIKey{}, apikey.Key{}, err
	}
	k.PublicID, k.Digest, k.Prefix, k.Suffix = secret.ID(), secret.Digest(), secret.Prefix(), secret.Last4()
	k.CreatedAt, k.UpdatedAt = u.Now, u.Now
	return k, secret, u.APIKeys().InsertAPIKey(k)
}

// FindKey returns the key of an app by its public id or row id. ErrKeyUnknown: the app has no such key.
func FindKey(u *Unit, app, id string) (people.APIKey, error) {
	k, found, err := people.FindAPIKey(u.APIKeys(), id)
	if err == nil && (!found || k.App != app) {
		err = ErrKeyUnknown
	}
	return k, err
}

// LockKey is FindKey with locks on the key's owner and the key: no other transaction changes the key until this one
// ends.
func LockKey(u *Unit, app, id string) (people.APIKey, error) {
	k, err := FindKey(u, app, id)
	if err != nil {
		return k, err
	}
	if k.Owner != 0 {
		// revokeKeysOf lists and revokes the keys of an owner that its caller has locked. Without this lock, a
		// concurrent rotation could insert a new key that revokeKeysOf does not list and therefore does not revoke.
		if _, _, err := u.Users().LockUser(k.Owner); err != nil {
			return k, err
		}
	}
	k, found, err := u.APIKeys().LockAPIKey(k.ID)
	if err == nil && !found {
		err = ErrKeyUnknown
	}
	return k, err
}

// RotateKey replaces a key with a new one that has the same permissions. The old key ends after overlap.
func RotateKey(u *Unit, old people.APIKey, prefix string, overlap time.Duration) (people.APIKey, apikey.Key, error) {
	if !old.Active(u.Now) || !old.RetiresAt.IsZero() {
		return people.APIKey{}, apikey.Key{}, ErrKeyEnded
	}
	next := old
	next.RotatedFrom, next.LastUsedAt = old.ID, time.Time{}
	next, secret, err := insertKey(u, next, prefix)
	if err != nil {
		return people.APIKey{}, apikey.Key{}, err
	}
	old.UpdatedAt = u.Now
	if overlap > 0 {
		old.RetiresAt = u.Now.Add(overlap)
	} else {
		old.RevokedAt, old.RevokedReason = u.Now, "rotated"
	}
	u.Log(events.OfRotation(old, next.ID))
	return next, secret, u.APIKeys().UpdateAPIKey(old)
}

// RevokeKey revokes a key permanently, for an actor. It reports whether this call revoked it.
func RevokeKey(u *Unit, k *people.APIKey, actor, reason string) (bool, error) {
	if !k.RevokedAt.IsZero() {
		return false, nil
	}
	k.RevokedAt, k.RevokedReason, k.UpdatedAt = u.Now, reason, u.Now
	LogAs(u, actor, events.OfKey(events.APIKeyRevoked, *k))
	return true, u.APIKeys().UpdateAPIKey(*k)
}

// KeyRoles returns the permissions of the owner's current roles in a key's organization and workspace; empty where the
// key is not bound.
func KeyRoles(u *Unit, k people.APIKey) (organization, workspace []string, err error) {
	organization, workspace = []string{}, []string{}
	if k.Organization != 0 {
		m, found, err := u.Organizations().Member(k.Organization, k.Owner)
		if err != nil {
			return nil, nil, err
		}
		if role := u.RoleOf(v1alpha1.RoleLevelOrganization, m.Owner, m.Role); found && role != nil {
			organization = append(organization, role.Permissions...)
		}
	}
	if k.Workspace != 0 {
		m, found, err := u.Organizations().WorkspaceMember(k.Workspace, k.Owner)
		if err != nil {
			return nil, nil, err
		}
		if role := u.RoleOf(v1alpha1.RoleLevelWorkspace, m.Owner, m.Role); found && role != nil {
			workspace = append(workspace, role.Permissions...)
		}
	}
	return organization, workspace, nil
}
