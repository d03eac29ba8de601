package management

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// maxImportLine is the longest line of a file that is imported, in bytes.
const maxImportLine = 16 << 10

var fileForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// importFile reads the file in the path. What is no digest is no file that was begun.
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

// getImport tells how far the import of a file came.
func (a *API) getImport(c *call) (reply, error) {
	file, err := c.importFile()
	if err != nil {
		return reply{}, err
	}
	var served openapi.Import
	err = c.people().view(func(u *account.Unit) error {
		i, found, err := u.Import(file)
		if err == nil && !found {
			err = noSuchImport()
		}
		served = openapi.Import{Offset: i.Done, Imported: i.Imported, Present: i.Present, Rejected: i.Rejected, CompletedAt: optionalTime(i.CompletedAt)}
		return err
	})
	return object(served), err
}

// importBatch imports the next lines of a file: the rows and how far it came in one transaction.
func (a *API) importBatch(c *call) (reply, error) {
	q := c.query()
	offset, complete := q.integer("offset", 0, -1), ptr.Deref(q.flag("complete"), false)
	if !q.has("offset") {
		q.fault("offset", "is required: send where the batch begins in the file")
	}
	if err := q.err(); err != nil {
		return reply{}, err
	}
	file, err := c.importFile()
	if err != nil {
		return reply{}, err
	}
	if len(c.body) > 0 && c.body[len(c.body)-1] != '\n' && !complete {
		return reply{}, apierror.New(http.StatusBadRequest, "the batch ends within a line: send whole lines, or complete=true with the last ones")
	}
	p := c.people()
	var served openapi.ImportedBatch
	err = p.change(func(u *account.Unit) error {
		state, err := u.LockImport(file, p.Now)
		if err != nil {
			return err
		}
		run := &importRun{peopleRequest: p, unit: u, rejections: []openapi.ImportRejection{}}
		if state.CompletedAt.IsZero() {
			if err := run.batch(&state, offset, complete); err != nil {
				return err
			}
		}
		served = openapi.ImportedBatch{
			Offset: state.Done, Imported: state.Imported, Present: state.Present, Rejected: state.Rejected, CompletedAt: optionalTime(state.CompletedAt), Rejections: run.rejections,
		}
		return nil
	})
	return object(served), err
}

// importRun is one transaction of an import.
type importRun struct {
	*peopleRequest
	unit       *account.Unit
	rejections []openapi.ImportRejection
	// made counts the ids that were made.
	made int
}

// batch imports the lines of the request's body and writes down how far the file came.
func (r *importRun) batch(state *people.Import, offset int64, complete bool) error {
	if offset != state.Done {
		return &apierror.Error{Status: http.StatusConflict, Faults: []apierror.Fault{{
			Pointer: "?offset", Message: fmt.Sprintf("is not where the file goes on: the import came to %d", state.Done)}}}
	}
	line := int64(0)
	for raw := range bytes.Lines(r.c.body) {
		line++
		raw = bytes.TrimSpace(raw)
		if len(raw) == 0 {
			continue
		}
		present, err := r.line(raw)
		var refused *apierror.Error
		switch {
		case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
			state.Rejected++
			r.reject(line, refused)
		case err != nil:
			return err
		case present:
			state.Present++
		default:
			state.Imported++
		}
	}
	state.Done += int64(len(r.c.body))
	if complete {
		state.CompletedAt = r.Now
		id, err := r.unit.NewID()
		if err != nil {
			return err
		}
		err = r.unit.RecordAudit(people.Audit{ID: id, At: r.Now, Actor: r.Actor, Action: "import.completed", Object: "import:" + state.File, Address: r.c.address()})
		if err != nil {
			return err
		}
	}
	return r.unit.PutImport(*state)
}

// reject tells what is wrong with a line.
func (r *importRun) reject(line int64, refused *apierror.Error) {
	faults := refused.Faults
	if len(faults) == 0 {
		faults = []apierror.Fault{{Message: refused.Text()}}
	}
	for _, fault := range faults {
		r.rejections = append(r.rejections, openapi.ImportRejection{Line: line, Field: optional(fault.Pointer), Message: fault.Message})
	}
}

// newID makes an id of its own millisecond: of thousands in one, some would be the same.
func (r *importRun) newID() (int64, error) {
	r.made++
	return ids.New(r.Now.Add(-time.Duration(r.made)*time.Millisecond), r.Random)
}
