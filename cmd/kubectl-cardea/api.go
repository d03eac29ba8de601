package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// mostAnswer is the maximum size of a response that is read, in bytes.
const mostAnswer = 16 << 20

// Environment variables that replace absent flags. `make run` exports them.
const (
	envServer         = "CARDEA_BASE_URL"
	envDecisionServer = "CARDEA_DECISION_URL"
	envFrontendServer = "CARDEA_FRONTEND_URL"
	envAPIKey         = "CARDEA_API_KEY"
)

// apiFlags select the server and the credential.
type apiFlags struct {
	server, keyFile, keyOf, authority string
	// serverEnv is the environment variable that replaces --server.
	serverEnv string
}

// register adds the flags to a command. serverEnv replaces an absent --server, and listener names the listener in the
// help text.
func (f *apiFlags) register(cmd *cobra.Command, to *connection, serverEnv, listener string) {
	f.serverEnv = serverEnv
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", fmt.Sprintf("URL of %s (or %s)", listener, serverEnv))
	flags.StringVar(&f.keyFile, "api-key-file", "", "file with an API key or token; absent: "+envAPIKey)
	flags.StringVar(&f.keyOf, "use-key", "", "APIKey whose key to use, read from its Secret with your own rights")
	flags.StringVar(&f.authority, "certificate-authority", "", "file with the certificates to trust the server by; absent: the system's")
	cmd.MarkFlagsMutuallyExclusive("api-key-file", "use-key")
	_ = cmd.RegisterFlagCompletionFunc("use-key", to.completeOf("APIKey"))
}

// api is Cardea's HTTP interface.
type api struct {
	base *url.URL
	key  string
	http *http.Client
}

func (f *apiFlags) open(ctx context.Context, to *connection, around surroundings) (*api, error) {
	server := f.server
	if server == "" {
		server, _ = around.lookup(f.serverEnv)
	}
	if server == "" {
		return nil, usagef("no server is named: set --server or %s. Inside the cluster it is a port of Service cardea-server; from outside "+
			"run kubectl -n cardea-system port-forward service/cardea-server 8080 8082 in another terminal, and use http://127.0.0.1:8080 (8082 for decide)", f.serverEnv)
	}
	return f.connect(ctx, to, around, server)
}

// connect returns the interface of the server at a URL.
func (f *apiFlags) connect(ctx context.Context, to *connection, around surroundings, server string) (*api, error) {
	base, err := url.Parse(server)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil {
		// A URL may hold a password, so it is not repeated.
		return nil, usagef("--server must be a URL such as https://cardea.example, without user and password")
	}
	key, err := f.credential(ctx, to, around)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if f.authority != "" {
		certificates, err := os.ReadFile(f.authority)
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(certificates) {
			return nil, usagef("--certificate-authority: %s holds no certificates in PEM form", f.authority)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &api{base: base, key: key, http: &http.Client{
		Timeout: to.timeout, Transport: transport,
		// The key must not go to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// credential returns the caller's credential.
func (f *apiFlags) credential(ctx context.Context, to *connection, around surroundings) (string, error) {
	switch {
	case f.keyOf != "":
		opened, err := to.open(ctx)
		if err != nil {
			return "", err
		}
		key, err := opened.credential(ctx, "apikey/"+f.keyOf)
		if err != nil {
			return "", err
		}
		value, _, err := key.read(ctx)
		return value, err
	case f.keyFile != "":
		content, err := os.ReadFile(f.keyFile)
		if err != nil {
			return "", usagef("--api-key-file: %v", err)
		}
		return oneLine("--api-key-file", string(content))
	}
	value, found := around.lookup(envAPIKey)
	if !found || value == "" {
		return "", usagef("no credential is set: set %s, --api-key-file or --use-key APIKEY; a ServiceAccount's token also works if the deployment accepts it", envAPIKey)
	}
	return oneLine(envAPIKey, value)
}

// oneLine refuses a value that cannot be sent in a header. The error does not repeat the value.
func oneLine(from, value string) (string, error) {
	value = strings.TrimSpace(value)
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usagef("%s holds no API key or token: one word of visible ASCII characters", from)
	}
	return value, nil
}

// get requests a path and decodes the JSON of the response.
func (a *api) get(ctx context.Context, path string, query url.Values, into any) error {
	return a.send(ctx, http.MethodGet, path, query, nil, into)
}

// post sends a body as JSON to a path and decodes the JSON of the response.
func (a *api) post(ctx context.Context, path string, body, into any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return a.send(ctx, http.MethodPost, path, nil, sent, into)
}

// send requests a path with a method. With a nil into, the response must be 204.
func (a *api) send(ctx context.Context, method, path string, query url.Values, sent []byte, into any) error {
	target := a.base.JoinPath(path)
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(sent))
	if err != nil {
		return err
	}
	if sent != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return a.do(ctx, req, into)
}

// do sends a request and decodes the JSON of the response.
func (a *api) do(ctx context.Context, req *http.Request, into any) error {
	req.Header.Set("Authorization", "Bearer "+a.key)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "kubectl-cardea/"+version)
	resp, err := a.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("the request to the server at %s was interrupted: %w", a.base.Host, ctx.Err())
		}
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return &accessError{err: err, passing: true, message: fmt.Sprintf("the server at %s is unreachable: %v: check whether it runs, and the URL", a.base.Host, err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("the request to the server at %s was interrupted: %w", a.base.Host, ctx.Err())
		}
		return &accessError{err: err, passing: true, message: fmt.Sprintf("the response of the server at %s was cut off: %v: try again", a.base.Host, err)}
	}
	if resp.StatusCode == http.StatusNoContent && into == nil {
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		return a.refusal(resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s is not the right listener of a Cardea server: %w: correct --server", a.base.Host, err)
	}
	return nil
}

// refusal returns the error for a response other than 200.
func (a *api) refusal(status int, body []byte) error {
	var answer struct {
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
		Errors []struct {
			EarliestCursor string `json:"earliest_cursor"`
		} `json:"errors"`
	}
	_ = json.Unmarshal(body, &answer)
	message := terminal.Clean(answer.Message + answer.Error.Message) // the second of agents
	if message == "" {
		message = http.StatusText(status)
	}
	switch status {
	case http.StatusUnauthorized:
		return &accessError{message: fmt.Sprintf("the server at %s does not accept the credential: use a credential of this deployment that is not revoked", a.base.Host)}
	case http.StatusForbidden:
		return &accessError{message: fmt.Sprintf("the server at %s refuses this for the credential: %s", a.base.Host, message)}
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &accessError{passing: true, message: fmt.Sprintf("the server at %s is unavailable (%d): %s: try again in a moment, and check its log and its store", a.base.Host, status, message)}
	}
	if len(answer.Errors) > 0 && answer.Errors[0].EarliestCursor != "" {
		message += "; --after " + terminal.Clean(answer.Errors[0].EarliestCursor) + " begins with the earliest event"
	}
	return &refusedError{status: status, message: fmt.Sprintf("the server at %s responded %d: %s", a.base.Host, status, message)}
}

// day formats a time for the output.
func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
