package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxBytes is the maximum size of a downloaded or unpacked file. The binaries are smaller.
	maxBytes = 512 << 20
	// answerWithin bounds the time to connect, and from there to the header of the response.
	answerWithin = 15 * time.Second
	// stallWithin bounds the time in which a download receives nothing.
	stallWithin = 30 * time.Second
)

// mirror is a mirror: its base address, and the accepted sums of its files by their paths.
type mirror struct {
	base *url.URL
	sums map[string][]string
	// platform is the operating system and architecture, such as linux/amd64.
	platform string
	client   *http.Client
	// stall is the time in which a download must receive something.
	stall time.Duration
}

// newClient returns a client that refuses a server that does not answer within a time.
func newClient(within time.Duration) *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: within}).DialContext,
		TLSHandshakeTimeout:   within,
		ResponseHeaderTimeout: within,
		DisableCompression:    true, // the sums are those of the files as they are
	}}
}

// pathsOf returns the paths at which a mirror can have a binary: the path of the binary itself, as Kubernetes publishes
// it, and the path of an archive with it, as etcd publishes it.
func pathsOf(name, version, platform string) []string {
	release := name + "-" + version + "-" + strings.ReplaceAll(platform, "/", "-")
	return []string{path.Join(version, "bin", platform, name), path.Join(version, release+".tar.gz")}
}

// fetch puts a binary into a folder and returns its size. It does not request a file without a known sum. It deletes a
// file with another sum, and an incomplete file.
func (m mirror) fetch(ctx context.Context, name, version, dir string) (size int64, err error) {
	var failures []error
	for _, at := range pathsOf(name, version, m.platform) {
		if len(m.sums[at]) == 0 {
			continue
		}
		size, err := m.fetchFile(ctx, at, name, dir)
		if err == nil {
			return size, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", at, err))
	}
	if len(failures) == 0 {
		return 0, fmt.Errorf("no SHA-256 sum of %s %s for %s is known", name, version, m.platform)
	}
	return 0, errors.Join(failures...)
}

func (m mirror) fetchFile(ctx context.Context, at, name, dir string) (size int64, err error) {
	file, err := os.CreateTemp(dir, ".fetching-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name()) // fails if the file was renamed, which is fine
	}()
	got, err := m.download(ctx, at, file)
	if err != nil {
		return 0, err
	}
	if !slices.Contains(m.sums[at], got) {
		return 0, fmt.Errorf("has the SHA-256 sum %s, want %s", got, strings.Join(m.sums[at], " or "))
	}
	whole := file.Name()
	if strings.HasSuffix(at, ".tar.gz") {
		if whole, err = extract(file, name, dir); err != nil {
			return 0, err
		}
		defer func() { _ = os.Remove(whole) }()
	}
	// A file system can report a full disk only when the file is closed.
	if err := file.Close(); err != nil {
		return 0, err
	}
	if err := os.Chmod(whole, 0o755); err != nil { //nolint:gosec // a program
		return 0, err
	}
	info, err := os.Stat(whole)
	if err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(whole, filepath.Join(dir, name))
}

// download writes a file of the mirror and returns its SHA-256 sum.
func (m mirror) download(ctx context.Context, at string, to io.Writer) (sum string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base.JoinPath(at).String(), nil)
	if err != nil {
		return "", err
	}
	answer, err := m.client.Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // the address may hold a password
		}
		return "", fmt.Errorf("was not received: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return "", statusError{answer.StatusCode, answer.Status}
	}
	stalled := time.AfterFunc(m.stall, func() { cancel(fmt.Errorf("nothing was received for %s", m.stall)) })
	defer stalled.Stop()
	hash := sha256.New()
	body := reader(func(p []byte) (int, error) {
		n, err := answer.Body.Read(p)
		stalled.Reset(m.stall)
		return n, err
	})
	n, err := io.Copy(io.MultiWriter(to, hash), io.LimitReader(body, maxBytes+1))
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return "", fmt.Errorf("broke off after %d bytes: %w", n, context.Cause(ctx))
	case err != nil:
		return "", fmt.Errorf("broke off after %d bytes: %w", n, err)
	case n > maxBytes:
		return "", fmt.Errorf("is larger than %d bytes", maxBytes)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// statusError is a response other than 200.
type statusError struct {
	code int
	text string
}

func (e statusError) Error() string { return "was not received: the mirror answered " + e.text }

type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }
