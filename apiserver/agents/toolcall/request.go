// Package toolcall performs the HTTP call of an AI tool: it builds the request from the tool's declaration and
// validated arguments, sends it where the egress policy permits, and turns the response into bounded content. It knows
// no principals and no protocol of agents.
package toolcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/toolform"
	"github.com/cardea-iam/cardea/internal/toolschema"
	"github.com/cardea-iam/cardea/internal/tracing"
)

const (
	// maxHeaderValue is the length of the value of a header that an argument sets.
	maxHeaderValue = 1024
	accept         = "application/json, text/*;q=0.8, image/*;q=0.5, audio/*;q=0.5"
)

// Call is one call of a tool.
type Call struct {
	Tool *document.AITool
	// Arguments are validated arguments, as toolschema.Read returns them.
	Arguments map[string]any
	// Secrets are the values of the tool's headers that come from Secrets, by the headers' names. No result repeats them.
	Secrets map[string]string
	// Output checks what agents get of the response, nil if the tool declares no schema of it.
	Output *toolschema.Validator
	// Token is the bearer token of the call, "" for none. No result repeats it.
	Token string
	// ID identifies the call to the tool, and is the idempotency key of unsafe methods unless IdempotencyKey is set.
	ID, IdempotencyKey string
	// Version is the product's version.
	Version string
	// Room takes room for a response of at most the given bytes, and reports whether there is. Nil: there always is.
	Room func(bytes int64) bool
	// Signature is nil for an API tool.
	Signature *Signature
}

// hidden returns the values that no result repeats.
func (c *Call) hidden() []string {
	hidden := slices.Collect(maps.Values(c.Secrets))
	if c.Token != "" {
		hidden = append(hidden, c.Token)
	}
	if c.Signature != nil {
		hidden = append(hidden, c.Signature.Secrets...)
	}
	return hidden
}

// ArgumentError is an argument that cannot be sent. Its text names it by JSON pointer.
type ArgumentError struct{ Text string }

func (e *ArgumentError) Error() string { return e.Text }

func argumentError(name, format string, args ...any) error {
	return &ArgumentError{fmt.Sprintf("/%s: ", strings.NewReplacer("~", "~0", "/", "~1").Replace(name)) + fmt.Sprintf(format, args...)}
}

// Check returns the result of a call whose arguments cannot be sent, nil if they can. It sends nothing.
func (c *Call) Check(ctx context.Context) *Result {
	var wrong *ArgumentError
	if _, err := c.request(ctx); !errors.As(err, &wrong) {
		return nil
	}
	refused := Failed(CodeArguments, "%s", wrong.Text)
	return &refused
}

// request builds the HTTP request. Errors: ArgumentError.
func (c *Call) request(ctx context.Context) (*http.Request, error) {
	address := c.Tool.Endpoint
	var query []string
	members := map[string]any{}
	header := http.Header{}
	hasBody := false
	for _, f := range toolform.Placed(c.Tool) {
		value, sent := c.Arguments[f.Name]
		if f.Constant() {
			if err := json.Unmarshal(f.EnumValues[0], &value); err != nil {
				return nil, argumentError(f.Name, "its only allowed value cannot be read")
			}
			sent = true
		}
		hasBody = hasBody || f.Place == toolform.InBody
		if !sent {
			continue
		}
		if err := c.put(f, value, &address, &query, members, header); err != nil {
			return nil, err
		}
	}
	address = withoutOptional(address)
	if len(query) > 0 {
		joint := "?"
		if strings.Contains(address, "?") {
			joint = "&"
		}
		address += joint + strings.Join(query, "&")
	}
	var body []byte
	var err error
	switch {
	case c.Signature != nil:
		body, err = c.envelope(members)
	case hasBody:
		body, err = json.Marshal(members)
	}
	if err != nil {
		return nil, err
	}
	return c.compose(ctx, address, body, header)
}

