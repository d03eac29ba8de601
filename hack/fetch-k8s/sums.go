package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
)

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
		if !isSum(fields[0]) {
			return nil, fmt.Errorf("line %d: %q is no SHA-256 sum in hex", i+1, fields[0])
		}
		sums[fields[1]] = append(sums[fields[1]], strings.ToLower(fields[0]))
	}
	return sums, nil
}

func isSum(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size
}

// printFolder prints a line of the file of sums for each binary in a folder, as the files of a platform.
func printFolder(out io.Writer, dir, platform string, binaries []binary) error {
	for _, b := range binaries {
		file, err := os.Open(filepath.Join(dir, b.name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%x  %s\n", sum.Sum(nil), pathsOf(b.name, b.version, platform)[0])
	}
	return nil
}

// printPublished prints a line of the file of sums for each binary that a mirror serves. A file must have the sum that
// its release states; a comment precedes the sum of a file whose release states none.
func (m mirror) printPublished(ctx context.Context, out io.Writer, b binary) error {
	var failure error
	for _, at := range pathsOf(b.name, b.version, m.platform) {
		got, err := m.download(ctx, at, io.Discard)
		if status := (statusError{}); errors.As(err, &status) && status.code == http.StatusNotFound {
			failure = fmt.Errorf("%s: %w", at, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		stated, err := m.stated(ctx, at)
		if err != nil {
			return err
		}
		switch stated {
		case got:
		case "":
			_, _ = fmt.Fprintf(out, "# The mirror has no sum that the release states for this file:\n")
		default:
			return fmt.Errorf("%s has the SHA-256 sum %s, but its release states %s", at, got, stated)
		}
		_, _ = fmt.Fprintf(out, "%s  %s\n", got, at)
		return nil
	}
	return failure
}

// stated returns the sum that a release states for a file, or "" if the mirror has none: in the file PATH.sha256, as
// Kubernetes publishes it, or in SHA256SUMS of the same folder, as etcd publishes it.
func (m mirror) stated(ctx context.Context, at string) (string, error) {
	for _, list := range []string{at + ".sha256", path.Join(path.Dir(at), "SHA256SUMS")} {
		var text strings.Builder
		_, err := m.download(ctx, list, &text)
		if status := (statusError{}); errors.As(err, &status) && status.code == http.StatusNotFound {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", list, err)
		}
		for line := range strings.Lines(text.String()) {
			fields := strings.Fields(line)
			alone := len(fields) == 1 && list == at+".sha256"
			named := len(fields) == 2 && path.Base(strings.TrimPrefix(fields[1], "*")) == path.Base(at)
			if (alone || named) && isSum(fields[0]) {
				return strings.ToLower(fields[0]), nil
			}
		}
	}
	return "", nil
}
