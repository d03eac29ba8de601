package imports

import (
	"bufio"
	"cmp"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Keys judges what of a key only the deployment's configuration can tell, and what the credential may grant. A bound key acts for a user.
type Keys func(k *APIKey, bound bool) error

// Result is what became of the lines of a batch.
type Result struct {
	Imported, Present int64
	// Refused are the lines that were rejected, in their order.
	Refused []*Line
}

// batch is one transaction over the lines of a batch. Nothing is written before all lines were judged: a statement that fails would undo the
// whole transaction.
type batch struct {
	*account.Unit
	random *bufio.Reader
	known  known
	rows   rows
	keys   Keys
	result Result
	// lines is how many there are, and made counts the ids that were made.
	lines, made int
}

// Import writes the lines that are good, once each, and tells what became of all. It judges each by what is there and by the lines before
// it. The lines are read only: the transaction may run again.
func Import(u *account.Unit, lines []Line, keys Keys) (Result, error) {
	b := &batch{Unit: u, random: bufio.NewReader(u.Random), keys: keys, rows: newRows(), lines: len(lines)}
	if err := b.load(lines); err != nil {
		return Result{}, err
	}
	var apiKeys []pendingKey
	for i := range lines {
		line := lines[i] // a copy: what this run finds out is its own
		if line.Refused == nil && b.present(&line) {
			b.result.Present++
			continue
		}
		if line.Refused == nil {
			id, err := b.newID()
			if err != nil {
				return Result{}, err
			}
			if key, isKey := line.Content.(*APIKey); isKey {
				apiKeys = append(apiKeys, b.judgeKey(&line, key, id))
				continue
			}
			b.judge(&line, id)
		}
		b.done(&line)
	}
	if err := b.write(); err != nil {
		return Result{}, err
	}
	if err := b.writeKeys(apiKeys); err != nil {
		return Result{}, err
	}
	if err := b.Imports().RecordImported(b.rows.imported); err != nil {
		return Result{}, err
	}
	slices.SortFunc(b.result.Refused, func(x, y *Line) int { return cmp.Compare(x.Number, y.Number) })
	return b.result, nil
}

// done counts a line that was judged.
func (b *batch) done(line *Line) {
	if line.Refused != nil {
		b.result.Refused = append(b.result.Refused, line)
		return
	}
	b.result.Imported++
}

// newID makes an id of its own millisecond, in the order of the lines: of thousands in one, some would be the same.
func (b *batch) newID() (int64, error) {
	b.made++
	return ids.New(b.Now.Add(time.Duration(b.made-b.lines)*time.Millisecond), b.random)
}

// accept remembers which row a line becomes.
func (b *batch) accept(line *Line, id int64) {
	b.known.as[line.Kind][line.ExternalID] = id
	b.rows.imported = append(b.rows.imported, people.ImportedRow{Kind: line.Kind, ExternalID: line.ExternalID, ID: id})
}

// judge decides about a line of any type but that of keys.
func (b *batch) judge(line *Line, id int64) {
	switch content := line.Content.(type) {
	case *User:
		b.judgeUser(line, content, id)
	case *Email:
		b.judgeEmail(line, content, id)
	case *Phone:
		b.judgePhone(line, content, id)
	case *Organization:
		b.judgeOrganization(line, content, id)
	case *Workspace:
		b.judgeWorkspace(line, content, id)
	case *Membership:
		b.judgeMembership(line, content, id)
	case *SignIn:
		b.judgeSignIn(line, content, id)
	}
	if line.Refused == nil {
		b.accept(line, id)
	}
}

// at is when something was created: now, where the line does not say.
func (b *batch) at(line *Line) time.Time {
	if line.At.IsZero() {
		return b.Now
	}
	return line.At
}

// pendingKey is a key that is judged once more when all else is written: what it is bound to is read from the rows.
type pendingKey struct {
	line Line
	key  people.APIKey
}

func (b *batch) writeKeys(pending []pendingKey) error {
	written := map[string]bool{}
	for i := range pending {
		line, key := &pending[i].line, &pending[i].key
		if line.Refused == nil && written[line.ExternalID] {
			b.result.Present++
			continue
		}
		if line.Refused == nil {
			if err := b.writeKey(line, key); err != nil {
				return err
			}
		}
		if line.Refused == nil {
			written[line.ExternalID] = true
		}
		b.done(line)
	}
	return nil
}

// writeKey writes a key, or refuses its line. What an earlier one of the batch has taken, DigestTaken sees.
func (b *batch) writeKey(line *Line, key *people.APIKey) error {
	refusal, err := unbound(account.BindKey(b.Unit, key))
	if err != nil {
		return err
	}
	if refusal != nil {
		line.Refused = refusal
		return nil
	}
	taken, err := b.Imports().DigestTaken(key.Digest)
	if err != nil {
		return err
	}
	if taken {
		line.Refused = apierror.Invalid(apierror.Fault{Pointer: "/sha256", Message: "is that of a key that is here already"})
		return nil
	}
	b.rows.imported = append(b.rows.imported, people.ImportedRow{Kind: line.Kind, ExternalID: line.ExternalID, ID: key.ID})
	return b.APIKeys().InsertAPIKey(*key)
}
