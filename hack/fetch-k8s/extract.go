package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// extract writes the first file in archive whose base name is name to a temporary file in dir, and returns the path of
// the temporary file. The caller has checked the sum of the archive.
func extract(archive *os.File, name, dir string) (string, error) {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	unpacked, err := gzip.NewReader(archive)
	if err != nil {
		return "", fmt.Errorf("is no archive: %w", err)
	}
	for members := tar.NewReader(unpacked); ; {
		member, err := members.Next()
		if err != nil {
			return "", fmt.Errorf("has no file %s: %w", name, err)
		}
		if member.Typeflag != tar.TypeReg || path.Base(member.Name) != name {
			continue
		}
		if member.Size > maxBytes {
			return "", fmt.Errorf("has a file %s larger than %d bytes", name, maxBytes)
		}
		return write(members, dir)
	}
}

// write writes a temporary file in dir and returns its path. It deletes an incomplete file.
func write(from io.Reader, dir string) (string, error) {
	file, err := os.CreateTemp(dir, ".fetching-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, from)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}
