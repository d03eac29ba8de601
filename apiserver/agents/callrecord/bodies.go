package callrecord

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// maxKept is the size of the largest result that is kept, in bytes of its JSON. Sealed, it fits into the share of a
// deployment that waits.
const maxKept = 2 << 20

// digestPurpose derives the key of the digests of arguments.
const digestPurpose = "cardea tool call arguments v1"

// Arguments notes the canonical form of the validated arguments of the call.
func (c *Call) Arguments(canonical []byte) {
	r := c.recorder
	c.canonical = canonical
	c.record.Digest = r.digest(c.tool.Deployment, canonical)
	if c.tool.Keep != "" && !r.Keyring.Empty() && r.keeps(&c.tool, len(canonical), c.record.At) {
		c.record.Arguments = r.Keyring.Seal(people.SealedCallArguments, c.record.SealedFor(c.tool.Deployment), canonical)
	}
}

// Canonical returns the canonical form of a JSON value (RFC 8785). It fails if an object has a name twice.
func Canonical(raw json.RawMessage) ([]byte, error) {
	value := jsontext.Value(raw).Clone()
	err := value.Canonicalize()
	return value, err
}

// digest returns a keyed digest of canonical arguments, "" without a root key: arguments are often guessable, so a
// plain hash would reveal them.
func (r *Recorder) digest(deployment string, canonical []byte) string {
	if len(r.digestKeys) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, r.digestKeys[0].Key)
	mac.Write([]byte(deployment + "\x00"))
	mac.Write(canonical)
	return hex.EncodeToString(mac.Sum(nil))
}

// keeps reports whether a deployment may keep a body of n bytes more.
func (r *Recorder) keeps(of *Tool, n int, now time.Time) bool {
	if r.kept.Take(of.Deployment, n, now) {
		return true
	}
	r.notKept.Add(1)
	return false
}

// sealResult returns the sealed content of a result, "" if it is not kept: it has more than maxKept bytes, the tool
// keeps no results, or its deployment has kept as much as it may.
func (r *Recorder) sealResult(of *Tool, record *people.ToolCall, result *toolcall.Result, now time.Time) string {
	if of.Keep != document.RecordAll || r.Keyring.Empty() || len(result.Content) == 0 {
		return ""
	}
	content, fits := contentOf(result)
	if !fits {
		return ""
	}
	return r.sealContent(of, record, content, now)
}

// sealContent returns a sealed content, "" if the deployment has kept as much as it may.
func (r *Recorder) sealContent(of *Tool, record *people.ToolCall, content []byte, now time.Time) string {
	if !r.keeps(of, len(content), now) {
		return ""
	}
	return r.Keyring.Seal(people.SealedCallResult, record.SealedFor(of.Deployment), content)
}

// contentOf returns the content of a result as JSON, and reports whether it has at most maxKept bytes.
func contentOf(result *toolcall.Result) ([]byte, bool) {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(result.Content)
	return bytes.TrimRight(content.Bytes(), "\n"), err == nil && content.Len() <= maxKept
}
