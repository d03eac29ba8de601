package storetest

import (
	"errors"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// directoryReads are the part of reads for directories.
var directoryReads = map[string]func(tx people.Tx) (any, error){
	"Directory": func(tx people.Tx) (any, error) {
		one, _, err := tx.Directories().Directory(1)
		two, _, more := tx.Directories().Directory(2)
		return []people.Directory{one, two}, errors.Join(err, more)
	},
	"SuspendedMember": func(tx people.Tx) (any, error) {
		one, _, err := tx.Directories().SuspendedMember(1, 1)
		another, _, more := tx.Directories().SuspendedMember(1, suspendedUser)
		return []people.SuspendedMember{one, another}, errors.Join(err, more)
	},
	"CountSuspended":   func(tx people.Tx) (any, error) { return value(tx.Directories().CountSuspended(suspendedUser)) },
	"AnySuspended":     func(tx people.Tx) (any, error) { return value(tx.Directories().AnySuspended(1)) },
	"DirectoryAccount": func(tx people.Tx) (any, error) { return value(tx.Directories().DirectoryAccount(1)) },
	"RuntimeDirectory": func(tx people.Tx) (any, error) { return optional(tx.Directories().RuntimeDirectory(1)) },
	"ListRuntimeDirectories": func(tx people.Tx) (any, error) {
		return value(tx.Directories().ListRuntimeDirectories(people.RuntimeDirectoryFilter{}, 10))
	},
	"DirectoryTokens":  func(tx people.Tx) (any, error) { return value(tx.Directories().DirectoryTokens([]int64{1})) },
	"DirectoryToken":   func(tx people.Tx) (any, error) { return optional(tx.Directories().DirectoryToken(1, "token-1")) },
	"SCIMUser":         func(tx people.Tx) (any, error) { return optional(tx.SCIM().SCIMUser(1, 1)) },
	"FindSCIMUsers":    func(tx people.Tx) (any, error) { return value(tx.SCIM().FindSCIMUsers(1, people.SCIMFilter{}, 0, 10)) },
	"SCIMUsersOf":      func(tx people.Tx) (any, error) { return value(tx.SCIM().SCIMUsersOf(1)) },
	"WaitingSCIMUsers": func(tx people.Tx) (any, error) { return value(tx.SCIM().WaitingSCIMUsers(scimUser(2, 1).Email, 10)) },
	"FirstWaitingSCIMUsers": func(tx people.Tx) (any, error) {
		return value(tx.SCIM().FirstWaitingSCIMUsers([]int64{1}, scimUser(2, 1).Email))
	},
	"RuntimeDirectoriesOf":  func(tx people.Tx) (any, error) { return value(tx.Directories().RuntimeDirectoriesOf([]int64{1})) },
	"CountRuntimeSCIMUsers": func(tx people.Tx) (any, error) { return value(tx.SCIM().CountRuntimeSCIMUsers()) },
	"CountSCIMMemberships":  func(tx people.Tx) (any, error) { return value(tx.SCIM().CountSCIMMemberships(1)) },
	"SCIMAccounts":          func(tx people.Tx) (any, error) { return value(tx.SCIM().SCIMAccounts(1, []int64{1, 2})) },
	"SCIMGroup":             func(tx people.Tx) (any, error) { return optional(tx.SCIM().SCIMGroup(1, 1)) },
	"FindSCIMGroups":        func(tx people.Tx) (any, error) { return value(tx.SCIM().FindSCIMGroups(1, people.SCIMFilter{}, 0, 10)) },
	"SCIMMembers":           func(tx people.Tx) (any, error) { return value(tx.SCIM().SCIMMembers(1, 1, 0, 10)) },
	"SCIMMemberIDs":         func(tx people.Tx) (any, error) { return value(tx.SCIM().SCIMMemberIDs(1, 1)) },
	"SCIMGroupsOf":          func(tx people.Tx) (any, error) { return value(tx.SCIM().SCIMGroupsOf(1, 1, 10)) },
	"SCIMMembersNamed": func(tx people.Tx) (any, error) {
		return value(tx.SCIM().SCIMMembersNamed(1, []string{scimGroup(1, 1).DisplayName}, []int64{1}))
	},
}

// directoryLocks are the part of locks for directories.
var directoryLocks = map[string]func(tx people.Tx) (any, error){
	"LockRuntimeDirectory": func(tx people.Tx) (any, error) { return optional(tx.Directories().LockRuntimeDirectory(1)) },
	"LockSCIMUser":         func(tx people.Tx) (any, error) { return optional(tx.SCIM().LockSCIMUser(1, 1)) },
}

// directoryWrites are the part of writes for directories.
var directoryWrites = map[string]func(tx people.Tx) error{
	"LockDirectory": func(tx people.Tx) error { _, err := tx.Directories().LockDirectory(2); return err },
	"UpdateDirectory": func(tx people.Tx) error {
		return tx.Directories().UpdateDirectory(people.Directory{ID: 1, Organization: 5, Users: 6, Groups: 7, EndedAt: born})
	},
	"ClearDirectory": func(tx people.Tx) error { _, err := tx.Directories().ClearDirectory(1, 10); return err },
	"SuspendMember":  suspend(1, 1, 1),
	"RestoreMember":  func(tx people.Tx) error { _, err := tx.Directories().RestoreMember(1, suspendedUser); return err },
	"DropSuspended":  func(tx people.Tx) error { _, err := tx.Directories().DropSuspended(1, suspendedUser); return err },
	"PutDirectoryAccount": func(tx people.Tx) error {
		return tx.Directories().PutDirectoryAccount(people.DirectoryAccount{User: 1, CreatedBy: 7, DisabledBy: 8})
	},
	"InsertRuntimeDirectory": insertRuntimeDirectory(runtimeDirectory(7)),
	"UpdateRuntimeDirectory": func(tx people.Tx) error {
		return tx.Directories().UpdateRuntimeDirectory(people.RuntimeDirectory{ID: 1, Connection: 8, Settings: "changed", UpdatedAt: born})
	},
	"DeleteRuntimeDirectory": func(tx people.Tx) error { _, err := tx.Directories().DeleteRuntimeDirectory(1); return err },
	"InsertDirectoryToken":   insertDirectoryToken(directoryToken(2, 1)),
	"UseDirectoryToken": func(tx people.Tx) error {
		_, err := tx.Directories().UseDirectoryToken(1, 1, after(time.Hour), after(time.Hour))
		return err
	},
	"DeleteDirectoryToken": func(tx people.Tx) error { _, err := tx.Directories().DeleteDirectoryToken(1, 1); return err },
	"InsertSCIMUser":       insertSCIMUser(scimUser(2, 1)),
	"UpdateSCIMUser": func(tx people.Tx) error {
		return tx.SCIM().UpdateSCIMUser(people.SCIMUser{ID: 1, Directory: 1, Name: "changed", UpdatedAt: born})
	},
	"DeleteSCIMUser": func(tx people.Tx) error { _, err := tx.SCIM().DeleteSCIMUser(1, 1); return err },
	"TieSCIMUser": func(tx people.Tx) error {
		_, err := tx.SCIM().TieSCIMUser(1, 2, 7)
		if err == nil {
			err = insertSCIMUser(scimUser(2, 1))(tx)
		}
		if err == nil {
			_, err = tx.SCIM().TieSCIMUser(1, 2, 7)
		}
		return err
	},
	"InsertSCIMGroup": insertSCIMGroup(scimGroup(2, 1)),
	"UpdateSCIMGroup": func(tx people.Tx) error {
		return tx.SCIM().UpdateSCIMGroup(people.SCIMGroup{ID: 1, Directory: 1, DisplayName: "changed", UpdatedAt: born})
	},
	"DeleteSCIMGroup":   func(tx people.Tx) error { _, err := tx.SCIM().DeleteSCIMGroup(1, 1); return err },
	"AddSCIMMembers":    addSCIMMembers(1, 1, 2),
	"RemoveSCIMMembers": func(tx people.Tx) error { _, err := tx.SCIM().RemoveSCIMMembers(1, 1, []int64{1}); return err },
	"SetMemberRoles":    func(tx people.Tx) error { _, err := tx.SCIM().SetMemberRoles(1, 77, []int64{1}); return err },
}
