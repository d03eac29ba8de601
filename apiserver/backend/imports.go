package backend

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/imports"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// unfinishedImports bounds the imports of a deployment that are started and not completed.
	unfinishedImports = 100
	// emptyFile is the SHA-256 of a file without content.
	emptyFile = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

var fileForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// importFile reads the file's digest in the path. Any other text gets the response of a file without an import.
func (c *call) importFile() (string, error) {
	file := c.r.PathValue("file")
	if !fileForm.MatchString(file) {
		return "", noSuchImport()
	}
	return file, nil
}

func noSuchImport() error {
	return &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":file", Message: "is the SHA-256 of no file that is imported here: send its first batch"}}}
}

// getImport serves the progress of the import of a file.
func getImport(c *call) (reply, error) {
	file, err := c.importFile()
	if err != nil {
		return reply{}, err
	}
	var served backendapi.Import
	err = c.people().view(func(u *account.Unit) error {
		i, found, err := u.Imports().Import(file)
		if err == nil && !found {
			err = noSuchImport()
		}
		served = backendapi.Import{Offset: i.Done, Imported: i.Imported, Present: i.Present, Rejected: i.Rejected, CompletedAt: optionalTime(i.CompletedAt)}
		return err
	})
	return object(served), err
}

// importBatch imports the next lines of a file: rows and progress in one transaction.
func importBatch(c *call) (reply, error) {
	q := c.query()
	offset, complete := q.Integer("offset", 0, -1), ptr.Deref(q.Flag("complete"), false)
	if !q.Has("offset") {
		q.Fault("offset", "is required: send where the batch begins in the file")
	}
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	file, err := c.importFile()
	if err != nil {
		return reply{}, err
	}
	if len(c.body) > 0 && c.body[len(c.body)-1] != '\n' && !complete {
		return reply{}, apierror.New(http.StatusBadRequest, "the batch ends within a line: send whole lines, or complete=true with the last ones")
	}
	if n := imports.Count(c.body); n > imports.MaxLines {
		return reply{}, apierror.New(http.StatusRequestEntityTooLarge, "the batch has %d lines: send at most %d", n, imports.MaxLines)
	}
	p := c.people()
	lines := imports.ReadAll(c.body, p.Now)
	if err := c.mayImport(lines); err != nil {
		return reply{}, err
	}
	p.Keyring = c.api.Keyring // seals the secrets of authenticator apps
	run := &importRun{peopleRequest: p, lines: lines, bytes: int64(len(c.body)), offset: offset, complete: complete}
	for try := 1; ; try++ {
		err = run.once(file)
		switch {
		case !errors.Is(err, people.ErrDuplicate):
			if err == nil && run.completed && c.api.OnImported != nil {
				c.api.OnImported(c.tenant())
			}
			return object(run.served), err
		case try == importTries:
			return reply{}, apierror.Unavailable(err, "concurrent requests keep changing the rows of the batch: try again")
		}
	}
}

// mayImport refuses a whole batch if the credential may not import one of its lines. If only the line were rejected,
// another credential could import it only from a changed file.
func (c *call) mayImport(lines []imports.Line) error {
	for i := range lines {
		for _, needs := range lines[i].Permissions(c.assertsTwoFactors) {
			if !c.principal.Allows(needs) {
				return lacking(needs)
			}
		}
	}
	return nil
}

// assertsTwoFactors reports whether sign-ins by the declared connection with a slug can count as two factors.
func (c *call) assertsTwoFactors(slug string) bool {
	entry, found := c.snapshot.BySlug(v1alpha1.KindConnection, c.tenant(), slug)
	return found && connection.AssertsTwoFactors(&snapshot.ContentOf[snapshot.Connection](entry).Connection)
}

// importTries bounds how often a batch is evaluated again because a concurrent request wrote one of its rows.
const importTries = 8

// importRun is a batch that is imported.
type importRun struct {
	*peopleRequest
	lines         []imports.Line
	offset, bytes int64
	complete      bool
	// completed is set if this batch is the file's last one and rows were imported.
	completed bool
	served    backendapi.ImportedBatch
}