// put puts one argument in its place. A signed call has every argument in its body, also those of the URL.
func (c *Call) put(f toolform.PlacedField, value any, address *string, query *[]string, members map[string]any, header http.Header) error {
	if c.Signature != nil && f.Place != toolform.InHeader {
		members[f.Name] = value
	}
	switch f.Place {
	case toolform.InPath, toolform.InQuery:
		return c.putInURL(f, value, address, query)
	case toolform.InHeader:
		text, err := scalarText(f.Name, value)
		if err != nil {
			return err
		}
		if len(text) > maxHeaderValue || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			return argumentError(f.Name, "a header has at most %d visible ASCII characters", maxHeaderValue)
		}
		header.Set(f.Name, text)
	default:
		members[f.Name] = value
	}
	return nil
}

// putInURL replaces the placeholder of an argument, or adds the argument to the query.
func (c *Call) putInURL(f toolform.PlacedField, value any, address *string, query *[]string) error {
	placeholder := "{" + f.Name + "}"
	path, inQueryText, hasQuery := strings.Cut(*address, "?")
	list, isList := value.([]any)
	switch {
	case f.Place == toolform.InPath:
		text, err := scalarText(f.Name, value)
		if err != nil {
			return err
		}
		if text == "" || text == "." || text == ".." {
			return argumentError(f.Name, "it is a segment of a path, which is not empty, %q or %q", ".", "..")
		}
		path = strings.ReplaceAll(path, placeholder, url.PathEscape(text))
	case hasQuery && strings.Contains(inQueryText, placeholder):
		text, err := scalarText(f.Name, value)
		if err != nil {
			return err
		}
		inQueryText = strings.ReplaceAll(inQueryText, placeholder, url.QueryEscape(text))
	case isList:
		for _, item := range list {
			text, err := scalarText(f.Name, item)
			if err != nil {
				return err
			}
			*query = append(*query, url.QueryEscape(f.Name)+"="+url.QueryEscape(text))
		}
	default:
		text, err := scalarText(f.Name, value)
		if err != nil {
			return err
		}
		*query = append(*query, url.QueryEscape(f.Name)+"="+url.QueryEscape(text))
	}
	if *address = path; hasQuery {
		*address += "?" + inQueryText
	}
	return nil
}

// withoutOptional removes the pairs of a query whose placeholder got no value.
func withoutOptional(address string) string {
	path, query, found := strings.Cut(address, "?")
	if !found {
		return address
	}
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		if !strings.Contains(pair, "{") {
			kept = append(kept, pair)
		}
	}
	if len(kept) == 0 {
		return path
	}
	return path + "?" + strings.Join(kept, "&")
}

// scalarText returns the text of a value in a URL or header.
func scalarText(name string, value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return fmt.Sprint(v), nil
	case float64:
		text, err := json.Marshal(v)
		return string(text), err
	}
	return "", argumentError(name, "only a text, a number or a truth value can be sent here")
}

// compose makes the request of its parts. The body is nil for a request without one.
func (c *Call) compose(ctx context.Context, address string, body []byte, header http.Header) (*http.Request, error) {
	if strings.Contains(address, "{") {
		return nil, &ArgumentError{fmt.Sprintf("/%s: a segment of the path needs a value", toolform.Placeholders(address)[0])}
	}
	r, err := http.NewRequestWithContext(ctx, c.Tool.RequestMethod(), address, bytes.NewReader(body))
	if err != nil {
		return nil, &ArgumentError{"/: the arguments make no valid URL"}
	}
	r.Header = header
	for _, h := range c.Tool.Headers {
		value := h.Value
		if h.Secret {
			value = c.Secrets[h.Name]
		}
		r.Header.Set(h.Name, value)
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	r.Header.Set("User-Agent", "Cardea/"+c.Version)
	r.Header.Set("Accept", accept)
	r.Header.Set("Cardea-Call-Id", c.ID)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	} else {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	tracing.Outgoing(r)
	if c.Signature != nil {
		c.sign(r, body)
	}
	if !toolform.Safe(c.Tool.RequestMethod()) {
		key := c.IdempotencyKey
		if key == "" {
			key = c.ID
		}
		r.Header.Set("Idempotency-Key", key)
	}
	return r, nil
}
