// Package backend is the client of Cardea's backend API: its methods and types are generated from the document that the
// server serves at /openapi.json.
package backend

import (
	"github.com/cardea-iam/cardea/client"
	"github.com/cardea-iam/cardea/client/internal/transport"
)

// Client calls the backend API. Many goroutines may use it at once.
type Client struct{ transport *transport.Transport }

// New returns a client of the server at a base URL, such as https://api.example.com, with the credential among the
// options. A response that refuses a request is returned as a [client.Error].
func New(base string, options ...client.Option) (*Client, error) {
	config := transport.Config{}
	for _, option := range options {
		option(&config)
	}
	t, err := transport.New(base, config)
	if err != nil {
		return nil, err
	}
	return &Client{t}, nil
}
