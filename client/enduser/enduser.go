// Package enduser is the client of Cardea's end-user API, for applications that are not browsers: its methods and types
// are generated from the document that the backend listener serves at /end-user/openapi.json.
package enduser

import (
	"net/http"
	"net/http/cookiejar"

	"github.com/cardea-iam/cardea/client"
	"github.com/cardea-iam/cardea/client/internal/transport"
)

// Client calls the end-user API as one browser: it keeps the session's cookie. Send its requests one after the other,
// as a page does.
type Client struct{ transport *transport.Transport }

// New returns a client of a deployment at one of its hosts, such as https://app.example.com, without a signed-in user.
// If your own http.Client has a cookie jar, the session is in that jar. A refusal is a [client.Error] with a Code.
func New(base string, options ...client.Option) (*Client, error) {
	config := transport.Config{}
	for _, option := range options {
		option(&config)
	}
	t, err := transport.New(base, withJar(config))
	if err != nil {
		return nil, err
	}
	return &Client{t}, nil
}

// withJar returns the configuration with a cookie jar: a new one, unless its HTTP client has one.
func withJar(config transport.Config) transport.Config {
	if config.HTTP != nil && config.HTTP.Jar != nil {
		return config
	}
	own := http.Client{Timeout: transport.DefaultTimeout}
	if config.HTTP != nil {
		own = *config.HTTP
	}
	own.Jar, _ = cookiejar.New(nil) // cookiejar.New returns no error
	config.HTTP = &own
	return config
}
