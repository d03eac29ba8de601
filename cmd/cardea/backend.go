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
	// requestTries bounds how often a request is sent that was not answered, or with "later".
	requestTries = 8
	// maxAnswer is the longest answer that is read, in bytes.
	maxAnswer = 64 << 20
)

// backendOptions are the flags of a command that speaks to the backend API.
type backendOptions struct{ baseURL, keyFile string }

func (o *backendOptions) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.baseURL, "base-url", "", "where the backend API is, such as https://api.example.com")
	cmd.Flags().StringVar(&o.keyFile, "api-key-file", "", "file with the API key; absent: CARDEA_API_KEY")
}

// open returns the backend API. The key is no flag, for others see those of a process; needs tells what it has to be one with.
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
		return nil, errors.New("--base-url or CARDEA_BASE_URL is required: where the backend API is, such as https://api.example.com")
	}
	return &backend{baseURL: strings.TrimSuffix(o.baseURL, "/"), key: key, client: newBackendClient(), retryAfter: time.Second}, nil
}

// errRedirect refuses to follow a redirect: it would take the key, and what is imported, to another server.
var errRedirect = errors.New("the server answers with a redirect, which is not followed: give the backend API's own address as --base-url")

func newBackendClient() *http.Client {
	return &http.Client{Timeout: requestTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect }}
}

// backend is the backend API as a credential sees it.
type backend struct {
	baseURL, key string
	client       *http.Client
	// retryAfter is the wait before a second try; it doubles.
	retryAfter time.Duration
}

// retried does a request again while it is not answered, or answered with "later".
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

// ask sends one request, whose body is JSON Lines if it has one, and reads its answer; the status is 0 where there was none.
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
		_ = json.Unmarshal(raw, &refused) // what is no JSON has no message
		return answer, response.StatusCode, fmt.Errorf("the backend API answers %d: %s", response.StatusCode, text.Printable(refused.Message))
	}
	err = json.Unmarshal(raw, &answer)
	return answer, response.StatusCode, err
}
