package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cardea-iam/cardea/internal/text"
)

const (
	// requestTimeout bounds one request to the backend API.
	requestTimeout = time.Minute
	// requestTries is how often a request is sent at most, if it gets no response or a temporary error.
	requestTries = 8
	// maxAnswer is the longest response that is read, in bytes.
	maxAnswer = 64 << 20
)

// backendOptions are the flags of a command that calls the backend API.
type backendOptions struct{ baseURL, keyFile string }

func (o *backendOptions) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.baseURL, "base-url", "", "URL of the backend API, such as https://api.example.com")
	cmd.Flags().StringVar(&o.keyFile, "api-key-file", "", "file with the API key; absent: CARDEA_API_KEY")
}

// open returns the backend API. The key is not a flag, because other users can see the flags of a process. needs
// describes the key's permissions, for the error.
func (o *backendOptions) open(needs string) (*backend, error) {
	key := os.Getenv("CARDEA_API_KEY")
	if o.keyFile != "" {
		raw, err := os.ReadFile(o.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--api-key-file: %w", err)
		}
		key = string(raw)
	}
	if key = strings.TrimSpace(key); key == "" {
		return nil, errors.New("CARDEA_API_KEY or --api-key-file is required: a key with " + needs)
	}
	if o.baseURL == "" {
		return nil, errors.New("--base-url or CARDEA_BASE_URL is required: the URL of the backend API, such as https://api.example.com")
	}
	return &backend{baseURL: strings.TrimSuffix(o.baseURL, "/"), key: key, client: newBackendClient(), retryAfter: time.Second}, nil
}

// errRedirect refuses a redirect, which would send the key and the imported data to another server.
var errRedirect = errors.New("the server responded with a redirect, which is not followed: set --base-url to the backend API's own address")

func newBackendClient() *http.Client {
	return &http.Client{Timeout: requestTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect }}
}

// backend is the backend API with a credential.
type backend struct {
	baseURL, key string
	client       *http.Client
	// retryAfter is the wait before a second try; it doubles.
	retryAfter time.Duration
}

// retried repeats a request while it gets no response, or a temporary error.
func (b *backend) retried(ctx context.Context, do func() (status int, err error)) error {
	wait := b.retryAfter
	for try := 1; ; try++ {
		status, err := do()
		later := status == 0 || status == http.StatusTooManyRequests || status >= 500
		if err == nil || !later || try == requestTries || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// ask sends one request and reads its response. A body is JSON Lines. The status is 0 without a response.
func ask[T any](ctx context.Context, b *backend, method, path string, body []byte) (answer T, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, method, b.baseURL+path, bytes.NewReader(body))
	if err != nil {
		return answer, http.StatusBadRequest, err
	}
	request.Header.Set("Authorization", "Bearer "+b.key)
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := b.client.Do(request)
	if errors.Is(err, errRedirect) {
		return answer, http.StatusPermanentRedirect, err
	}
	if err != nil {
		return answer, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer, 0, err
	}
	if response.StatusCode != http.StatusOK {
		var refused struct{ Message string }
		_ = json.Unmarshal(raw, &refused) // a body that is not JSON has no message
		return answer, response.StatusCode, fmt.Errorf("the backend API responded %d: %s", response.StatusCode, text.Printable(refused.Message))
	}
	err = json.Unmarshal(raw, &answer)
	return answer, response.StatusCode, err
}
