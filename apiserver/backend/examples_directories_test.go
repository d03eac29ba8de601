package backend

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// The ids of directories, and of what they have.
var (
	globexDirectory  = exampleID(exampleDay(4, 10), 1010)
	enginesDirectory = exampleID(exampleDay(4, 10), 1011)
	enginesToken     = exampleID(exampleDay(4, 10), 1012)
	adasSCIMUser     = exampleID(exampleDay(4, 10), 1013)
	waitingSCIMUser  = exampleID(exampleDay(4, 10), 1014)
)

// directories declares a directory of an organization that does not exist yet.
func (d *exampleDocuments) directories(ref v1alpha1.DeploymentReference) {
	globex := &v1alpha1.Directory{Spec: v1alpha1.DirectorySpec{DeploymentRef: ref, Slug: "globex"}}
	globex.TypeMeta, globex.ObjectMeta = resourceNamed(v1alpha1.KindDirectory, "globex")
	d.declares(globexDirectory, "globex", document.Directory{
		Slug: "globex", Organization: "globex", Connection: "globex", Active: true, GroupRoles: []document.GroupRole{{Group: "Engineering", Role: "member"}},
		Verifiers: []document.Verifier{{ID: "6Qp1sT5yBnMd", Last4: "kV2z"}},
	}, globex)
}

// exampleDirectories sets up a directory of an organization, with a token, a user that is Ada, and a user that waits.
func exampleDirectories(tx people.Tx) error {
	at := exampleDay(4, 10)
	settings := directory.Settings{GroupRoles: []directory.GroupRole{{Group: "Engineering", Role: organizationRole}}}
	user := people.SCIMUser{
		ID: adasSCIMUser, Directory: enginesDirectory, User: ada, Name: "ada@engines.example", ExternalID: "00u1", Email: "ada@engines.example", Active: true, Version: 1,
		Document: `{"userName":"Ada@engines.example"}`, CreatedAt: at, UpdatedAt: at,
	}
	waiting := user
	waiting.ID, waiting.User, waiting.Name, waiting.ExternalID, waiting.Email = waitingSCIMUser, 0, "charles", "", "charles@elsewhere.example"
	waiting.Document = `{"userName":"charles"}`
	return firstError(
		func() error {
			return tx.Directories().InsertRuntimeDirectory(people.RuntimeDirectory{
				ID: enginesDirectory, Organization: engines, Slug: "d-419539451904001011", Connection: enginesConnection, Settings: settings.String(), Active: true, CreatedAt: at, UpdatedAt: at,
			})
		},
		func() error { _, err := tx.Directories().LockDirectory(enginesDirectory); return err },
		func() error {
			return tx.Directories().UpdateDirectory(people.Directory{ID: enginesDirectory, Organization: engines, Users: 2, Groups: 1})
		},
		func() error {
			return tx.Directories().InsertDirectoryToken(people.DirectoryToken{
				ID: enginesToken, Directory: enginesDirectory, Public: "8Rw3vX7zCkLf", Last4: "mT4q", Digest: [32]byte{1}, CreatedAt: at, ExpiresAt: at.AddDate(1, 0, 0),
			})
		},
		func() error {
			_, err := tx.Directories().UseDirectoryToken(enginesDirectory, enginesToken, exampleDay(10, 11), at)
			return err
		},
		func() error { return tx.SCIM().InsertSCIMUser(user) },
		func() error { return tx.SCIM().InsertSCIMUser(waiting) },
	)
}
