package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// maxBytes is the maximum size of a downloaded or unpacked file. The binaries are smaller.
const maxBytes = 512 << 20

// parseSums reads lines of a SHA-256 sum in hex and a path. It ignores empty lines and lines that begin with #. A path
// may have several sums.
func parseSums(text string) (map[string][]string, error) {
	sums := map[string][]string{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: must be a sum and a path", i+1)
		}
		if raw, err := hex.DecodeString(fields[0]); err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("line %d: %q is no SHA-256 sum in hex", i+1, fields[0])
		}
		sums[fields[1]] = append(sums[fields[1]], strings.ToLower(fields[0]))
	}
	return sums, nil
}

// mirrorOf is a mirror: its base address, and the accepted sums of its files by their paths.
type mirrorOf struct {
	base *url.URL
	sums map[string][]string
}

// pathsOf returns the paths at which a mirror can have a binary for this machine: the path of the binary itself, as
// Kubernetes publishes it, and the path of an archive with it, as etcd publishes it.
func pathsOf(name, version string) []string {
	release := fmt.Sprintf("%s-%s-%s-%s", name, version, runtime.GOOS, runtime.GOARCH)
	return []string{path.Join(version, "bin", runtime.GOOS, runtime.GOARCH, name), path.Join(version, release+".tar.gz")}
}

// fetch puts a binary into a folder. It does not request a file without a known sum. It deletes a file with another
// sum, and an incomplete file.
func (m mirrorOf) fetch(ctx context.Context, name, version, dir string) error {
	err := fmt.Errorf("no sum of %s %s for %s/%s is known", name, version, runtime.GOOS, runtime.GOARCH)
	for _, at := range pathsOf(name, version) {
		if len(m.sums[at]) == 0 {
			continue
		}
		if err = m.fetchFile(ctx, at, name, dir); err == nil {
			return nil
		}
	}
	return err
}

func (m mirrorOf) fetchFile(ctx context.Context, at, name, dir string) (err error) {
	file, err := os.CreateTemp(dir, ".fetching-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name()) // fails if the file was renamed, which is fine
	}()
	if err := m.download(ctx, at, file); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	whole := file.Name()
	if strings.HasSuffix(at, ".tar.gz") {
		if whole, err = extract(file, name, dir); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		defer func() { _ = os.Remove(whole) }()
	}
	if err := os.Chmod(whole, 0o755); err != nil { //nolint:gosec // a program
		return err
	}
	return os.Rename(whole, filepath.Join(dir, name))
}

// download writes a file of the mirror and checks its sum.
func (m mirrorOf) download(ctx context.Context, at string, to io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base.JoinPath(at).String(), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // the address may hold a password
		}
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the mirror answered %s", answer.Status)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(answer.Body, maxBytes+1))
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case err != nil:
		return fmt.Errorf("broke off after %d bytes: %w", n, err)
	case n > maxBytes:
		return fmt.Errorf("is larger than %d bytes", maxBytes)
	case !slices.Contains(m.sums[at], got):
		return fmt.Errorf("has the SHA-256 sum %s, which is not in the file of sums", got)
	}
	return nil
}

// extract writes the first file in archive whose base name is name to a temporary file in dir, and returns the path of
// the temporary file. The caller has checked the sum of the archive.
func extract(archive *os.File, name, dir string) (string, error) {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	unpacked, err := gzip.NewReader(archive)
	if err != nil {
		return "", err
	}
	for members := tar.NewReader(unpacked); ; {
		member, err := members.Next()
		if err != nil {
			return "", fmt.Errorf("has no file %s: %w", name, err)
		}
		if member.Typeflag != tar.TypeReg || path.Base(member.Name) != name {
			continue
		}
		file, err := os.CreateTemp(dir, ".fetching-*")
		if err != nil {
			return "", err
		}
		_, err = io.Copy(file, io.LimitReader(members, maxBytes))
		if err = errors.Join(err, file.Close()); err != nil {
			_ = os.Remove(file.Name())
			return "", err
		}
		return file.Name(), nil
	}
}
