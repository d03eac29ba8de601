package imports

import (
	"bufio"
	"cmp"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Keys checks the parts of an API key that depend on the deployment's configuration, and whether the importing
// credential may grant the key's permissions. bound reports whether the key acts for a user.
type Keys func(k *APIKey, bound bool) error

// Result is the result of a batch.
type Result struct {
	Imported, Present int64
	// Refused are the refused lines, in order.
	Refused []*Line
}

// batch is one transaction over the lines of a batch. It writes nothing before all lines are evaluated, because a
// failing statement would roll back the whole transaction.
type batch struct {
	*account.Unit
	random *bufio.Reader
	known  known
	rows   rows
	keys   Keys
	result Result
	// lines is the number of lines, and made the number of ids made.
	lines, made int
}

// Import writes each valid line once, and returns the result of all. It evaluates each line against the existing rows
// and the lines before it. It does not change lines, because the transaction may run again.
func Import(u *account.Unit, lines []Line, keys Keys) (Result, error) {
	b := &batch{Unit: u, random: bufio.NewReader(u.Random), keys: keys, rows: newRows(), lines: len(lines)}
	if err := b.load(lines); err != nil {
		return Result{}, err
	}
	var apiKeys []pendingKey
	for i := range lines {
		line := lines[i] // a copy, which belongs to this run
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
				apiKeys = append(apiKeys, b.evaluateKey(&line, key, id))
				continue
			}
			b.evaluate(&line, id)
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

// done counts an evaluated line.
func (b *batch) done(line *Line) {
	if line.Refused != nil {
		b.result.Refused = append(b.result.Refused, line)
		return
	}
	b.result.Imported++
}

// newID makes an id with its own millisecond, in the order of the lines: thousands of ids in one millisecond could
// collide.
func (b *batch) newID() (int64, error) {
	b.made++
	return ids.New(b.Now.Add(time.Duration(b.made-b.lines)*time.Millisecond), b.random)
}

// accept records the row that a line becomes.
func (b *batch) accept(line *Line, id int64) {
	b.known.as[line.Kind][line.ExternalID] = id
	b.rows.imported = append(b.rows.imported, people.ImportedRow{Kind: line.Kind, ExternalID: line.ExternalID, ID: id})
}

// evaluate evaluates a line of any type except API keys.
func (b *batch) evaluate(line *Line, id int64) {
	switch content := line.Content.(type) {
	case *User:
		b.evaluateUser(line, content, id)
	case *Email:
		b.evaluateEmail(line, content, id)
	case *Phone:
		b.evaluatePhone(line, content, id)
	case *Organization:
		b.evaluateOrganization(line, content, id)
	case *Workspace:
		b.evaluateWorkspace(line, content, id)
	case *Membership:
		b.evaluateMembership(line, content, id)
	case *SignIn:
		b.evaluateSignIn(line, content, id)
	case *TOTP:
		b.evaluateTOTP(line, content, id)
	case *Passkey:
		b.evaluatePasskey(line, content, id)
	case *Identity:
		b.evaluateIdentity(line, content, id)
	}
	if line.Refused == nil {
		b.accept(line, id)
	}
}

// at returns when the object of a line was created: now, if the line does not say.
func (b *batch) at(line *Line) time.Time {
	if line.At.IsZero() {
		return b.Now
	}
	return line.At
}

// pendingKey is a key that is evaluated again after all other rows are written, because its binding is read from the
// rows.
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

// writeKey writes a key, or refuses its line. DigestTaken also sees earlier keys of the batch.
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
		line.Refused = apierror.Invalid(apierror.Fault{Pointer: "/sha256", Message: "is that of an existing key"})
		return nil
	}
	b.rows.imported = append(b.rows.imported, people.ImportedRow{Kind: line.Kind, ExternalID: line.ExternalID, ID: key.ID})
	b.Log(events.OfKey(events.APIKeyCreated, *key))
	return b.APIKeys().InsertAPIKey(*key)
}
