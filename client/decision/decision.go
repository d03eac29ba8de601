// Package decision is the client of Cardea's decision API, which decides whether a credential may make a request now.
// Its types are generated from the document that the server serves at /openapi.json of the decision listener.
package decision

import (
	"encoding/json"
	"net/http"

	"github.com/cardea-iam/cardea/client"
	"github.com/cardea-iam/cardea/client/internal/transport"
)

// Client calls the decision API. Many goroutines may use it at once.
type Client struct{ transport *transport.Transport }

// New returns a client of the decision listener at a base URL, such as http://cardea-decision.cardea-system:8082.
// CheckAuthz needs no credential; ExplainAuthz needs one among the options. A decision is never an error: if a
// credential is not accepted, the decision has Allowed false and no Identity. A response that refuses to decide is a
// [client.Error].
func New(base string, options ...client.Option) (*Client, error) {
	config := transport.Config{Accepts: isDecision}
	for _, option := range options {
		option(&config)
	}
	t, err := transport.New(base, config)
	if err != nil {
		return nil, err
	}
	return &Client{t}, nil
}

// isDecision reports whether a response of 400 or more is a decision: 401, and with ?status=http also 403 and 429.
func isDecision(path string, status int, raw []byte) bool {
	if path != "/v1/authz/check" || status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusTooManyRequests {
		return false
	}
	var decision struct {
		Allowed *bool `json:"allowed"`
	}
	return json.Unmarshal(raw, &decision) == nil && decision.Allowed != nil && !*decision.Allowed
}