// once imports the batch and the progress in one transaction.
func (r *importRun) once(file string) error {
	return r.change(func(u *account.Unit) error {
		if err := r.mayBegin(u, file); err != nil {
			return err
		}
		state, err := u.Imports().LockImport(file, r.Now)
		if err != nil {
			return err
		}
		var result imports.Result
		r.completed = false
		if state.CompletedAt.IsZero() {
			if result, err = r.batch(u, &state); err != nil {
				return err
			}
			r.completed = r.complete && state.Imported > 0
		}
		r.served = backendapi.ImportedBatch{
			Offset: state.Done, Imported: state.Imported, Present: state.Present, Rejected: state.Rejected, CompletedAt: optionalTime(state.CompletedAt),
			Rejections: rejections(result.Refused),
		}
		return nil
	})
}

// mayBegin returns nil if the import of the file has begun or may begin. It bounds the unfinished imports that a
// credential leaves behind.
func (r *importRun) mayBegin(u *account.Unit, file string) error {
	if _, begun, err := u.Imports().Import(file); begun || err != nil {
		return err
	}
	if r.bytes == 0 && file != emptyFile {
		return apierror.New(http.StatusBadRequest, "the first batch is empty, and :file is not the SHA-256 of an empty file: send the first lines of the file")
	}
	unfinished, err := u.Imports().UnfinishedImports()
	if err == nil && unfinished >= unfinishedImports && !r.complete {
		return &apierror.Error{Status: http.StatusBadRequest, Faults: []apierror.Fault{{
			Pointer: ":file", Message: fmt.Sprintf("cannot be started: %d imports of the deployment are unfinished: complete one of them, or wait until one is deleted 30 days after its start", unfinished)}}}
	}
	return err
}

// batch imports the lines and records the progress.
func (r *importRun) batch(u *account.Unit, state *people.Import) (imports.Result, error) {
	if r.offset != state.Done {
		return imports.Result{}, &apierror.Error{Status: http.StatusConflict, Faults: []apierror.Fault{{
			Pointer: "?offset", Message: fmt.Sprintf("is not the next offset of the file: continue at %d", state.Done)}}}
	}
	result, err := imports.Import(u, r.lines, r.c.checkImportedKey)
	if err != nil {
		return result, err
	}
	state.Imported, state.Present, state.Rejected = state.Imported+result.Imported, state.Present+result.Present, state.Rejected+int64(len(result.Refused))
	state.Done += r.bytes
	if r.complete {
		state.CompletedAt = r.Now
		id, err := u.NewID()
		if err != nil {
			return result, err
		}
		u.Log(events.OfImport(*state))
		err = u.Records().RecordAudit(people.Audit{ID: id, At: r.Now, Actor: r.Actor, Action: "import.completed", Object: "import:" + state.File, Address: r.c.address()})
		if err != nil {
			return result, err
		}
	}
	return result, u.Imports().PutImport(*state)
}

// rejections are the refused lines with their faults.
func rejections(refused []*imports.Line) []backendapi.ImportRejection {
	told := []backendapi.ImportRejection{}
	for _, line := range refused {
		for _, fault := range line.Faults() {
			told = append(told, backendapi.ImportRejection{Line: line.Number, Field: optional(fault[0]), Message: fault[1]})
		}
	}
	return told
}

// checkImportedKey validates the members of a key that depend on the deployment's configuration, and the permissions
// that the credential may grant.
func (c *call) checkImportedKey(k *imports.APIKey, bound bool) error {
	var faults []apierror.Fault
	entry, found := c.snapshot.BySlug(v1alpha1.KindAPIAuthApp, c.tenant(), k.App)
	if !found {
		faults = append(faults, apierror.Fault{Pointer: "/app", Message: "is the slug of no app of the deployment: create it first"})
	}
	if _, found := c.snapshot.BySlug(v1alpha1.KindRateLimitScheme, c.tenant(), k.Scheme); k.Scheme != "" && !found {
		faults = append(faults, apierror.Fault{Pointer: "/rate_limit_scheme", Message: "is the slug of no rate-limit scheme of the deployment: create it first"})
	}
	if len(faults) > 0 {
		return apierror.Invalid(faults...)
	}
	app := snapshot.ContentOf[snapshot.App](entry)
	for i, name := range k.Permissions {
		if name != permission.All && !app.Ceiling.Allows(name) {
			faults = append(faults, apierror.Fault{
				Pointer: "/" + input.ElementOf("permissions", i), Message: "is not among the permissions of the app: add it there first",
			})
		}
	}
	if len(faults) > 0 {
		return apierror.Invalid(faults...)
	}
	if bound {
		return nil // a key that is bound to a user has no management permissions
	}
	return c.mayGrant(k.Permissions, app.Ceiling)
}
