package backend

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/outage"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// operation serves one documented operation: it returns a reply or an error.
type operation func(*call) (reply, error)

// reply is a successful answer. The zero value is 204 without a body.
type reply struct {
	// parts are the encoded body, sent one after the other.
	parts [2][]byte
	// value is sent as JSON if there are no parts.
	value any
	// contentType is the type of parts that are not JSON, "" for JSON.
	contentType string
	// synced is the header Cardea-Synced, "" for an operation that writes no configuration.
	synced string
	// pooled is returned to its pool after the response is sent.
	pooled *[]byte
}

// object replies with a value as JSON.
func object(value any) reply { return reply{value: value} }

// raw replies with JSON that is already encoded, in one or two parts.
func raw(first []byte, rest ...[]byte) reply {
	answer := reply{parts: [2][]byte{first}}
	if len(rest) > 0 {
		answer.parts[1] = rest[0]
	}
	return answer
}

// inForce sets the header Cardea-Synced, which reports whether this server already applies the written configuration.
func (a reply) inForce(synced bool) reply {
	a.synced = strconv.FormatBool(synced)
	return a
}

// unchunked is the largest response, in bytes, for which net/http sets Content-Length itself. A longer response without
// a length is sent in chunks.
const unchunked = 2048

var contentTypeJSON = []string{"application/json"}

// send sends a reply.
func (c *call) send(answer reply) {
	header := c.Header()
	if answer.synced != "" {
		header["Cardea-Synced"] = []string{answer.synced}
	}
	if answer.parts[0] == nil && answer.value == nil {
		c.WriteHeader(http.StatusNoContent)
		return
	}
	if answer.parts[0] == nil {
		body, err := json.Marshal(answer.value)
		if err != nil {
			c.Refuse(err)
			return
		}
		answer.parts[0] = body
	}
	header["Content-Type"] = contentTypeJSON
	if answer.contentType != "" {
		header["Content-Type"] = []string{answer.contentType}
	}
	if size := len(answer.parts[0]) + len(answer.parts[1]); size > unchunked {
		header["Content-Length"] = []string{strconv.Itoa(size)}
	}
	for _, part := range answer.parts {
		if part != nil {
			_, _ = c.Write(part) // an error means that the client has disconnected
		}
	}
	if answer.pooled != nil && cap(*answer.pooled) <= maxPooled {
		buffers.Put(answer.pooled)
	}
}

// Refuse responds with an error, and logs it if the server caused it.
func (c *call) Refuse(err error) {
	refused, id := apierror.Of(err), c.ID[0]
	if refused.Status >= 500 && !outage.Quiet(refused) && c.r.Context().Err() == nil {
		tracing.Logger(c.r.Context(), c.api.Log).Error(refused, "A request failed", "method", c.r.Method, "route", c.r.Pattern, "request_id", id)
	}
	openapi.SendError(c, c.r, refused, id)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
